//! Where addresses live and who may serve them: homes, VRIDs, candidates and their priorities.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::decision::{RouterChange, RouterClaims};
use super::world::{Timestamp, World};
use crate::model::range::number;
use crate::model::{Family, Pool};

/// The name of the router that `address` lives in while it is free.
#[must_use]
pub fn home(pool_name: &str, pool: &Pool, address: IpAddr) -> Arc<str> {
    let number = number(address) % u128::from(pool.routers.max(1));
    let family = match Family::of(address) {
        Family::Ipv4 => "v4",
        Family::Ipv6 => "v6",
    };
    format!("{pool_name}-{family}-{number}").into()
}

/// The writes that turn the world's routers into ones with these claims and the right candidates.
#[must_use]
pub fn place(
    _world: &World,
    _wanted: BTreeMap<Arc<str>, RouterClaims>,
    _now: Timestamp,
) -> BTreeMap<Arc<str>, RouterChange> {
    BTreeMap::new()
}
