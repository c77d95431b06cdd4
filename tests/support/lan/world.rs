//! The simulated LAN: machines with real engines, a model kernel and a model network, clients,
//! and one queue of events in virtual time. The same seed gives the same run.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::net::IpAddr;
use std::rc::Rc;

use barevip::engine::node::command::{Command, Packet};
use barevip::engine::time::Instant;
use barevip::model::Family;

use super::client::Client;
use super::faults::Fault;
use super::happened::{Happened, NOBODY, What};
use super::host::{AdvertPacket, Host, Input, Netlink, Step};
use super::judge::Judge;
use super::plans::{RouterPlan, Setup, global_of, mac_of, name_of, source_of};
use super::random::Random;
use super::stranger::Stranger;
use super::time::{MS, Nanos, US};
use super::wire::Wire;

/// How often the judge looks at the whole LAN.
const AUDIT: Nanos = 100 * MS;
/// Engine timeouts that one virtual millisecond may need, besides those of its inputs.
const TIMEOUTS_A_MS: u32 = 40;

pub(crate) struct Lan {
    pub(crate) now: Nanos,
    queue: BinaryHeap<Reverse<Queued>>,
    serial: u64,
    pub(crate) hosts: Vec<Host>,
    pub(crate) clients: Vec<Client>,
    pub(crate) wire: Wire,
    pub(crate) random: Random,
    pub(crate) delays: Delays,
    /// What the controller or the files say now.
    pub(crate) published: Rc<Vec<RouterPlan>>,
    /// What each machine was told of it.
    pub(crate) known: Vec<Rc<Vec<RouterPlan>>>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) strangers: Vec<Stranger>,
    /// Malformed copies follow each advert.
    pub(crate) junk: u32,
    pub(crate) judge: Judge,
    /// Kept for exact assertions and traces; off where only the judge matters.
    pub(crate) log: Option<Vec<Happened>>,
    /// Keeps what the engines are told and ask for.
    pub(crate) record: bool,
    pub(crate) events: u64,
}

/// What takes time on a machine itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delays {
    /// A timer fires so much late, at most.
    pub(crate) lateness: Nanos,
    /// A netlink command takes from … to.
    pub(crate) netlink: (Nanos, Nanos),
    /// An answer or a picture of the links reaches the engine after so long, at most.
    pub(crate) answer: Nanos,
    /// Pictures are at least this far apart.
    pub(crate) pause: Nanos,
    /// A new process gets its first plan and picture within so long.
    pub(crate) start: Nanos,
    /// Netlink commands that may wait.
    pub(crate) backlog: usize,
}

/// Exact times: for scenarios that count them.
pub(crate) const EXACT: Delays = Delays {
    lateness: 0,
    netlink: (100 * US, 100 * US),
    answer: 0,
    pause: 5 * MS,
    start: 0,
    backlog: 256,
};

/// Times as they happen: for random schedules.
pub(crate) const ROUGH: Delays = Delays {
    lateness: 300 * US,
    netlink: (30 * US, 3 * MS),
    answer: 2 * MS,
    pause: 5 * MS,
    start: 5 * MS,
    backlog: 256,
};

#[derive(Debug)]
pub(crate) enum Event {
    Wake { host: usize, epoch: u32 },
    Advert { to: usize, packet: Rc<AdvertPacket> },
    Announcement { to: usize, from: usize, address: IpAddr },
    ClientHears { client: usize, from: usize, address: IpAddr, asked: bool },
    ClientAsks { client: usize, address: IpAddr },
    Netlink { host: usize, epoch: u32 },
    Picture { host: usize, epoch: u32 },
    Told { host: usize, epoch: u32, input: Box<Input> },
    Plan { host: usize, plan: Rc<Vec<RouterPlan>> },
    Expiry { host: usize },
    Start { host: usize },
    Fault { index: usize, begins: bool },
    Joined { host: usize, router: usize },
    Forgiven,
    StrangerSpeaks { index: usize },
    Audit,
}

#[derive(Debug)]
struct Queued {
    at: Nanos,
    serial: u64,
    event: Event,
}

impl PartialEq for Queued {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Queued {}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Queued {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.serial).cmp(&(other.at, other.serial))
    }
}

