//! RFC 9568 §6.4, line by line, in virtual time.

use std::net::IpAddr;
use std::time::Duration;

use super::*;
use crate::model::Vrid;

const MS: Duration = Duration::from_millis(1);

fn at(millis: u64) -> Instant {
    Instant::after_origin(Duration::from_millis(millis))
}

fn peer(host: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, host])
}

fn priority(value: u8) -> Priority {
    Priority::try_from(value).unwrap()
}

fn interval(millis: u64) -> Interval {
    Duration::from_millis(millis).try_into().unwrap()
}

/// Priority 100, 100 ms, the source 10.0.0.50.
fn settings() -> Settings {
    Settings {
        priority: priority(100),
        interval: interval(100),
        preempt: Preempt::Now,
        health_band: false,
        joining: false,
        source: peer(50),
        jitter: Duration::ZERO,
    }
}

fn advert(value: u8) -> Advert {
    Advert {
        vrid: Vrid::try_from(51).unwrap(),
        priority: Priority::try_from(value).ok(),
        interval: interval(100),
        addresses: vec![IpAddr::from([192, 0, 2, 1])],
    }
}

fn outputs(router: &mut Router) -> Vec<Output> {
    std::iter::from_fn(|| router.poll_output()).collect()
}

fn started(settings: Settings) -> Router {
    let mut router = Router::new(settings);
    router.start(settings, at(0));
    outputs(&mut router);
    router
}

/// Active since its down timer fired.
fn active(settings: Settings) -> (Router, Instant) {
    let mut router = started(settings);
    let now = router.poll_timeout().unwrap();
    router.handle_timeout(now);
    assert_eq!(router.role(), Role::Active);
    outputs(&mut router);
    (router, now)
}

fn hear(router: &mut Router, value: u8, host: u8, now: Instant) -> Vec<Output> {
    router.handle_advert(&advert(value), peer(host), now);
    if router.role() == Role::Active {
        router.handle_timeout(now);
    }
    outputs(router)
}

#[test]
fn an_owner_starts_active_and_advertises_first_rfc9568_6_4_1() {
    let owner = Settings { priority: Priority::OWNER, ..settings() };
    let mut router = Router::new(owner);
    router.start(owner, at(0));
    assert_eq!(
        outputs(&mut router),
        [Output::Advertise(Some(Priority::OWNER)), Output::Became(Role::Active, Cause::Owner)]
    );
}

#[test]
fn others_start_as_backup_and_wait_the_down_interval_rfc9568_6_4_1() {
    let mut router = started(settings());
    let down = Duration::from_micros(360_937) + Duration::from_nanos(500);
    assert_eq!(router.poll_timeout(), Some(at(0) + down));
    router.handle_timeout(at(360));
    assert_eq!(router.role(), Role::Backup);
    router.handle_timeout(at(0) + down);
    assert_eq!(
        outputs(&mut router),
        [Output::Advertise(Some(priority(100))), Output::Became(Role::Active, Cause::Silence)]
    );
}

#[test]
fn a_backup_follows_higher_and_equal_adverts_and_learns_their_interval_rfc9568_6_4_2() {
    for value in [100, 200] {
        let mut router = started(settings());
        let slow = Advert { interval: interval(1000), ..advert(value) };
        router.handle_advert(&slow, peer(9), at(200));
        let expected = at(200) + interval(1000).down(priority(100));
        assert_eq!(router.poll_timeout(), Some(expected));
    }
}

#[test]
fn a_preempting_backup_discards_lower_adverts_rfc9568_6_4_2() {
    let mut router = started(settings());
    let before = router.poll_timeout();
    assert_eq!(hear(&mut router, 99, 200, at(300)), []);
    assert_eq!(router.poll_timeout(), before);
    router.handle_timeout(before.unwrap());
    let cause = Cause::Preempts { from: peer(200) };
    assert!(outputs(&mut router).contains(&Output::Became(Role::Active, cause)));
}

