//! Crashes, stalls, links and kernels that misbehave.

use barevip::engine::node::event::{EventKind, Problem};
use barevip::engine::vrrp::role::Role;
use barevip::model::{Family, Preempt};

use crate::support::lan::faults::Kind;
use crate::support::lan::happened::What;
use crate::support::lan::plans::Setup;
use crate::support::lan::scene::{FAMILIES, Scene, down};
use crate::support::lan::time::{MS, Nanos, SECOND, US};

const NOBODY: [usize; 0] = [];

#[test]
fn v2_the_addresses_of_a_killed_agent_are_gone_3_s_after_its_last_refresh() {
    for family in FAMILIES {
        let setup = Setup { family, ..Setup::default() };
        let mut scene = Scene::at_rest(setup.clone());
        let now = scene.now();
        scene.begin(60_000, Kind::Crash { host: 0 });
        scene.run(800);
        assert_eq!(scene.active(0), [1]);
        assert_eq!(scene.client(scene.vip(0, 0)), Some(1));
        scene.run(2_300);
        for vip in 0..2 {
            assert_eq!(scene.holders(scene.vip(0, vip)), [1]);
        }
        let longest = down(&setup, 1) + MS;
        assert!(scene.outage() <= longest, "{}", scene.outage());
        let expired = |what: &What| matches!(what, What::Unbound(_, "its lifetime ended"));
        assert_eq!(scene.times(now, 0, expired).len(), 2);
    }
}

#[test]
fn v2_a_restarted_agent_lets_go_of_leftovers_when_it_hears_the_active_one() {
    let mut scene = Scene::at_rest(Setup { preempt: Preempt::Never, ..Setup::default() });
    scene.begin(900, Kind::Crash { host: 0 });
    scene.run(899);
    assert_eq!(scene.holders(scene.vip(0, 0)), [0, 1], "no leftover to let go of");
    scene.run(250);
    assert_eq!(scene.holders(scene.vip(0, 0)), [1]);
    assert_eq!(scene.active(0), [1]);
    for vip in 0..2 {
        let told = scene.announcements(5 * SECOND + 1, 0, scene.vip(0, vip));
        assert_eq!(told, [] as [Nanos; 0], "it announced leftovers");
    }
}

#[test]
fn leftovers_are_adopted_by_the_winner_without_a_gap() {
    let mut scene = Scene::at_rest(Setup { machines: 1, cluster: false, ..Setup::default() });
    scene.forget_outages();
    let now = scene.now();
    scene.begin(300, Kind::Crash { host: 0 });
    scene.run(3_000);
    assert_eq!(scene.active(0), [0]);
    assert_eq!(scene.outage(), 0, "{}", scene.trace());
    let gone = scene.times(now, 0, |what| matches!(what, What::Unbound(..)));
    assert!(gone.is_empty());
    assert!(!scene.announcements(now, 0, scene.vip(0, 0)).is_empty());
}

#[test]
fn leftovers_that_left_the_plan_meanwhile_are_removed_at_once() {
    let mut scene = Scene::at_rest(Setup { machines: 1, cluster: false, ..Setup::default() });
    let vip = scene.vip(0, 0);
    scene.begin(300, Kind::Crash { host: 0 });
    scene.publish(|plan| plan[0].router.entries.retain(|entry| entry.vip.address() != vip));
    scene.run(301);
    assert_eq!(scene.holders(vip), NOBODY);
    assert_eq!(scene.holders(scene.vip(0, 1)), [0]);
}

#[test]
fn tm_5_a_stall_shorter_than_the_down_interval_changes_nothing() {
    let mut scene = Scene::at_rest(Setup::default());
    let before = scene.lan.judge.role_changes;
    scene.begin(300, Kind::Pause { host: 0 });
    scene.run(3_000);
    assert_eq!(scene.lan.judge.role_changes, before);
    assert_eq!(scene.outage(), 0);
}

#[test]
fn tm_5_after_a_stall_with_a_successor_the_old_one_is_backup_and_has_said_nothing() {
    for family in FAMILIES {
        for preempt in [Preempt::Never, Preempt::default()] {
            let mut scene = Scene::at_rest(Setup { family, preempt, ..Setup::default() });
            let now = scene.now();
            scene.begin(5_000, Kind::Pause { host: 0 });
            scene.run(5_000);
            assert_eq!(scene.active(0), [1]);
            assert_eq!(scene.role(0, 0), Role::Backup);
            scene.run(5_000);
            assert_eq!(scene.active(0), [1]);
            // Its adverts of the last moment before the stall are sent at `now` at the latest.
            assert!(scene.adverts(now + MS, 0).is_empty(), "{}", scene.trace());
            assert!(scene.announcements(now + MS, 0, scene.vip(0, 0)).is_empty());
            assert_eq!(scene.holders(scene.vip(0, 0)), [1]);
        }
    }
}

