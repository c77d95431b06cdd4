//! Who becomes Active, and when: exact in virtual time.

use barevip::engine::node::event::{EventKind, Problem};
use barevip::engine::vrrp::role::Role;
use barevip::model::{Interval, Preempt, Priority};

use crate::support::lan::faults::Kind;
use crate::support::lan::plans::{Setup, Standing};
use crate::support::lan::scene::{FAMILIES, Scene, down, skew};
use crate::support::lan::time::{MS, Nanos, SECOND, US};
use crate::support::lan::world::EXACT;

/// What a packet takes in an exact scenario.
const LATENCY: Nanos = 50 * US;

#[test]
fn v1_all_start_at_once_and_only_the_first_binds() {
    for family in FAMILIES {
        let setup = Setup { family, ..Setup::default() };
        let mut scene = Scene::new(setup.clone());
        scene.start_all();
        scene.run(5_000);
        assert_eq!(scene.active(0), [0]);
        assert_eq!(scene.became_active(0, 0, 0), [down(&setup, 0)]);
        assert_eq!(scene.lan.judge.most_active, [1]);
        for vip in 0..2 {
            assert_eq!(scene.holders(scene.vip(0, vip)), [0]);
            assert_eq!(scene.client(scene.vip(0, vip)), Some(0));
        }
        assert_eq!(scene.role(1, 0), Role::Backup);
        assert!(scene.adverts(0, 1).is_empty() && scene.adverts(0, 2).is_empty());
        scene.lan.verdict();
        scene.run(1);
    }
}

#[test]
fn v13_of_equal_priorities_the_higher_address_wins_and_nothing_flaps() {
    let mut scene = Scene::new(Setup { machines: 2, ..Setup::default() });
    scene.publish(|plan| {
        for standing in plan[0].standing.iter_mut().flatten() {
            standing.priority = Priority::DEFAULT;
        }
    });
    scene.start_all();
    scene.run(60_000);
    assert_eq!(scene.active(0), [1]);
    assert!(scene.lan.judge.role_changes <= 5, "{}", scene.trace());
}

#[test]
fn a_silent_death_is_noticed_at_the_last_advert_plus_the_down_interval() {
    for rank in 1..9 {
        let setup = Setup { machines: 9, ..Setup::default() };
        let mut scene = Scene::at_rest(setup.clone());
        for dead in 0..rank {
            let (last, _) = *scene.adverts(0, dead).last().unwrap();
            let now = scene.now();
            scene.begin(60_000, Kind::Crash { host: dead });
            scene.run(1_000);
            let next = dead as u8 + 1;
            let expected = last + LATENCY + down(&setup, next);
            assert_eq!(scene.became_active(now, dead + 1, 0), [expected]);
            assert_eq!(scene.active(0), [dead + 1]);
        }
        assert_eq!(scene.lan.judge.most_active, [1], "two were Active at once");
    }
}

#[test]
fn after_priority_0_the_next_one_is_active_within_its_skew() {
    let setup = Setup { machines: 9, ..Setup::default() };
    let mut scene = Scene::at_rest(setup.clone());
    for leaving in 0..8 {
        let now = scene.now();
        scene.begin(60_000, Kind::Drain { host: leaving });
        scene.run(2_000);
        let expected = now + LATENCY + skew(&setup, leaving as u8 + 1);
        assert_eq!(scene.became_active(now, leaving + 1, 0), [expected]);
        assert_eq!(scene.active(0), [leaving + 1]);
    }
}

