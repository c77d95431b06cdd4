//! What a node is and sees at one moment, for people and for the controller.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::event::Problem;
use super::links::{LinkFault, UsableLink};
use crate::engine::time::Instant;
use crate::engine::vrrp::packet::Checksum;
use crate::engine::vrrp::role::Role;
use crate::model::{Family, Interval, Priority, Version, Vip, Vrid};

/// The whole node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Every router of the plan, in its order.
    pub routers: Vec<RouterStatus>,
    /// Links that can carry addresses, by name.
    pub links: BTreeMap<String, UsableLink>,
    /// VRIDs that others used on our links in the last minute: no router of ours lists their
    /// addresses.
    pub foreign: BTreeSet<(Family, Vrid)>,
    /// Counters since the start.
    pub counters: Counters,
    /// Whether this node is handing everything over.
    pub draining: bool,
    /// Lifetime of addresses, in whole seconds: a dead node holds none for a second longer.
    pub lifetime: Duration,
}

/// One virtual router on this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterStatus {
    /// Its name.
    pub name: String,
    /// Which statement of the plan is in force.
    pub version: Version,
    /// Its VRID.
    pub vrid: Vrid,
    /// Its family.
    pub family: Family,
    /// The name of the link it lives on.
    pub link: Option<String>,
    /// Why it has no usable link.
    pub fault: Option<LinkFault>,
    /// Its role here.
    pub role: Role,
    /// Since when.
    pub since: Instant,
    /// The priority that this node would advertise now; `None` where it is no candidate.
    pub priority: Option<Priority>,
    /// The configured interval.
    pub interval: Interval,
    /// The checksum form that was last heard from a peer (IPv4).
    pub checksum: Option<Checksum>,
    /// Who is Active as far as this node knows.
    pub active: Option<ActiveRouter>,
    /// Its addresses, and released ones that are still bound here.
    pub addresses: Vec<AddressStatus>,
    /// The last time this node took over.
    pub last_failover: Option<Failover>,
    /// How often the role changed since the start.
    pub transitions: u64,
    /// What is wrong, each since when.
    pub problems: Vec<(Problem, Instant)>,
}

/// The Active router of a virtual router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveRouter {
    /// The address it advertises from.
    pub address: IpAddr,
    /// The priority it advertises.
    pub priority: Priority,
    /// Whether it is this node.
    pub here: bool,
}

/// One address of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressStatus {
    /// The address.
    pub vip: Vip,
    /// Whether it is bound here.
    pub bound: bool,
}

/// A take-over by this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failover {
    /// When the last address was bound and announced.
    pub at: Instant,
    /// Since the last sign of life of the former Active, or since this node became Active.
    pub took: Duration,
}

/// Counters since the start, each a number of packets or events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Adverts sent, copies to peers included.
    pub adverts_sent: u64,
    /// Valid adverts of our routers heard.
    pub adverts_heard: u64,
    /// Of these, heard on the group.
    pub adverts_heard_multicast: u64,
    /// Adverts refused, by reason.
    pub adverts_refused: BTreeMap<String, u64>,
    /// Adverts with our own source address.
    pub own_source: u64,
    /// Valid adverts of VRIDs that are not ours.
    pub foreign_vrid: u64,
    /// Adverts of our VRID with a disjoint address list.
    pub foreign_router: u64,
    /// Announcements sent.
    pub announcements_sent: u64,
    /// Addresses added, refreshed and removed.
    pub address_changes: u64,
    /// Netlink commands that failed.
    pub command_failures: u64,
    /// Addresses that somebody else removed.
    pub addresses_lost: u64,
    /// Addresses that could not be refreshed in time.
    pub addresses_expired: u64,
    /// Times this process did not run for longer than a down interval.
    pub stalls: u64,
}
