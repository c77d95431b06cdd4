//! Random schedules: a LAN and faults drawn from a seed, run to their end. A failure is made
//! smaller by leaving faults out, and is shown with what led to it.

use barevip::engine::node::identity::Health;
use barevip::model::{Family, Interval, Preempt};

use super::faults::{BIND_HOLD, Fault, Kind};
use super::happened::Happened;
use super::host::replays;
use super::plans::Setup;
use super::random::Random;
use super::time::{MS, Nanos, SECOND, US};
use super::world::{Delays, Lan, ROUGH};

/// Everything about one run that its seed decides.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    pub(crate) seed: u64,
    pub(crate) setup: Setup,
    pub(crate) latency: [Nanos; 2],
    pub(crate) jitter: Nanos,
    pub(crate) delays: Delays,
    /// Only what is asked for, one after another: clients lose nothing.
    pub(crate) gentle: bool,
    pub(crate) faults: Vec<Fault>,
    pub(crate) ends_at: Nanos,
}

/// What a run was worth.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Score {
    pub(crate) events: u64,
    pub(crate) role_changes: u64,
}

impl Schedule {
    /// 2–9 machines, 30 s.
    pub(crate) fn small(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut setup = Setup {
            machines: random.between(2, 9) as usize,
            routers: random.pick(&[1, 1, 1, 1, 2, 3]),
            vips: random.pick(&[1, 1, 2, 2, 3, 6]),
            family: random.pick(&[Family::Ipv4, Family::Ipv4, Family::Ipv6]),
            interval: Interval::from_centiseconds(random.pick(&[10, 20, 20, 20, 30])).unwrap(),
            preempt: random.pick(&[
                Preempt::Now,
                Preempt::Now,
                Preempt::Never,
                Preempt::After(std::time::Duration::from_secs(2)),
            ]),
            cluster: random.permille(700),
            candidates: 9,
            vrid: 10,
        };
        let gentle = random.permille(200);
        if gentle && matches!(setup.preempt, Preempt::After(_)) {
            // Of several that wait for the same moment two may move at once, and then the one
            // that stays may be the last to announce only a second later.
            setup.machines = 2;
        }
        let faults = if gentle {
            gentle_faults(&setup, &mut random)
        } else {
            rough_faults(&setup, &mut random)
        };
        Self::with(seed, setup, gentle, faults, &mut random)
    }

    /// 100 machines, many routers, 30 s.
    pub(crate) fn large(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let setup = Setup {
            machines: 100,
            routers: 40,
            vips: 3,
            interval: Interval::from_centiseconds(random.pick(&[20, 30])).unwrap(),
            preempt: random.pick(&[
                Preempt::Now,
                Preempt::Never,
                Preempt::After(std::time::Duration::from_secs(1)),
            ]),
            ..Setup::default()
        };
        let mut faults = Vec::new();
        for _ in 0..3 {
            faults.extend(rough_faults(&setup, &mut random));
        }
        faults.sort_by_key(|fault| fault.at);
        Self::with(seed, setup, false, faults, &mut random)
    }

    fn with(
        seed: u64,
        setup: Setup,
        gentle: bool,
        faults: Vec<Fault>,
        random: &mut Random,
    ) -> Self {
        let multicast = random.pick(&[20 * US, 100 * US, MS]);
        let unicast = random.pick(&[20 * US, 100 * US, MS, 5 * MS]);
        let ends = faults.iter().map(|fault| {
            let is_held = matches!(fault.kind, Kind::RefuseAdds { .. });
            fault.at + fault.lasts + if is_held { BIND_HOLD } else { 0 }
        });
        let calm_at = ends.max().unwrap_or(0).max(5 * SECOND);
        Self {
            seed,
            setup,
            latency: [multicast, unicast],
            jitter: random.pick(&[0, 200 * US, MS, 5 * MS]),
            delays: ROUGH,
            gentle,
            faults,
            ends_at: calm_at + 9 * SECOND,
        }
    }

    fn lan(&self) -> Lan {
        let mut lan = Lan::new(&self.setup, self.seed, self.delays);
        lan.wire.latency = self.latency;
        lan.wire.jitter = self.jitter;
        lan
    }

    /// Runs it; the error is the first broken invariant.
    pub(crate) fn run(&self) -> Result<Score, String> {
        let mut lan = self.lan();
        self.play(&mut lan)
    }

    fn play(&self, lan: &mut Lan) -> Result<Score, String> {
        for host in 0..self.setup.machines {
            let after = if self.gentle { 0 } else { lan.random.below(500 * MS) };
            lan.push(after, super::world::Event::Start { host });
        }
        lan.schedule(&self.faults);
        if self.gentle {
            lan.run_until(4 * SECOND);
            lan.clients[0].forget_outages(lan.now);
        }
        lan.run_until(self.ends_at);
        if lan.judge.failure.is_none() {
            lan.verdict();
        }
        if lan.judge.failure.is_none() && self.gentle {
            lan.no_packet_lost();
        }
        match lan.judge.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(Score { events: lan.events, role_changes: lan.judge.role_changes }),
        }
    }

    /// Runs it once more, with everything that happens.
    pub(crate) fn trace(&self) -> Vec<Happened> {
        let mut lan = self.lan();
        lan.log = Some(Vec::new());
        // How it ends is known: it is how it goes that is asked for.
        self.play(&mut lan).err();
        lan.log.unwrap_or_default()
    }

    /// Records what each engine is told and asks for, and tells it to new engines.
    pub(crate) fn run_and_replay(&self) -> Result<usize, String> {
        let mut lan = self.lan();
        lan.record = true;
        self.play(&mut lan)?;
        let mut steps = 0;
        for (host, machine) in lan.hosts.iter().enumerate() {
            let Some(process) = &machine.process else { continue };
            let recording = process.recording.as_deref().unwrap_or_default();
            steps += recording.len();
            replays(&machine.name, host as u64, recording)?;
        }
        Ok(steps)
    }

    /// The same failure with as few faults as can be.
    pub(crate) fn smaller(&self) -> Self {
        let mut smallest = self.clone();
        let mut index = 0;
        while index < smallest.faults.len() {
            let mut fewer = smallest.clone();
            fewer.faults.remove(index);
            if fewer.run().is_err() {
                smallest = fewer;
                index = 0;
            } else {
                index += 1;
            }
        }
        smallest
    }
}

