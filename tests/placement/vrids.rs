//! Which VRIDs routers get, keep and leave.

use std::collections::BTreeMap;

use barevip::engine::cluster::decision::RouterChange;
use barevip::engine::cluster::placement::{PLACED, place};
use barevip::engine::cluster::world::{Timestamp, World};
use barevip::model::{Family, Vrid};

use crate::{
    NOW, all_report, apply, held, many, pool, report, says_active, settle, settle_at, spec, three,
    wanted, wanted_claim,
};

fn later(seconds: i64) -> Timestamp {
    Timestamp(NOW.0 + seconds)
}

fn vrid(number: u8) -> Vrid {
    Vrid::try_from(number).unwrap()
}

/// Router 1 is made and has VRID 200, which no hash has chosen.
fn on_200() -> World {
    let mut world = three();
    settle(&mut world, &wanted([1]));
    assert_ne!(spec(&world, 1).vrid, vrid(200));
    world.routers.get_mut("web-v4-1").unwrap().spec.vrid = vrid(200);
    settle(&mut world, &wanted([1]));
    world
}

#[test]
fn a_router_that_comes_back_gets_the_vrid_and_the_active_that_it_had() {
    let mut world = on_200();
    let last = spec(&world, 1).candidates[2].node.clone();
    says_active(&mut world, &last, 1, 0);
    world.routers.clear();
    // Another one does not get it meanwhile, in either family.
    pool(&mut world).vrids = 200..=201;
    settle(&mut world, &wanted([2]));
    assert_eq!(spec(&world, 2).vrid, vrid(201));
    let none = place(&world, wanted([3]), NOW);
    assert_eq!(none.routers, BTreeMap::new());
    assert!(none.conditions.contains_key(&("web".into(), PLACED)));

    settle(&mut world, &wanted([1, 2]));
    let back = spec(&world, 1);
    assert_eq!((back.vrid, &back.candidates[0].node), (vrid(200), &last));
    assert_eq!(back.takeover.as_deref(), Some(&*last));
}

#[test]
fn of_two_that_remember_a_router_the_later_report_counts() {
    let mut world = on_200();
    says_active(&mut world, "a", 1, 0);
    report(&mut world, "a").at = Timestamp(NOW.0 - 50);
    world.routers.get_mut("web-v4-1").unwrap().spec.vrid = vrid(210);
    says_active(&mut world, "b", 1, 0);
    world.routers.clear();
    settle(&mut world, &wanted([1]));
    assert_eq!((spec(&world, 1).vrid, &*spec(&world, 1).candidates[0].node), (vrid(210), "b"));
}

#[test]
fn a_vrid_that_was_given_up_rests_for_ten_minutes() {
    let mut world = three();
    pool(&mut world).vrids = 200..=200;
    settle(&mut world, &wanted([1]));
    let first = place(&world, wanted([1]), NOW);
    apply(&mut world, first);
    world.routers.clear();
    // For another router; its own gets it at once.
    let mut own = world.clone();
    settle(&mut own, &wanted([1]));
    assert_eq!(spec(&own, 1).vrid, vrid(200));

    let refused = place(&world, wanted([2]), later(5));
    assert_eq!((&refused.routers, refused.wake_at), (&BTreeMap::new(), Some(later(605))));
    apply(&mut world, refused);
    all_report(&mut world, later(604));
    assert_eq!(place(&world, wanted([2]), later(604)).routers, BTreeMap::new());
    settle_at(&mut world, &wanted([2]), later(605));
    assert_eq!(spec(&world, 2).vrid, vrid(200));
}

#[test]
fn a_router_that_is_being_made_keeps_its_vrid_beside_others() {
    for (first, second) in [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)] {
        let mut world = three();
        pool(&mut world).vrids = 200..=201;
        let sent = place(&world, wanted([first]), NOW).routers;
        let sent = sent.into_iter().filter_map(|(name, change)| match change {
            RouterChange::Create(spec) => Some((name, spec)),
            RouterChange::Update { .. } | RouterChange::Delete { .. } => None,
        });
        world.under_way = sent.collect();
        let before = world.under_way.clone();
        let both = place(&world, wanted([first, second]), NOW);
        let (first, second) = (format!("web-v4-{first}"), format!("web-v4-{second}"));
        assert_eq!(both.conditions, BTreeMap::new());
        let vrid = |name: &str| match &both.routers[name] {
            RouterChange::Create(spec) => spec.vrid,
            RouterChange::Update { .. } | RouterChange::Delete { .. } => panic!("{name} is new"),
        };
        assert_eq!(vrid(&first), before[&*first].vrid);
        assert_ne!(vrid(&second), vrid(&first));
    }
}

