//! Plans that change: addresses that come, go, and move between routers.

use barevip::engine::node::event::{EventKind, Problem};
use barevip::model::EntryState;

use crate::support::lan::happened::What;
use crate::support::lan::plans::{Setup, served};
use crate::support::lan::scene::{FAMILIES, Scene};
use crate::support::lan::time::{MS, Nanos, SECOND};

const NOBODY: [usize; 0] = [];

#[test]
fn addresses_follow_the_plan_without_moving_others() {
    for family in FAMILIES {
        let mut scene = Scene::at_rest(Setup { family, ..Setup::default() });
        scene.forget_outages();
        let (before, now) = (scene.lan.judge.role_changes, scene.now());
        let (old, kept, new) = (scene.vip(0, 0), scene.vip(0, 1), scene.vip(0, 7));
        scene.publish(|plan| {
            plan[0].router.entries[0] = served(new);
        });
        scene.run(3_000);
        assert_eq!(scene.lan.judge.role_changes, before);
        assert_eq!((scene.holders(old), scene.holders(kept)), (vec![], vec![0]));
        assert_eq!(scene.holders(new), [0]);
        assert_eq!(scene.client(new), Some(0));
        let moved = scene.times(
            now,
            0,
            |what| matches!(what, What::Bound(a) | What::Unbound(a, _) if *a == kept),
        );
        assert!(moved.is_empty());
        let told = scene.announcements(now, 0, old);
        assert!(told.is_empty(), "an address that is gone is announced: {told:?}");
    }
}

#[test]
fn a_released_address_is_listed_and_not_bound() {
    let mut scene = Scene::at_rest(Setup::default());
    let vip = scene.vip(0, 0);
    scene.publish(|plan| plan[0].router.entries[0].state = EntryState::Released);
    scene.run(3_000);
    assert_eq!(scene.holders(vip), NOBODY);
    // An Active router with an older plan that lists only this one is still recognised.
    let now = scene.now();
    scene.inject(1, [10, 0, 0, 99], 254, vip);
    let foreign =
        |kind: &EventKind| matches!(kind, EventKind::Began(Problem::ForeignRouter { .. }));
    assert_eq!(scene.notes(now, 1, foreign), 0);
    scene.inject(1, [10, 0, 0, 99], 254, scene.vip(0, 77));
    assert_eq!(scene.notes(now, 1, foreign), 1);
}

#[test]
fn an_address_of_another_vrid_is_not_bound_until_it_is_silent_for_a_down_interval() {
    // The plan of the first is old: there the address belongs to r1, at the others to r0.
    for family in FAMILIES {
        let setup = Setup { family, routers: 2, machines: 2, ..Setup::default() };
        let mut scene = Scene::at_rest(setup);
        // r1 is Active on the second machine, r0 on the first.
        assert_eq!((scene.active(0), scene.active(1)), (vec![0], vec![1]));
        let vip = scene.vip(1, 0);
        let now = scene.now();
        scene.publish_to(&[0], |plan| {
            let entry = plan[1].router.entries.remove(0);
            plan[0].router.entries.push(entry);
        });
        scene.run(20_000);
        assert_eq!(scene.holders(vip), [1], "bound under two VRIDs");
        let elsewhere =
            |kind: &EventKind| matches!(kind, EventKind::Began(Problem::AddressElsewhere { .. }));
        assert!(scene.notes(now, 0, elsewhere) >= 1, "{}", scene.trace());
        // The second hears of it at last.
        let heard = scene.now();
        let plan = std::rc::Rc::clone(&scene.lan.published);
        scene.lan.plan_arrives(1, plan);
        scene.run(3_000);
        assert_eq!(scene.holders(vip), [0], "{}", scene.trace());
        let bound = scene.times(heard, 0, |what| matches!(what, What::Bound(a) if *a == vip))[0];
        assert!((400 * MS..=900 * MS).contains(&(bound - heard)), "{}", bound - heard);
        assert_eq!(scene.client(vip), Some(0));
    }
}

#[test]
fn an_address_in_two_routers_of_two_plans_is_served_by_one_of_them() {
    // Both become Active at the same moment with the same address: neither was there first.
    let mut scene = Scene::new(Setup { routers: 2, machines: 2, ..Setup::default() });
    let vip = scene.vip(1, 0);
    scene.publish_to(&[0], |plan| {
        let entry = plan[1].router.entries.remove(0);
        plan[0].router.entries.push(entry);
    });
    scene.start_all();
    scene.run(10_000);
    assert_eq!(scene.holders(vip).len(), 1, "{}", scene.trace());
    let changes = scene.times(
        3 * SECOND,
        0,
        |what| matches!(what, What::Bound(a) | What::Unbound(a, _) if *a == vip),
    );
    assert!(changes.is_empty(), "it flaps: {}", scene.trace());
}

#[test]
fn v10_an_address_that_leaves_and_returns_to_the_same_router_has_one_owner() {
    let mut scene = Scene::at_rest(Setup::default());
    let vip = scene.vip(0, 0);
    scene.forget_outages();
    let now = scene.now();
    scene.publish(|plan| {
        plan[0].router.entries.remove(0);
    });
    scene.run(100);
    scene.publish(|plan| plan[0].router.entries.push(served(vip)));
    scene.run(3_000);
    assert_eq!(scene.holders(vip), [0]);
    assert!(scene.outage() <= 200 * MS, "{}", scene.outage());
    assert!(!scene.announcements(now, 0, vip).is_empty());
}

#[test]
fn rb_2_a_flood_of_lower_adverts_keeps_the_beat_and_is_answered_now_and_then() {
    let mut scene = Scene::at_rest(Setup { machines: 1, cluster: false, ..Setup::default() });
    let vip = scene.vip(0, 0);
    let now = scene.now();
    for _ in 0..2_000 {
        scene.run_for(MS / 2);
        scene.inject(0, [10, 0, 0, 77], 1, vip);
    }
    assert_eq!(scene.active(0), [0]);
    let sent: Vec<Nanos> = scene.adverts(now, 0).iter().map(|(at, _)| *at).collect();
    assert!(sent.len() <= 5 * 12, "{} adverts in a second", sent.len());
    let told = scene.announcements(now, 0, vip);
    assert!(told.len() <= 3, "{told:?}");
    let gaps = sent.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    assert!(gaps <= 200 * MS, "{gaps}");
}

#[test]
fn eighty_addresses_are_each_announced_five_times_and_handed_over() {
    for family in FAMILIES {
        let mut scene = Scene::new(Setup { family, vips: 80, machines: 2, ..Setup::default() });
        scene.start_all();
        scene.run(3_000);
        for vip in 0..80 {
            let told = scene.announcements(0, 0, scene.vip(0, vip));
            assert_eq!(told.len(), 5, "{told:?}");
            assert_eq!(scene.client(scene.vip(0, vip)), Some(0));
        }
        scene.begin(10_000, crate::support::lan::faults::Kind::Stop { host: 0 });
        scene.run(5_000);
        assert!((0..80).all(|vip| scene.holders(scene.vip(0, vip)) == [1]));
    }
}