#[test]
fn tm_6_plan_changes_do_not_postpone_a_failover() {
    let setup = Setup::default();
    let mut scene = Scene::at_rest(setup.clone());
    let (last, _) = *scene.adverts(0, 0).last().unwrap();
    let now = scene.now();
    scene.begin(60_000, Kind::Crash { host: 0 });
    // The two others change places every 50 ms; the last change gives the third the better one.
    for change in 0..10 {
        scene.publish(|plan| {
            let mut ranks = [1, 2];
            ranks.rotate_right((change + 1) % 2);
            for (machine, rank) in ranks.into_iter().enumerate() {
                let priority = Priority::for_rank(rank).unwrap();
                plan[0].standing[machine + 1] = Some(Standing { priority, joining: false });
            }
        });
        scene.run(50);
    }
    scene.run(1_000);
    let first = [1, 2].map(|host| scene.became_active(now, host, 0));
    let expected = last + LATENCY + down(&setup, 1);
    assert!(first.concat().contains(&expected), "{first:?}, not {expected}");
    assert_eq!(scene.active(0).len(), 1);
}

#[test]
fn the_interval_of_the_active_one_is_learned_and_a_change_of_it_moves_the_timer() {
    let setup = Setup { machines: 2, ..Setup::default() };
    let mut scene = Scene::at_rest(setup.clone());
    let slow = Interval::from_centiseconds(100).unwrap();
    scene.publish(|plan| plan[0].router.interval = slow);
    scene.run(5_000);
    let (last, _) = *scene.adverts(0, 0).last().unwrap();
    let now = scene.now();
    scene.begin(60_000, Kind::Crash { host: 0 });
    scene.run(5_000);
    let slower = Setup { interval: slow, ..setup };
    assert_eq!(scene.became_active(now, 1, 0), [last + LATENCY + down(&slower, 1)]);
}

#[test]
fn v6_a_partition_makes_two_and_its_end_leaves_the_first_announced_anew() {
    for family in FAMILIES {
        let mut scene = Scene::at_rest(Setup { family, machines: 2, ..Setup::default() });
        scene.begin(10_000, Kind::Partition { mask: 1 });
        scene.run(9_000);
        assert_eq!(scene.active(0), [0, 1]);
        scene.run(1_000);
        let healed = scene.now();
        // Each of the two may announce everything once a second: the loser has spoken last, and
        // serves until it hears the other.
        scene.run(1_100);
        assert_eq!(scene.active(0), [0]);
        for vip in 0..2 {
            let address = scene.vip(0, vip);
            assert_eq!(scene.client(address), Some(0), "{}", scene.trace());
            assert!(!scene.announcements(healed, 0, address).is_empty());
        }
        scene.run(3_000);
        assert_eq!(scene.holders(scene.vip(0, 0)), [0]);
    }
}

#[test]
fn v6_without_multicast_unicast_carries_the_election_and_says_so() {
    let mut scene = Scene::at_rest(Setup::default());
    let before = scene.lan.judge.role_changes;
    let now = scene.now();
    scene.begin(30_000, Kind::NoMulticast);
    scene.run(20_000);
    assert_eq!(scene.lan.judge.role_changes, before);
    let filtered = |kind: &EventKind| matches!(kind, EventKind::Began(Problem::MulticastFiltered));
    assert_eq!([1, 2].map(|host| scene.notes(now, host, filtered)), [1, 1]);
    scene.begin(5_000, Kind::Crash { host: 0 });
    scene.run(1_000);
    assert_eq!(scene.active(0), [1]);
}

#[test]
fn tx_5_without_unicast_multicast_carries_the_election() {
    let mut scene = Scene::at_rest(Setup::default());
    let before = scene.lan.judge.role_changes;
    scene.begin(30_000, Kind::NoUnicast);
    scene.run(20_000);
    assert_eq!(scene.lan.judge.role_changes, before);
}

#[test]
fn h14_a_deaf_backup_that_speaks_for_a_moment_leaves_no_client_astray() {
    // The second hears the first no longer, takes over, and hears it again: the first never
    // ceased to be Active, and clients must come back to it.
    for family in FAMILIES {
        let mut scene = Scene::at_rest(Setup { family, machines: 2, ..Setup::default() });
        let deafen = Kind::Deafen { from: 0, to: 1, multicast: true, unicast: true };
        scene.begin(1_000, deafen);
        scene.run(5_000);
        assert_eq!(scene.active(0), [0]);
        assert_eq!(scene.client(scene.vip(0, 0)), Some(0), "{}", scene.trace());
        assert!(scene.lan.judge.most_active[0] == 2, "the second never spoke");
        assert!(scene.outage() <= SECOND, "{}", scene.trace());
    }
}