#[test]
fn without_preemption_lower_adverts_are_followed_rfc9568_6_4_2() {
    for preempt in [Preempt::Never, Preempt::default()] {
        let mut router = started(Settings { preempt, ..settings() });
        hear(&mut router, 1, 9, at(300));
        let expected = at(300) + interval(100).down(priority(100));
        assert_eq!(router.poll_timeout(), Some(expected));
    }
}

#[test]
fn priority_0_leaves_a_backup_the_skew_time_rfc9568_6_4_2() {
    let mut router = started(settings());
    hear(&mut router, 200, 9, at(100));
    hear(&mut router, 0, 9, at(150));
    let skew = interval(100).skew(priority(100));
    assert_eq!(router.poll_timeout(), Some(at(150) + skew));
    // A copy on the other path changes nothing, nor does a straggler sent before it.
    hear(&mut router, 0, 9, at(160));
    hear(&mut router, 200, 9, at(170));
    assert_eq!(router.poll_timeout(), Some(at(150) + skew));
    router.handle_timeout(at(150) + skew);
    let cause = Cause::Resigned { by: peer(9) };
    assert!(outputs(&mut router).contains(&Output::Became(Role::Active, cause)));
}

#[test]
fn the_second_priority_0_of_one_that_left_does_not_wake_its_successors_backups() {
    let mut router = started(settings());
    hear(&mut router, 200, 9, at(100));
    hear(&mut router, 0, 9, at(150));
    hear(&mut router, 180, 10, at(155));
    let before = router.poll_timeout();
    hear(&mut router, 0, 9, at(160));
    assert_eq!(router.poll_timeout(), before);
}

#[test]
fn an_active_router_advertises_without_drift_rfc9568_6_4_3() {
    let (mut router, start) = active(settings());
    let mut sent = Vec::new();
    while sent.len() < 100 {
        // Served 3 ms late each time.
        let now = router.poll_timeout().unwrap() + MS * 3;
        router.handle_timeout(now);
        assert_eq!(outputs(&mut router), [Output::Advertise(Some(priority(100)))]);
        sent.push(now);
    }
    assert!(sent[0].since(start) <= interval(100).duration() + MS * 3);
    assert_eq!(sent[99].since(sent[0]), interval(100).duration() * 99);
}

#[test]
fn an_active_router_answers_priority_0_and_announces_again_rfc9568_6_4_3() {
    let (mut router, start) = active(settings());
    let now = start + MS * 40;
    assert_eq!(
        hear(&mut router, 0, 9, now),
        [Output::Reannounce, Output::Advertise(Some(priority(100)))]
    );
    assert!(router.poll_timeout().unwrap() >= now + interval(100).duration() * 9 / 10);
}

#[test]
fn an_active_router_yields_to_higher_priority_or_address_rfc9568_6_4_3() {
    for (value, host, yields) in
        [(101, 1, true), (100, 51, true), (100, 200, true), (100, 49, false), (99, 200, false)]
    {
        let (mut router, start) = active(settings());
        hear(&mut router, value, host, start + MS * 50);
        assert_eq!(router.role() == Role::Backup, yields, "priority {value} from {host}");
        if yields {
            let expected = start + MS * 50 + interval(100).down(priority(100));
            assert_eq!(router.poll_timeout(), Some(expected));
        }
    }
}

#[test]
fn a_losing_advert_is_answered_at_once_and_moves_no_timer_rfc9568_6_4_3() {
    let (mut router, start) = active(settings());
    let due = router.poll_timeout();
    assert_eq!(
        hear(&mut router, 50, 9, start + MS * 40),
        [Output::Reannounce, Output::Advertise(Some(priority(100)))]
    );
    assert_eq!(router.poll_timeout(), due);
}

#[test]
fn a_flood_of_losing_adverts_is_answered_ten_times_an_interval_at_most() {
    let (mut router, start) = active(settings());
    let mut adverts = 0;
    for step in 1..=1000_u32 {
        let now = start + Duration::from_micros(100) * step;
        router.handle_timeout(now);
        router.handle_advert(&advert(50), peer(9), now);
        let sent = |o: &Output| matches!(o, Output::Advertise(_));
        adverts += outputs(&mut router).iter().filter(|o| sent(o)).count();
    }
    assert!((9..=12).contains(&adverts), "{adverts}");
}

