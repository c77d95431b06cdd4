//! Planned moves: the new one is up before the old one lets go, and no client loses a packet.

use std::net::IpAddr;

use barevip::engine::node::command::AddressChange;
use barevip::engine::node::event::EventKind;
use barevip::engine::node::identity::Health;
use barevip::engine::vrrp::role::Role;
use barevip::model::Preempt;

use crate::support::lan::faults::Kind;
use crate::support::lan::happened::What;
use crate::support::lan::plans::Setup;
use crate::support::lan::scene::{FAMILIES, Scene, down, skew};
use crate::support::lan::time::{MS, Nanos, SECOND, US};

const LATENCY: Nanos = 50 * US;

/// What a scene's client may lose in a planned move: nothing.
fn loses_nothing(scene: &Scene, what: &str) {
    assert_eq!(scene.outage(), 0, "{what}\n{}", scene.trace());
}

#[test]
fn v3_a_planned_stop_hands_over_within_a_skew_and_loses_nothing() {
    for family in FAMILIES {
        let setup = Setup { family, ..Setup::default() };
        let mut scene = Scene::at_rest(setup.clone());
        scene.forget_outages();
        let now = scene.now();
        scene.begin(60_000, Kind::Stop { host: 0 });
        scene.run(3_000);
        assert_eq!(scene.became_active(now, 1, 0), [now + LATENCY + skew(&setup, 1)]);
        assert!(scene.lan.hosts[0].process.is_none(), "it has not ended");
        assert_eq!(scene.holders(scene.vip(0, 0)), [1]);
        assert_eq!(scene.client(scene.vip(0, 0)), Some(1));
        loses_nothing(&scene, "a planned stop");
    }
}

#[test]
fn v3_the_order_of_a_handover() {
    let mut scene = Scene::at_rest(Setup { vips: 1, machines: 2, ..Setup::default() });
    let now = scene.now();
    let vip = scene.vip(0, 0);
    scene.begin(60_000, Kind::Stop { host: 0 });
    scene.run(1_000);
    let first = |host: usize, is_it: &dyn Fn(&What) -> bool| {
        scene.times(now, host, is_it).first().copied().unwrap()
    };
    let says = |zero: bool| move |what: &What| matches!(what, What::Advert { priority, .. } if (*priority == 0) == zero);
    let leaves = first(0, &says(true));
    let advertises = first(1, &says(false));
    let binds = first(1, &|what| matches!(what, What::Bound(a) if *a == vip));
    let announces = first(1, &|what| matches!(what, What::Announced(a) if *a == vip));
    let hears = first(0, &|what| matches!(what, What::HeardAnnouncement(a, 1) if *a == vip));
    let releases = first(0, &|what| matches!(what, What::Unbound(a, _) if *a == vip));
    let order = [leaves, advertises, binds, announces, hears, releases];
    assert!(order.is_sorted(), "{order:?}");
    let grace = releases - announces;
    assert!((10 * MS..11 * MS).contains(&grace), "it waits for {grace} ns after the announcement");
    // Priority 0 once more, and then the new one announces again.
    let zeros: Vec<Nanos> =
        scene.adverts(now, 0).iter().filter(|(_, p)| *p == 0).map(|(at, _)| *at).collect();
    let [once, again] = zeros[..] else { panic!("priority 0 at {zeros:?}") };
    assert_eq!(once, leaves);
    assert!(again >= releases && again - releases < MS);
    let after = scene.announcements(again, 1, vip);
    assert!(after.first().is_some_and(|at| at - again < MS), "{after:?}");
}

#[test]
fn v3_a_client_that_asks_in_the_middle_of_the_move_loses_a_millisecond_at_most() {
    // There is no mute in this simulation: a question may be answered by the old one (AR-10).
    for family in FAMILIES {
        let mut worst = 0;
        for step in 0..60 {
            let mut scene = Scene::at_rest(Setup { family, machines: 2, ..Setup::default() });
            scene.lan.random = crate::support::lan::random::Random::new(step);
            scene.forget_outages();
            scene.begin(60_000, Kind::Stop { host: 0 });
            scene.run_for(20 * MS + step * 20 * US);
            scene.begin(0, Kind::Forget);
            scene.run(3_000);
            assert_eq!(scene.client(scene.vip(0, 0)), Some(1));
            worst = worst.max(scene.outage());
        }
        assert!(worst <= MS, "{} us lost", worst / US);
    }
}