#[test]
fn tm_5_after_a_stall_without_a_successor_the_role_is_kept() {
    let mut scene = Scene::at_rest(Setup { machines: 2, vips: 1, ..Setup::default() });
    scene.begin(600_000, Kind::Crash { host: 1 });
    scene.run(5_000);
    let before = scene.lan.judge.role_changes;
    scene.begin(1_500, Kind::Pause { host: 0 });
    scene.run_for(1_500 * MS - 1);
    let woke = scene.now();
    scene.run(200);
    assert_eq!(scene.lan.judge.role_changes, before);
    // One advert at once, one announcement round, and the beat goes on.
    let adverts = scene.adverts(woke, 0);
    assert!(adverts.len() <= 2 && adverts[0].0 == woke + 1, "{adverts:?}");
    assert_eq!(scene.announcements(woke, 0, scene.vip(0, 0)), [woke + 1]);
    let stalled = |kind: &EventKind| matches!(kind, EventKind::Stalled { .. });
    assert_eq!(scene.notes(woke, 0, stalled), 1);
}

#[test]
fn ar_11_a_stall_of_more_than_a_lifetime_brings_no_address_back() {
    // Stalled right after it was asked to refresh: the requests wait with the process.
    for family in FAMILIES {
        for step in 0..20 {
            let setup = Setup { family, preempt: Preempt::Never, ..Setup::default() };
            let mut scene = Scene::at_rest(setup);
            let refreshes = |what: &What| matches!(what, What::Asked(..));
            let now = scene.now();
            scene.run_until(1_000, "a refresh", |s| !s.times(now, 0, refreshes).is_empty());
            scene.run_for(step * 10 * US);
            scene.begin(4_000, Kind::Pause { host: 0 });
            scene.run(3_900);
            assert_eq!(scene.holders(scene.vip(0, 0)), [1]);
            let woke = scene.now();
            scene.run(3_000);
            let back = scene.times(woke, 0, |what| matches!(what, What::Bound(_)));
            assert!(back.is_empty(), "{}", scene.trace());
        }
    }
}

#[test]
fn rx_19_adverts_queued_in_a_stall_count_from_when_they_arrived() {
    // The Backup stands still while the Active one dies; the queue is full of old adverts.
    let setup = Setup { machines: 2, ..Setup::default() };
    let mut scene = Scene::at_rest(setup.clone());
    scene.begin(2_000, Kind::Pause { host: 1 });
    scene.run(1_000);
    let (last, _) = *scene.adverts(0, 0).last().unwrap();
    scene.begin(60_000, Kind::Crash { host: 0 });
    scene.run(2_000);
    let due = last + 50 * US + down(&setup, 1);
    let woke = 7 * SECOND;
    assert!(due < woke);
    assert_eq!(scene.became_active(6 * SECOND, 1, 0), [woke], "not at once");
}

#[test]
fn a_machine_that_slept_steps_back_and_a_frozen_one_is_healed_by_the_election() {
    for kind in [Kind::Suspend { host: 0 }, Kind::Freeze { host: 0 }] {
        let mut scene = Scene::at_rest(Setup { preempt: Preempt::Never, ..Setup::default() });
        scene.begin(5_000, kind);
        scene.run(4_900);
        assert_eq!(scene.active(0), [0, 1]);
        scene.run(100);
        if matches!(kind, Kind::Suspend { .. }) {
            assert_eq!(scene.active(0), [1]);
        }
        scene.run(1_200);
        assert_eq!(scene.active(0).len(), 1, "{kind:?}");
        let active = scene.active(0)[0];
        assert_eq!(scene.client(scene.vip(0, 0)), Some(active), "{}", scene.trace());
        scene.run(3_000);
        assert_eq!(scene.holders(scene.vip(0, 0)), [active]);
    }
}

#[test]
fn carrier_lost_longer_than_the_others_wait_moves_the_role() {
    for family in FAMILIES {
        let mut scene =
            Scene::at_rest(Setup { family, preempt: Preempt::Never, ..Setup::default() });
        scene.begin(3_000, Kind::Unplug { host: 0 });
        scene.run(250);
        assert_eq!(scene.holders(scene.vip(0, 0)), NOBODY, "it would answer by another link");
        assert_eq!(scene.role(0, 0), Role::Initialize);
        scene.run(750);
        assert_eq!(scene.active(0), [1]);
        scene.run(5_000);
        assert_eq!(scene.active(0), [1]);
        assert_eq!(scene.holders(scene.vip(0, 0)), [1]);
    }
}