#[test]
fn shutdown_says_priority_0_only_as_active_rfc9568_6_4() {
    let (mut router, _) = active(settings());
    router.stop(Cause::Stopped, true, at(9000));
    assert_eq!(
        outputs(&mut router),
        [Output::Advertise(None), Output::Became(Role::Initialize, Cause::Stopped)]
    );
    let mut router = started(settings());
    router.stop(Cause::Stopped, true, at(9000));
    assert_eq!(outputs(&mut router), [Output::Became(Role::Initialize, Cause::Stopped)]);
    assert_eq!(router.poll_timeout(), None);
    assert_eq!(hear(&mut router, 200, 9, at(900)), []);
}

#[test]
fn a_change_of_plan_moves_the_down_timer_and_never_restarts_it() {
    let mut router = started(settings());
    hear(&mut router, 200, 9, at(100));
    for step in 1..=20 {
        let value = if step % 2 == 0 { 90 } else { 230 };
        router.configure(Settings { priority: priority(value), ..settings() }, at(100 + step * 10));
        let expected = at(100) + interval(100).down(priority(value));
        assert_eq!(router.poll_timeout(), Some(expected));
    }
}

#[test]
fn delayed_preemption_counts_from_when_it_was_higher_without_a_break() {
    let delayed = Settings { preempt: Preempt::After(MS * 5000), ..settings() };
    let mut router = started(delayed);
    for step in 1..=20 {
        hear(&mut router, 90, 9, at(100 * step));
    }
    assert_eq!(router.preempt_due(), Some(at(5100)));
    // Another lower router in its place, and a new rank that is still higher: no new count.
    hear(&mut router, 80, 10, at(2100));
    router.configure(Settings { priority: priority(120), ..delayed }, at(2150));
    assert_eq!(router.preempt_due(), Some(at(5100)));
    // Somebody higher: a new count.
    hear(&mut router, 200, 11, at(2200));
    assert_eq!(router.preempt_due(), None);
    hear(&mut router, 90, 9, at(2300));
    assert_eq!(router.preempt_due(), Some(at(7300)));
    router.preempt(at(7299));
    assert_eq!(router.role(), Role::Backup);
    router.preempt(at(7300));
    assert_eq!(router.role(), Role::Active);
}

#[test]
fn an_unhealthy_active_router_is_relieved_after_the_skew_whatever_preempt_says() {
    let band = Settings { preempt: Preempt::Never, health_band: true, ..settings() };
    let mut router = started(band);
    hear(&mut router, 31, 9, at(100));
    assert_eq!(router.poll_timeout(), Some(at(100) + interval(100).skew(priority(100))));
    // Without the band it is a low priority like any other; unhealthy itself, it waits too.
    let mut plain = started(Settings { health_band: false, ..band });
    hear(&mut plain, 31, 9, at(100));
    assert_eq!(plain.poll_timeout(), Some(at(100) + interval(100).down(priority(100))));
    let ill = Settings { priority: priority(12), ..band };
    let mut ill = started(ill);
    hear(&mut ill, 31, 9, at(100));
    assert_eq!(ill.poll_timeout(), Some(at(100) + interval(100).down(priority(12))));
}

#[test]
fn a_joining_router_is_silent_until_it_heard_an_active_one_or_the_flag_is_gone() {
    let joining = Settings { joining: true, ..settings() };
    let mut router = started(joining);
    assert_eq!(router.poll_timeout(), None);
    router.configure(settings(), at(700));
    assert_eq!(router.poll_timeout(), Some(at(700) + interval(100).down(priority(100))));
    let mut router = started(joining);
    hear(&mut router, 90, 9, at(700));
    assert_eq!(router.poll_timeout(), Some(at(700) + interval(100).down(priority(100))));
}

