//! Electors, each with its own clock, before one API server with one Lease, over a network that
//! delays and loses requests and replies. True time is a number of microseconds; nobody but the
//! simulation knows it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use barevip::engine::cluster::election::{
    Action, Elector, Lease, ReadOutcome, Statement, Timing, WriteOutcome,
};
use barevip::engine::time::Instant;

/// True time in microseconds.
pub(crate) type Micros = u64;

pub(crate) const SECOND: Micros = 1_000_000;

/// What becomes of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fate {
    /// Microseconds to the API server, or lost.
    pub there: Option<Micros>,
    /// Microseconds back, or lost.
    pub back: Option<Micros>,
    /// Answered with an error, and not carried out.
    pub refused: bool,
}

impl Fate {
    pub(crate) const LATENCY: Micros = 10_000;
    pub(crate) const GOOD: Self =
        Self { there: Some(Self::LATENCY), back: Some(Self::LATENCY), refused: false };
    const LOST: Self = Self { there: None, back: None, refused: false };
}

/// What befalls a process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// It stands still for so long, and its clock goes on.
    Pause(Micros),
    /// It dies, and another of a new identity takes its place after so long.
    Crash(Micros),
    /// It is asked to stop; another takes its place after so long.
    Stop(Micros),
    /// The machine's wall clock jumps by so many seconds.
    WallJump(i64),
    /// It can't reach the API server for so long.
    CutOff(Micros),
}

/// A process with an elector; its clock runs at `rate` thousandths of true time.
struct Process {
    elector: Elector,
    generation: u32,
    rate: u64,
    offset: Micros,
    wall: i64,
    is_dead: bool,
    paused_until: Micros,
    cut_off_until: Micros,
    ticket: u64,
    /// The last wake-up asked for; earlier ones are void.
    alarm: u64,
}

impl Process {
    fn local(&self, now: Micros) -> Instant {
        Instant::after_origin(Duration::from_micros(self.offset + now * self.rate / 1000))
    }

    /// The first true time at which the clock shows `local`.
    fn true_time(&self, local: Instant) -> Micros {
        let micros = u64::try_from(local.since_origin().as_nanos().div_ceil(1000)).unwrap();
        (micros.saturating_sub(self.offset) * 1000).div_ceil(self.rate)
    }
}

#[derive(Clone, Debug)]
enum Request {
    Read,
    Write(Statement, Option<Arc<str>>, String),
}

#[derive(Clone, Debug)]
enum Reply {
    Read(ReadOutcome),
    Written(WriteOutcome),
}

#[derive(Clone, Debug)]
enum Event {
    Wake { who: usize, alarm: u64 },
    Arrives { who: usize, ticket: u64, request: Request, fate: Fate },
    Replied { who: usize, ticket: u64, reply: Reply },
    Strikes { who: usize, fault: Fault },
    Restarts { who: usize },
}

/// Everything.
pub(crate) struct Simulation {
    pub now: Micros,
    pub lease: Option<Lease>,
    timing: Timing,
    processes: Vec<Process>,
    queue: BTreeMap<(Micros, u64), Event>,
    events: u64,
    versions: u64,
    /// Used up in turn; then the network is good.
    fates: std::vec::IntoIter<Fate>,
    /// Writes that were carried out after their sender had stopped waiting.
    pub late_writes: usize,
}

impl Simulation {
    /// One process for each clock rate (in thousandths), all started together.
    pub(crate) fn new(rates: &[u64], seed: u64, fates: Vec<Fate>) -> Self {
        let timing = Timing::default();
        let processes = rates.iter().zip(0_u64..).map(|(&rate, who)| Process {
            elector: Elector::new(format!("{who}-0"), timing, seed ^ who),
            generation: 0,
            rate,
            offset: who * 1000 * SECOND,
            wall: 0,
            is_dead: false,
            paused_until: 0,
            cut_off_until: 0,
            ticket: 0,
            alarm: 0,
        });
        let mut simulation = Self {
            now: 0,
            lease: None,
            timing,
            processes: processes.collect(),
            queue: BTreeMap::new(),
            events: 0,
            versions: 0,
            fates: fates.into_iter(),
            late_writes: 0,
        };
        for who in 0..rates.len() {
            simulation.at(0, Event::Wake { who, alarm: 0 });
        }
        simulation
    }

    /// From now on the network is good.
    pub(crate) fn calm(&mut self) {
        self.fates = Vec::new().into_iter();
    }

    pub(crate) fn strike(&mut self, at: Micros, who: usize, fault: Fault) {
        self.at(at, Event::Strikes { who, fault });
    }

    /// Runs until true time `end`, checking after every event that at most one leads.
    pub(crate) fn run_until(&mut self, end: Micros) {
        while self.step(end) {}
        self.now = end;
    }

    /// Runs until somebody leads, and says who, or until `end`.
    pub(crate) fn run_until_led(&mut self, end: Micros) -> Option<usize> {
        while self.leader().is_none() && self.step(end) {}
        self.leader()
    }

    /// Who thinks that it leads. Paused ones count: they would think so if they went on now.
    pub(crate) fn leader(&self) -> Option<usize> {
        let leaders: Vec<usize> =
            (0..self.processes.len()).filter(|who| self.is_leader(*who)).collect();
        assert!(leaders.len() < 2, "at {} µs all of {leaders:?} think that they lead", self.now);
        leaders.first().copied()
    }

    pub(crate) fn is_leader(&self, who: usize) -> bool {
        let process = &self.processes[who];
        !process.is_dead && process.elector.is_leader(process.local(self.now))
    }

