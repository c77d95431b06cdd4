//! What a virtual router does with its addresses: advertise, bind, announce, and let go.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use super::{Member, pace};
use crate::engine::node::addresses::Wanted;
use crate::engine::node::command::Packet;
use crate::engine::node::event::{EventKind, Problem};
use crate::engine::node::leaving::{Holding, Leaving};
use crate::engine::node::links::Key;
use crate::engine::node::machine::Machine;
use crate::engine::node::status::Failover;
use crate::engine::time::Instant;
use crate::engine::vrrp::packet::{Advert, Checksum};
use crate::engine::vrrp::role::{Cause, Role};
use crate::model::{Announce, ChecksumForm, Priority};

/// A router whose addresses can't be bound leaves the role to others for this long.
const BIND_HOLD: Duration = Duration::from_secs(10);
/// Lost addresses that are told in such a time; the counter has them all.
const LOSSES_TOLD: u32 = 5;
const LOSSES_PER: Duration = Duration::from_secs(10);

/// From becoming Active until everything is bound and announced.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Serving {
    pub(super) from: Option<Instant>,
    told: bool,
}

impl Member {
    pub(super) fn advertise(&self, priority: Option<Priority>, machine: &mut Machine) {
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

    pub(super) fn start_serving(&mut self, machine: &mut Machine, now: Instant) {
        self.decided = true;
        self.probing = None;
        self.leaving = None;
        self.serving = Serving { from: Some(self.last_sign.unwrap_or(now)), told: false };
        self.refresh_at = Some(now + self.refresh_pause());
        // The role may be back before anything was let go: clients hear of it all the same.
        for key in self.keys() {
            machine.addresses.tell_again(key);
        }
        self.announce_own(machine, now);
    }

    /// An owner's addresses are bound by the administrator, and announced like any other
    /// (RFC 9568 §6.4.1).
    fn announce_own(&self, machine: &mut Machine, now: Instant) {
        let Announce { rounds, spacing, .. } = self.config.announce;
        for key in self.keys() {
            if self.is_own_address(key, machine) {
                machine.announcements.start(key, rounds, spacing, true, now);
            }
        }
    }

    /// Whether the administrator has bound an address that this node owns.
    fn is_own_address(&self, key: Key, machine: &Machine) -> bool {
        self.config.is_owner() && machine.addresses.is_foreign(key)
    }

    /// Never so short that nothing else is done.
    pub(super) fn refresh_pause(&self) -> Duration {
        self.config.announce.refresh.max(pace::PAUSE)
    }

    /// Lets go of the addresses, if others can hear of it one by one, else at once.
    pub(super) fn stop_serving(&mut self, cause: Cause, machine: &mut Machine, now: Instant) {
        self.serving = Serving::default();
        self.last_sign = Some(now);
        self.refresh_at = None;
        self.reminders.forget();
        self.answers.forget();
        let is_use = |p: &Problem| matches!(p, Problem::AddressInUse { .. });
        self.problems.clear(machine, is_use);
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
            self.leaving = Some(Leaving::Holding(Holding::new(bound, now)));
        }
    }

    /// Ends the handover when every address was claimed, or none was for too long.
    pub(super) fn let_go_if_due(&mut self, machine: &mut Machine, now: Instant) {
        let Some(Leaving::Holding(holding)) = &mut self.leaving else {
            return;
        };
        machine.dirty |= holding.release(now);
        if holding.is_over(now) {
            let summary = holding.summary();
            self.leaving = Some(Leaving::Parting);
            self.note(summary, machine);
            machine.dirty = true;
        }
    }

    /// Says priority 0 once more when the last address is gone, so that the new Active router
    /// announces again to those who asked in between.
    pub(in crate::engine::node) fn part_if_gone(&mut self, machine: &mut Machine, now: Instant) {
        // What another router of the plan took over from this one stays.
        let is_here =
            |key: &Key| machine.addresses.is_ours(*key) && !machine.addresses.is_wanted(*key);
        let is_parting = matches!(self.leaving, Some(Leaving::Parting));
        if !is_parting || self.keys().iter().any(is_here) {
            return;
        }
        self.leaving = None;
        self.router.part(now);
        self.carry_out(machine, now);
    }

    /// Whether addresses are still being handed over.
    pub(in crate::engine::node) const fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    /// What this router wants of the kernel.
    pub(in crate::engine::node) fn want(
        &mut self,
        machine: &Machine,
        wanted: &mut BTreeMap<Key, Wanted>,
    ) {
        let Some(link) = self.link else {
            return;
        };
        let patience = self.config.interval.duration() * 3;
        for vip in self.config.served() {
            let key = (link, vip.address());
            let bind = self.role() == Role::Active && self.vouched;
            let is_wanted = match self.role() {
                Role::Active => {
                    !self.is_own_address(key, machine) && !self.is_elsewhere(key, machine)
                }
                Role::Backup | Role::Initialize => {
                    let is_held = self.leaving.as_ref().is_some_and(|l| l.holds(vip.address()));
                    is_held || (!self.decided && self.role() == Role::Backup)
                }
            };
            // One that binds comes before one that is letting go.
            if is_wanted && (bind || !wanted.contains_key(&key)) {
                wanted.insert(key, Wanted { vip, bind, patience });
            }
        }
    }

