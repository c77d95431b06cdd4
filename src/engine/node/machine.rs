//! What all virtual routers of one machine share: its links, its addresses, what is announced,
//! what was heard of addresses elsewhere, and the commands that go out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::addresses::Addresses;
use super::announcements::Announcements;
use super::command::{Command, Packet};
use super::elsewhere::Claims;
use super::event::{Event, EventKind};
use super::identity::{Health, Identity};
use super::links::{Key, LinkId, LinkSnapshot};
use super::status::Counters;
use crate::engine::time::Instant;
use crate::engine::vrrp::frames::{Announcement, MacAddress, probe};
use crate::model::{Family, Vrid};

/// The shared part of a node.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) identity: Identity,
    pub(super) links: LinkSnapshot,
    /// Whether a snapshot has come: before that nothing is known to be missing.
    pub(super) links_seen: bool,
    pub(super) health: Health,
    /// Health by the name of a router, in the plan or not.
    pub(super) router_health: BTreeMap<String, Health>,
    pub(super) draining: bool,
    pub(super) stopping: bool,
    pub(super) addresses: Addresses,
    pub(super) announcements: Announcements,
    /// Addresses of ours that are advertised under another VRID.
    pub(super) elsewhere: Claims,
    /// VRIDs that others use on our links, and when each was heard last.
    pub(super) foreign: BTreeMap<(Family, Vrid), Instant>,
    pub(super) counters: Counters,
    pub(super) commands: VecDeque<Command>,
    /// A role, a plan or a link changed, so what is wanted has to be worked out again.
    pub(super) dirty: bool,
    /// The longest stall that the routers have noticed since it was last told.
    pub(super) stalled: Option<Duration>,
    listening: BTreeSet<(LinkId, Family)>,
    random: u64,
}

impl Machine {
    pub(super) fn new(identity: Identity, seed: u64) -> Self {
        Self {
            addresses: Addresses::new(identity.instance),
            identity,
            links: LinkSnapshot::default(),
            links_seen: false,
            health: Health::Healthy,
            router_health: BTreeMap::new(),
            draining: false,
            stopping: false,
            announcements: Announcements::default(),
            elsewhere: Claims::default(),
            foreign: BTreeMap::new(),
            counters: Counters::default(),
            commands: VecDeque::new(),
            dirty: false,
            stalled: None,
            listening: BTreeSet::new(),
            random: seed,
        }
    }

    /// The worse of the node's and the router's health.
    pub(super) fn health_of(&self, router: &str) -> Health {
        self.router_health.get(router).copied().unwrap_or_default().max(self.health)
    }

    /// Tells an operator.
    pub(super) fn note(&mut self, router: Option<&str>, kind: EventKind) {
        let router = router.map(str::to_owned);
        self.commands.push_back(Command::Note(Event { router, kind }));
    }

    /// Sends a packet.
    pub(super) fn send(&mut self, link: LinkId, packet: Packet) {
        self.commands.push_back(Command::Send { link, packet });
    }

    /// Tells the LAN that an address is here.
    pub(super) fn announce(&mut self, (id, address): Key) {
        let Some((link, mac)) = self.links.get(id).and_then(|link| Some((link, link.mac?))) else {
            return;
        };
        let frame = Announcement { address, mac }.frame(link.forwards_ipv6);
        self.counters.announcements_sent += 1;
        self.send(id, Packet::Frame(frame));
    }

    /// Asks the LAN who holds an address.
    pub(super) fn probe(&mut self, (id, address): Key) {
        if let Some(mac) = self.links.get(id).and_then(|link| link.mac) {
            self.send(id, Packet::Frame(probe(address, mac)));
        }
    }

    /// Whether a MAC address is one of this machine's.
    pub(super) fn owns(&self, mac: MacAddress) -> bool {
        self.links.links.iter().any(|link| link.mac == Some(mac))
    }

    /// Listens exactly where it is needed.
    pub(super) fn listen(&mut self, wanted: BTreeSet<(LinkId, Family)>) {
        for &(link, family) in self.listening.difference(&wanted) {
            self.commands.push_back(Command::Ignore { link, family });
        }
        for &(link, family) in wanted.difference(&self.listening) {
            self.commands.push_back(Command::Listen { link, family });
        }
        self.listening = wanted;
    }

    /// A duration below `limit`, from the node's seed (SplitMix64).
    pub(super) fn jitter(&mut self, limit: Duration) -> Duration {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let share = u32::try_from((z ^ (z >> 31)) >> 44).unwrap_or(0);
        limit * share / (1 << 20)
    }
}
