//! A directed scenario: a small LAN with exact times, whose broken invariants fail the test.

use std::net::IpAddr;
use std::rc::Rc;

use barevip::engine::node::event::EventKind;
use barevip::engine::node::status::RouterStatus;
use barevip::engine::vrrp::packet::{Advert, Checksum};
use barevip::engine::vrrp::role::Role;
use barevip::model::{Family, Priority};

use super::faults::Kind;
use super::happened::{Happened, What};
use super::host::AdvertPacket;
use super::plans::{RouterPlan, Setup};
use super::time::{MS, Nanos};
use super::world::{EXACT, Event, Lan};

pub(crate) struct Scene {
    pub(crate) lan: Lan,
    setup: Setup,
}

impl Scene {
    /// Machines that know their plans and do not run yet.
    pub(crate) fn new(setup: Setup) -> Self {
        let mut lan = Lan::new(&setup, 1, EXACT);
        lan.log = Some(Vec::new());
        Self { lan, setup }
    }

    /// The same, started at once, and at rest.
    pub(crate) fn at_rest(setup: Setup) -> Self {
        let mut scene = Self::new(setup);
        scene.start_all();
        scene.run(5_000);
        scene
    }

    pub(crate) fn start_all(&mut self) {
        for host in 0..self.lan.hosts.len() {
            self.lan.start(host);
        }
    }

    /// Goes on for so many milliseconds.
    pub(crate) fn run(&mut self, millis: u64) {
        self.run_for(millis * MS);
    }

    pub(crate) fn run_for(&mut self, duration: Nanos) {
        self.lan.run_until(self.lan.now + duration);
        if let Some(failure) = self.lan.judge.failure.clone() {
            panic!("{failure}\n{}", self.trace());
        }
    }

    /// Goes on until something is so; fails after `millis`.
    pub(crate) fn run_until(&mut self, millis: u64, what: &str, so: impl Fn(&Self) -> bool) {
        let end = self.lan.now + millis * MS;
        while !so(self) {
            assert!(self.lan.now < end, "not within {millis} ms: {what}\n{}", self.trace());
            self.run_for(MS / 10);
        }
    }

    pub(crate) fn begin(&mut self, millis: u64, kind: Kind) {
        self.lan.suffer(millis * MS, kind);
        self.run_for(0);
    }

    /// The plan is another one; everybody knows it at once.
    pub(crate) fn publish(&mut self, change: impl FnOnce(&mut Vec<RouterPlan>)) {
        self.lan.publish(0, change);
        self.run_for(0);
    }

    /// The plan is another one, and only these machines hear of it.
    pub(crate) fn publish_to(
        &mut self,
        hosts: &[usize],
        change: impl FnOnce(&mut Vec<RouterPlan>),
    ) {
        let mut plan = (*self.lan.published).clone();
        change(&mut plan);
        self.lan.published = Rc::new(plan);
        for host in hosts {
            self.lan.plan_arrives(*host, Rc::clone(&self.lan.published));
        }
        self.run_for(0);
    }

    // ---- what is so ----------------------------------------------------------------------------

    pub(crate) fn now(&self) -> Nanos {
        self.lan.now
    }

    pub(crate) fn role(&self, host: usize, router: usize) -> Role {
        self.status(host, router).map_or(Role::Initialize, |status| status.role)
    }

    pub(crate) fn status(&self, host: usize, router: usize) -> Option<RouterStatus> {
        let process = self.lan.hosts[host].process.as_ref()?;
        process.node.status().routers.into_iter().nth(router)
    }

    /// The machines that are Active for a router.
    pub(crate) fn active(&self, router: usize) -> Vec<usize> {
        (0..self.lan.hosts.len()).filter(|host| self.role(*host, router) == Role::Active).collect()
    }

    /// The machines that hold an address.
    pub(crate) fn holders(&self, address: IpAddr) -> Vec<usize> {
        (0..self.lan.hosts.len())
            .filter(|host| self.lan.hosts[*host].kernel.held(address).is_some())
            .collect()
    }