#[test]
fn who_said_priority_0_does_not_come_back_while_nobody_would_listen() {
    let (mut router, start) = active(settings());
    hear(&mut router, 200, 9, start + MS * 50);
    let now = start + MS * 5000;
    router.part(now);
    assert_eq!(outputs(&mut router), [Output::Advertise(None)]);
    assert_eq!(router.poll_timeout(), Some(now + interval(100).down(priority(100))));
    router.take_over(Cause::TakeoverRequested, now + MS * 100);
    assert_eq!(router.role(), Role::Backup);

    let mut other = started(Settings { priority: priority(50), ..settings() });
    hear(&mut other, 100, 50, now);
    hear(&mut other, 0, 50, now + MS);
    other.handle_timeout(now + MS * 100);
    assert_eq!(other.role(), Role::Active);
    hear(&mut other, 100, 50, now + MS + interval(100).down(priority(254)));
    assert_eq!(other.role(), Role::Backup);
}

#[test]
fn after_a_stall_the_router_that_took_over_stays_whatever_the_priorities() {
    let (mut router, start) = active(settings());
    let heard_at = start + MS * 320;
    router.handle_advert(&advert(1), peer(9), heard_at);
    assert_eq!(
        outputs(&mut router),
        [Output::Became(Role::Backup, Cause::Replaced { by: peer(9) })]
    );
}

#[test]
fn after_a_stall_nothing_leaves_before_the_whole_queue_was_read() {
    let (mut router, start) = active(settings());
    // A deaf router took over before it had the right to, and went on while this one stood still.
    for step in 2..20 {
        router.handle_advert(&advert(1), peer(9), start + MS * 100 * step);
    }
    let became = Output::Became(Role::Backup, Cause::Replaced { by: peer(9) });
    let said = outputs(&mut router);
    assert!(said.contains(&became), "{said:?}");
    assert!(!said.iter().any(|o| matches!(o, Output::Advertise(_))), "{said:?}");
}

#[test]
fn after_a_stall_without_a_successor_the_role_is_kept_with_one_advert() {
    let (mut router, start) = active(settings());
    let now = start + MS * 5000;
    router.handle_timeout(now);
    assert_eq!(
        outputs(&mut router),
        [Output::Stalled(MS * 5000), Output::Reannounce, Output::Advertise(Some(priority(100)))]
    );
    assert!(router.poll_timeout().unwrap() > now);
}

#[test]
fn giving_the_role_away_waits_longer_before_taking_it_back() {
    let (mut router, start) = active(settings());
    router.step_back(Cause::BindFailed, true, MS * 10_000, start);
    assert_eq!(
        outputs(&mut router),
        [Output::Advertise(None), Output::Became(Role::Backup, Cause::BindFailed)]
    );
    let expected = start + MS * 10_000 + interval(100).down(priority(100));
    assert_eq!(router.poll_timeout(), Some(expected));
}

#[test]
fn answers_to_a_deaf_lower_router_are_counted_once_an_interval() {
    let (mut router, mut now) = active(settings());
    for _ in 0..10 {
        now = now + MS * 100;
        router.handle_timeout(now);
        hear(&mut router, 50, 9, now);
        // The unicast copy of the same advert.
        hear(&mut router, 50, 9, now + MS);
    }
    assert_eq!(router.contest().unwrap().answered, 10);
}

#[test]
fn adverts_that_were_read_out_of_order_do_not_turn_the_clock_back() {
    let mut router = started(settings());
    hear(&mut router, 200, 9, at(300));
    hear(&mut router, 200, 9, at(250));
    assert_eq!(router.poll_timeout(), Some(at(300) + interval(100).down(priority(100))));
}

#[test]
fn a_longer_interval_keeps_the_old_pace_until_backups_have_heard_of_it() {
    let (mut router, start) = active(settings());
    router.configure(Settings { interval: interval(1000), ..settings() }, start);
    let mut before = start;
    for _ in 0..HURRY {
        let now = router.poll_timeout().unwrap();
        assert!(now.since(before) <= interval(100).duration());
        router.handle_timeout(now);
        assert_eq!(outputs(&mut router), [Output::Advertise(Some(priority(100)))]);
        before = now;
    }
    assert!(router.poll_timeout().unwrap().since(before) > interval(100).duration() * 8);
}

