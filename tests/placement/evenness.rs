//! That nodes are preferred about as often as each other, after they have come and gone.

use std::collections::{BTreeMap, BTreeSet};

use barevip::engine::cluster::placement::place;
use barevip::engine::cluster::world::{Reign, RouterObject, Timestamp, World};
use proptest::prelude::*;

use crate::{
    NOW, all_report, apply, list, many, names, node, pool, report, settle, spec, wanted, with_label,
};

/// How often each node is preferred.
fn firsts(world: &World) -> BTreeMap<String, usize> {
    let mut firsts: BTreeMap<String, usize> =
        world.nodes.keys().map(|node| (node.to_string(), 0)).collect();
    for object in world.routers.values() {
        if let Some(first) = object.spec.candidates.first() {
            *firsts.entry(first.node.clone()).or_default() += 1;
        }
    }
    firsts
}

fn gap(world: &World) -> usize {
    let firsts = firsts(world);
    firsts.values().max().unwrap() - firsts.values().min().unwrap()
}

fn reign(object: &RouterObject) -> Reign {
    let (uid, generation) = (object.uid.clone(), object.generation);
    Reign { uid, generation, vrid: Some(object.spec.vrid) }
}

/// Whoever is preferred says that it serves, and has taken up all.
fn first_ones_serve(world: &mut World) {
    let routers = world.routers.clone();
    for (node, state) in &mut world.nodes {
        let is_first = |candidates: &[barevip::model::Candidate]| {
            candidates.first().is_some_and(|first| *first.node == **node)
        };
        let own = routers.iter().filter(|(_, object)| is_first(&object.spec.candidates));
        let active = own.map(|(name, object)| (name.clone(), reign(object)));
        state.report.as_mut().unwrap().active = active.collect();
    }
}

/// Every router's nodes in the order of their priorities.
fn orders(world: &World) -> BTreeMap<String, Vec<String>> {
    let order = |object: &RouterObject| {
        object.spec.candidates.iter().map(|candidate| candidate.node.clone()).collect()
    };
    world.routers.iter().map(|(name, object)| (name.to_string(), order(object))).collect()
}

/// Lets time pass until nothing is to come; how many routers' orders changed on the way, and when.
fn wait(world: &mut World, last: u8) -> Vec<(i64, usize)> {
    let mut now = NOW;
    let mut writes = Vec::new();
    for _ in 0..200 {
        all_report(world, now);
        first_ones_serve(world);
        let placement = place(world, wanted(0..=last), now);
        let is_done = placement.routers.is_empty() && placement.memory.uneven_since.is_none();
        if is_done {
            return writes;
        }
        let next = placement.wake_at.filter(|_| placement.routers.is_empty());
        let before = orders(world);
        apply(world, placement);
        let after = orders(world);
        let moved = after.iter().filter(|(name, order)| before[*name] != **order).count();
        if moved > 0 {
            writes.push((now.0 - NOW.0, moved));
        }
        now = next.map_or(now, |at| at.max(Timestamp(now.0 + 1)));
    }
    panic!("it never ends: {writes:?}");
}

#[test]
fn a_node_that_joined_gets_its_share_one_router_in_ten_seconds() {
    let mut world = many(3, 3);
    settle(&mut world, &wanted(0..=11));
    assert_eq!(gap(&world), 0);
    first_ones_serve(&mut world);
    world.nodes.insert("n03".into(), node("3"));
    settle(&mut world, &wanted(0..=11));
    first_ones_serve(&mut world);
    settle(&mut world, &wanted(0..=11));
    // It has entered everywhere at the lowest free rank; nobody moves yet.
    for number in 0..=11 {
        assert_eq!(list(&world, number)[3], "n03:182");
    }
    let before = world.routers.clone();
    assert_eq!(wait(&mut world, 11), [(60, 1), (70, 1), (80, 1)]);
    assert_eq!(gap(&world), 0);
    // Each write has swapped the new one with the preferred one, and nothing else.
    for (name, object) in &world.routers {
        let (old, new) = (&before[name].spec.candidates, &object.spec.candidates);
        if old != new {
            assert_eq!((&new[0].node, &new[3].node), (&old[3].node, &old[0].node));
            assert_eq!(new[1..3], old[1..3]);
        }
    }
}

