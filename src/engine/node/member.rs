//! One virtual router on this machine: its link, its part in the election, what it wants bound,
//! and how it lets go.

mod hearing;
mod pace;
mod report;
mod serving;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use self::pace::Pace;
use self::serving::Serving;
use super::event::{EventKind, Problem};
use super::identity::Health;
use super::leaving::Leaving;
use super::links::{Key, LinkFault, LinkId};
use super::machine::Machine;
use super::problems::Problems;
use super::status::Failover;
use crate::engine::time::Instant;
use crate::engine::vrrp::frames::MacAddress;
use crate::engine::vrrp::packet::{Advert, Checksum};
use crate::engine::vrrp::role::{Cause, Role};
use crate::engine::vrrp::router::{Output, Router, Settings};
use crate::model::{Candidate, Family, Preempt, Priority, VirtualRouter};

/// How long a foreign thing that is no longer seen stays on record.
pub(super) const FOREIGN_KEPT: Duration = Duration::from_secs(60);
/// Longer lifetimes leave a dead node's addresses standing for too long.
const SLOW_FENCE: Duration = Duration::from_secs(30);
/// Probes before a router without rivals becomes Active, and the time after each.
const PROBES: u8 = 2;
const PROBE_PAUSE: Duration = Duration::from_millis(50);
/// Nodes spread their delayed preemptions over this long at most.
const LONGEST_JITTER: Duration = Duration::from_secs(10);
/// Adverts that leave again for this long have a free way.
const UNSENT_KEPT: Duration = Duration::from_secs(5);

/// One virtual router of the plan.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) config: VirtualRouter,
    pub(super) problems: Problems,
    /// No longer in the plan: gone once everything is handed over.
    retired: bool,
    router: Router,
    /// The usable link.
    link: Option<LinkId>,
    fault: Option<Fault>,
    /// The link's MAC address: neighbours have to be told of another one.
    mac: Option<MacAddress>,
    /// What adverts list.
    listed: Vec<IpAddr>,
    /// The checksum form that was last heard.
    form: Option<Checksum>,
    role_since: Instant,
    transitions: u64,
    /// Whether it is known if leftovers of a predecessor are ours to adopt.
    decided: bool,
    takeover: Takeover,
    /// Has heard an Active router, or been one, since the plan called it joining.
    joined: bool,
    /// Between 0 and 1, of the longest delay of a delayed preemption.
    eagerness: Duration,
    /// Addresses that the role was given away for, and that nobody served since.
    unbindable: BTreeSet<IpAddr>,
    /// Whether adverts have left lately; if not, addresses are left to their lifetime.
    vouched: bool,
    probing: Option<Probing>,
    leaving: Option<Leaving>,
    /// The last sign of life of an Active router.
    last_sign: Option<Instant>,
    serving: Serving,
    last_failover: Option<Failover>,
    /// Announcements of everything because somebody may have been told otherwise.
    reminders: Pace,
    /// The same because another machine announced an address of ours.
    answers: Pace,
    /// The next slow announcement.
    refresh_at: Option<Instant>,
    incomplete_since: Option<Instant>,
    /// Since when adverts come by unicast alone.
    unicast_since: Option<Instant>,
    /// Addresses that vanished lately, since when, and how many.
    losses: (Instant, u32),
}

#[derive(Clone, Debug)]
struct Fault {
    fault: LinkFault,
    since: Instant,
    told: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takeover {
    No,
    Asked,
    /// It went unheard; not again until the plan asks anew.
    Unheard,
}

#[derive(Clone, Copy, Debug)]
struct Probing {
    left: u8,
    next_at: Instant,
}

impl Member {
    pub(super) fn new(config: VirtualRouter, machine: &mut Machine, now: Instant) -> Self {
        let source = match config.family {
            Family::Ipv4 => IpAddr::from([0; 4]),
            Family::Ipv6 => IpAddr::from([0; 16]),
        };
        let settings = Settings {
            priority: Priority::DEFAULT,
            interval: config.interval,
            preempt: config.preempt,
            health_band: config.health_band,
            joining: false,
            source,
            jitter: Duration::ZERO,
        };
        let mut member = Self {
            router: Router::new(settings),
            problems: Problems::new(config.name.clone()),
            retired: false,
            link: None,
            fault: None,
            mac: None,
            listed: Vec::new(),
            form: None,
            role_since: now,
            transitions: 0,
            decided: false,
            takeover: Takeover::No,
            joined: false,
            eagerness: machine.jitter(LONGEST_JITTER),
            unbindable: BTreeSet::new(),
            vouched: false,
            probing: None,
            leaving: None,
            last_sign: None,
            serving: Serving::default(),
            last_failover: None,
            reminders: Pace::default(),
            answers: Pace::default(),
            refresh_at: None,
            incomplete_since: None,
            unicast_since: None,
            losses: (now, 0),
            config,
        };
        member.follow_takeover(machine);
        member
    }