#[test]
fn a_shorter_interval_is_no_stall_and_costs_no_role() {
    let slow = Settings { interval: interval(1000), ..settings() };
    let (mut router, start) = active(slow);
    let now = start + MS * 800;
    router.configure(settings(), now);
    hear(&mut router, 50, 9, now);
    router.handle_timeout(now);
    assert_eq!(router.role(), Role::Active);
    assert!(!outputs(&mut router).iter().any(|o| matches!(o, Output::Stalled(_))));
    assert!(router.poll_timeout().unwrap().since(now) <= interval(100).duration());
}

#[test]
fn a_discarded_advert_teaches_no_interval_and_a_learned_one_outlives_priority_0() {
    let mut router = started(settings());
    let before = router.poll_timeout();
    let slow = Advert { interval: interval(40_950), ..advert(50) };
    router.handle_advert(&slow, peer(9), at(100));
    assert_eq!(router.poll_timeout(), before);
    let mut router = started(settings());
    let slow = Advert { interval: interval(10_000), ..advert(200) };
    router.handle_advert(&slow, peer(9), at(100));
    hear(&mut router, 0, 9, at(200));
    let skew = interval(10_000).skew(priority(100));
    assert_eq!(router.poll_timeout(), Some(at(200) + skew));
}

#[test]
fn a_delayed_preemption_ends_with_the_router_it_was_aimed_at() {
    let delayed = Settings { preempt: Preempt::After(MS * 500), ..settings() };
    let mut router = started(delayed);
    for step in 1..=10 {
        hear(&mut router, 90, 9, at(100 * step));
    }
    assert!(router.preempt_due().unwrap() <= at(1000));
    hear(&mut router, 0, 9, at(1010));
    assert_eq!(router.preempt_due(), None);
    assert!(router.poll_timeout().unwrap() > at(1010));
}

#[test]
fn a_flood_of_priority_0_is_answered_ten_times_an_interval_at_most() {
    let (mut router, start) = active(settings());
    let mut adverts = 0;
    for step in 1..=1000_u32 {
        let now = start + Duration::from_micros(100) * step;
        router.handle_advert(&advert(0), peer(9), now);
        router.handle_timeout(now);
        adverts +=
            outputs(&mut router).iter().filter(|o| matches!(o, Output::Advertise(_))).count();
    }
    assert!((9..=12).contains(&adverts), "{adverts}");
}

#[test]
fn after_a_suspend_everybody_listens_first() {
    let (mut router, start) = active(settings());
    router.wake(start + MS * 10);
    assert_eq!(outputs(&mut router), [Output::Became(Role::Backup, Cause::Slept)]);
    let mut router = started(settings());
    hear(&mut router, 200, 9, at(100));
    router.wake(at(440));
    assert_eq!(router.poll_timeout(), Some(at(440) + interval(100).down(priority(100))));
}

#[test]
fn a_router_whose_adverts_do_not_leave_yields_to_whoever_took_over() {
    let (mut router, start) = active(settings());
    let mut now = start;
    while now < start + MS * 310 {
        now = router.poll_timeout().unwrap();
        router.handle_timeout(now);
        router.unsent();
    }
    assert!(!outputs(&mut router).iter().any(|o| matches!(o, Output::Stalled(_))));
    hear(&mut router, 50, 9, now);
    assert_eq!(router.role(), Role::Backup);
}

#[test]
fn the_hold_after_a_failed_bind_holds_whatever_speaks_for_the_role() {
    let eager = Settings { preempt: Preempt::After(MS), health_band: true, ..settings() };
    let (mut router, start) = active(eager);
    router.step_back(Cause::BindFailed, true, MS * 10_000, start);
    hear(&mut router, 20, 9, start + MS * 400);
    router.take_over(Cause::TakeoverRequested, start + MS * 500);
    router.preempt(start + MS * 600);
    assert_eq!(router.role(), Role::Backup);
    assert!(router.poll_timeout().unwrap() >= start + MS * 10_000);
    assert!(router.preempt_due().unwrap() >= start + MS * 10_000);
}
