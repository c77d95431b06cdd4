//! Which addresses a node has, as its kernel shows them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use barevip::io::lab::lan::Host;
use nix::ifaddrs::getifaddrs;

/// How many of these addresses the node has.
pub(crate) fn held(host: &Host, addresses: &BTreeSet<IpAddr>) -> anyhow::Result<usize> {
    host.namespace().run(|| held_here(addresses))
}

/// The same in the calling thread's namespace.
pub(crate) fn held_here(addresses: &BTreeSet<IpAddr>) -> anyhow::Result<usize> {
    let here = getifaddrs()?.filter_map(|entry| {
        let address = entry.address?;
        let ipv4 = address.as_sockaddr_in().map(|socket| IpAddr::V4(socket.ip()));
        ipv4.or_else(|| address.as_sockaddr_in6().map(|socket| IpAddr::V6(socket.ip())))
    });
    Ok(here.filter(|address| addresses.contains(address)).count())
}
