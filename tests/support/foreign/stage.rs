//! A LAN with a virtual router that programs of different make serve together, one on each
//! machine; who serves it is judged from a client's place: by the adverts that it hears and by
//! the answers that it gets.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::thread::park_timeout;
use std::time::Duration;

use barevip::engine::time::Instant;
use barevip::io::clock::now;
use barevip::io::lab::lan::{Host, LINK, Lan};
use barevip::io::lab::probe::{Probe, Responder};
use barevip::io::lab::process::Process;
use barevip::io::lab::record::{Outcome, Question};
use nix::sys::signal::Signal;

use super::program::{Program, Running, Setting};
use super::witness::Witness;
use crate::support::scratch::Scratch;

/// How often every machine advertises.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);

/// A condition that does not come true fails its test after this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// So many adverts in a row, all from one machine: twice the time after which another one that
/// did not hear them, or did not accept them, would have spoken.
const STABLE_ADVERTS: usize = 8;

/// So many answers in a row, all from one machine.
const STABLE_ANSWERS: usize = 50;

/// The answers to so many of the last questions may be on their way.
const ON_THEIR_WAY: usize = 4;

/// A question every so often.
const PROBE_PERIOD: Duration = Duration::from_millis(5);

/// The whole scene.
pub(crate) struct Stage {
    machines: Vec<Machine>,
    probe: Probe,
    witness: Witness,
    _responders: Vec<Responder>,
    lan: Lan,
    _scratch: Scratch,
}

/// One machine and what runs on it.
struct Machine {
    program: Box<dyn Program>,
    setting: Setting,
    directory: PathBuf,
    running: Option<Running>,
    _beside: Option<Process>,
}

impl Stage {
    /// A LAN of these machines, on which nothing runs yet. The client asks the last address of the
    /// first one.
    pub(crate) fn new(cast: Vec<(Box<dyn Program>, Setting)>) -> Self {
        let scratch = Scratch::new();
        let names: Vec<_> = cast.iter().map(|(program, _)| program.name()).collect();
        let asked = *cast[0].1.addresses.last().unwrap();
        let lan = Lan::new(&names).unwrap();
        let client = lan.client();
        client.namespace().run(notice_soon_who_is_gone).unwrap();
        let responders = lan.nodes().iter().map(|node| Responder::start(node).unwrap()).collect();
        let probe = Probe::start(client, asked, PROBE_PERIOD).unwrap();
        let witness = Witness::start(client);
        let machines = cast
            .into_iter()
            .zip(lan.nodes())
            .map(|((program, setting), host)| {
                let directory = scratch.path().join(program.name());
                fs::create_dir_all(&directory).unwrap();
                let beside = program.prepare(host, &setting, &directory);
                Machine { program, setting, directory, running: None, _beside: beside }
            })
            .collect();
        Self { machines, probe, witness, _responders: responders, lan, _scratch: scratch }
    }

    /// Starts the program of a machine and waits until it takes part.
    pub(crate) fn start(&mut self, name: &str) {
        let index = self.index(name);
        let Machine { program, setting, directory, running, .. } = &mut self.machines[index];
        let host = &self.lan.nodes()[index];
        let started = running.insert(program.start(host, setting, directory));
        wait_until(
            || started.log.text().contains(program.ready()),
            || format!("{name} takes no part:\n{}", started.log.text()),
        );
    }

    /// Stops the program of a machine as its service manager does, and waits for its end.
    pub(crate) fn stop(&mut self, name: &str) {
        let index = self.index(name);
        let mut running = self.machines[index].running.take().expect("it runs");
        let Running { process, log } = &mut running;
        process.signal(Signal::SIGTERM).unwrap();
        wait_until(
            || process.ended().unwrap().is_some(),
            || format!("{name} goes on after SIGTERM:\n{}", log.text()),
        );
    }

    /// Kills the program of a machine, which leaves its addresses to the kernel.
    pub(crate) fn kill(&mut self, name: &str) {
        let index = self.index(name);
        self.machines[index].running.take().expect("it runs");
    }

    /// Breaks the path to a machine somewhere in the network.
    pub(crate) fn cut(&self, name: &str) {
        self.lan.cut(self.host(name)).unwrap();
    }

    /// Ends a [`Self::cut`].
    pub(crate) fn mend(&self, name: &str) {
        self.lan.mend(self.host(name)).unwrap();
    }

    /// Waits until this machine alone serves: all adverts and all answers of a long enough
    /// stretch, after this call, are its own.
    pub(crate) fn served_by(&self, name: &str) {
        let since = now();
        wait_until(
            || self.advertised_by(name, since) && self.answered_by(name, since),
            || format!("{name} does not serve alone\n{}", self.describe(since)),
        );
    }

