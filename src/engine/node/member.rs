//! One virtual router on this machine: its link, its part in the election, what it wants bound,
//! and how it lets go.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use super::addresses::Wanted;
use super::announcements::Key;
use super::command::Packet;
use super::event::{EventKind, Problem};
use super::leaving::Leaving;
use super::links::{LinkFault, LinkId};
use super::machine::Machine;
use super::node::Health;
use super::problems::Problems;
use super::status::{ActiveRouter, AddressStatus, Failover, RouterStatus};
use crate::engine::time::Instant;
use crate::engine::vrrp::packet::{Advert, Checksum};
use crate::engine::vrrp::role::{Cause, Role};
use crate::engine::vrrp::router::{Output, Router, Settings};
use crate::model::{Candidate, ChecksumForm, Family, Preempt, Priority, VirtualRouter, Vrid};

/// Between two announcements of all addresses that others ask for, at least.
const BLOCK_PAUSE: Duration = Duration::from_secs(1);
/// How long a foreign thing that is no longer seen stays on record.
const FOREIGN_KEPT: Duration = Duration::from_secs(60);
/// An Active router may lack addresses of our plan for this long.
const STALE_AFTER: Duration = Duration::from_secs(45);
/// Answers to a lower router after which it counts as deaf.
const DEAF_AFTER: u32 = 10;
/// Longer lifetimes leave a dead node's addresses standing for too long.
const SLOW_FENCE: Duration = Duration::from_secs(30);
/// A router whose addresses can't be bound leaves the role to others for this long.
const BIND_HOLD: Duration = Duration::from_secs(10);
/// Probes before a router without rivals becomes Active, and the time after each.
const PROBES: u8 = 2;
const PROBE_PAUSE: Duration = Duration::from_millis(50);

/// One virtual router of the plan.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) config: VirtualRouter,
    pub(super) health: Health,
    pub(super) problems: Problems,
    /// No longer in the plan: gone once everything is handed over.
    retired: bool,
    router: Router,
    /// The usable link.
    link: Option<LinkId>,
    fault: Option<Fault>,
    /// What adverts list.
    listed: Vec<IpAddr>,
    /// The checksum form that was last heard.
    form: Option<Checksum>,
    role_since: Instant,
    transitions: u64,
    /// Whether it is known if leftovers of a predecessor are ours to adopt.
    decided: bool,
    takeover: Takeover,
    probing: Option<Probing>,
    leaving: Option<Leaving>,
    /// Everything was let go; priority 0 follows once the kernel says so.
    parting: bool,
    /// The last sign of life of an Active router.
    last_sign: Option<Instant>,
    serving: Serving,
    last_failover: Option<Failover>,
    /// The last announcement of everything, and the next one that is asked for.
    block_at: Option<Instant>,
    block_due: Option<Instant>,
    /// The next slow announcement.
    refresh_at: Option<Instant>,
    incomplete_since: Option<Instant>,
    multicast_heard: Option<Instant>,
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

