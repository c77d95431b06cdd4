//! At most one leads, whatever the network, the clocks and the scheduler do; and soon one does.

#![cfg(test)]

mod support {
    pub(crate) mod election {
        pub(crate) mod simulation;
    }
}

use std::sync::Arc;
use std::time::Duration;

use barevip::engine::cluster::election::{
    Action, Elector, Lease, ReadOutcome, Statement, Timing, WriteOutcome,
};
use barevip::engine::time::Instant;
use proptest::prelude::*;
use support::election::simulation::{Fate, Fault, Micros, SECOND, Simulation};

/// Half of the requests go well; the others are slow, lost, refused, or arrive up to 40 s later.
fn any_fate() -> impl Strategy<Value = Fate> {
    let latency = || {
        prop_oneof![
            4 => (1_000..200_000_u64).prop_map(Some),
            2 => (200_000..12 * SECOND).prop_map(Some),
            1 => (12 * SECOND..40 * SECOND).prop_map(Some),
            1 => Just(None),
        ]
    };
    let bad = (latency(), latency(), prop::bool::weighted(0.1))
        .prop_map(|(there, back, refused)| Fate { there, back, refused });
    prop_oneof![Just(Fate::GOOD), bad]
}

fn any_fault() -> impl Strategy<Value = Fault> {
    let length = || 100_000..40 * SECOND;
    prop_oneof![
        length().prop_map(Fault::Pause),
        length().prop_map(Fault::Crash),
        length().prop_map(Fault::Stop),
        length().prop_map(Fault::CutOff),
        (-100_000..100_000_i64).prop_map(Fault::WallJump),
    ]
}

const CHAOS: Micros = 300 * SECOND;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    // Rates of 0.9 and 1.1: 10 s / 0.9 < 15 s / 1.1.
    #[test]
    fn never_two_and_in_the_end_one(
        rates in prop::collection::vec(900..=1100_u64, 2..=5),
        seed in any::<u64>(),
        fates in prop::collection::vec(any_fate(), 0..600),
        faults in prop::collection::vec((0..CHAOS, any::<prop::sample::Index>(), any_fault()), 0..30),
    ) {
        let mut simulation = Simulation::new(&rates, seed, fates);
        for (at, who, fault) in faults {
            simulation.strike(at, who.index(rates.len()), fault);
        }
        simulation.run_until(CHAOS);
        simulation.calm();
        // No fault, and no request of before, lasts longer than 40 s.
        simulation.run_until(CHAOS + 80 * SECOND);
        prop_assert!(simulation.leader().is_some());
    }

    #[test]
    fn a_crashed_leader_is_replaced_within_the_lease_and_two_tries(
        seed in any::<u64>(),
        at in 20 * SECOND..30 * SECOND,
    ) {
        let mut simulation = Simulation::new(&[1000; 3], seed, Vec::new());
        simulation.run_until(at);
        let old = simulation.leader().unwrap();
        simulation.strike(at, old, Fault::Crash(100 * SECOND));
        simulation.run_until(at + 1);
        let new = simulation.run_until_led(at + (15 + 2 * 2) * SECOND);
        prop_assert!(new.is_some_and(|new| new != old), "{new:?}");
    }

    #[test]
    fn a_leader_that_stops_is_replaced_within_one_try(
        seed in any::<u64>(),
        at in 20 * SECOND..30 * SECOND,
    ) {
        let mut simulation = Simulation::new(&[1000; 3], seed, Vec::new());
        simulation.run_until(at);
        let old = simulation.leader().unwrap();
        simulation.strike(at, old, Fault::Stop(100 * SECOND));
        // Its release, one retry period with all its jitter, a read and a write; and a renewal
        // that may have been under way.
        let within = 2 * SECOND * 6 / 5 + 8 * Fate::LATENCY;
        simulation.run_until(at);
        let new = simulation.run_until_led(at + within);
        prop_assert!(new.is_some_and(|new| new != old), "{new:?}");
        prop_assert_eq!(simulation.lease.unwrap().transitions, Some(1));
    }
}