/// Everything that may go wrong, at any time, several at once.
fn rough_faults(setup: &Setup, random: &mut Random) -> Vec<Fault> {
    let count = random.between(1, 8);
    let mut faults: Vec<Fault> = (0..count)
        .map(|_| {
            let at = random.between(2_000, 18_000) * MS + random.below(MS);
            let longest = random.pick(&[300, 1_500, 4_000]);
            let lasts = random.between(1, longest) * MS + random.below(MS);
            Fault { at, lasts, kind: rough_kind(setup, random) }
        })
        .collect();
    faults.sort_by_key(|fault| fault.at);
    // One of each machine's faults at a time holds its process or clock up.
    let mut kept: Vec<Fault> = Vec::new();
    for mut fault in faults {
        if let Kind::Renumber { .. } = fault.kind {
            fault.lasts = random.between(4, 30) * MS;
        }
        let clashes = kept.iter().any(|other| {
            stands_still(other.kind).is_some()
                && stands_still(other.kind) == stands_still(fault.kind)
                && fault.at <= other.at + other.lasts
        });
        if !clashes {
            kept.push(fault);
        }
    }
    kept
}

const fn stands_still(kind: Kind) -> Option<usize> {
    match kind {
        Kind::Suspend { host } | Kind::Freeze { host } | Kind::Pause { host } => Some(host),
        _ => None,
    }
}

fn rough_kind(setup: &Setup, random: &mut Random) -> Kind {
    let host = random.index(setup.machines);
    let other = (host + 1 + random.index(setup.machines - 1)) % setup.machines;
    let router = random.index(setup.routers);
    match random.below(if setup.cluster { 35 } else { 28 }) {
        0 | 1 => Kind::Crash { host },
        2 => Kind::Stop { host },
        3 => Kind::StopKilled { host },
        4..=6 => Kind::Pause { host },
        7 => Kind::Suspend { host },
        8 => Kind::Freeze { host },
        9 | 10 => Kind::Unplug { host },
        11 => Kind::LinkDown { host },
        12 => Kind::Renumber { host },
        13 => Kind::DeleteVips { host },
        14 => Kind::Occupy { host, router },
        15 => Kind::HoldNetlink { host },
        16 => Kind::RefuseAdds { host },
        17 => {
            let (multicast, unicast) = random.pick(&[(true, true), (true, false), (false, true)]);
            Kind::Deafen { from: host, to: other, multicast, unicast }
        }
        18 => Kind::Partition { mask: random.next() },
        19 => Kind::Loss { permille: random.pick(&[10, 100, 300]) },
        20 => Kind::Duplicates { permille: 200 },
        21 => Kind::Junk,
        22 => Kind::Stranger { router, priority: random.pick(&[1, 100, 255]) },
        23 => Kind::Forget,
        24 => Kind::Rerank { seed: random.next() },
        25 => Kind::Resize { router, seed: random.next() },
        26 => Kind::Retime { router, centiseconds: random.pick(&[10, 20, 30, 50]) },
        27 => Kind::Drain { host },
        28 | 29 => {
            let router = random.permille(500).then_some(router);
            let health = random.pick(&[Health::Unhealthy, Health::Unhealthy, Health::Ineligible]);
            Kind::Sick { host, router, health }
        }
        30 => Kind::Takeover { host, router },
        31 => Kind::Unlist { host, router },
        32 => Kind::MoveVip { from: router, to: random.index(setup.routers) },
        33 => Kind::NoMulticast,
        _ => Kind::NoUnicast,
    }
}

/// What is asked for, one after another, on a LAN where nothing else happens.
fn gentle_faults(setup: &Setup, random: &mut Random) -> Vec<Fault> {
    let mut at = 5 * SECOND;
    let mut faults = Vec::new();
    for _ in 0..random.between(1, 3) {
        let host = random.index(setup.machines);
        let router = random.index(setup.routers);
        let kind = match random.below(if setup.cluster { 6 } else { 3 }) {
            0 => Kind::Stop { host },
            1 => Kind::Drain { host },
            2 => Kind::Swap { router },
            3 => Kind::Takeover { host, router },
            4 => Kind::Sick { host, router: None, health: Health::Unhealthy },
            _ => Kind::Sick { host, router: Some(router), health: Health::Ineligible },
        };
        let lasts = random.between(3_000, 4_000) * MS;
        faults.push(Fault { at, lasts, kind });
        at += lasts + random.between(4_000, 5_000) * MS;
    }
    faults
}