impl Lan {
    /// A LAN whose machines know their plans and are not started yet.
    pub(crate) fn new(setup: &Setup, seed: u64, delays: Delays) -> Self {
        let mut random = Random::new(seed);
        let published = Rc::new(setup.plans());
        let host = |machine: usize, random: &mut Random| {
            let own =
                [(source_of(Family::Ipv4, machine), 16), (source_of(Family::Ipv6, machine), 64)];
            // Clocks count from somewhere in the machine's past.
            let origin = random.between(3_600, 3_600_000) * 1_000 * MS + random.below(MS);
            let more = [(global_of(machine), 64)];
            Host::new(name_of(machine), mac_of(machine), own, &more, origin, setup.routers)
        };
        let mut lan = Self {
            now: 0,
            queue: BinaryHeap::new(),
            serial: 0,
            hosts: (0..setup.machines).map(|machine| host(machine, &mut random)).collect(),
            clients: Vec::new(),
            wire: Wire::new(setup.machines),
            random,
            delays,
            known: vec![Rc::clone(&published); setup.machines],
            judge: Judge::new(setup.machines, &published),
            published,
            faults: Vec::new(),
            strangers: Vec::new(),
            junk: 0,
            log: None,
            record: false,
            events: 0,
        };
        lan.clients = vec![Client::default()];
        lan.clients_learn_addresses();
        lan.push(AUDIT, Event::Audit);
        lan
    }

    pub(crate) fn push(&mut self, after: Nanos, event: Event) {
        self.serial += 1;
        let queued = Queued { at: self.now + after, serial: self.serial, event };
        self.queue.push(Reverse(queued));
    }

    /// Runs until a point in virtual time, or until an invariant is broken.
    pub(crate) fn run_until(&mut self, until: Nanos) {
        while self.judge.failure.is_none()
            && self.queue.peek().is_some_and(|Reverse(next)| next.at <= until)
            && let Some(Reverse(Queued { at, event, .. })) = self.queue.pop()
        {
            self.now = at;
            self.events += 1;
            self.dispatch(event);
        }
        if self.judge.failure.is_none() {
            self.now = until;
        }
    }

    fn dispatch(&mut self, event: Event) {
        match event {
            Event::Wake { host, epoch } => self.wake(host, epoch),
            Event::Advert { to, packet } => self.advert_arrives(to, packet),
            Event::Announcement { to, from, address } => {
                self.announcement_arrives(to, from, address);
            }
            Event::ClientHears { client, from, address, asked } => {
                self.client_hears(client, from, address, asked);
            }
            Event::ClientAsks { client, address } => self.client_asks(client, address),
            Event::Netlink { host, epoch } if self.is_alive(host, epoch) => self.netlink(host),
            Event::Picture { host, epoch } if self.is_alive(host, epoch) => self.picture(host),
            Event::Told { host, epoch, input } if self.is_alive(host, epoch) => {
                self.tell(host, *input);
            }
            Event::Netlink { .. } | Event::Picture { .. } | Event::Told { .. } => {}
            Event::Plan { host, plan } => self.plan_arrives(host, plan),
            Event::Expiry { host } => self.expire(host),
            Event::Start { host } => self.start(host),
            Event::Fault { index, begins } => self.fault(index, begins),
            Event::Joined { host, router } => self.joined(host, router),
            Event::Forgiven => self.forgiven(),
            Event::StrangerSpeaks { index } => self.stranger_speaks(index),
            Event::Audit => {
                self.audit();
                self.clients_probe();
                self.push(AUDIT, Event::Audit);
            }
        }
    }

    /// Whether what was meant for this process finds it.
    fn is_alive(&self, host: usize, epoch: u32) -> bool {
        self.hosts[host].process.is_some() && self.hosts[host].epoch == epoch
    }

    pub(crate) fn log(&mut self, machine: usize, what: impl FnOnce() -> What) {
        if let Some(log) = &mut self.log {
            log.push(Happened { at: self.now, machine, what: what() });
        }
    }

    // ---- processes ---------------------------------------------------------------------------

    /// Starts a process on a machine that has none; it is told its plan and its links in either
    /// order.
    pub(crate) fn start(&mut self, host: usize) {
        if self.hosts[host].process.is_some() {
            return;
        }
        self.log(host, || What::Process("starts"));
        let seed = host as u64;
        self.hosts[host].start(seed, self.record);
        self.judge.own_fault(host, self.now);
        let plan = Event::Plan { host, plan: Rc::clone(&self.known[host]) };
        let (first, second) = (self.delay(self.delays.start), self.delay(self.delays.start));
        self.push(first, plan);
        (self.hosts[host].picture_due, self.hosts[host].pictured) = (false, None);
        self.picture_after(host, second);
    }

