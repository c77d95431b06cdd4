//! One machine's engine. It is level-triggered: each router yields a role, the node compares the
//! addresses wanted (role × plan) with those seen (the last snapshot) and asks for the difference.
//! A lost message, a restart, a foreign removal and a failed command all heal by that comparison,
//! and every input is legal in every state.
//!
//! After any number of `handle_*` calls drain [`Node::next_command`], then wait for the next input
//! or for [`Node::poll_timeout`], then call [`Node::handle_timeout`]. Time never runs backwards,
//! but `received_at` may lie before `now` of an earlier call: drain all sockets before
//! `handle_timeout`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use super::addresses::Notice;
use super::command::{Command, CommandId, Failure};
use super::elsewhere::{Listings, Standing, silence_of};
use super::event::{EventKind, Problem};
use super::identity::{Health, Identity, Scope};
use super::links::{Link, LinkId, LinkSnapshot};
use super::machine::Machine;
use super::member::{FOREIGN_KEPT, Member};
use super::status::{Counters, NodeStatus};
use crate::engine::time::Instant;
use crate::engine::vrrp::frames::MacAddress;
use crate::engine::vrrp::packet::Advert;
use crate::engine::vrrp::role::Role;
use crate::model::{Family, VirtualRouter};

/// The engine of one machine.
#[derive(Debug)]
pub struct Node {
    machine: Machine,
    /// The plan's routers in its order, and behind them retired ones that still let go.
    members: Vec<Member>,
    /// Which members list an address.
    by_address: BTreeMap<IpAddr, Vec<usize>>,
    listings: Listings,
    /// The earliest time of the next delayed preemption: one router a second.
    next_preemption: Instant,
    /// The latest time that any input had.
    latest: Instant,
    /// Whether a plan has come: before that every leftover may be wanted.
    plan_seen: bool,
    /// Whether an input came since [`Self::next_command`] last settled everything.
    touched: bool,
}

/// Between two delayed preemptions on one node.
const PREEMPTION_PAUSE: Duration = Duration::from_secs(1);

impl Node {
    /// A node with an empty plan that sees no links. `seed` spreads what is jittered.
    #[must_use]
    pub fn new(identity: Identity, seed: u64) -> Self {
        Self {
            machine: Machine::new(identity, seed),
            members: Vec::new(),
            by_address: BTreeMap::new(),
            listings: Listings::default(),
            next_preemption: Instant::ZERO,
            latest: Instant::ZERO,
            plan_seen: false,
            touched: false,
        }
    }

    /// The plan, whole: routers are matched by name and family.
    pub fn handle_plan(&mut self, plan: Vec<VirtualRouter>, now: Instant) {
        self.advance(now);
        self.plan_seen = true;
        let mut before = std::mem::take(&mut self.members);
        for config in plan {
            let same =
                |m: &Member| m.config.name == config.name && m.config.family == config.family;
            let known = before.iter().position(same).map(|place| before.remove(place));
            self.members.push(match known {
                Some(mut member) => {
                    member.apply(config, &mut self.machine);
                    member
                }
                None => Member::new(config, &mut self.machine, now),
            });
        }
        for mut member in before {
            member.retire();
            self.members.push(member);
        }
        self.machine.dirty = true;
        self.index();
        self.review_all(now);
        let listings = std::mem::take(&mut self.listings);
        for (link, advert, source, at) in listings.standing(now) {
            self.hear_elsewhere(link, advert, source, at);
        }
        self.listings = listings;
    }

    /// The machine's links, whole: after every dump or change.
    pub fn handle_links(&mut self, snapshot: LinkSnapshot, now: Instant) {
        self.advance(now);
        self.machine.addresses.see(&snapshot);
        let links_changed = !self.machine.links_seen || !same_links(&self.machine.links, &snapshot);
        self.machine.links = snapshot;
        self.machine.links_seen = true;
        if links_changed {
            self.review_all(now);
        }
    }