    /// A new statement of the plan for this router.
    pub(super) fn apply(&mut self, config: VirtualRouter, machine: &mut Machine) {
        self.config = config;
        self.retired = false;
        self.follow_takeover(machine);
        let config = &self.config;
        let is_gone = |p: &Problem| p.address().is_some_and(|address| !config.lists(address));
        self.problems.clear(machine, is_gone);
        machine.dirty = true;
    }

    /// The plan no longer has this router: it is handed over and then forgotten.
    pub(super) fn retire(&mut self) {
        self.retired = true;
    }

    /// Whether a retired router has let everything go.
    pub(super) const fn is_gone(&self) -> bool {
        self.retired && !self.is_leaving()
    }

    fn follow_takeover(&mut self, machine: &Machine) {
        let asked = self.config.takeover.as_ref() == Some(&machine.identity.node);
        self.takeover = match (asked, self.takeover) {
            (false, _) => Takeover::No,
            (true, Takeover::No) => Takeover::Asked,
            (true, same) => same,
        };
    }

    pub(super) const fn link(&self) -> Option<LinkId> {
        self.link
    }

    pub(super) const fn role(&self) -> Role {
        self.router.role()
    }

    /// Takes part, or not, as the plan, the node's state and the link have it now. Safe to call
    /// at any time.
    pub(super) fn review(&mut self, machine: &mut Machine, now: Instant) {
        let link_before = self.link;
        let source = self.find_link(machine, now);
        self.list(machine, now);
        match (self.candidate(machine), source) {
            (Ok(candidate), Some(source)) => self.take_part(&candidate, source, machine, now),
            (Err(cause), Some(_)) => self.router.stop(cause, true, now),
            (_, None) => self.router.stop(Cause::LinkLost, false, now),
        }
        if self.link != link_before {
            machine.dirty = true;
        }
        self.carry_out(machine, now);
    }

    /// This node as a candidate, or why it is none.
    fn candidate(&self, machine: &Machine) -> Result<Candidate, Cause> {
        if machine.stopping {
            return Err(Cause::Stopped);
        }
        if machine.draining {
            return Err(Cause::Drained);
        }
        if machine.health_of(&self.config.name) == Health::Ineligible {
            return Err(Cause::Ineligible);
        }
        if self.retired || self.config.entries.is_empty() {
            return Err(Cause::Unlisted);
        }
        self.config.candidate(&machine.identity.node).ok_or(Cause::Unlisted)
    }

    fn take_part(
        &mut self,
        candidate: &Candidate,
        source: IpAddr,
        machine: &mut Machine,
        now: Instant,
    ) {
        let is_alone = self.config.is_alone(&machine.identity.node);
        self.joined &= candidate.joining;
        let settings = Settings {
            priority: self.base_priority(candidate, machine),
            interval: self.config.interval,
            preempt: self.config.preempt,
            health_band: self.config.health_band,
            joining: candidate.joining && !self.joined && !is_alone,
            source,
            jitter: self.jitter(),
        };
        let asked = self.takeover == Takeover::Asked;
        if self.role() == Role::Initialize {
            self.router.start(settings, now);
            if asked || is_alone {
                self.probing = Some(Probing { left: PROBES, next_at: now });
            }
            return;
        }
        let priority = if asked { Priority::OWNER } else { settings.priority };
        self.router.configure(Settings { priority, ..settings }, now);
        if asked && self.probing.is_none() {
            self.take_over_if_lower(now);
        }
    }