#[test]
fn v9_a_foreign_group_on_our_vrid_is_reported_and_has_no_effect() {
    for priority in [1, 100, 255] {
        let mut scene = Scene::at_rest(Setup::default());
        let (before, now) = (scene.lan.judge.role_changes, scene.now());
        scene.begin(10_000, Kind::Stranger { router: 0, priority });
        scene.run(10_000);
        assert_eq!(scene.lan.judge.role_changes, before);
        for host in 0..3 {
            let is_it =
                |kind: &EventKind| matches!(kind, EventKind::Began(Problem::ForeignRouter { .. }));
            assert_eq!(scene.notes(now, host, is_it), 1, "{}", scene.trace());
        }
        let beat: Vec<Nanos> = scene.adverts(now, 0).iter().map(|(at, _)| *at).collect();
        assert!(beat.windows(2).all(|pair| pair[1] - pair[0] == 200 * MS), "{beat:?}");
    }
}

#[test]
fn rx_10_malformed_adverts_move_no_timer_and_no_role() {
    for family in FAMILIES {
        let mut scene = Scene::at_rest(Setup { family, ..Setup::default() });
        let (before, now) = (scene.lan.judge.role_changes, scene.now());
        scene.begin(20_000, Kind::Junk);
        scene.run(10_000);
        assert_eq!(scene.lan.judge.role_changes, before);
        let beat: Vec<Nanos> = scene.adverts(now, 0).iter().map(|(at, _)| *at).collect();
        assert!(beat.windows(2).all(|pair| pair[1] - pair[0] == 200 * MS), "{beat:?}");
        // And the death of the real one is noticed at the usual time, in spite of them.
        let counters = scene.lan.hosts[1].process.as_ref().unwrap().node.counters().clone();
        assert!(counters.adverts_refused.values().sum::<u64>() >= 50, "{counters:?}");
    }
}

#[test]
fn v11_a_node_that_is_added_moves_nothing() {
    let mut scene = Scene::new(Setup { machines: 4, ..Setup::default() });
    // The newcomer would be the first.
    let newcomer = scene.lan.published[0].standing[0];
    scene.publish(|plan| plan[0].standing[0] = None);
    scene.start_all();
    scene.run(5_000);
    assert_eq!(scene.active(0), [1]);
    let before = scene.lan.judge.role_changes;
    scene.publish(|plan| {
        let last = Priority::for_rank(4).unwrap();
        plan[0].standing[0] = newcomer.map(|_| Standing { priority: last, joining: true });
    });
    scene.run(10_000);
    assert_eq!(scene.active(0), [1]);
    assert_eq!(scene.lan.judge.role_changes, before + 1, "but for the newcomer's own start");
}

#[test]
fn v12_a_joining_node_is_silent_until_it_hears_an_active_one_or_has_joined() {
    for hears in [false, true] {
        let mut scene = Scene::new(Setup::default());
        // The third is unknown to the plans of the others, and multicast is filtered.
        scene.publish(|plan| plan[0].standing[2] = None);
        scene.lan.start(0);
        scene.lan.start(1);
        scene.run(3_000);
        if !hears {
            scene.begin(3_600_000, Kind::NoMulticast);
        }
        scene.publish_to(&[2], |plan| {
            let priority = Priority::for_rank(2).unwrap();
            plan[0].standing[2] = Some(Standing { priority, joining: true });
        });
        scene.lan.start(2);
        scene.run(60_000);
        assert_eq!(scene.active(0), [0]);
        assert!(scene.adverts(0, 2).is_empty());
        // The others die: who has heard an Active router takes over, who never has stays silent.
        scene.begin(3_600_000, Kind::Crash { host: 0 });
        scene.begin(3_600_000, Kind::Crash { host: 1 });
        scene.run(5_000);
        assert_eq!(scene.active(0), if hears { vec![2] } else { vec![] });
        scene.publish(|plan| plan[0].standing[2].as_mut().unwrap().joining = false);
        scene.run(1_000);
        assert_eq!(scene.active(0), [2]);
    }
}

