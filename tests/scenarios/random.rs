//! Random schedules of faults, each run to its end on two to nine machines or on a hundred.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::lan::schedule::{Schedule, Score};

fn knob(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value:?} is no number")))
}

/// Runs the schedules of these seeds on all processors; the first broken one fails the test.
fn run_all(test: &str, count: u64, schedule: impl Fn(u64) -> Schedule + Sync) {
    if let Some(seed) = knob("BAREVIP_LAN_SEED") {
        return show(test, &schedule(seed));
    }
    let next = AtomicU64::new(0);
    let broken = Mutex::new(Vec::<u64>::new());
    let total = Mutex::new(Score::default());
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= count {
                        return;
                    }
                    match schedule(seed).run() {
                        Ok(score) => {
                            let mut total = total.lock().unwrap();
                            total.events += score.events;
                            total.role_changes += score.role_changes;
                        }
                        Err(_) => {
                            broken.lock().unwrap().push(seed);
                            // Enough to see whether it is one thing or many.
                            if broken.lock().unwrap().len() >= 20 {
                                next.store(count, Ordering::Relaxed);
                            }
                        }
                    }
                }
            });
        }
    });
    let total = total.into_inner().unwrap();
    eprintln!("{count} schedules, {} events, {} changes of role", total.events, total.role_changes);
    let mut broken = broken.into_inner().unwrap();
    broken.sort_unstable();
    if let Some(first) = broken.first() {
        for seed in &broken {
            let schedule = schedule(*seed).smaller();
            eprintln!("seed {seed}: {}", schedule.run().unwrap_err());
            for fault in &schedule.faults {
                eprintln!("    {:?}", fault.kind);
            }
        }
        show(test, &schedule(*first));
    }
    // A simulation in which nothing happens would pass as well.
    assert!(total.role_changes > count, "hardly a role changed");
}

/// Runs one schedule with everything that happens, and fails if an invariant is broken.
fn show(test: &str, schedule: &Schedule) {
    let Err(_) = schedule.run() else {
        eprintln!("seed {} holds", schedule.seed);
        return;
    };
    let small = schedule.smaller();
    let failure = small.run().unwrap_err();
    let trace: String = small.trace().iter().map(|happened| format!("{happened}\n")).collect();
    let file = format!("{}/lan-{}.log", env!("CARGO_TARGET_TMPDIR"), schedule.seed);
    std::fs::write(&file, format!("{small:#?}\n{trace}")).unwrap();
    let faults: String = small.faults.iter().map(|fault| format!("    {fault:?}\n")).collect();
    panic!(
        "seed {seed}: {failure}\n{setup:?}\n{faults}all that happened: {file}\n\
         again: BAREVIP_LAN_SEED={seed} cargo test --test lan {test}",
        seed = schedule.seed,
        setup = small.setup,
    );
}

#[test]
fn random_schedules_on_a_few_machines() {
    let count = knob("BAREVIP_LAN_SCHEDULES").unwrap_or(10_000);
    run_all("random_schedules_on_a_few_machines", count, Schedule::small);
}

#[test]
fn random_schedules_on_a_hundred_machines() {
    let count = knob("BAREVIP_LAN_SCHEDULES").map_or(20, |count| (count / 500).max(1));
    run_all("random_schedules_on_a_hundred_machines", count, Schedule::large);
}

#[test]
fn recorded_inputs_replay_to_the_same_commands() {
    for seed in 0..60 {
        let steps = Schedule::small(seed).run_and_replay().unwrap();
        assert!(steps > 100, "seed {seed}: only {steps} steps");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..10 {
        let text = |schedule: Schedule| format!("{:?}", schedule.trace());
        let once = text(Schedule::small(seed));
        assert!(once.len() > 10_000);
        assert_eq!(once, text(Schedule::small(seed)), "seed {seed}");
    }
}