/// That the random schedules are not too tame: the same sort of them has writes that arrive
/// after their sender gave up, and changes of leadership.
#[test]
fn late_writes_arrive_and_leaders_change() {
    let slow = Fate { there: Some(5 * SECOND), back: Some(1), refused: false };
    let mut fates = vec![Fate::GOOD; 40];
    fates.extend(vec![slow; 40]);
    let mut simulation = Simulation::new(&[900, 1100], 1, fates);
    simulation.run_until(300 * SECOND);
    assert!(simulation.late_writes > 0);
    assert!(simulation.leader().is_some());
}

#[test]
fn on_a_quiet_day_the_leader_stays() {
    let mut simulation = Simulation::new(&[1100, 900, 1000], 7, Vec::new());
    simulation.run_until(SECOND);
    let leader = simulation.leader();
    assert!(leader.is_some());
    for second in 2..600 {
        simulation.run_until(second * SECOND);
        assert_eq!(simulation.leader(), leader);
    }
    assert_eq!(simulation.lease.unwrap().transitions, Some(0));
}

#[test]
fn a_short_cut_costs_nothing_and_a_long_one_the_leadership_before_anybody_takes_it() {
    let mut simulation = Simulation::new(&[1000; 2], 3, Vec::new());
    simulation.run_until(10 * SECOND);
    let old = simulation.leader().unwrap();
    simulation.strike(10 * SECOND, old, Fault::CutOff(4 * SECOND));
    for tenth in 100..200 {
        simulation.run_until(tenth * SECOND / 10);
        assert_eq!(simulation.leader(), Some(old));
    }
    simulation.strike(20 * SECOND, old, Fault::CutOff(60 * SECOND));
    simulation.run_until(30 * SECOND);
    assert_eq!(simulation.leader(), None);
    simulation.run_until(45 * SECOND);
    assert!(simulation.leader().is_some_and(|new| new != old));
}

#[test]
fn a_leader_that_stood_still_knows_at_once_that_it_no_longer_leads() {
    let mut simulation = Simulation::new(&[1000; 2], 3, Vec::new());
    simulation.run_until(10 * SECOND);
    let old = simulation.leader().unwrap();
    simulation.strike(10 * SECOND, old, Fault::Pause(60 * SECOND));
    simulation.run_until(69 * SECOND);
    // Before any answer has reached it.
    assert!(!simulation.is_leader(old));
    let new = simulation.leader();
    assert!(new.is_some_and(|new| new != old));
    simulation.run_until(100 * SECOND);
    assert_eq!(simulation.leader(), new);
}

// From here on one elector alone, by hand.

fn at(seconds: u64) -> Instant {
    Instant::after_origin(Duration::from_secs(seconds))
}

fn elector() -> Elector {
    Elector::new("me", Timing::default(), 42)
}

fn lease(holder: &str, version: &str) -> Lease {
    Lease {
        resource_version: version.into(),
        holder: Some(holder.into()),
        duration: Some(Duration::from_secs(15)),
        transitions: Some(3),
        renewed: Some("2026-11-30T12:00:00.000000Z".into()),
    }
}

fn read(elector: &mut Elector, outcome: ReadOutcome, now: Instant) -> Option<Action> {
    assert_eq!(elector.poll(now), Some(Action::Read), "at {now}");
    elector.handle_read(outcome, now);
    elector.poll(now)
}

fn found(elector: &mut Elector, lease: &Lease, now: Instant) -> Option<Action> {
    read(elector, ReadOutcome::Found(lease.clone()), now)
}

/// An elector that acquired at second 0 by making the Lease, as version 1.
fn leader() -> Elector {
    let mut elector = elector();
    let action = read(&mut elector, ReadOutcome::Absent, at(0));
    let Some(Action::Write { precondition: None, lease }) = action else { panic!("{action:?}") };
    assert!(lease.acquires);
    elector.handle_written(WriteOutcome::Written("1".into()), at(0));
    assert!(elector.is_leader(at(0)));
    elector
}

fn precondition(action: Option<Action>) -> Option<Arc<str>> {
    match action {
        Some(Action::Write { precondition, .. }) => precondition,
        other => panic!("no write but {other:?}"),
    }
}

