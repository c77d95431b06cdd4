//! The virtual router that an address lives in, and how many addresses fit into one.

use std::net::IpAddr;
use std::sync::Arc;

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

/// Addresses that one router can hold: as many as an advert lists in one Ethernet frame and count
/// octet (RFC 9568 §5.2.5; an IPv6 advert lists a link-local address besides).
#[must_use]
pub const fn router_capacity(family: Family) -> usize {
    match family {
        Family::Ipv4 => 255,
        Family::Ipv6 => 88,
    }
}
