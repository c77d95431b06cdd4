//! What a virtual router makes of adverts and announcements of other machines.

use std::net::IpAddr;
use std::time::Duration;

use super::{FOREIGN_KEPT, Member, Takeover};
use crate::engine::node::event::Problem;
use crate::engine::node::leaving::Leaving;
use crate::engine::node::machine::Machine;
use crate::engine::time::Instant;
use crate::engine::vrrp::frames::MacAddress;
use crate::engine::vrrp::packet::{Advert, Checksum};
use crate::engine::vrrp::role::{Cause, Role};
use crate::model::{Priority, Vrid};

/// An Active router may lack addresses of our plan for this long.
const STALE_AFTER: Duration = Duration::from_secs(45);
/// Answers to a lower router after which it counts as deaf.
const DEAF_AFTER: u32 = 10;

impl Member {
    /// Whether an advert's addresses make it one of this router: a shared address does.
    fn recognises(&self, advert: &Advert) -> bool {
        advert.addresses.iter().any(|address| self.config.lists(*address))
    }

    /// A valid advert on our link with our VRID, not from this machine.
    pub(in crate::engine::node) fn hear(
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
        self.watch_paths(advert, is_multicast, received_at, machine);
        self.watch_settings(advert, source, machine, now);
        self.last_sign = Some(received_at).max(self.last_sign);
        if advert.priority.is_some() {
            machine.dirty |= !std::mem::replace(&mut self.decided, true);
            self.joined = true;
            self.probing = None;
            if self.role() == Role::Backup {
                self.unbindable.clear();
            }
        }
        self.router.handle_advert(advert, source, received_at);
        self.watch_list(advert, source, machine, now);
        self.watch_contest(machine, now);
        self.carry_out(machine, now);
        if self.takeover == Takeover::Asked && self.role() == Role::Backup {
            self.review(machine, now);
        }
    }

    /// What the machines of one router should have alike, or only one of them.
    fn watch_settings(
        &mut self,
        advert: &Advert,
        source: IpAddr,
        machine: &mut Machine,
        now: Instant,
    ) {
        let interval = advert.interval;
        if interval != self.config.interval && advert.priority.is_some() {
            let differs = Problem::IntervalDiffers { source, interval };
            self.raise_for(differs, FOREIGN_KEPT, machine, now);
        }
        if advert.priority == Some(Priority::OWNER) && self.config.is_owner() {
            self.raise_for(Problem::TwoOwners { source }, FOREIGN_KEPT, machine, now);
        }
    }

    /// Adverts that come by unicast alone show a LAN that filters multicast.
    fn watch_paths(
        &mut self,
        advert: &Advert,
        is_multicast: bool,
        at: Instant,
        machine: &mut Machine,
    ) {
        machine.counters.adverts_heard_multicast += u64::from(is_multicast);
        if is_multicast {
            self.unicast_since = None;
            self.problems.clear(machine, |p| *p == Problem::MulticastFiltered);
        } else if self.config.transport.multicast {
            let since = *self.unicast_since.get_or_insert(at);
            if at.since(since) > advert.interval.duration() * 10 {
                self.raise_for(Problem::MulticastFiltered, FOREIGN_KEPT, machine, at);
            }
        }
    }

    /// An Active router that lists too little has an older plan.
    fn watch_list(&mut self, advert: &Advert, source: IpAddr, machine: &mut Machine, now: Instant) {
        let is_active = advert.priority.is_some() && self.role() == Role::Backup;
        let lists = |vip: IpAddr| advert.addresses.contains(&vip) || !self.listed.contains(&vip);
        let is_complete =
            advert.addresses == self.listed || self.config.served().all(|vip| lists(vip.address()));
        if !is_active || is_complete {
            self.incomplete_since = None;
            let is_stale = |p: &Problem| matches!(p, Problem::StaleActive { .. });
            return self.problems.clear(machine, is_stale);
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

    pub(super) fn raise_for(
        &mut self,
        problem: Problem,
        kept: Duration,
        machine: &mut Machine,
        now: Instant,
    ) {
        self.problems.raise(problem, Some(now + kept), machine, now);
    }

    /// Somebody sends adverts with our own source.
    pub(in crate::engine::node) fn hear_own_source(
        &mut self,
        source: IpAddr,
        machine: &mut Machine,
        now: Instant,
    ) {
        self.raise_for(Problem::DuplicateSource { source }, FOREIGN_KEPT, machine, now);
    }

    /// Another machine announced an address of ours.
    pub(in crate::engine::node) fn hear_claim(
        &mut self,
        address: IpAddr,
        mac: MacAddress,
        machine: &mut Machine,
        now: Instant,
    ) {
        if let Some(Leaving::Holding(holding)) = &mut self.leaving {
            holding.claim(address, now);
            return;
        }
        let is_bound = self.link.is_some_and(|link| machine.addresses.is_bound((link, address)));
        if self.probing.take().is_some() || (self.role() == Role::Active && is_bound) {
            self.raise_for(Problem::ForeignClaim { address, mac }, FOREIGN_KEPT, machine, now);
            self.answer_claim(now);
        }
    }

    /// Another VRID's claim on an address of ours.
    pub(in crate::engine::node) fn hear_elsewhere(
        &mut self,
        address: IpAddr,
        (vrid, source): (Vrid, IpAddr),
        until: Instant,
        machine: &mut Machine,
        now: Instant,
    ) {
        let problem = Problem::AddressElsewhere { address, vrid, source };
        self.problems.raise(problem, Some(until), machine, now);
    }
}
