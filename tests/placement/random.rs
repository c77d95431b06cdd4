//! Random histories of a small cluster.

use std::collections::BTreeSet;

use barevip::engine::cluster::decision::{RouterChange, RouterClaims};
use barevip::engine::cluster::placement::place;
use barevip::engine::cluster::world::{Claims, World};
use barevip::model::{Family, Priority, Vrid};
use proptest::prelude::*;

use crate::{NOW, ago, apply, names, node, says_active, wanted, world};

/// What happens to one node between two rounds.
#[derive(Clone, Copy, Debug)]
enum Turn {
    Appears(u8),
    Vanishes,
    Drains(bool),
    Silent(i64),
    LosesLink,
    Serves(u8, i64),
    Hears(u8),
}

fn any_turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        4 => (0..3_u8).prop_map(Turn::Appears),
        1 => Just(Turn::Vanishes),
        1 => any::<bool>().prop_map(Turn::Drains),
        1 => (0..700_i64).prop_map(Turn::Silent),
        1 => Just(Turn::LosesLink),
        3 => (0..16_u8, 0..2_i64).prop_map(|(number, behind)| Turn::Serves(number, behind)),
        1 => (100..130_u8).prop_map(Turn::Hears),
    ]
}

fn happen(world: &mut World, name: &str, turn: Turn) {
    if let Turn::Appears(zone) = turn {
        world.nodes.insert(name.into(), node(&zone.to_string()));
    }
    let Some(state) = world.nodes.get_mut(name) else { return };
    let report = state.report.as_mut().unwrap();
    match turn {
        Turn::Appears(_) => {}
        Turn::Vanishes => {
            world.nodes.remove(name);
        }
        Turn::Drains(drained) => state.drained = drained,
        Turn::Silent(seconds) => report.at = ago(seconds),
        Turn::LosesLink => report.links.clear(),
        Turn::Hears(vrid) => {
            report.foreign.insert((Family::Ipv4, Vrid::try_from(vrid).unwrap()));
        }
        Turn::Serves(number, behind) => {
            if world.routers.contains_key(&*format!("web-v4-{number}")) {
                says_active(world, name, number, behind);
            }
        }
    }
}

proptest! {
    /// Whatever happens: one round settles all, what stays keeps its order, and every list is one
    /// that VRRP can live with.
    #[test]
    fn every_round_settles_and_moves_no_candidate(
        rounds in prop::collection::vec(
            (prop::collection::vec((0..14_u8, any_turn()), 0..12), prop::collection::btree_set(0..16_u8, 0..16)),
            1..12,
        ),
    ) {
        let mut world = world(&[]);
        for (turns, numbers) in rounds {
            for (node, turn) in turns {
                happen(&mut world, &format!("n{node}"), turn);
            }
            let before = world.routers.clone();
            // What is not wanted any more is emptied.
            let mut all = wanted(numbers);
            for name in before.keys().filter(|name| !all.contains_key(*name)).cloned().collect::<Vec<_>>() {
                let claims = Claims::default();
                all.insert(name, RouterClaims { pool: "web".into(), family: Family::Ipv4, claims });
            }
            let placement = place(&world, all.clone(), NOW);
            apply(&mut world, placement);
            let again = place(&world, all, NOW).routers;
            prop_assert!(again.values().all(|change| matches!(change, RouterChange::Delete { .. })), "{again:?}");

            let mut vrids = BTreeSet::new();
            for (name, object) in &world.routers {
                let spec = &object.spec;
                prop_assert!(vrids.insert(spec.vrid));
                prop_assert!(spec.candidates.len() <= usize::from(Priority::RANKS));
                prop_assert_eq!(names(spec).len(), spec.candidates.len());
                prop_assert!(spec.candidates.windows(2).all(|pair| pair[0].priority > pair[1].priority));
                // Who stays is overtaken by nobody who was behind.
                let old = before.get(name).map_or(&[][..], |object| &object.spec.candidates);
                let stayed: Vec<&str> = old.iter().map(|c| &*c.node).filter(|n| names(spec).contains(n)).collect();
                let order = spec.candidates.iter().map(|c| &*c.node).filter(|n| stayed.contains(n));
                prop_assert!(order.eq(stayed.iter().copied()));
            }
        }
    }
}