/// Its peers have given up on its MAC address, and ask for it once a second: the down interval is
/// shorter.
#[test]
fn bug_19_a_returned_machine_is_reached_by_unicast_before_its_down_interval_ends() {
    for family in FAMILIES {
        for kind in
            [Kind::Unplug { host: 0 }, Kind::LinkDown { host: 0 }, Kind::Suspend { host: 0 }]
        {
            let mut scene =
                Scene::at_rest(Setup { family, preempt: Preempt::Never, ..Setup::default() });
            scene.publish(|plan| plan[0].router.transport.multicast = false);
            scene.begin(5_000, kind);
            scene.run(5_000);
            assert_eq!(scene.active(0), [1]);
            let returned = scene.now();
            scene.run(5_000);
            assert_eq!(scene.became_active(returned, 0, 0), [] as [Nanos; 0], "{kind:?}");
            assert_eq!(scene.active(0), [1]);
        }
    }
}

#[test]
fn a_link_that_is_down_and_up_serves_again() {
    for family in FAMILIES {
        let mut scene = Scene::at_rest(Setup { family, ..Setup::default() });
        scene.begin(3_000, Kind::LinkDown { host: 0 });
        scene.run(2_000);
        assert_eq!(scene.active(0), [1]);
        scene.run(4_000);
        assert_eq!(scene.active(0), [0]);
        assert_eq!(scene.holders(scene.vip(0, 0)), [0]);
    }
}

#[test]
fn ar_4_addresses_deleted_by_hand_are_back_within_50_ms_without_a_change_of_role() {
    for family in FAMILIES {
        let mut scene = Scene::at_rest(Setup { family, ..Setup::default() });
        scene.forget_outages();
        let (before, now) = (scene.lan.judge.role_changes, scene.now());
        scene.begin(0, Kind::DeleteVips { host: 0 });
        scene.run(1_000);
        assert_eq!(scene.lan.judge.role_changes, before);
        assert_eq!(scene.holders(scene.vip(0, 0)), [0]);
        assert!(scene.outage() < 50 * MS, "{}", scene.outage());
        assert!(!scene.announcements(now, 0, scene.vip(0, 0)).is_empty());
        assert_eq!(scene.notes(now, 0, |k| matches!(k, EventKind::AddressLost { .. })), 2);
    }
}

/// Nobody removed them: the log must send nobody to look for a culprit.
#[test]
fn addresses_that_could_not_be_refreshed_in_time_are_said_to_have_expired() {
    for family in FAMILIES {
        for kind in [Kind::HoldNetlink { host: 0 }, Kind::Pause { host: 0 }] {
            let mut scene = Scene::at_rest(Setup { family, machines: 1, ..Setup::default() });
            let now = scene.now();
            scene.begin(5_000, kind);
            scene.run(4_900);
            assert_eq!(scene.holders(scene.vip(0, 0)), NOBODY);
            scene.run(1_100);
            assert_eq!(scene.holders(scene.vip(0, 0)), [0]);
            let is_expired = |k: &EventKind| matches!(k, EventKind::AddressExpired { .. });
            let is_lost = |k: &EventKind| matches!(k, EventKind::AddressLost { .. });
            assert_eq!(scene.notes(now, 0, is_expired), 2, "{kind:?}\n{}", scene.trace());
            assert_eq!(scene.notes(now, 0, is_lost), 0, "{kind:?}\n{}", scene.trace());
        }
    }
}

#[test]
fn the_own_address_away_for_30_ms_changes_no_role_and_no_vip_stays_first() {
    let mut scene = Scene::at_rest(Setup::default());
    let before = scene.lan.judge.role_changes;
    scene.begin(30, Kind::Renumber { host: 0 });
    scene.run(2_000);
    assert_eq!(scene.lan.judge.role_changes, before);
    let order: Vec<std::net::IpAddr> = scene.lan.hosts[0]
        .kernel
        .addresses
        .iter()
        .map(|held| held.address)
        .filter(std::net::IpAddr::is_ipv4)
        .collect();
    assert_eq!(order[0], scene.lan.hosts[0].addresses[0], "{order:?}");
    assert_eq!(scene.holders(scene.vip(0, 0)), [0]);
    assert_eq!(scene.holders(scene.vip(0, 1)), [0]);
}

#[test]
fn the_own_address_away_for_longer_means_no_part_in_the_election() {
    let mut scene = Scene::at_rest(Setup { preempt: Preempt::Never, ..Setup::default() });
    scene.begin(2_000, Kind::Renumber { host: 0 });
    scene.run(1_000);
    assert_eq!(scene.active(0), [1]);
    assert_eq!(scene.holders(scene.vip(0, 0)), [1]);
}