#[test]
fn an_unevenness_that_passes_within_a_minute_moves_nothing() {
    let mut world = many(3, 3);
    settle(&mut world, &wanted(0..=11));
    first_ones_serve(&mut world);
    world.nodes.insert("n03".into(), node("3"));
    settle(&mut world, &wanted(0..=11));
    let placement = place(&world, wanted(0..=11), Timestamp(NOW.0 + 59));
    assert_eq!(placement.routers, BTreeMap::new());
    assert_eq!(placement.wake_at, Some(Timestamp(NOW.0 + 60)));
    world.nodes.get_mut("n03").unwrap().drained = true;
    let placement = place(&world, wanted(0..=11), Timestamp(NOW.0 + 59));
    assert_eq!(placement.memory.uneven_since, None);
    apply(&mut world, placement);
    world.nodes.get_mut("n03").unwrap().drained = false;
    let placement = place(&world, wanted(0..=11), Timestamp(NOW.0 + 60));
    assert_eq!(placement.memory.uneven_since, Some(Timestamp(NOW.0 + 60)));
}

#[test]
fn where_all_ranks_are_taken_a_newcomer_enters_at_the_tail_first() {
    let mut world = many(9, 9);
    settle(&mut world, &wanted(0..=17));
    assert_eq!(gap(&world), 0);
    first_ones_serve(&mut world);
    settle(&mut world, &wanted(0..=17));
    world.nodes.insert("n09".into(), node("9"));
    let before = world.routers.clone();
    assert_eq!(wait(&mut world, 17), [(60, 1), (70, 1)]);
    assert_eq!(firsts(&world)["n09"], 1);
    assert!(gap(&world) <= 1);
    // Exactly one router has changed: the newcomer is its first now, the old first its last.
    let changed: Vec<_> =
        world.routers.iter().filter(|(name, object)| before[*name].spec != object.spec).collect();
    let [(name, object)] = changed[..] else { panic!("{} have changed", changed.len()) };
    let (old, new) = (&before[name].spec.candidates, &object.spec.candidates);
    assert_eq!((&*new[0].node, &new[8].node), ("n09", &old[0].node));
}

#[test]
fn a_node_that_has_become_preferred_gets_the_first_rank() {
    let mut world = many(3, 3);
    pool(&mut world).announcing.preferred = Some(with_label("fast"));
    settle(&mut world, &wanted(0..=2));
    world.nodes.get_mut("n02").unwrap().labels.insert("fast".into(), String::new());
    wait(&mut world, 2);
    for number in 0..=2 {
        assert_eq!(spec(&world, number).candidates[0].node, "n02");
    }
}

#[test]
fn a_node_that_can_not_serve_is_neither_spared_nor_burdened() {
    let mut world = many(3, 3);
    settle(&mut world, &wanted(0..=11));
    world.nodes.insert("n03".into(), node("3"));
    settle(&mut world, &wanted(0..=11));
    report(&mut world, "n03").links.clear();
    assert_eq!(place(&world, wanted(0..=11), NOW).memory.uneven_since, None);
}

proptest! {
    /// Whatever number of nodes and zones there was, and is now: at the end no node is preferred by
    /// two more than another one, no list has a node twice or two of one priority, and no write
    /// touches two routers.
    #[test]
    fn it_ends_even(
        nodes in 1..14_usize,
        zones in 1..4_usize,
        routers in 0..24_u8,
        gone in prop::collection::btree_set(0..14_usize, 0..4),
        come in 0..5_usize,
    ) {
        let mut world = many(nodes, zones);
        settle(&mut world, &wanted(0..=routers));
        first_ones_serve(&mut world);
        for number in gone {
            world.nodes.remove(&*format!("n{number:02}"));
        }
        for number in 0..come {
            world.nodes.insert(format!("n{:02}", 20 + number).into(), node(&format!("{}", number % zones)));
        }
        prop_assume!(!world.nodes.is_empty());
        let writes = wait(&mut world, routers);
        prop_assert!(gap(&world) <= 1, "{:?} {writes:?}", firsts(&world));
        for (time, routers) in writes {
            prop_assert!(time < 60 || routers <= 1, "{routers} routers at {time}");
        }
        for object in world.routers.values() {
            let candidates = &object.spec.candidates;
            prop_assert_eq!(names(&object.spec).len(), candidates.len());
            let priorities: BTreeSet<_> = candidates.iter().map(|c| c.priority).collect();
            prop_assert_eq!(priorities.len(), candidates.len());
            prop_assert!(candidates.windows(2).all(|pair| pair[0].priority > pair[1].priority));
        }
    }
}
