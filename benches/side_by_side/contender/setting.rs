//! What both daemons are told to do, in words of neither.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// The nodes' priorities and what they share.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// One for each node, the preferred one first.
    pub(crate) priorities: Vec<u8>,
    pub(crate) interval: Duration,
    pub(crate) preempt: Preempt,
    /// The addresses of each virtual router, whose VRIDs count from 1.
    pub(crate) routers: Vec<Vec<IpAddr>>,
}

/// Whether a node of higher priority takes the addresses back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preempt {
    Never,
    AfterASecond,
}

impl Setting {
    /// One virtual router with one address, and nobody preempts.
    pub(crate) fn new(interval: Duration, priorities: &[u8]) -> Self {
        Self {
            priorities: priorities.to_vec(),
            interval,
            preempt: Preempt::Never,
            routers: vec![vec![Ipv4Addr::new(192, 0, 2, 50).into()]],
        }
    }

    pub(crate) fn preempt(self, preempt: Preempt) -> Self {
        Self { preempt, ..self }
    }

    pub(crate) fn routers(self, routers: Vec<Vec<IpAddr>>) -> Self {
        Self { routers, ..self }
    }

    /// Every address of every router.
    pub(crate) fn addresses(&self) -> BTreeSet<IpAddr> {
        self.routers.iter().flatten().copied().collect()
    }

    /// After so long a silence the second node takes over from the first (RFC 9568 §6.1).
    pub(crate) fn down_interval(&self) -> Duration {
        let priority = self.priorities.get(1).copied().unwrap_or(u8::MAX);
        self.interval * 3 + self.interval * (256 - u32::from(priority)) / 256
    }
}

/// Room for thousands of IPv4 addresses, as the LAN's own subnet has not.
pub(crate) const WIDE_SUBNET: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 66, 0, 0), 16);

/// So many IPv4 addresses of the wide subnet.
pub(crate) fn ipv4_addresses(count: u32) -> impl Iterator<Item = IpAddr> {
    let first = u32::from(WIDE_SUBNET.0) + 1;
    (first..).take(count as usize).map(|address| Ipv4Addr::from(address).into())
}

/// So many IPv6 addresses of the LAN's own subnet.
pub(crate) fn ipv6_addresses(count: u32) -> impl Iterator<Item = IpAddr> {
    let first = u128::from(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0x66, 1));
    (first..).take(count as usize).map(|address| Ipv6Addr::from(address).into())
}