    /// Whether another VRID has a better claim: it was there first, or both hold the address and
    /// it is the lower one. One that only lists it takes it from nobody.
    fn is_elsewhere(&self, key: Key, machine: &Machine) -> bool {
        machine.elsewhere.get(key).is_some_and(|other| {
            let holds = machine.addresses.is_bound(key) || machine.addresses.is_adding(key);
            !holds || (other.announced && other.vrid < self.config.vrid)
        })
    }

    /// An address of this router is bound now.
    pub(in crate::engine::node) fn bound(&mut self, key: Key, machine: &mut Machine, now: Instant) {
        if self.role() != Role::Active {
            return;
        }
        let Announce { rounds, spacing, .. } = self.config.announce;
        machine.announcements.start(key, rounds, spacing, true, now);
        self.unbindable.remove(&key.1);
        let is_over = |p: &Problem| {
            let is_of_bind = matches!(p, Problem::AddressInUse { .. } | Problem::BindFailed { .. });
            is_of_bind && p.address() == Some(key.1)
        };
        self.problems.clear(machine, is_over);
    }

    /// Tells that everything is served, once after each time the role was taken.
    pub(in crate::engine::node) fn tell_if_serving(&mut self, machine: &mut Machine, now: Instant) {
        let Serving { from: Some(from), told: false } = self.serving else {
            return;
        };
        let keys = self.keys();
        let is_settled = |key: &Key| {
            machine.addresses.is_bound(*key)
                || machine.addresses.is_foreign(*key)
                || self.is_elsewhere(*key, machine)
        };
        // They are bound in order, so the last one tells soonest.
        if !keys.iter().rev().all(is_settled) {
            return;
        }
        let took = now.since(from);
        self.serving.told = true;
        self.last_failover = Some(Failover { at: now, took });
        let addresses = keys.iter().filter(|key| machine.addresses.is_bound(**key)).count();
        self.note(EventKind::Serving { addresses, took }, machine);
    }

    /// An address of this router is gone that should be there. Whoever removes addresses all the
    /// time fills no log.
    pub(in crate::engine::node) fn lost(
        &mut self,
        key: Key,
        how: EventKind,
        machine: &mut Machine,
        now: Instant,
    ) {
        machine.announcements.stop(key);
        if now.since(self.losses.0) > LOSSES_PER {
            self.losses = (now, 0);
        }
        self.losses.1 = self.losses.1.saturating_add(1);
        if self.losses.1 <= LOSSES_TOLD {
            self.note(how, machine);
        }
    }

    /// Announces everything again because somebody may have been told otherwise, at most once a
    /// second.
    pub(in crate::engine::node) fn remind(&mut self, machine: &mut Machine, now: Instant) {
        if self.role() == Role::Active {
            self.reminders.ask(now);
            self.announce_if_asked(machine, now);
        }
    }

    /// Answers another machine's announcement after two intervals: by then its adverts were
    /// heard if it is to be Active (FRR announces IPv6 addresses before it advertises), and it
    /// has finished announcing if it is not (keepalived announces after a losing advert).
    pub(super) fn answer_claim(&mut self, now: Instant) {
        if self.role() == Role::Active {
            self.answers.ask(now + self.config.interval.duration() * 2);
        }
    }

    pub(super) fn announce_if_asked(&mut self, machine: &mut Machine, now: Instant) {
        let is_reminded = self.reminders.take_due(now);
        let has_answer = self.answers.take_due(now);
        if is_reminded || has_answer {
            self.announce_all(1, true, machine, now);
        }
    }

    pub(super) fn announce_all(
        &self,
        rounds: u8,
        urgent: bool,
        machine: &mut Machine,
        now: Instant,
    ) {
        for key in self.keys() {
            if self.is_own_address(key, machine) || machine.addresses.is_bound(key) {
                let spacing = self.config.announce.spacing;
                machine.announcements.start(key, rounds, spacing, urgent, now);
            }
        }
    }

    /// Tells peers that advertise to this machine alone where it is. They may have given up on it
    /// while it was away, and a kernel then asks for it once a second: longer than a down
    /// interval, after which this router would take the role from one that it can't hear.
    pub(super) fn announce_source(&self, machine: &mut Machine, now: Instant) {
        let link = self.link.filter(|_| !self.config.transport.peers.is_empty());
        let link = link.and_then(|id| machine.links.get(id));
        if let Some((id, source)) = link.and_then(|l| Some((l.id, l.source(&self.config)?))) {
            let Announce { rounds, spacing, .. } = self.config.announce;
            machine.announcements.start((id, source), rounds, spacing, true, now);
        }
    }

    /// An address could not be bound: somebody else shall try. If the role comes back, nobody
    /// else could, and the other addresses are served without it.
    pub(in crate::engine::node) fn fail(
        &mut self,
        address: IpAddr,
        reason: String,
        machine: &mut Machine,
        now: Instant,
    ) {
        self.raise_for(Problem::BindFailed { address, reason }, BIND_HOLD * 2, machine, now);
        let is_alone = self.config.is_alone(&machine.identity.node);
        if is_alone || !self.unbindable.insert(address) {
            return;
        }
        self.router.step_back(Cause::BindFailed, true, BIND_HOLD, now);
        self.carry_out(machine, now);
    }
}