/// From becoming Active until everything is bound and announced.
#[derive(Clone, Copy, Debug, Default)]
struct Serving {
    from: Option<Instant>,
    wanted: usize,
    bound: usize,
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
        };
        let jitter = match config.preempt {
            Preempt::After(delay) => machine.jitter((delay / 10).min(Duration::from_secs(10))),
            Preempt::Now | Preempt::Never => Duration::ZERO,
        };
        let mut member = Self {
            router: Router::new(settings, jitter),
            health: Health::Healthy,
            problems: Problems::default(),
            retired: false,
            link: None,
            fault: None,
            listed: Vec::new(),
            form: None,
            role_since: now,
            transitions: 0,
            decided: false,
            takeover: Takeover::No,
            probing: None,
            leaving: None,
            parting: false,
            last_sign: None,
            serving: Serving::default(),
            last_failover: None,
            block_at: None,
            block_due: None,
            refresh_at: None,
            incomplete_since: None,
            multicast_heard: None,
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
            (Err(cause), Some(_)) => self.router.stop(cause, true),
            (_, None) => self.router.stop(Cause::LinkLost, false),
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
        if machine.health == Health::Ineligible || self.health == Health::Ineligible {
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
        let healthy = machine.health == Health::Healthy && self.health == Health::Healthy;
        let base = if healthy { candidate.priority } else { candidate.priority.unhealthy() };
        let settings = Settings {
            priority: base,
            interval: self.config.interval,
            preempt: self.config.preempt,
            health_band: self.config.health_band,
            joining: candidate.joining,
            source,
        };
        let asked = self.takeover == Takeover::Asked;
        if self.role() == Role::Initialize {
            self.router.start(settings, now);
            if asked || self.config.is_alone(&machine.identity.node) {
                self.probing = Some(Probing { left: PROBES, next_at: now });
            }
            return;
        }
        let priority = if asked { Priority::OWNER } else { base };
        self.router.configure(Settings { priority, ..settings }, now);
        if asked && self.role() == Role::Backup && self.probing.is_none() {
            self.router.take_over(Cause::TakeoverRequested, now);
        }
    }

    /// The source of adverts on the link that can carry this router; `None`: there is none. One
    /// that is missing for a moment, as between two addresses, is waited out.
    fn find_link(&mut self, machine: &mut Machine, now: Instant) -> Option<IpAddr> {
        match machine.links.carrier_of(&self.config) {
            Ok(link) => {
                let (id, name) = (link.id, link.name.clone());
                let source = link.source(&self.config);
                self.link = Some(id);
                if self.fault.take().is_some_and(|fault| fault.told) {
                    machine.note(Some(&self.config.name), EventKind::LinkBack { link: name });
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
                        let lost = EventKind::LinkLost(fault.clone());
                        machine.note(Some(&self.config.name), lost);
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
        let name = &self.config.name;
        let is_other = |p: &Problem| matches!(p, Problem::NotListed { count: c } if *c != count);
        self.problems.clear(name, machine, is_other);
        if count > 0 {
            self.problems.raise(name, Problem::NotListed { count }, None, machine, now);
        }
    }

    /// Whether an advert's addresses make it one of this router: a shared address does.
    pub(super) fn recognises(&self, advert: &Advert) -> bool {
        let shares = |address: &IpAddr| {
            self.config.entries.iter().any(|entry| entry.vip.address() == *address)
        };
        advert.addresses.iter().any(shares)
    }

    /// A valid advert on our link with our VRID, not from this machine.
    pub(super) fn hear(
        &mut self,
        advert: &Advert,
        form: Checksum,
        source: IpAddr,
        is_multicast: bool,
        (received_at, now): (Instant, Instant),
        machine: &mut Machine,
    ) {
        if !self.recognises(advert) {
            machine.counters.foreign_router += 1;
            self.raise_for(Problem::ForeignRouter { source }, FOREIGN_KEPT, machine, now);
            return;
        }
        machine.counters.adverts_heard += 1;
        self.form = Some(form);
        self.watch_paths(is_multicast, received_at, machine);
        self.last_sign = Some(received_at).max(self.last_sign);
        if advert.priority.is_some() && !self.decided {
            self.decided = true;
            machine.dirty = true;
        }
        if advert.priority.is_some() && self.probing.take().is_some() {
            machine.dirty = true;
        }
        self.router.handle_advert(advert, source, received_at, now);
        self.watch_list(advert, source, machine, now);
        self.watch_contest(machine, now);
        self.carry_out(machine, now);
        if self.takeover == Takeover::Asked && self.role() == Role::Backup {
            self.review(machine, now);
        }
    }

    /// Adverts that come by unicast alone show a LAN that filters multicast.
    fn watch_paths(&mut self, is_multicast: bool, at: Instant, machine: &mut Machine) {
        let name = &self.config.name;
        machine.counters.adverts_heard_multicast += u64::from(is_multicast);
        if is_multicast {
            self.multicast_heard = Some(at);
            self.problems.clear(name, machine, |p| *p == Problem::MulticastFiltered);
        } else if self.config.transport.multicast {
            let since = *self.multicast_heard.get_or_insert(at);
            if at.since(since) > self.config.interval.duration() * 10 {
                self.raise_for(Problem::MulticastFiltered, FOREIGN_KEPT, machine, at);
            }
        }
    }

    /// An Active router that lists too little has an older plan.
    fn watch_list(&mut self, advert: &Advert, source: IpAddr, machine: &mut Machine, now: Instant) {
        let is_active = advert.priority.is_some() && self.role() == Role::Backup;
        let lists = |vip: IpAddr| advert.addresses.contains(&vip) || !self.listed.contains(&vip);
        let is_complete = self.config.served().all(|vip| lists(vip.address()));
        if !is_active || is_complete {
            self.incomplete_since = None;
            let is_stale = |p: &Problem| matches!(p, Problem::StaleActive { .. });
            return self.problems.clear(&self.config.name, machine, is_stale);
        }
        let since = *self.incomplete_since.get_or_insert(now);
        if now.since(since) >= STALE_AFTER {
            self.raise_for(Problem::StaleActive { source }, FOREIGN_KEPT, machine, now);
        }
    }

    /// A lower router that never yields does not hear us; a takeover then gives way to it.
    fn watch_contest(&mut self, machine: &mut Machine, now: Instant) {
        let Some(contest) = self.router.contest().filter(|c| c.answered >= DEAF_AFTER) else {
            return;
        };
        let kept = (self.config.interval.duration() * 10).max(Duration::from_secs(10));
        let (source, priority) = (contest.source, contest.priority);
        self.raise_for(Problem::DeafPeer { source, priority }, kept, machine, now);
        if self.takeover == Takeover::Asked {
            self.takeover = Takeover::Unheard;
            self.review(machine, now);
            self.router.step_back(Cause::TakeoverUnheard, false, Duration::ZERO, now);
        }
    }

    fn raise_for(&mut self, problem: Problem, kept: Duration, machine: &mut Machine, now: Instant) {
        self.problems.raise(&self.config.name, problem, Some(now + kept), machine, now);
    }

    /// Somebody sends adverts with our own source.
    pub(super) fn hear_own_source(&mut self, source: IpAddr, machine: &mut Machine, now: Instant) {
        self.raise_for(Problem::DuplicateSource { source }, FOREIGN_KEPT, machine, now);
    }

    /// Another machine announced an address of ours.
    pub(super) fn hear_claim(
        &mut self,
        address: IpAddr,
        mac: crate::engine::vrrp::frames::MacAddress,
        machine: &mut Machine,
        now: Instant,
    ) {
        if let Some(leaving) = &mut self.leaving {
            if leaving.claimed(address, now) {
                machine.dirty = true;
                self.let_go_if_due(machine, now);
            }
            return;
        }
        let is_bound = self.link.is_some_and(|link| machine.addresses.is_bound((link, address)));
        if self.probing.take().is_some() || (self.role() == Role::Active && is_bound) {
            self.raise_for(Problem::ForeignClaim { address, mac }, FOREIGN_KEPT, machine, now);
            self.announce_block(machine, now);
        }
    }

    /// The machine slept: others may have taken over, and nothing in a queue would say so.
    pub(super) fn wake(&mut self, machine: &mut Machine, now: Instant) {
        self.router.step_back(Cause::Slept, false, Duration::ZERO, now);
        self.carry_out(machine, now);
    }

    /// An address could not be bound: somebody else shall try.
    pub(super) fn fail(
        &mut self,
        address: IpAddr,
        reason: String,
        machine: &mut Machine,
        now: Instant,
    ) {
        self.raise_for(Problem::BindFailed { address, reason }, BIND_HOLD * 2, machine, now);
        self.router.step_back(Cause::BindFailed, true, BIND_HOLD, now);
        self.carry_out(machine, now);
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
        if self.block_due.is_some_and(|at| at <= now) {
            self.announce_block(machine, now);
        }
        if self.refresh_at.is_some_and(|at| at <= now) {
            self.refresh_at = Some(now + self.config.announce.refresh);
            self.announce_all(1, false, machine, now);
        }
        let lifetime = machine.addresses.lifetime();
        if lifetime > SLOW_FENCE && self.role() == Role::Active {
            let problem = Problem::FenceSlow { lifetime: lifetime.as_secs() };
            self.raise_for(problem, FOREIGN_KEPT, machine, now);
        }
        self.problems.expire(&self.config.name, machine, now);
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        [
            self.router.poll_timeout(),
            self.fault_at(),
            self.probing.map(|probing| probing.next_at),
            self.leaving.as_ref().map(Leaving::until),
            self.block_due,
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
                Output::Reannounce => self.announce_block(machine, now),
                Output::Stalled(gap) => machine.stalled = Some(gap).max(machine.stalled),
            }
        }
    }

    fn advertise(&self, priority: Option<Priority>, machine: &mut Machine) {
        let Some(link) = self.link.and_then(|id| machine.links.get(id)) else {
            return;
        };
        let Some(source) = link.source(&self.config).filter(|_| !self.listed.is_empty()) else {
            return;
        };
        let id = link.id;
        let form = match self.config.checksum {
            ChecksumForm::Auto => self.form.unwrap_or(Checksum::Rfc9568),
            ChecksumForm::Rfc9568 => Checksum::Rfc9568,
            ChecksumForm::PseudoHeader => Checksum::PseudoHeader,
        };
        let advert = Advert {
            vrid: self.config.vrid,
            priority,
            interval: self.config.interval,
            addresses: self.listed.clone(),
        };
        let group = self.config.transport.multicast.then(|| self.config.family.group());
        let peers = self.config.transport.peers.iter().copied();
        for destination in group.into_iter().chain(peers.filter(|peer| *peer != source)) {
            let message = advert.emit(source, destination, form);
            machine.counters.adverts_sent += 1;
            machine.send(id, Packet::Advert { source, destination, message });
        }
    }

    fn enter(&mut self, role: Role, cause: Cause, machine: &mut Machine, now: Instant) {
        self.role_since = now;
        self.transitions += 1;
        machine.dirty = true;
        if self.serving.from.is_some() {
            self.stop_serving(cause, machine, now);
        }
        let kind = match role {
            Role::Active => {
                self.start_serving(now);
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
            machine.note(Some(&self.config.name), kind);
        }
    }

    fn start_serving(&mut self, now: Instant) {
        self.decided = true;
        self.probing = None;
        self.leaving = None;
        self.parting = false;
        self.serving = Serving { from: Some(self.last_sign.unwrap_or(now)), wanted: 0, bound: 0 };
        self.refresh_at = Some(now + self.config.announce.refresh);
    }

    /// Lets go of the addresses, if others can hear of it one by one, else at once.
    fn stop_serving(&mut self, cause: Cause, machine: &mut Machine, now: Instant) {
        self.serving = Serving::default();
        self.refresh_at = None;
        self.block_due = None;
        self.decided = true;
        let is_use = |p: &Problem| matches!(p, Problem::AddressInUse { .. });
        self.problems.clear(&self.config.name, machine, is_use);
        let keys = self.keys();
        for &key in &keys {
            machine.announcements.stop(key);
        }
        // Nobody hears us, or a successor has announced everything long ago.
        let at_once = matches!(cause, Cause::LinkLost | Cause::Slept | Cause::Replaced { .. });
        let bound: BTreeSet<IpAddr> = keys
            .into_iter()
            .filter(|key| machine.addresses.is_ours(*key))
            .map(|(_, address)| address)
            .collect();
        if !at_once && !bound.is_empty() {
            self.leaving = Some(Leaving::new(bound, now));
        }
    }

    /// Ends the handover when every address was claimed, or none was for too long.
    fn let_go_if_due(&mut self, machine: &mut Machine, now: Instant) {
        if let Some(leaving) = self.leaving.take_if(|leaving| leaving.is_over(now)) {
            machine.note(Some(&self.config.name), leaving.summary());
            machine.dirty = true;
            self.parting = true;
        }
    }

    /// Says priority 0 once more when the last address is gone, so that the new Active router
    /// announces again to those who asked in between.
    pub(super) fn part_if_gone(&mut self, machine: &mut Machine) {
        if !self.parting || self.keys().iter().any(|key| machine.addresses.is_ours(*key)) {
            return;
        }
        self.parting = false;
        if self.role() != Role::Active {
            self.advertise(None, machine);
        }
    }

    /// Whether addresses are still being handed over.
    pub(super) const fn is_leaving(&self) -> bool {
        self.leaving.is_some() || self.parting
    }

    /// What this router wants of the kernel.
    pub(super) fn want(&mut self, machine: &Machine, wanted: &mut BTreeMap<Key, Wanted>) {
        let Some(link) = self.link else {
            return;
        };
        let patience = self.config.interval.duration() * 3;
        let mut count = 0;
        for vip in self.config.served() {
            let key = (link, vip.address());
            let bind = self.role() == Role::Active;
            let is_wanted = match self.role() {
                Role::Active => {
                    let is_own_address = self.is_owner() && machine.addresses.is_foreign(key);
                    !is_own_address && !self.is_elsewhere(key, machine)
                }
                Role::Backup | Role::Initialize => {
                    let is_held = self.leaving.as_ref().is_some_and(|l| l.holds(vip.address()));
                    is_held || (!self.decided && self.role() == Role::Backup)
                }
            };
            if is_wanted {
                count += 1;
                wanted.insert(key, Wanted { vip, bind, patience });
            }
        }
        self.serving.wanted = count;
    }

    fn is_owner(&self) -> bool {
        self.router.settings().priority == Priority::OWNER && self.takeover == Takeover::No
    }

    /// Whether another VRID has a better claim: it was there first, or it is the lower of two
    /// that both hold the address.
    fn is_elsewhere(&self, key: Key, machine: &Machine) -> bool {
        machine
            .elsewhere
            .get(&key)
            .is_some_and(|other| other.vrid < self.config.vrid || !machine.addresses.is_bound(key))
    }

    /// An address of this router is bound now.
    pub(super) fn bound(&mut self, key: Key, machine: &mut Machine, now: Instant) {
        if self.role() != Role::Active {
            return;
        }
        let announce = self.config.announce;
        machine.announcements.start(key, announce.rounds, announce.spacing, true, now);
        let is_use =
            |p: &Problem| matches!(p, Problem::AddressInUse { address } if *address == key.1);
        self.problems.clear(&self.config.name, machine, is_use);
        self.serving.bound += 1;
        if let Some(from) = self.serving.from
            && self.serving.bound >= self.serving.wanted
            && self.last_failover.is_none_or(|failover| failover.at < self.role_since)
        {
            let took = now.since(from);
            self.last_failover = Some(Failover { at: now, took });
            let addresses = self.serving.bound;
            machine.note(Some(&self.config.name), EventKind::Serving { addresses, took });
        }
    }

    /// An address of this router was removed by somebody else.
    pub(super) fn lost(&mut self, key: Key, machine: &mut Machine) {
        self.serving.bound = self.serving.bound.saturating_sub(1);
        machine.announcements.stop(key);
    }

    /// Announces everything again because somebody may have been told otherwise, at most once a
    /// second.
    fn announce_block(&mut self, machine: &mut Machine, now: Instant) {
        if self.role() != Role::Active {
            self.block_due = None;
            return;
        }
        match self.block_at.map(|at| at + BLOCK_PAUSE).filter(|at| *at > now) {
            Some(later) => self.block_due = Some(later),
            None => {
                self.block_at = Some(now);
                self.block_due = None;
                self.announce_all(1, true, machine, now);
            }
        }
    }

    fn announce_all(&self, rounds: u8, urgent: bool, machine: &mut Machine, now: Instant) {
        for key in self.keys() {
            if machine.addresses.is_bound(key) {
                let spacing = self.config.announce.spacing;
                machine.announcements.start(key, rounds, spacing, urgent, now);
            }
        }
    }

    /// Another VRID's claim on an address of ours.
    pub(super) fn hear_elsewhere(
        &mut self,
        address: IpAddr,
        (vrid, source): (Vrid, IpAddr),
        until: Instant,
        machine: &mut Machine,
        now: Instant,
    ) {
        let problem = Problem::AddressElsewhere { address, vrid, source };
        self.problems.raise(&self.config.name, problem, Some(until), machine, now);
    }

    pub(super) fn status(&self, machine: &Machine) -> RouterStatus {
        let settings = self.router.settings();
        let link = self.link.and_then(|id| machine.links.get(id));
        let is_candidate = self.candidate(machine).is_ok();
        let active = match self.role() {
            Role::Active => Some(ActiveRouter {
                address: settings.source,
                priority: settings.priority,
                here: true,
            }),
            Role::Backup | Role::Initialize => self.router.heard().map(|heard| ActiveRouter {
                address: heard.source,
                priority: heard.priority,
                here: false,
            }),
        };
        let addresses = self
            .config
            .served()
            .map(|vip| AddressStatus {
                vip,
                bound: self
                    .link
                    .is_some_and(|link| machine.addresses.is_ours((link, vip.address()))),
            })
            .collect();
        RouterStatus {
            name: self.config.name.clone(),
            version: self.config.version.clone(),
            vrid: self.config.vrid,
            family: self.config.family,
            link: link.map(|link| link.name.clone()),
            fault: self.fault.as_ref().filter(|f| f.told).map(|f| f.fault.clone()),
            role: self.role(),
            since: self.role_since,
            priority: is_candidate.then_some(settings.priority),
            interval: self.config.interval,
            active,
            addresses,
            last_failover: self.last_failover,
            transitions: self.transitions,
            problems: self.problems.list(),
        }
    }
}