    /// A VRRP message heard on a link; `received_at` is the kernel's time stamp.
    pub fn handle_advert(
        &mut self,
        link: LinkId,
        source: IpAddr,
        destination: IpAddr,
        ttl: u8,
        message: &[u8],
        received_at: Instant,
    ) {
        self.advance(received_at);
        let now = self.latest;
        let (advert, form) = match Advert::parse(source, destination, ttl, message) {
            Ok(parsed) => parsed,
            Err(refusal) => {
                let name = refusal.name().to_owned();
                *self.machine.counters.adverts_refused.entry(name).or_default() += 1;
                return;
            }
        };
        let family = Family::of(source);
        let is_own = self.machine.links.get(link).is_some_and(|l| l.address(source).is_some());
        let mut is_known = false;
        for member in &mut self.members {
            let config = &member.config;
            if member.link() != Some(link) || config.vrid != advert.vrid || config.family != family
            {
                continue;
            }
            is_known = true;
            if is_own {
                member.hear_own_source(source, &mut self.machine, now);
            } else {
                let times = (received_at, now);
                let is_multicast = destination.is_multicast();
                member.hear(&advert, form, source, is_multicast, times, &mut self.machine);
            }
        }
        if is_own {
            self.machine.counters.own_source += 1;
            return;
        }
        self.machine.counters.foreign_vrid += u64::from(!is_known);
        let is_ours = advert.addresses.iter().any(|a| self.by_address.contains_key(a));
        if !is_ours {
            self.machine.foreign.insert((family, advert.vrid), received_at);
        }
        self.hear_elsewhere(link, &advert, source, received_at);
        self.listings.keep(link, advert, source, received_at);
    }

    /// Addresses of ours in an advert of another VRID are not bound until it is silent for a
    /// down interval.
    fn hear_elsewhere(&mut self, link: LinkId, advert: &Advert, source: IpAddr, at: Instant) {
        for address in &advert.addresses {
            let listers = self.by_address.get(address).map_or(&[][..], Vec::as_slice);
            for &place in listers {
                let Some(member) = self.members.get_mut(place) else { continue };
                if member.link() != Some(link) || member.config.vrid == advert.vrid {
                    continue;
                }
                let key = (link, *address);
                let (claim, until) = ((advert.vrid, source), at + silence_of(advert));
                let machine = &mut self.machine;
                if advert.priority.is_none() {
                    machine.dirty |= machine.elsewhere.withdraw(key, claim);
                    continue;
                }
                match machine.elsewhere.hear(key, claim, until, at) {
                    Standing::Outdone => continue,
                    Standing::Known => {}
                    Standing::New => {
                        machine.dirty = true;
                        member.remind(machine, at);
                    }
                }
                member.hear_elsewhere(*address, claim, until, machine, at);
            }
        }
    }

    /// Somebody announced, by ARP or NA, that `address` is at `mac`.
    pub fn handle_neighbour(
        &mut self,
        link: LinkId,
        address: IpAddr,
        mac: MacAddress,
        now: Instant,
    ) {
        self.advance(now);
        if self.machine.owns(mac) {
            return;
        }
        let now = self.latest;
        self.machine.dirty |= self.machine.elsewhere.hear_announcement((link, address));
        let holders = self.by_address.get(&address).map_or(&[][..], Vec::as_slice);
        for &place in holders {
            let Some(member) = self.members.get_mut(place) else { continue };
            if member.link() == Some(link) {
                member.hear_claim(address, mac, &mut self.machine, now);
            }
        }
    }

    /// The health of the node or of one router.
    pub fn handle_health(&mut self, scope: Scope, health: Health, now: Instant) {
        self.advance(now);
        match scope {
            Scope::Node => self.machine.health = health,
            Scope::Router(name) => {
                self.machine.router_health.insert(name, health);
            }
        }
        self.review_all(now);
    }

    /// Whether to hand everything over and take no part (`true`) or to take part (`false`).
    pub fn handle_drain(&mut self, drain: bool, now: Instant) {
        self.advance(now);
        self.machine.draining = drain;
        self.review_all(now);
    }

