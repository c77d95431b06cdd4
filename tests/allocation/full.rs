//! Ranges without a free address, and who is next.

use crate::support::cluster::scene::{Scene, settled};

const TINY: &str = "172.16.0.0/30";

/// A and B have all there is; these wait.
fn full(waiting: &[&str]) -> Scene {
    let mut scene = settled(TINY, "A:.1/.1 B:.2/.2");
    for name in waiting {
        scene.create(&format!("{name}:–/–"));
    }
    scene.settle();
    scene
}

#[test]
fn row_19_a_waiting_service_is_told_once() {
    let mut scene = full(&["C"]);
    assert_eq!(scene.shows(), "A:.1/.1 B:.2/.2 C:–/–");
    assert_eq!(scene.told("C"), ["IngressIPRangeFull"]);
    assert_eq!(
        scene.says("C"),
        "RangeFull: No IPv4 address: pool lan has none left; the oldest waiting Service gets the next one: add a range, or delete a Service that has one."
    );
    scene.api.writes.clear();
    for edit in 0..5 {
        scene.edit("C").labels.insert("edit".into(), edit.to_string());
        scene.settle();
    }
    assert_eq!(scene.told("C").len(), 1);
    assert_eq!(scene.api.writes, [""; 0]);
    let report = &scene.leader.allocate(&scene.api).pools["lan"];
    assert_eq!((report.waiting, report.waiting_since), (1, Some(scene.api.service("C").created)));
}

#[test]
fn row_20_the_oldest_waiting_service_gets_a_freed_address_at_once() {
    let mut scene = full(&["D", "C"]);
    scene.delete("B");
    scene.settle();
    scene.elapse(1);
    scene.ends("A:.1/.1 C:.2/.2 D:–/–");
}

#[test]
fn row_21_one_that_is_gone_waits_no_more() {
    let mut scene = full(&["C", "D"]);
    scene.delete("C");
    scene.delete("B");
    scene.settle();
    scene.elapse(1);
    scene.ends("A:.1/.1 D:.2/.2");
}

#[test]
fn row_22_one_that_is_no_load_balancer_any_more_gets_nothing() {
    let mut scene = full(&["C"]);
    scene.edit("C").load_balancer = false;
    scene.delete("B");
    scene.settle();
    scene.rest();
    assert_eq!(scene.shows(), "A:.1/.1 C:–/–");
    assert_eq!((scene.says("C").as_str(), scene.free()), ("", 1));
}

#[test]
fn a_pool_that_has_nothing_left_says_so() {
    let scene = full(&[]);
    let report = &scene.leader.allocate(&scene.api).pools["lan"];
    assert_eq!((report.total, report.used, report.free, report.waiting), (2, 2, 0, 0));
    let met: Vec<_> = report.conditions.iter().map(|(kind, said)| (*kind, said.met)).collect();
    assert_eq!(
        met,
        [("Ready", true), ("Overlaps", false), ("Exhausted", true), ("Reserved", false)]
    );
}

#[test]
fn a_range_that_is_added_serves_those_who_wait() {
    let mut scene = full(&["C", "D"]);
    let pool = scene.api.world.pools.get_mut("lan").unwrap().pool.as_mut().unwrap();
    pool.addresses.push("172.16.0.8-172.16.0.9".parse().unwrap());
    scene.ends("A:.1/.1 B:.2/.2 C:.8/.8 D:.9/.9");
    assert!(scene.says("C").starts_with("Allocated: 172.16.0.8 from pool lan."));
}
