//! When a higher candidate takes the role back, and when it does not.

use std::time::Duration;

use barevip::engine::node::identity::Health;
use barevip::model::{Preempt, Priority};

use crate::support::lan::faults::Kind;
use crate::support::lan::plans::Setup;
use crate::support::lan::scene::{Scene, skew};
use crate::support::lan::time::{MS, Nanos, SECOND, US};

const LATENCY: Nanos = 50 * US;

fn after(seconds: u64) -> Preempt {
    Preempt::After(Duration::from_secs(seconds))
}

#[test]
fn v4_after_a_delay_a_returned_node_takes_the_role_back_without_loss() {
    let mut scene = Scene::at_rest(Setup { preempt: after(300), ..Setup::default() });
    scene.begin(5_000, Kind::Crash { host: 0 });
    scene.run(5_000);
    assert_eq!(scene.active(0), [1]);
    let returned = scene.now();
    scene.run(9_000);
    scene.forget_outages();
    scene.run(330_000);
    assert_eq!(scene.active(0), [0]);
    let took = scene.became_active(returned, 0, 0)[0] - returned;
    assert!((300 * SECOND..=311 * SECOND).contains(&took), "{took}");
    assert_eq!(scene.outage(), 0);
}

#[test]
fn fs_8_the_delay_begins_anew_after_an_own_fault_and_not_after_anything_else() {
    let mut scene = Scene::at_rest(Setup { preempt: after(60), ..Setup::default() });
    scene.begin(1_000, Kind::Crash { host: 0 });
    scene.run(31_000);
    // The peer restarts, and ranks change below: no matter.
    scene.begin(100, Kind::Crash { host: 2 });
    scene.publish(|plan| {
        plan[0].standing[2].as_mut().unwrap().priority = Priority::try_from(9).unwrap();
    });
    scene.run(45_000);
    assert_eq!(scene.active(0), [0], "{}", scene.trace());
    // Its own link fails: from the beginning.
    let mut scene = Scene::at_rest(Setup { preempt: after(60), ..Setup::default() });
    scene.begin(1_000, Kind::Crash { host: 0 });
    scene.run(31_000);
    scene.begin(2_000, Kind::Unplug { host: 0 });
    scene.run(45_000);
    assert_eq!(scene.active(0), [1]);
    scene.run(30_000);
    assert_eq!(scene.active(0), [0]);
}

#[test]
fn v5_never_is_never_and_a_failure_of_the_active_one_ends_it() {
    let mut scene = Scene::at_rest(Setup { preempt: Preempt::Never, ..Setup::default() });
    scene.begin(5_000, Kind::Crash { host: 0 });
    scene.run(1_000_000);
    assert_eq!(scene.active(0), [1]);
    scene.begin(60_000, Kind::Crash { host: 1 });
    scene.run(1_000);
    assert_eq!(scene.active(0), [0]);
}

#[test]
fn never_holds_after_a_partition_too_except_for_true_double_actives() {
    let mut scene = Scene::at_rest(Setup { preempt: Preempt::Never, ..Setup::default() });
    scene.begin(2_000, Kind::Crash { host: 0 });
    scene.run(10_000);
    assert_eq!(scene.active(0), [1]);
    // The first hears nobody, but is not Active alone for it: its own link is away.
    scene.begin(3_000, Kind::Unplug { host: 0 });
    scene.run(10_000);
    assert_eq!(scene.active(0), [1]);
    // Cut off with its link up it becomes Active as well, and then the higher one stays.
    scene.begin(3_000, Kind::Partition { mask: 1 });
    scene.run(2_000);
    assert_eq!(scene.active(0), [0, 1]);
    scene.run(3_000);
    assert_eq!(scene.active(0), [0]);
}

#[test]
fn a_node_takes_back_one_router_a_second_at_most() {
    let setup = Setup { routers: 10, machines: 2, preempt: after(20), ..Setup::default() };
    let mut scene = Scene::at_rest(setup);
    scene.publish(|plan| {
        for router in plan {
            router.standing.sort_by_key(|standing| std::cmp::Reverse(standing.unwrap().priority));
        }
    });
    scene.run(60_000);
    scene.begin(2_000, Kind::Crash { host: 0 });
    scene.run(2_000);
    let returned = scene.now();
    scene.run(60_000);
    let mut moves: Vec<Nanos> =
        (0..10).flat_map(|router| scene.became_active(returned, 0, router)).collect();
    moves.sort_unstable();
    assert_eq!(moves.len(), 10, "{}", scene.trace());
    assert!(moves.windows(2).all(|pair| pair[1] - pair[0] >= SECOND), "{moves:?}");
    assert!(moves[0] - returned >= 20 * SECOND);
    let last = moves[9] - returned;
    assert!(last <= 35 * SECOND, "{last}");
}

#[test]
fn v7_an_unhealthy_active_one_is_relieved_at_once_whatever_preempt_says() {
    for preempt in [Preempt::Now, Preempt::Never, after(300)] {
        let setup = Setup { preempt, ..Setup::default() };
        let mut scene = Scene::at_rest(setup.clone());
        scene.forget_outages();
        let now = scene.now();
        let sick = Kind::Sick { host: 0, router: None, health: Health::Unhealthy };
        scene.begin(10_000, sick);
        scene.run(2_000);
        assert_eq!(scene.active(0), [1], "{preempt}");
        let took = scene.became_active(now, 1, 0)[0] - now;
        assert!(took <= 200 * MS + LATENCY + skew(&setup, 1), "{preempt}: {took}");
        assert_eq!(scene.outage(), 0);
    }
}

#[test]
fn of_unhealthy_nodes_alone_one_serves_all_the_same() {
    let mut scene = Scene::at_rest(Setup { preempt: Preempt::Never, ..Setup::default() });
    for host in 0..3 {
        scene.begin(30_000, Kind::Sick { host, router: None, health: Health::Unhealthy });
    }
    scene.run(10_000);
    assert_eq!(scene.active(0).len(), 1);
    let before = scene.lan.judge.role_changes;
    scene.run(10_000);
    assert_eq!(scene.lan.judge.role_changes, before, "{}", scene.trace());
}