    fn at(&mut self, at: Micros, event: Event) {
        self.events += 1;
        self.queue.insert((at, self.events), event);
    }

    fn step(&mut self, end: Micros) -> bool {
        let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= end) else {
            return false;
        };
        self.now = entry.key().0;
        let event = entry.remove();
        self.happen(event);
        self.leader();
        true
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrives { who, ticket, request, fate } => {
                self.arrive(who, ticket, request, fate);
            }
            Event::Strikes { who, fault } => self.suffer(who, fault),
            Event::Restarts { who } => self.restart(who),
            // A process that stands still finds them when it goes on.
            Event::Wake { who, .. } | Event::Replied { who, .. }
                if self.processes[who].paused_until > self.now =>
            {
                self.at(self.processes[who].paused_until, event);
            }
            Event::Wake { who, alarm } => {
                if self.processes[who].alarm == alarm {
                    self.drive(who);
                }
            }
            Event::Replied { who, ticket, reply } => {
                let now = self.now;
                let process = &mut self.processes[who];
                // The answer to a request that it no longer waits for is nobody's.
                if process.is_dead || process.ticket != ticket {
                    return;
                }
                process.ticket += 1;
                let local = process.local(now);
                match reply {
                    Reply::Read(outcome) => process.elector.handle_read(outcome, local),
                    Reply::Written(outcome) => process.elector.handle_written(outcome, local),
                }
                self.drive(who);
            }
        }
    }

    fn suffer(&mut self, who: usize, fault: Fault) {
        let now = self.now;
        let process = &mut self.processes[who];
        match fault {
            Fault::Pause(length) => process.paused_until = process.paused_until.max(now + length),
            Fault::WallJump(seconds) => process.wall += seconds,
            Fault::CutOff(length) => process.cut_off_until = now + length,
            Fault::Crash(length) => {
                process.is_dead = true;
                self.at(now + length, Event::Restarts { who });
            }
            Fault::Stop(length) => {
                process.elector.handle_shutdown(process.local(now));
                let alarm = process.alarm;
                self.at(now + length, Event::Restarts { who });
                self.at(now, Event::Wake { who, alarm });
            }
        }
    }

    fn restart(&mut self, who: usize) {
        let process = &mut self.processes[who];
        process.generation += 1;
        process.ticket += 1;
        process.is_dead = false;
        process.paused_until = 0;
        let identity = format!("{who}-{}", process.generation);
        process.elector = Elector::new(identity, self.timing, u64::from(process.generation));
        self.drive(who);
    }

    fn drive(&mut self, who: usize) {
        let now = self.now;
        let process = &mut self.processes[who];
        if process.is_dead {
            return;
        }
        let local = process.local(now);
        let Some(action) = process.elector.poll(local) else {
            if let Some(at) = process.elector.poll_timeout() {
                let at = process.true_time(at).max(now);
                process.alarm += 1;
                let alarm = process.alarm;
                self.at(at, Event::Wake { who, alarm });
            }
            return;
        };
        let ticket = process.ticket;
        let (request, unanswered) = match action {
            Action::Read => (Request::Read, Reply::Read(ReadOutcome::Failed)),
            Action::Write { lease, precondition } => {
                let seconds = i64::try_from(now / SECOND).unwrap() + process.wall;
                let request = Request::Write(lease, precondition, seconds.to_string());
                (request, Reply::Written(WriteOutcome::TimedOut))
            }
        };
        let gives_up = process.true_time(local + self.timing.request_timeout());
        let mut fate = self.fates.next().unwrap_or(Fate::GOOD);
        if process.cut_off_until > now {
            fate = Fate::LOST;
        }
        self.at(gives_up, Event::Replied { who, ticket, reply: unanswered });
        if let Some(latency) = fate.there {
            self.at(now + latency, Event::Arrives { who, ticket, request, fate });
        }
    }

    fn arrive(&mut self, who: usize, ticket: u64, request: Request, fate: Fate) {
        let reply = match request {
            Request::Read if fate.refused => Reply::Read(ReadOutcome::Failed),
            Request::Write(..) if fate.refused => Reply::Written(WriteOutcome::Failed),
            Request::Read => Reply::Read(match &self.lease {
                Some(lease) => ReadOutcome::Found(lease.clone()),
                None => ReadOutcome::Absent,
            }),
            Request::Write(lease, precondition, stamp) => {
                let outcome = self.write(lease, precondition.as_ref(), stamp);
                let is_late = self.processes[who].ticket != ticket;
                if is_late && matches!(outcome, WriteOutcome::Written(_)) {
                    self.late_writes += 1;
                }
                Reply::Written(outcome)
            }
        };
        if let Some(latency) = fate.back {
            self.at(self.now + latency, Event::Replied { who, ticket, reply });
        }
    }

    /// What the API server does: refuse what was decided from another version.
    fn write(
        &mut self,
        lease: Statement,
        precondition: Option<&Arc<str>>,
        stamp: String,
    ) -> WriteOutcome {
        if precondition != self.lease.as_ref().map(|lease| &lease.resource_version) {
            return WriteOutcome::Conflict;
        }
        self.versions += 1;
        let resource_version: Arc<str> = self.versions.to_string().into();
        self.lease = Some(Lease {
            resource_version: Arc::clone(&resource_version),
            holder: Some(lease.holder),
            duration: Some(lease.duration),
            transitions: Some(lease.transitions),
            renewed: Some(stamp.into()),
        });
        WriteOutcome::Written(resource_version)
    }
}