    /// How many of the questions since then, up to now, got no answer; waits until it is certain.
    pub(crate) fn lost(&self, since: Instant) -> usize {
        let within = since..now();
        let is_open = |question: &Question| question.outcome(now()) == Outcome::Open;
        let open =
            || self.probe.look(|r| r.questions(&within).iter().filter(|q| is_open(q)).count());
        wait_until(|| open() == 0, || format!("{} questions are open", open()));
        self.probe.look(|record| record.lost(&within, now()))
    }

    /// The machine of this name.
    pub(crate) fn host(&self, name: &str) -> &Host {
        &self.lan.nodes()[self.index(name)]
    }

    /// A machine that takes no part.
    pub(crate) fn client(&self) -> &Host {
        self.lan.client()
    }

    /// Where a machine keeps its files.
    pub(crate) fn directory(&self, name: &str) -> &Path {
        &self.machines[self.index(name)].directory
    }

    /// What the program of a machine has logged.
    pub(crate) fn log(&self, name: &str) -> String {
        let running = &self.machines[self.index(name)].running;
        running.as_ref().map_or("(not running)".to_owned(), |running| running.log.text())
    }

    fn index(&self, name: &str) -> usize {
        self.machines
            .iter()
            .position(|machine| machine.program.name() == name)
            .unwrap_or_else(|| panic!("no machine is called {name}"))
    }

    fn advertised_by(&self, name: &str, since: Instant) -> bool {
        let adverts = self.witness.since(since);
        let last: Vec<_> = adverts.iter().rev().take(STABLE_ADVERTS).collect();
        last.len() == STABLE_ADVERTS
            && last
                .iter()
                .all(|(source, priority)| *priority > 0 && self.name_of(*source) == Some(name))
    }

    fn answered_by(&self, name: &str, since: Instant) -> bool {
        let now = now();
        self.probe.look(|record| {
            let last: Vec<_> = record
                .questions(&(since..now))
                .iter()
                .rev()
                .skip(ON_THEIR_WAY)
                .take(STABLE_ANSWERS)
                .map(|question| question.outcome(now))
                .collect();
            let by_name =
                |outcome: &Outcome| matches!(outcome, Outcome::Answered(node) if record.name(*node) == name);
            last.len() == STABLE_ANSWERS && last.iter().all(by_name)
        })
    }

    /// Whose address adverts came from: a machine's number is the last digits of its addresses.
    fn name_of(&self, source: IpAddr) -> Option<&str> {
        let host = self.lan.nodes().iter().find(|host| match source {
            IpAddr::V4(v4) => v4 == host.ipv4(),
            IpAddr::V6(v6) => v6.segments().last() == host.link_local().segments().last(),
        })?;
        Some(host.name())
    }

    /// What is known, for the message of a test that fails.
    fn describe(&self, since: Instant) -> String {
        let adverts: Vec<_> = self
            .witness
            .since(since)
            .iter()
            .rev()
            .take(30)
            .map(|(source, priority)| {
                format!("{} {priority}", self.name_of(*source).unwrap_or("somebody else"))
            })
            .collect();
        let reigns: Vec<_> = self.probe.look(|record| {
            let reigns = record.reigns(&(since..now()));
            reigns
                .iter()
                .rev()
                .take(10)
                .map(|reign| {
                    let stretch = reign.last.since(reign.first);
                    format!("{} for {stretch:?}", record.name(reign.node))
                })
                .collect()
        });
        let logs: String = self
            .machines
            .iter()
            .map(|machine| {
                let name = machine.program.name();
                let log = self.log(name);
                let tail: Vec<_> = log.lines().rev().take(25).collect();
                let tail: Vec<_> = tail.into_iter().rev().collect();
                format!("--- {name}\n{}\n", tail.join("\n"))
            })
            .collect();
        format!(
            "adverts, latest first: {adverts:?}\nrefused: {:?}\nanswers, latest first: {reigns:?}\n{logs}",
            self.witness.refused()
        )
    }
}

/// A neighbour of a client that keeps silent is asked for anew after some two seconds, not after
/// most of a minute: FRR does not announce its addresses to those who believe another one.
fn notice_soon_who_is_gone() -> anyhow::Result<()> {
    for family in ["ipv4", "ipv6"] {
        for (key, value) in [
            ("base_reachable_time_ms", "1000"),
            ("delay_first_probe_time", "1"),
            ("retrans_time_ms", "100"),
        ] {
            fs::write(format!("/proc/sys/net/{family}/neigh/{LINK}/{key}"), value)?;
        }
    }
    Ok(())
}

/// Waits for a condition; where it does not come true, the test fails with what is said of it.
pub(crate) fn wait_until(mut condition: impl FnMut() -> bool, describe: impl FnOnce() -> String) {
    let deadline = now() + PATIENCE;
    while !condition() {
        assert!(now() < deadline, "after {PATIENCE:?}: {}", describe());
        park_timeout(Duration::from_millis(10));
    }
}