    /// The plan's wish: from anybody but another owner, which would only take it back.
    fn take_over_if_lower(&mut self, now: Instant) {
        if self.router.heard().is_none_or(|heard| heard.priority < Priority::OWNER) {
            self.router.take_over(Cause::TakeoverRequested, now);
        }
    }

    fn base_priority(&self, candidate: &Candidate, machine: &Machine) -> Priority {
        match machine.health_of(&self.config.name) {
            Health::Healthy => candidate.priority,
            Health::Unhealthy | Health::Ineligible => candidate.priority.unhealthy(),
        }
    }

    /// A tenth of the delay at most, and never long.
    fn jitter(&self) -> Duration {
        match self.config.preempt {
            Preempt::After(delay) => self.eagerness.min(delay / 10),
            Preempt::Now | Preempt::Never => Duration::ZERO,
        }
    }

    /// The source of adverts on the link that can carry this router; `None`: there is none. One
    /// that is missing for a moment, as between two addresses, is waited out.
    fn find_link(&mut self, machine: &mut Machine, now: Instant) -> Option<IpAddr> {
        match machine.links.carrier_of(&self.config) {
            Ok(link) => {
                let (id, name) = (link.id, link.name.clone());
                let source = link.source(&self.config);
                let mac_before = std::mem::replace(&mut self.mac, link.mac);
                let is_same_link = self.link.replace(id) == Some(id);
                let is_same_mac = self.mac == mac_before;
                if !is_same_link || !is_same_mac {
                    self.announce_source(machine, now);
                }
                if is_same_link && !is_same_mac {
                    self.remind(machine, now);
                }
                match self.fault.take() {
                    Some(fault) if fault.told => {
                        self.note(EventKind::LinkBack { link: name }, machine);
                    }
                    Some(_) => self.remind(machine, now),
                    None => {}
                }
                source
            }
            Err(_) if !machine.links_seen => None,
            Err(fault) => {
                let since = self.fault.as_ref().map_or(now, |known| known.since);
                let told = self.fault.as_ref().is_some_and(|known| known.told);
                let waits = self.link.is_some()
                    && fault.may_be_brief()
                    && now.since(since) < self.patience_with_link();
                if !waits {
                    self.link = None;
                    if !told {
                        self.note(EventKind::LinkLost(fault.clone()), machine);
                    }
                }
                self.fault = Some(Fault { fault, since, told: told || !waits });
                waits.then_some(self.router.settings().source)
            }
        }
    }

    /// Less than an interval.
    fn patience_with_link(&self) -> Duration {
        self.config.interval.duration() * 9 / 10
    }

    /// Works out what adverts list: for IPv6 a link-local address comes first (RFC 9568 §5.2.9).
    fn list(&mut self, machine: &mut Machine, now: Instant) {
        let addresses = self.config.entries.iter().map(|entry| entry.vip.address());
        let first = self.config.entries.first().map(|entry| entry.vip.address());
        let virtual_link_local = match first {
            Some(IpAddr::V6(first)) if !first.is_unicast_link_local() => {
                Some(IpAddr::from(self.config.vrid.link_local()))
            }
            _ => None,
        };
        let mtu = self.link.and_then(|id| machine.links.get(id)).map_or(1500, |link| link.mtu);
        let all = virtual_link_local.into_iter().chain(addresses);
        let total = all.clone().count();
        self.listed = all.take(Advert::capacity(self.config.family, mtu).max(1)).collect();
        let count = total - self.listed.len();
        let is_other = |p: &Problem| matches!(p, Problem::NotListed { count: c } if *c != count);
        self.problems.clear(machine, is_other);
        if count > 0 {
            self.problems.raise(Problem::NotListed { count }, None, machine, now);
        }
    }

    /// The machine slept: others may have taken over, and nothing in a queue would say so.
    pub(super) fn wake(&mut self, machine: &mut Machine, now: Instant) {
        self.router.wake(now);
        self.announce_source(machine, now);
        let holds = |leaving: &mut Leaving| matches!(leaving, Leaving::Holding(_));
        machine.dirty |= self.leaving.take_if(holds).is_some();
        self.carry_out(machine, now);
    }

    /// The last advert did not leave this machine.
    pub(super) fn unsent(&mut self, machine: &mut Machine, now: Instant) {
        self.router.unsent();
        self.raise_for(Problem::AdvertsUnsent, UNSENT_KEPT, machine, now);
    }