#[test]
fn the_only_candidate_is_active_after_two_probes() {
    for family in FAMILIES {
        let mut scene = Scene::new(Setup { family, ..Setup::default() });
        scene.publish(|plan| {
            plan[0].standing[1] = None;
            plan[0].standing[2] = None;
        });
        scene.start_all();
        scene.run(2_000);
        assert_eq!(scene.became_active(0, 0, 0), [100 * MS]);
        assert_eq!(scene.holders(scene.vip(0, 0)), [0]);
    }
}

/// The Active one dies or stops, again and again; the others follow in their order.
fn failovers(setup: Setup, jitter: Nanos, count: usize) -> usize {
    let mut scene = Scene::at_rest(setup.clone());
    scene.lan.log = None;
    scene.lan.wire.jitter = jitter;
    scene.lan.delays.lateness = EXACT.lateness;
    let mut extra = 0;
    for round in 0..count {
        let active = scene.lan.judge.active(0).next().unwrap();
        scene.lan.judge.most_active[0] = 0;
        if round % 2 == 0 {
            scene.lan.crash(active);
        } else {
            scene.lan.stop(active);
        }
        // Long enough for the last of them, and for those who must step back.
        scene.run_for(5 * super::super::support::lan::time::nanos(setup.interval.duration()));
        let now_active: Vec<usize> = scene.lan.judge.active(0).collect();
        assert_eq!(now_active.len(), 1, "round {round}");
        extra += scene.lan.judge.most_active[0] - 1;
        if scene.lan.judge.most_active[0] > 1 {
            // The one that stays announces last.
            scene.run(1_100);
            assert_eq!(scene.client(scene.vip(0, 0)), Some(now_active[0]), "round {round}");
        }
        if scene.lan.hosts.iter().filter(|host| host.process.is_some()).count() <= 3 {
            for host in 0..setup.machines {
                scene.lan.start(host);
            }
            // All dead ones are back, and their leftovers gone.
            scene.run(1_500);
        }
    }
    extra
}

fn nine(centiseconds: u16, cluster: bool) -> Setup {
    let interval = Interval::from_centiseconds(centiseconds).unwrap();
    Setup { machines: 9, interval, cluster, preempt: Preempt::Never, vips: 1, ..Setup::default() }
}

#[test]
fn with_5_ms_of_jitter_at_most_one_of_10000_failovers_wakes_two() {
    // Multicast alone, at the default interval; in a cluster with its two paths, at half of it.
    let extra = failovers(nine(20, false), 5 * MS, 5_000);
    assert!(extra <= 1, "{extra} of 5000 at 200 ms");
    let extra = failovers(nine(10, true), 5 * MS, 5_000);
    assert!(extra <= 1, "{extra} of 5000 at 100 ms");
}

#[test]
fn without_the_steps_between_priorities_jitter_wakes_several() {
    // That the test above can fail: with neighbours in priority it does.
    let mut setup = nine(10, false);
    setup.candidates = 9;
    let mut scene = Scene::new(setup);
    scene.publish(|plan| {
        for (rank, standing) in plan[0].standing.iter_mut().flatten().enumerate() {
            standing.priority = Priority::try_from(254 - rank as u8).unwrap();
        }
    });
    scene.start_all();
    scene.run(3_000);
    scene.lan.wire.jitter = 5 * MS;
    scene.lan.judge.most_active[0] = 0;
    let active = scene.lan.judge.active(0).next().unwrap();
    scene.lan.crash(active);
    scene.run(500);
    assert!(scene.lan.judge.most_active[0] > 1);
}