#[test]
fn a_lease_expires_by_our_clock_from_our_first_sight_of_it() {
    for stamp in ["1970-01-01T00:00:00Z", "2099-01-01T00:00:00Z", "yesterday", ""] {
        let mut elector = elector();
        let mut theirs = lease("them", "9");
        theirs.renewed = Some(stamp.into());
        let mut now = at(100);
        assert_eq!(found(&mut elector, &theirs, now), None);
        let first_seen = now;
        let write = loop {
            now = elector.poll_timeout().unwrap();
            assert!(now <= first_seen + Duration::from_secs(15));
            if let Some(write) = found(&mut elector, &theirs, now) {
                break write;
            }
        };
        assert_eq!(now, first_seen + Duration::from_secs(15));
        let expected = Statement {
            holder: "me".into(),
            duration: Duration::from_secs(15),
            transitions: 4,
            acquires: true,
        };
        assert_eq!(write, Action::Write { lease: expected, precondition: Some("9".into()) });
    }
}

#[test]
fn any_change_of_a_lease_restarts_its_time() {
    let mut restamped = lease("them", "1");
    restamped.renewed = Some("2001-01-01T00:00:00Z".into());
    for changed in [lease("them", "2"), lease("others", "1"), restamped] {
        let mut elector = elector();
        assert_eq!(found(&mut elector, &lease("them", "1"), at(0)), None);
        assert_eq!(found(&mut elector, &changed, at(14)), None);
        assert_eq!(found(&mut elector, &changed, at(28)), None);
        assert_eq!(
            precondition(found(&mut elector, &changed, at(30))),
            Some(changed.resource_version)
        );
    }
}

#[test]
fn a_holder_that_states_a_longer_lease_gets_it() {
    let mut elector = elector();
    let mut theirs = lease("them", "1");
    theirs.duration = Some(Duration::from_secs(60));
    assert_eq!(found(&mut elector, &theirs, at(0)), None);
    assert_eq!(found(&mut elector, &theirs, at(59)), None);
    assert!(found(&mut elector, &theirs, at(61)).is_some());
}

#[test]
fn absent_fields_are_no_obstacle() {
    let bare = Lease { resource_version: "5".into(), ..Lease::default() };
    let mut free = elector();
    assert_eq!(precondition(found(&mut free, &bare, at(0))), Some("5".into()));

    let mut held = elector();
    let held_only = Lease { holder: Some("them".into()), ..bare };
    assert_eq!(found(&mut held, &held_only, at(0)), None);
    assert!(found(&mut held, &held_only, at(15)).is_some());
}

#[test]
fn a_leader_is_deposed_counted_from_when_it_sent() {
    let mut elector = leader();
    assert_eq!(precondition(elector.poll(at(2))), Some("1".into()));
    elector.handle_written(WriteOutcome::Written("2".into()), at(5));
    assert_eq!(elector.leader_until(), Some(at(12)));
    assert!(elector.is_leader(at(11)) && !elector.is_leader(at(12)));
}

#[test]
fn an_answer_that_comes_after_the_deadline_extends_nothing() {
    let mut elector = leader();
    assert!(elector.poll(at(2)).is_some());
    elector.handle_written(WriteOutcome::Written("2".into()), at(12));
    assert!(!elector.is_leader(at(12)));
    assert_eq!(precondition(found(&mut elector, &lease("me", "2"), at(12))), Some("2".into()));
}

#[test]
fn after_a_write_without_an_answer_it_reads_first() {
    for outcome in [WriteOutcome::TimedOut, WriteOutcome::Failed, WriteOutcome::Conflict] {
        let mut elector = leader();
        assert!(elector.poll(at(2)).is_some());
        elector.handle_written(outcome, at(5));
        assert_eq!(elector.leader_until(), Some(at(10)));
        // The write was carried out after all.
        assert_eq!(precondition(found(&mut elector, &lease("me", "2"), at(5))), Some("2".into()));
        elector.handle_written(WriteOutcome::Written("3".into()), at(5));
        assert_eq!(elector.leader_until(), Some(at(15)));
    }
}

