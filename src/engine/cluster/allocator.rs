//! Who gets which address: existing claims first, then statuses without a claim, then requests, in
//! the order (creation, uid).

use std::collections::BTreeMap;
use std::sync::Arc;

use ipnet::IpNet;

use super::decision::{PoolReport, RouterClaims, ServiceChange};
use super::world::{Timestamp, World};

/// What the allocator wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// The claims of every router that has or had some, by the router's name.
    pub routers: BTreeMap<Arc<str>, RouterClaims>,
    /// Services whose status, condition or externalIPs are to change.
    pub services: Vec<ServiceChange>,
    /// What every pool's status is to say.
    pub pools: BTreeMap<Arc<str>, PoolReport>,
    /// The ranges of all pools, merged.
    pub protected: Vec<IpNet>,
    /// When to allocate again though nothing changes.
    pub wake_at: Option<Timestamp>,
}

/// Decides all claims and publications.
#[must_use]
pub fn allocate(_world: &World, _now: Timestamp) -> Allocation {
    Allocation::default()
}