    /// The process is gone from one moment to the next; what it did to the kernel stays.
    pub(crate) fn crash(&mut self, host: usize) {
        if self.hosts[host].process.take().is_some() {
            self.log(host, || What::Process("is killed"));
            self.end_of_process(host);
        }
    }

    fn end_of_process(&mut self, host: usize) {
        self.hosts[host].epoch += 1;
        self.judge.process_ended(host, self.now);
    }

    pub(crate) fn plan_arrives(&mut self, host: usize, plan: Rc<Vec<RouterPlan>>) {
        let routers = plan.iter().filter_map(|router| router.seen_by(host)).collect();
        if !Rc::ptr_eq(&self.known[host], &plan) {
            self.judge.disturbed(self.now);
        }
        self.judge.plan_known(&plan);
        self.known[host] = plan;
        self.log(host, || What::Plan);
        self.tell(host, Input::Plan(routers));
    }

    /// Gives an input to the engine of a machine, or to its queue while it stands still.
    pub(crate) fn tell(&mut self, host: usize, input: Input) {
        let stalled = self.hosts[host].is_stalled();
        let Some(process) = &mut self.hosts[host].process else { return };
        if stalled {
            process.inbox.push_back(input);
        } else {
            self.feed(host, input);
            self.settle(host);
        }
    }

    fn feed(&mut self, host: usize, input: Input) {
        let clock = self.hosts[host].clock(self.now);
        let Some(process) = &mut self.hosts[host].process else { return };
        if let Some(recording) = &mut process.recording {
            recording.push(Step::Told(input.clone(), clock));
        }
        input.tell(&mut process.node, clock);
    }

    /// Does everything that the engine asks for.
    fn drain_commands(&mut self, host: usize) {
        while let Some(process) = &mut self.hosts[host].process
            && let Some(command) = process.node.next_command()
        {
            if let Some(recording) = &mut process.recording {
                recording.push(Step::Asked(command.clone()));
            }
            self.carry_out(host, command);
        }
        if let Some(process) = &mut self.hosts[host].process
            && let Some(recording) = &mut process.recording
        {
            recording.push(Step::Drained);
        }
    }

    /// After inputs, in the order of the engine's thread: timers that are due, then commands.
    fn settle(&mut self, host: usize) {
        let clock = self.hosts[host].clock(self.now);
        loop {
            let fires = self.is_due(host, clock);
            if fires {
                self.count_timeout(host);
                self.feed(host, Input::Timeout);
            }
            self.drain_commands(host);
            let next = self.hosts[host].process.as_ref().and_then(|p| p.node.poll_timeout());
            if next.is_none_or(|at| at > clock) {
                self.settled(host, next);
                return;
            }
            if fires {
                return self.fail(host, || {
                    format!("busy: after handle_timeout at {clock} the next timeout is {next:?}")
                });
            }
        }
    }

    /// Nothing is due any more: roles, the end of a planned stop, and the next wake-up.
    fn settled(&mut self, host: usize, next: Option<Instant>) {
        self.judge_drive(host);
        let Some(process) = &self.hosts[host].process else { return };
        if process.stopping && process.node.is_finished() {
            self.log(host, || What::Process("has stopped"));
            self.judge_stopped(host);
            self.hosts[host].process = None;
            self.end_of_process(host);
            return;
        }
        self.arm(host, next);
    }

    fn is_due(&self, host: usize, clock: Instant) -> bool {
        let process = self.hosts[host].process.as_ref();
        process.and_then(|p| p.node.poll_timeout()).is_some_and(|at| at <= clock)
    }

    fn count_timeout(&mut self, host: usize) {
        let millisecond = self.now / MS;
        let Some(process) = &mut self.hosts[host].process else { return };
        let (last, count) = process.timeouts;
        let count = if last == millisecond { count + 1 } else { 1 };
        process.timeouts = (millisecond, count);
        if count > TIMEOUTS_A_MS {
            self.fail(host, || format!("busy: {count} timeouts in one millisecond"));
        }
    }

    fn arm(&mut self, host: usize, next: Option<Instant>) {
        let now = self.now;
        let machine = &mut self.hosts[host];
        let due = next.map(|at| machine.when(at, now));
        let epoch = machine.epoch;
        let Some(process) = &mut machine.process else { return };
        // A lateness is drawn once for each deadline: `wake_at` is the deadline, not the wake-up.
        if process.wake_at != due {
            process.wake_at = due;
            if let Some(due) = due {
                let late = self.delay(self.delays.lateness);
                self.push(due - now + late, Event::Wake { host, epoch });
            }
        }
    }