    /// Takes the role from a lower Active router if that is due; says whether it did.
    pub(super) fn preempt(&mut self, machine: &mut Machine, now: Instant) -> bool {
        self.router.preempt(now);
        let did = self.role() == Role::Active;
        self.carry_out(machine, now);
        did
    }

    pub(super) fn preempt_due(&self) -> Option<Instant> {
        self.router.preempt_due()
    }

    pub(super) fn handle_timeout(&mut self, machine: &mut Machine, now: Instant) {
        let waited = self.fault.as_ref().is_some_and(|fault| !fault.told);
        if waited && self.fault_at().is_some_and(|at| at <= now) {
            self.review(machine, now);
        }
        self.probe_if_due(machine, now);
        self.router.handle_timeout(now);
        self.carry_out(machine, now);
        self.let_go_if_due(machine, now);
        self.announce_if_asked(machine, now);
        if self.refresh_at.is_some_and(|at| at <= now) {
            self.refresh_at = Some(now + self.refresh_pause());
            self.announce_all(1, false, machine, now);
        }
        let vouched = self.router.is_vouched_for(now);
        machine.dirty |= std::mem::replace(&mut self.vouched, vouched) != vouched;
        let lifetime = machine.addresses.lifetime();
        if lifetime > SLOW_FENCE && self.role() == Role::Active {
            self.raise_for(Problem::FenceSlow, FOREIGN_KEPT, machine, now);
        }
        self.problems.expire(machine, now);
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        [
            self.router.poll_timeout(),
            self.fault_at(),
            self.probing.map(|probing| probing.next_at),
            self.leaving.as_ref().and_then(Leaving::poll_timeout),
            self.reminders.poll_timeout(),
            self.answers.poll_timeout(),
            self.refresh_at,
            self.problems.poll_timeout(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// When a link that is missing for a moment counts as lost.
    fn fault_at(&self) -> Option<Instant> {
        self.fault
            .as_ref()
            .filter(|fault| !fault.told)
            .map(|fault| fault.since + self.patience_with_link())
    }

    fn probe_if_due(&mut self, machine: &mut Machine, now: Instant) {
        let Some(probing) = self.probing.filter(|probing| probing.next_at <= now) else {
            return;
        };
        let Some(left) = probing.left.checked_sub(1) else {
            self.probing = None;
            let asked = self.takeover == Takeover::Asked;
            let cause = if asked { Cause::TakeoverRequested } else { Cause::Owner };
            self.review(machine, now);
            return self.router.take_over(cause, now);
        };
        self.probing = Some(Probing { left, next_at: now + PROBE_PAUSE });
        for key in self.keys() {
            machine.probe(key);
        }
    }

    fn note(&self, kind: EventKind, machine: &mut Machine) {
        machine.note(Some(&self.config.name), kind);
    }

    fn keys(&self) -> Vec<Key> {
        let link = self.link;
        self.config.served().filter_map(|vip| Some((link?, vip.address()))).collect()
    }

    /// Does what the state machine asks for.
    fn carry_out(&mut self, machine: &mut Machine, now: Instant) {
        while let Some(output) = self.router.poll_output() {
            match output {
                Output::Advertise(priority) => self.advertise(priority, machine),
                Output::Became(role, cause) => self.enter(role, cause, machine, now),
                Output::Reannounce => self.remind(machine, now),
                Output::Stalled(gap) => machine.stalled = Some(gap).max(machine.stalled),
            }
        }
    }

    fn enter(&mut self, role: Role, cause: Cause, machine: &mut Machine, now: Instant) {
        self.role_since = now;
        self.transitions += 1;
        self.vouched = role == Role::Active;
        self.joined |= self.vouched;
        self.incomplete_since = None;
        self.unicast_since = None;
        machine.dirty = true;
        if self.serving.from.is_some() {
            self.stop_serving(cause, machine, now);
        }
        let kind = match role {
            Role::Active => {
                self.start_serving(machine, now);
                EventKind::BecameActive { cause }
            }
            Role::Backup => EventKind::BecameBackup { cause },
            Role::Initialize => {
                self.probing = None;
                self.decided = false;
                EventKind::LeftElection { cause }
            }
        };
        if cause != Cause::LinkLost {
            self.note(kind, machine);
        }
    }
}
