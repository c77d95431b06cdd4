//! What is to be written. Every change names the state that it was decided from, so that the API
//! server refuses it if that has passed; then it is decided anew.

use std::collections::BTreeMap;
use std::sync::Arc;

use ipnet::IpNet;

use super::world::{Claims, Condition, Ingress, Memory, RouterSpec, Timestamp, Uid};
use crate::model::Family;

/// All changes that the world needs. Claims come before publications: a Service's status changes
/// only once the world shows the claim that it publishes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// `VirtualRouter`s by name.
    pub routers: BTreeMap<Arc<str>, RouterChange>,
    /// Services, those that get an address first.
    pub services: Vec<ServiceChange>,
    /// Nodes that lack an `Announcer`, which is owned by the Node of this uid.
    pub announcers: Vec<(Arc<str>, Uid)>,
    /// What every pool's status is to say.
    pub pools: BTreeMap<Arc<str>, PoolReport>,
    /// What the ConfigMap of the protected ranges is to say, where it does not.
    pub protected: Option<Vec<IpNet>>,
    /// When to decide again though nothing changes: a rest ends.
    pub wake_at: Option<Timestamp>,
    /// What the next round is to find in the world.
    pub memory: Memory,
}

/// One write of a `VirtualRouter`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouterChange {
    /// There is none of this name.
    Create(RouterSpec),
    /// The one of this uid and generation is to say this.
    Update {
        /// The object that it was decided from.
        uid: Uid,
        /// Its generation.
        generation: i64,
        /// What it is to say.
        spec: RouterSpec,
        /// The annotation `barevip.io/move-to` of this value goes: it is done, or can't be.
        answered: Option<Arc<str>>,
    },
    /// Nothing is left in the one of this uid and generation.
    Delete {
        /// The object.
        uid: Uid,
        /// Its generation.
        generation: i64,
    },
}

/// One Service's writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceChange {
    /// The Service; its resourceVersion in the world is the precondition.
    pub uid: Uid,
    /// The whole `status.loadBalancer.ingress`, others' entries as they were.
    pub ingress: Option<Vec<Ingress>>,
    /// Our condition: `Some(None)` removes it.
    pub condition: Option<Option<Condition>>,
    /// The whole `spec.externalIPs`: written after a status that gains, before one that loses.
    pub external_ips: Option<Vec<String>>,
    /// What people must know, told once the write has succeeded.
    pub notices: Vec<Notice>,
}

/// An event on a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// One word, e.g. `IngressIPReallocated`.
    pub reason: &'static str,
    /// Whether somebody should act.
    pub warning: bool,
    /// One sentence, at most 1 024 characters.
    pub note: String,
}

/// What a pool's status says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolReport {
    /// Addresses that could be given, all together.
    pub total: u128,
    /// Addresses that Services have.
    pub used: u64,
    /// Addresses that rest after their release.
    pub resting: u64,
    /// Addresses that could be given now, those at rest not counted.
    pub free: u128,
    /// Services that wait for one of its addresses.
    pub waiting: u64,
    /// The oldest waiting Service's creation.
    pub waiting_since: Option<Timestamp>,
    /// The networks that its ranges cover.
    pub networks: Vec<IpNet>,
    /// Why nothing is given from it, or what else is wrong: `(type, condition)`.
    pub conditions: Vec<(&'static str, Condition)>,
}

/// The wanted claims of one router: what the allocator tells placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterClaims {
    /// The pool that the router is of.
    pub pool: Arc<str>,
    /// The family of its addresses.
    pub family: Family,
    /// Its addresses.
    pub claims: Claims,
}