    /// The answer to a [`Command::Address`].
    pub fn handle_done(&mut self, id: CommandId, result: Result<(), Failure>, now: Instant) {
        self.advance(now);
        self.machine.counters.address_changes += u64::from(result.is_ok());
        self.machine.counters.command_failures += u64::from(result.is_err());
        self.machine.addresses.done(id, &result, now);
    }

    /// The machine was suspended for `slept` (boot time ran on, monotonic time did not). Comes
    /// before the inputs that follow the suspend.
    pub fn handle_suspend(&mut self, slept: Duration, now: Instant) {
        self.advance(now);
        self.machine.note(None, EventKind::Slept { gap: slept });
        for member in &mut self.members {
            member.wake(&mut self.machine, now);
        }
    }

    /// No advert of this family left on a link: a firewall or the driver refused each copy.
    pub fn handle_unsent(&mut self, link: LinkId, family: Family, now: Instant) {
        self.advance(now);
        for member in &mut self.members {
            if member.link() == Some(link)
                && member.config.family == family
                && member.role() == Role::Active
            {
                member.unsent(&mut self.machine, now);
            }
        }
    }

    /// A deadline of [`Self::poll_timeout`] has passed. Calling it early does nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
        for member in &mut self.members {
            member.handle_timeout(&mut self.machine, now);
        }
        self.preempt_one(now);
        if let Some(gap) = self.machine.stalled.take() {
            self.machine.counters.stalls += 1;
            self.machine.note(None, EventKind::Stalled { gap });
        }
        self.machine.dirty |= self.machine.elsewhere.expire(now);
    }

    /// Delayed preemptions, one router a second: a node that comes back must not take a hundred
    /// routers in one instant.
    fn preempt_one(&mut self, now: Instant) {
        if self.next_preemption > now {
            return;
        }
        for member in &mut self.members {
            if member.preempt_due().is_some_and(|due| due <= now)
                && member.preempt(&mut self.machine, now)
            {
                self.next_preemption = now + PREEMPTION_PAUSE;
                return;
            }
        }
    }

    /// A planned stop: everything is handed over, then released. It is over when
    /// [`Self::is_finished`].
    pub fn handle_shutdown(&mut self, now: Instant) {
        self.advance(now);
        self.machine.stopping = true;
        self.machine.dirty = true;
        self.review_all(now);
    }

    /// Whether a shutdown is complete: nothing is bound, nothing awaited.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.machine.stopping
            && self.members.iter().all(|member| !member.is_leaving())
            && self.machine.addresses.is_clean()
            && self.machine.commands.is_empty()
    }

    /// When to call [`Self::handle_timeout`]; `None`: only an input can change anything.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let members = self.members.iter().filter_map(Member::poll_timeout).min();
        let preemption = self
            .members
            .iter()
            .filter_map(Member::preempt_due)
            .min()
            .map(|due| due.max(self.next_preemption));
        let elsewhere = self.machine.elsewhere.poll_timeout();
        let announcements = self.machine.announcements.poll_timeout();
        let addresses = self.machine.addresses.poll_timeout();
        [members, preemption, elsewhere, announcements, addresses].into_iter().flatten().min()
    }

    /// The next thing to do; drain it after every batch of inputs. Adverts come before the
    /// changes of addresses that follow from them.
    pub fn next_command(&mut self) -> Option<Command> {
        if self.machine.commands.is_empty() && std::mem::take(&mut self.touched) {
            self.settle();
        }
        self.machine.commands.pop_front()
    }

    /// What this node is and sees.
    #[must_use]
    pub fn status(&self) -> NodeStatus {
        let recent = |heard: &Instant| self.latest.since(*heard) < FOREIGN_KEPT;
        let foreign = self.machine.foreign.iter().filter(|(_, heard)| recent(heard));
        NodeStatus {
            links: self.machine.links.usable(),
            foreign: foreign.map(|(vrid, _)| *vrid).collect(),
            routers: self.members.iter().map(|member| member.status(&self.machine)).collect(),
            counters: self.machine.counters.clone(),
            draining: self.machine.draining || self.machine.stopping,
            lifetime: self.machine.addresses.lifetime(),
        }
    }

    /// Counters since the start.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.machine.counters
    }

    fn advance(&mut self, now: Instant) {
        self.latest = self.latest.max(now);
        self.touched = true;
    }

    fn review_all(&mut self, now: Instant) {
        for member in &mut self.members {
            member.review(&mut self.machine, now);
        }
    }

    fn index(&mut self) {
        self.by_address.clear();
        for (place, member) in self.members.iter().enumerate() {
            for entry in &member.config.entries {
                self.by_address.entry(entry.vip.address()).or_default().push(place);
            }
        }
    }

    /// Brings addresses, announcements and listening in line with the roles.
    fn settle(&mut self) {
        let now = self.latest;
        loop {
            if std::mem::take(&mut self.machine.dirty) {
                self.want();
            }
            if self.plan_seen || self.machine.stopping {
                self.machine.addresses.reconcile(now, &mut self.machine.commands);
            }
            while let Some(notice) = self.machine.addresses.poll_notice() {
                self.heed(notice, now);
            }
            for key in self.machine.announcements.take_due(now) {
                // Taken out of the plan, or lost, since the round was planned.
                let addresses = &self.machine.addresses;
                if addresses.is_bound(key) || addresses.is_foreign(key) {
                    self.machine.announce(key);
                }
            }
            for member in &mut self.members {
                member.tell_if_serving(&mut self.machine, now);
                member.part_if_gone(&mut self.machine, now);
            }
            if !self.machine.dirty {
                break;
            }
        }
        if self.members.iter().any(Member::is_gone) {
            self.members.retain(|member| !member.is_gone());
            self.index();
            self.want();
        }
    }

    fn want(&mut self) {
        let mut wanted = BTreeMap::new();
        let mut listening = BTreeSet::new();
        for member in &mut self.members {
            member.want(&self.machine, &mut wanted);
            listening.extend(member.link().map(|link| (link, member.config.family)));
        }
        self.machine.addresses.want(wanted);
        self.machine.listen(listening);
    }

    fn heed(&mut self, notice: Notice, now: Instant) {
        let (Notice::Bound(key)
        | Notice::Lost(key, _)
        | Notice::Expired(key, _)
        | Notice::InUse(key)
        | Notice::Failing(key, _)) = notice;
        let holders = self.by_address.get(&key.1).map_or(&[][..], Vec::as_slice);
        for &place in holders {
            let Some(member) = self.members.get_mut(place) else { continue };
            if member.link() != Some(key.0) || member.role() != Role::Active {
                continue;
            }
            let machine = &mut self.machine;
            match &notice {
                Notice::Bound(_) => member.bound(key, machine, now),
                &Notice::Lost(_, vip) => {
                    machine.counters.addresses_lost += 1;
                    member.lost(key, EventKind::AddressLost { vip }, machine, now);
                }
                &Notice::Expired(_, vip) => {
                    machine.counters.addresses_expired += 1;
                    member.lost(key, EventKind::AddressExpired { vip }, machine, now);
                }
                Notice::InUse(_) => {
                    let problem = Problem::AddressInUse { address: key.1 };
                    member.problems.raise(problem, None, machine, now);
                }
                Notice::Failing(_, reason) => member.fail(key.1, reason.clone(), machine, now),
            }
        }
    }
}

/// Whether two snapshots differ in nothing but addresses of barevip.
fn same_links(a: &LinkSnapshot, b: &LinkSnapshot) -> bool {
    let without_ours = |link: &Link| Link {
        addresses: link.addresses.iter().filter(|a| a.instance.is_none()).copied().collect(),
        ..link.clone()
    };
    a.links.len() == b.links.len()
        && a.links.iter().zip(&b.links).all(|(a, b)| without_ours(a) == without_ours(b))
}