#[test]
fn an_administrators_address_is_never_touched() {
    for family in FAMILIES {
        let mut scene = Scene::new(Setup { family, machines: 2, ..Setup::default() });
        let vip = scene.vip(0, 0);
        scene.begin(20_000, Kind::Occupy { host: 0, router: 0 });
        scene.start_all();
        scene.run(10_000);
        let held = *scene.lan.hosts[0].kernel.held(vip).unwrap();
        assert_eq!((held.mark, held.expires), (None, None));
        let in_use = |kind: &EventKind| matches!(kind, EventKind::Began(Problem::AddressInUse { address }) if *address == vip);
        assert_eq!(scene.notes(0, 0, in_use), 1, "{}", scene.trace());
        assert!(scene.announcements(0, 0, vip).is_empty());
        // The other address is served; this one is, once it is free.
        assert_eq!(scene.holders(scene.vip(0, 1)), [0]);
        scene.run(11_000);
        assert!(scene.lan.hosts[0].kernel.is_ours(vip));
        assert!(!scene.announcements(0, 0, vip).is_empty());
    }
}

#[test]
fn who_can_not_bind_gives_the_role_away() {
    let mut scene = Scene::at_rest(Setup { machines: 2, ..Setup::default() });
    scene.begin(8_000, Kind::RefuseAdds { host: 0 });
    scene.begin(0, Kind::DeleteVips { host: 0 });
    let now = scene.now();
    scene.run(3_000);
    assert_eq!(scene.active(0), [1], "{}", scene.trace());
    assert_eq!(scene.holders(scene.vip(0, 0)), [1]);
    assert!(scene.adverts(now, 0).iter().any(|(_, priority)| *priority == 0));
    let failed = |kind: &EventKind| matches!(kind, EventKind::Began(Problem::BindFailed { .. }));
    assert!(scene.notes(now, 0, failed) >= 1);
    // It may try again later, and then it can.
    scene.run(25_000);
    assert_eq!(scene.active(0), [0]);
    assert_eq!(scene.holders(scene.vip(0, 0)), [0]);
}

#[test]
fn a_kernel_that_hangs_stops_no_advert() {
    let mut scene = Scene::at_rest(Setup { machines: 2, ..Setup::default() });
    let now = scene.now();
    scene.begin(1_200, Kind::HoldNetlink { host: 0 });
    scene.run(5_000);
    let beat: Vec<Nanos> = scene.adverts(now, 0).iter().map(|(at, _)| *at).collect();
    assert!(beat.windows(2).all(|pair| pair[1] - pair[0] == 200 * MS), "{beat:?}");
    assert_eq!(scene.active(0), [0]);
    assert_eq!(scene.outage(), 0);
}

#[test]
fn no_address_ends_while_its_refreshes_are_slow() {
    // 300 addresses at 1 ms each: a round takes 0.3 s, so the period has to grow to 6 s.
    let mut scene = Scene::new(Setup { machines: 1, vips: 200, ..Setup::default() });
    scene.lan.delays.netlink = (MS, MS);
    scene.start_all();
    scene.run(5_000);
    scene.forget_outages();
    scene.run(60_000);
    let ended = scene.times(0, 0, |what| matches!(what, What::Unbound(..)));
    assert!(ended.is_empty(), "{} addresses ended", ended.len());
    let asked = scene.times(55 * SECOND, 0, |what| matches!(what, What::Asked(..)));
    // At the base period it would be 4000 in these ten seconds.
    assert!(asked.len() <= 1_000, "{}", asked.len());
}

#[test]
fn after_a_stall_the_lifetime_is_what_it_was() {
    let mut scene = Scene::at_rest(Setup { machines: 1, ..Setup::default() });
    let asked = |what: &What| matches!(what, What::Asked(..));
    let now = scene.now();
    scene.run_until(1_000, "a refresh", |s| !s.times(now, 0, asked).is_empty());
    scene.begin(5_000, Kind::Pause { host: 0 });
    scene.run(8_000);
    let woke = scene.now();
    scene.run(3_000);
    let refreshes = scene.times(woke, 0, asked);
    assert_eq!(refreshes.len(), 12, "two addresses, twice a second");
}

#[test]
fn every_family_has_its_own_router_of_a_vrid() {
    // The same VRID in both families: two routers (RFC 9568 §5.2.3).
    let mut scene = Scene::new(Setup { routers: 2, machines: 2, ..Setup::default() });
    scene.publish(|plan| {
        let other = Setup { family: Family::Ipv6, machines: 2, routers: 2, ..Setup::default() };
        plan[1] = other.plans().remove(1);
        plan[1].router.vrid = plan[0].router.vrid;
    });
    scene.start_all();
    scene.run(5_000);
    assert_eq!((scene.active(0), scene.active(1)), (vec![0], vec![1]));
}