    pub(crate) fn vip(&self, router: usize, vip: usize) -> IpAddr {
        super::plans::vip_of(self.setup.family, router, vip)
    }

    /// Where the client sends packets for an address.
    pub(crate) fn client(&self, address: IpAddr) -> Option<usize> {
        self.lan.clients[0].entries[&address].machine
    }

    /// The longest time that the client lost packets for any address, since it was last forgotten.
    pub(crate) fn outage(&self) -> Nanos {
        let entries = self.lan.clients[0].entries.values();
        entries.map(|entry| entry.outage(self.lan.now)).max().unwrap_or(0)
    }

    pub(crate) fn forget_outages(&mut self) {
        self.lan.clients[0].forget_outages(self.lan.now);
    }

    // ---- what happened ---------------------------------------------------------------------------

    pub(crate) fn log(&self) -> &[Happened] {
        self.lan.log.as_deref().unwrap()
    }

    /// When each thing of this kind happened on a machine, from `since` on.
    pub(crate) fn times(
        &self,
        since: Nanos,
        host: usize,
        is_it: impl Fn(&What) -> bool,
    ) -> Vec<Nanos> {
        self.log()
            .iter()
            .filter(|h| h.at >= since && h.machine == host && is_it(&h.what))
            .map(|h| h.at)
            .collect()
    }

    /// When a machine became Active for a router, from `since` on.
    pub(crate) fn became_active(&self, since: Nanos, host: usize, router: usize) -> Vec<Nanos> {
        self.times(
            since,
            host,
            |what| matches!(what, What::Role { router: r, role: Role::Active } if *r == router),
        )
    }

    pub(crate) fn adverts(&self, since: Nanos, host: usize) -> Vec<(Nanos, u8)> {
        self.log()
            .iter()
            .filter(|h| h.at >= since && h.machine == host)
            .filter_map(|h| match &h.what {
                What::Advert { priority, to, .. } if to.is_multicast() => Some((h.at, *priority)),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn announcements(&self, since: Nanos, host: usize, address: IpAddr) -> Vec<Nanos> {
        self.times(since, host, |what| matches!(what, What::Announced(a) if *a == address))
    }

    /// How often a machine told the operator something.
    pub(crate) fn notes(
        &self,
        since: Nanos,
        host: usize,
        is_it: impl Fn(&EventKind) -> bool,
    ) -> usize {
        self.times(since, host, |what| matches!(what, What::Note(note) if is_it(&note.kind))).len()
    }

    /// An advert of the first router from a machine that the simulation does not have.
    pub(crate) fn inject(&mut self, to: usize, source: [u8; 4], priority: u8, listed: IpAddr) {
        let plan = &self.lan.published[0].router;
        let advert = Advert {
            vrid: plan.vrid,
            priority: Priority::try_from(priority).ok(),
            interval: plan.interval,
            addresses: vec![listed],
        };
        let (source, destination) = (source.into(), plan.family.group());
        let message = advert.emit(source, destination, Checksum::Rfc9568);
        let packet = Rc::new(AdvertPacket { source, destination, ttl: 255, message });
        self.lan.push(0, Event::Advert { to, packet });
        self.run_for(0);
    }

    pub(crate) fn trace(&self) -> String {
        let log = self.log();
        let from = log.len().saturating_sub(400);
        log[from..].iter().map(|happened| format!("{happened}\n")).collect()
    }
}

/// 3 intervals and the skew of a priority.
pub(crate) fn down(setup: &Setup, rank: u8) -> Nanos {
    super::time::nanos(setup.interval.down(Priority::for_rank(rank).unwrap()))
}

pub(crate) fn skew(setup: &Setup, rank: u8) -> Nanos {
    super::time::nanos(setup.interval.skew(Priority::for_rank(rank).unwrap()))
}

pub(crate) const FAMILIES: [Family; 2] = [Family::Ipv4, Family::Ipv6];