#[test]
fn a_leader_that_sees_another_holder_leads_no_longer() {
    let mut elector = leader();
    assert!(elector.poll(at(2)).is_some());
    elector.handle_written(WriteOutcome::Conflict, at(2));
    assert_eq!(found(&mut elector, &lease("them", "2"), at(5)), None);
    assert!(!elector.is_leader(at(5)));
    assert_eq!(elector.holder(), Some("them"));
}

#[test]
fn a_namesake_that_was_here_before_is_another() {
    let mut elector = elector();
    assert_eq!(found(&mut elector, &lease("me", "1"), at(0)), None);
    assert!(found(&mut elector, &lease("me", "1"), at(15)).is_some());
}

#[test]
fn a_deleted_lease_is_still_its_holders_until_it_would_have_expired() {
    let mut elector = elector();
    assert_eq!(found(&mut elector, &lease("them", "1"), at(0)), None);
    assert_eq!(read(&mut elector, ReadOutcome::Absent, at(5)), None);
    assert_eq!(precondition(read(&mut elector, ReadOutcome::Absent, at(15))), None);
}

#[test]
fn a_stopping_leader_gives_the_lease_back() {
    let released = |action: Option<Action>| match action {
        Some(Action::Write { lease, precondition: Some(_) }) => {
            lease.holder.is_empty() && lease.duration == Duration::from_secs(1) && !lease.acquires
        }
        _ => false,
    };
    let mut quiet = leader();
    quiet.handle_shutdown(at(1));
    assert!(!quiet.is_leader(at(1)) && !quiet.is_finished());
    assert!(released(quiet.poll(at(1))));
    quiet.handle_written(WriteOutcome::Written("2".into()), at(1));
    assert!(quiet.is_finished());

    // A renewal under way ends first; without an answer it is looked for.
    let mut busy = leader();
    assert!(busy.poll(at(2)).is_some());
    busy.handle_shutdown(at(3));
    assert_eq!(busy.poll(at(3)), None);
    busy.handle_written(WriteOutcome::TimedOut, at(5));
    assert!(!busy.is_leader(at(5)));
    assert!(released(found(&mut busy, &lease("me", "2"), at(5))));
    busy.handle_written(WriteOutcome::Conflict, at(5));
    assert_eq!(found(&mut busy, &lease("them", "3"), at(8)), None);
    assert!(busy.is_finished());
}

#[test]
fn a_stopping_process_does_not_wait_for_ever() {
    let mut follower = elector();
    assert_eq!(found(&mut follower, &lease("them", "1"), at(0)), None);
    follower.handle_shutdown(at(1));
    assert!(follower.is_finished());

    let mut cut_off = leader();
    cut_off.handle_shutdown(at(1));
    let mut tries = 0;
    while let Some(now) = cut_off.poll_timeout() {
        match cut_off.poll(now) {
            Some(Action::Read) => cut_off.handle_read(ReadOutcome::Failed, now),
            Some(Action::Write { .. }) => cut_off.handle_written(WriteOutcome::TimedOut, now),
            None => break,
        }
        tries += 1;
        assert!(now < at(12) && tries < 10);
    }
    assert!(cut_off.is_finished());
    assert!(tries > 1);
}

#[test]
fn timings_that_let_a_leader_outlive_its_lease_are_refused() {
    let timing = |lease, renew_deadline, retry| {
        let [lease, renew_deadline, retry] =
            [lease, renew_deadline, retry].map(Duration::from_millis);
        Timing::new(lease, renew_deadline, retry)
    };
    assert_eq!(timing(15_000, 10_000, 2_000).unwrap(), Timing::default());
    for (wrong, named) in [
        (timing(10_000, 10_000, 2_000), "renew deadline"),
        (timing(15_000, 10_000, 5_000), "retry period"),
        (timing(15_000, 10_000, 0), "retry period"),
        (timing(1_500, 1_000, 200), "whole seconds"),
        (timing(0, 0, 0), "whole seconds"),
    ] {
        assert!(wrong.unwrap_err().to_string().contains(named));
    }
}