#[test]
fn drain_and_its_end_lose_nothing() {
    for family in FAMILIES {
        for preempt in [Preempt::Now, Preempt::After(std::time::Duration::from_secs(2))] {
            let mut scene = Scene::at_rest(Setup { family, preempt, ..Setup::default() });
            scene.forget_outages();
            scene.begin(5_000, Kind::Drain { host: 0 });
            scene.run(4_000);
            assert_eq!(scene.active(0), [1]);
            assert_eq!(scene.role(0, 0), Role::Initialize);
            scene.run(6_000);
            assert_eq!(scene.active(0), [0]);
            loses_nothing(&scene, "drain, and preemption at its end");
        }
    }
}

#[test]
fn a_swap_of_priorities_is_a_handover() {
    for family in FAMILIES {
        let mut scene = Scene::at_rest(Setup { family, ..Setup::default() });
        scene.forget_outages();
        scene.publish(|plan| {
            let standing = &mut plan[0].standing;
            standing.swap(0, 2);
        });
        scene.run(3_000);
        assert_eq!(scene.active(0), [2]);
        loses_nothing(&scene, "preemption");
    }
}

#[test]
fn a_takeover_that_the_plan_asks_for_is_at_once_and_loses_nothing() {
    for family in FAMILIES {
        let preempt = Preempt::Never;
        let mut scene = Scene::at_rest(Setup { family, preempt, ..Setup::default() });
        scene.forget_outages();
        let now = scene.now();
        scene.begin(5_000, Kind::Takeover { host: 2, router: 0 });
        scene.run(1_000);
        assert_eq!(scene.active(0), [2]);
        let took = scene.became_active(now, 2, 0)[0] - now;
        // The simulated controller's news takes up to 60 ms.
        assert!(took <= 60 * MS + LATENCY, "{took}");
        assert_eq!(scene.adverts(now, 2)[0].1, 255);
        scene.run(10_000);
        assert_eq!(scene.active(0), [2], "it goes back when the request is over");
        assert_eq!(scene.adverts(now, 2).last().unwrap().1, 206);
        loses_nothing(&scene, "a takeover");
    }
}

#[test]
fn a_takeover_that_stays_deaf_gives_up() {
    let mut scene = Scene::at_rest(Setup { preempt: Preempt::Never, ..Setup::default() });
    let deafen = Kind::Deafen { from: 2, to: 0, multicast: true, unicast: true };
    scene.begin(60_000, deafen);
    let now = scene.now();
    scene.begin(30_000, Kind::Takeover { host: 2, router: 0 });
    scene.run(10_000);
    assert_eq!(scene.active(0), [0]);
    let is_deaf = |kind: &EventKind| {
        matches!(kind, EventKind::Began(barevip::engine::node::event::Problem::DeafPeer { .. }))
    };
    assert_eq!(scene.notes(now, 2, is_deaf), 1, "{}", scene.trace());
    let took = scene.became_active(now, 2, 0);
    assert_eq!(took.len(), 1, "it tries once");
    let gave_up = scene.times(now, 2, |what| matches!(what, What::Role { role: Role::Backup, .. }));
    let lasted = gave_up.last().unwrap() - took[0];
    assert!(lasted <= 11 * 200 * MS + 5 * MS, "{lasted}");
    // The client is with the one that is left, after its announcements at the latest.
    scene.run(2_000);
    assert_eq!(scene.client(scene.vip(0, 0)), Some(0), "{}", scene.trace());
}

#[test]
fn what_nobody_takes_is_let_go_after_a_second() {
    let mut scene = Scene::at_rest(Setup { machines: 2, ..Setup::default() });
    scene.begin(600_000, Kind::Crash { host: 1 });
    scene.run(100);
    let now = scene.now();
    scene.begin(60_000, Kind::Stop { host: 0 });
    scene.run(990);
    assert_eq!(scene.holders(scene.vip(0, 0)), [0]);
    scene.run(20);
    assert_eq!(scene.holders(scene.vip(0, 0)), [] as [usize; 0]);
    assert!(scene.lan.hosts[0].process.is_none());
    let unclaimed =
        |kind: &EventKind| matches!(kind, EventKind::Released { handed_over: 0, unclaimed: 2 });
    assert_eq!(scene.notes(now, 0, unclaimed), 1);
}

#[test]
fn a_backup_stops_without_a_word() {
    let mut scene = Scene::at_rest(Setup::default());
    let now = scene.now();
    scene.begin(60_000, Kind::Stop { host: 1 });
    assert!(scene.lan.hosts[1].process.is_none());
    assert!(scene.adverts(now, 1).is_empty());
}