    fn wake(&mut self, host: usize, epoch: u32) {
        let now = self.now;
        if self.is_alive(host, epoch)
            && !self.hosts[host].is_stalled()
            && let Some(process) = &mut self.hosts[host].process
            && process.wake_at.is_some_and(|at| at <= now)
        {
            process.wake_at = None;
            self.settle(host);
        }
    }

    /// A process that stood still goes on, in the order of the engine's thread: the news of a
    /// sleep, all sockets, what other threads have brought, timers, commands.
    pub(crate) fn go_on(&mut self, host: usize) {
        if self.hosts[host].is_stalled() {
            return;
        }
        let Some(process) = &mut self.hosts[host].process else { return };
        let inbox = std::mem::take(&mut process.inbox);
        self.log(host, || What::Process("goes on"));
        let (sleep, inbox): (Vec<_>, Vec<_>) =
            inbox.into_iter().partition(|input| matches!(input, Input::Suspend(_)));
        let (mut packets, others): (Vec<_>, Vec<_>) = inbox.into_iter().partition(Input::is_packet);
        // Two sockets: each keeps its order, and either may be read first.
        match self.random.below(3) {
            0 => packets.sort_by_key(|packet| matches!(packet, Input::Neighbour(..))),
            1 => packets.sort_by_key(|packet| matches!(packet, Input::Advert(..))),
            _ => {}
        }
        self.judge_before_inbox(host, &packets);
        for input in sleep.into_iter().chain(packets).chain(others) {
            self.log_heard(host, &input);
            self.judge_heard(host, &input);
            self.feed(host, input);
        }
        self.settle(host);
        self.judge_after_inbox(host);
        self.netlink_goes_on(host);
        if std::mem::take(&mut self.hosts[host].picture_due) {
            let after = self.delay(self.delays.answer);
            self.picture_after(host, after);
        }
    }

    // ---- what an engine asks for ---------------------------------------------------------------

    fn carry_out(&mut self, host: usize, command: Command) {
        match command {
            Command::Send { packet: Packet::Advert { source, destination, message }, .. } => {
                let packet = AdvertPacket { source, destination, ttl: 255, message };
                self.send_advert(host, packet);
            }
            Command::Send { packet: Packet::Frame(frame), .. } => self.send_frame(host, &frame),
            Command::Address { id, vip, change, .. } => {
                self.log(host, || What::Asked(vip.address(), change));
                self.judge_change(host, vip.address(), change);
                self.netlink_asked(host, Netlink { id, vip, change });
            }
            Command::Listen { family, .. } => self.listen(host, family, true),
            Command::Ignore { family, .. } => self.listen(host, family, false),
            Command::Note(event) => {
                self.judge_note(host, &event);
                self.log(host, || What::Note(event));
            }
        }
    }

    fn listen(&mut self, host: usize, family: Family, on: bool) {
        if let Some(process) = &mut self.hosts[host].process {
            process.listens[family as usize] = on;
        }
    }

    /// Publishes a plan; each machine learns of it after up to `within`.
    pub(crate) fn publish(&mut self, within: Nanos, change: impl FnOnce(&mut Vec<RouterPlan>)) {
        let mut plan = (*self.published).clone();
        change(&mut plan);
        for router in &mut plan {
            router.router.version.generation += 1;
        }
        self.published = Rc::new(plan);
        for host in 0..self.hosts.len() {
            let after = self.delay(within);
            self.push(after, Event::Plan { host, plan: Rc::clone(&self.published) });
        }
        self.clients_learn_addresses();
        self.judge.disturbed(self.now);
    }

    /// Up to `most`.
    pub(crate) fn delay(&mut self, most: Nanos) -> Nanos {
        if most == 0 { 0 } else { self.random.below(most) }
    }

    /// An invariant is broken; the first one counts.
    pub(crate) fn fail(&mut self, machine: usize, text: impl FnOnce() -> String) {
        if self.judge.failure.is_none() {
            let who = if machine == NOBODY { "the LAN".to_owned() } else { name_of(machine) };
            let text = format!("at {:.6} s, {who}: {}", self.now as f64 / 1e9, text());
            self.judge.failure = Some(text.clone());
            self.log(machine, || What::Fault(format!("BROKEN {text}")));
        }
    }
}