/// `node` hears a stranger on the VRID that router 1 has now.
fn disturb(world: &mut World, node: &str) -> Vrid {
    let own = spec(world, 1).vrid;
    report(world, node).foreign.insert((Family::Ipv4, own));
    own
}

/// One round at this time, all nodes having reported.
fn round(world: &mut World, seconds: i64) {
    all_report(world, later(seconds));
    settle_at(world, &wanted([1]), later(seconds));
}

#[test]
fn a_router_leaves_a_vrid_that_a_stranger_uses_for_a_minute_once_in_ten() {
    let mut world = three();
    settle(&mut world, &wanted([1]));
    let old = disturb(&mut world, "b");
    round(&mut world, 0);
    round(&mut world, 59);
    assert_eq!(spec(&world, 1).vrid, old);
    round(&mut world, 60);
    let new = spec(&world, 1).vrid;
    assert_ne!(new, old);

    disturb(&mut world, "c");
    for seconds in [61, 400, 660] {
        round(&mut world, seconds);
        assert_eq!(spec(&world, 1).vrid, new);
    }
    round(&mut world, 661);
    assert!(![old, new].contains(&spec(&world, 1).vrid));
}

#[test]
fn a_stranger_that_goes_or_is_heard_elsewhere_moves_nothing() {
    let mut world = many(12, 3);
    settle(&mut world, &wanted([1]));
    let listed: Vec<_> = spec(&world, 1).candidates.iter().map(|c| c.node.clone()).collect();
    let elsewhere = (0..12).map(|n| format!("n{n:02}")).find(|n| !listed.contains(n)).unwrap();
    let old = disturb(&mut world, &elsewhere);
    round(&mut world, 0);
    round(&mut world, 100);
    assert_eq!(spec(&world, 1).vrid, old);

    // Here, but not for long, or said by one that says nothing any more.
    disturb(&mut world, &listed[0]);
    round(&mut world, 101);
    report(&mut world, &listed[0]).foreign.clear();
    round(&mut world, 150);
    disturb(&mut world, &listed[0]);
    round(&mut world, 170);
    all_report(&mut world, later(260));
    report(&mut world, &listed[0]).at = later(169);
    settle_at(&mut world, &wanted([1]), later(260));
    assert_eq!(spec(&world, 1).vrid, old);
}

#[test]
fn where_no_vrid_is_free_a_disturbed_router_stays_and_says_so() {
    let mut world = three();
    pool(&mut world).vrids = 200..=200;
    settle(&mut world, &wanted([1]));
    disturb(&mut world, "a");
    round(&mut world, 0);
    all_report(&mut world, later(60));
    let placement = place(&world, wanted([1]), later(60));
    assert!(placement.conditions[&("web".into(), PLACED)].message.contains("200-200"));
    apply(&mut world, placement);
    assert_eq!(spec(&world, 1).vrid, vrid(200));
}

#[test]
fn a_retired_router_leaves_its_vrid_at_rest() {
    let mut world = three();
    pool(&mut world).vrids = 200..=201;
    settle(&mut world, &wanted([1]));
    let own = spec(&world, 1).vrid;
    let (name, mut empty) = wanted_claim(1, held());
    empty.claims.clear();
    let nothing = BTreeMap::from([(name, empty)]);
    for _ in 0..2 {
        let placement = place(&world, nothing.clone(), NOW);
        apply(&mut world, placement);
    }
    assert_eq!(world.routers.len(), 0);
    settle_at(&mut world, &wanted([2, 3]), later(1));
    assert!(world.routers.values().all(|object| object.spec.vrid != own));
    assert_eq!(world.routers.len(), 1);
}