#[test]
fn priority_0_is_final_for_its_sender_on_both_paths() {
    // Adverts by unicast take 150 ms: a straggler arrives after priority 0 came by multicast.
    let setup = Setup::default();
    let mut scene = Scene::new(setup.clone());
    scene.lan.wire.latency = [LATENCY, 150 * MS];
    scene.start_all();
    scene.run(5_000);
    // Right after an advert, so that its unicast copy is still under way.
    let (last, _) = *scene.adverts(0, 0).last().unwrap();
    scene.run_for(last + 201 * MS - scene.now());
    let now = scene.now();
    scene.begin(60_000, Kind::Drain { host: 0 });
    scene.run(2_000);
    let stragglers = scene
        .times(now + skew(&setup, 1), 1, |what| matches!(what, What::Heard { priority: 254, .. }));
    assert!(!stragglers.is_empty(), "the test has lost its point");
    assert_eq!(scene.became_active(now, 1, 0), [now + LATENCY + skew(&setup, 1)]);
    assert_eq!(scene.active(0), [1]);
}

#[test]
fn who_drains_and_comes_back_at_once_waits_until_others_listen_again() {
    let mut scene = Scene::at_rest(Setup::default());
    scene.forget_outages();
    scene.begin(5, Kind::Drain { host: 0 });
    scene.run(5_000);
    assert_eq!(scene.active(0), [0]);
    assert!(scene.lan.judge.most_active[0] <= 2);
    loses_nothing(&scene, "a drain of 5 ms");
}

#[test]
fn each_address_waits_for_its_own_announcement() {
    // The second binds slowly, one address every 20 ms.
    let mut scene = Scene::at_rest(Setup { vips: 20, machines: 2, ..Setup::default() });
    scene.lan.delays.netlink = (20 * MS, 20 * MS);
    scene.forget_outages();
    let now = scene.now();
    scene.begin(60_000, Kind::Stop { host: 0 });
    scene.run(4_000);
    assert_eq!(scene.active(0), [1]);
    for vip in 0..20 {
        let vip: IpAddr = scene.vip(0, vip);
        let is_it =
            |what: &What| matches!(what, What::Asked(a, AddressChange::Remove) if *a == vip);
        let released = scene.times(now, 0, is_it)[0];
        let announced = scene.announcements(now, 1, vip)[0];
        let grace = released - announced;
        assert!((10 * MS..=11 * MS).contains(&grace), "{vip} waits for {grace} ns");
    }
    loses_nothing(&scene, "a slow handover");
}

#[test]
fn an_ineligible_active_one_hands_over_and_nobody_serves_if_nobody_can() {
    let mut scene = Scene::at_rest(Setup { machines: 2, ..Setup::default() });
    scene.forget_outages();
    let kind = |host| Kind::Sick { host, router: Some(0), health: Health::Ineligible };
    scene.begin(20_000, kind(0));
    scene.run(3_000);
    assert_eq!(scene.active(0), [1]);
    loses_nothing(&scene, "the last endpoint went");
    scene.begin(5_000, kind(1));
    scene.run(3_000);
    assert_eq!(scene.active(0), [] as [usize; 0]);
    assert_eq!(scene.holders(scene.vip(0, 0)), [] as [usize; 0]);
    scene.run(5_000);
    assert_eq!(scene.active(0), [1]);
}

#[test]
fn an_unlisted_active_one_hands_over() {
    let mut scene = Scene::at_rest(Setup::default());
    scene.forget_outages();
    scene.publish(|plan| plan[0].standing[0] = None);
    scene.run(3_000);
    assert_eq!(scene.active(0), [1]);
    assert_eq!(scene.holders(scene.vip(0, 0)), [1]);
    loses_nothing(&scene, "unlisted");
}

#[test]
fn a_router_that_leaves_the_plan_is_let_go_everywhere() {
    let mut scene = Scene::at_rest(Setup::default());
    scene.publish(|plan| plan[0].router.entries.clear());
    scene.run(3_000);
    assert_eq!(scene.active(0), [] as [usize; 0]);
    assert_eq!(scene.holders(scene.vip(0, 0)), [] as [usize; 0]);
}

#[test]
fn the_down_timer_of_a_newcomer_counts_from_its_start() {
    let setup = Setup { machines: 2, ..Setup::default() };
    let mut scene = Scene::new(setup.clone());
    scene.lan.start(1);
    scene.run(3_000);
    assert_eq!(scene.active(0), [1]);
    let now = scene.now();
    scene.forget_outages();
    scene.lan.start(0);
    scene.run(3 * (SECOND / MS));
    assert_eq!(scene.became_active(now, 0, 0), [now + down(&setup, 0)]);
    loses_nothing(&scene, "a newcomer that preempts");
}
