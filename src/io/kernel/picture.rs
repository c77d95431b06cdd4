//! The machine's links and addresses, folded from what netlink says. Pure.
//!
//! Messages are read attribute by attribute, and only those that are needed: a link whose driver
//! reports something that this program has never heard of must not be invisible.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use netlink_packet_core::{NlaBuffer, NlasIterator};

use super::route_socket::Message;
use crate::engine::node::links::{Instance, Link, LinkAddress, LinkId, LinkSnapshot};
use crate::engine::vrrp::frames::MacAddress;
use crate::model::Vip;

/// What every address of ours carries in IFA_PROTO, on kernels that know it (5.18).
pub(super) const MARK: u8 = 0x62;

const NEW_LINK: u16 = 16;
const DEL_LINK: u16 = 17;
const NEW_ADDRESS: u16 = 20;
const DEL_ADDRESS: u16 = 21;

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_SLAVE_KIND: u16 = 4;

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
const IFA_RT_PRIORITY: u16 = 9;
const IFA_PROTO: u16 = 11;

const IFF_UP: u32 = 1;
const IFF_LOWER_UP: u32 = 1 << 16;
const ARPHRD_ETHER: u16 = 1;

const IFA_F_SECONDARY: u32 = 0x01;
const IFA_F_OPTIMISTIC: u32 = 0x04;
const IFA_F_DADFAILED: u32 = 0x08;
const IFA_F_TENTATIVE: u32 = 0x40;

/// All links with their addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Picture {
    links: BTreeMap<LinkId, Seen>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    /// Its addresses are left empty here.
    link: Link,
    addresses: Vec<Held>,
}

/// An address as the kernel orders it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) address: LinkAddress,
    /// How far it reaches, 0 the farthest (IPv4); unused for IPv6, whose reach is in the address.
    scope: u8,
    /// A later IPv4 address in the subnet of an earlier one.
    secondary: bool,
}

/// One thing that netlink said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Link(Link),
    LinkGone(LinkId),
    Address(LinkId, Held),
    AddressGone(LinkId, LinkAddress),
}

impl Change {
    /// Reads a message; `None` where it says nothing about links and addresses.
    pub(super) fn read((kind, payload): Message<'_>) -> Option<Self> {
        match kind {
            NEW_LINK => link(payload).map(Self::Link),
            DEL_LINK => header_of_link(payload).map(|header| Self::LinkGone(header.id)),
            NEW_ADDRESS => address(payload).map(|(link, held)| Self::Address(link, held)),
            DEL_ADDRESS => {
                address(payload).map(|(link, held)| Self::AddressGone(link, held.address))
            }
            _ => None,
        }
    }
}

impl Held {
    /// An address of ours as it is just after it was bound.
    pub(super) fn ours(vip: Vip, instance: Instance) -> Self {
        Self {
            address: LinkAddress {
                address: vip.address(),
                prefix_len: vip.prefix_len(),
                instance: Some(instance),
                usable: true,
            },
            scope: 0,
            secondary: false,
        }
    }
}

impl Picture {
    /// Folds one change in. Whether it changed anything that a snapshot shows.
    pub(super) fn apply(&mut self, change: Change) -> bool {
        match change {
            Change::Link(link) => self.see_link(link),
            Change::LinkGone(id) => self.links.remove(&id).is_some(),
            Change::Address(link, held) => {
                self.links.get_mut(&link).is_some_and(|seen| insert(&mut seen.addresses, held))
            }
            Change::AddressGone(link, address) => {
                self.links.get_mut(&link).is_some_and(|seen| remove(&mut seen.addresses, address))
            }
        }
    }

    /// As [`Self::apply`], but addresses stand in the order in which they come: a dump's.
    pub(super) fn append(&mut self, change: Change) {
        if let Change::Address(link, held) = change {
            if let Some(seen) = self.links.get_mut(&link) {
                seen.addresses.push(held);
            }
        } else {
            self.apply(change);
        }
    }

    fn see_link(&mut self, link: Link) -> bool {
        let Some(seen) = self.links.get_mut(&link.id) else {
            let addresses = Vec::new();
            self.links.insert(link.id, Seen { link, addresses });
            return true;
        };
        // A message says nothing about forwarding.
        let link = Link { forwards_ipv6: seen.link.forwards_ipv6, ..link };
        let changed = seen.link != link;
        seen.link = link;
        changed
    }

    /// Notes whether a link forwards IPv6. Whether that is new.
    pub(super) fn set_forwarding(&mut self, id: LinkId, forwards: bool) -> bool {
        let Some(seen) = self.links.get_mut(&id) else {
            return false;
        };
        std::mem::replace(&mut seen.link.forwards_ipv6, forwards) != forwards
    }

    /// The indices and names of all links.
    pub(super) fn names(&self) -> impl Iterator<Item = (LinkId, &str)> {
        self.links.iter().map(|(id, seen)| (*id, seen.link.name.as_str()))
    }

    /// The name of a link.
    pub(super) fn name(&self, id: LinkId) -> Option<&str> {
        self.links.get(&id).map(|seen| seen.link.name.as_str())
    }

    /// The address as it stands on the link, whoever put it there.
    pub(super) fn holds(&self, link: LinkId, vip: Vip) -> Option<&LinkAddress> {
        let is_it = |held: &&Held| {
            held.address.address == vip.address() && held.address.prefix_len == vip.prefix_len()
        };
        let seen = self.links.get(&link)?;
        seen.addresses.iter().find(is_it).map(|held| &held.address)
    }

    /// All addresses that an instance marked.
    pub(super) fn marked(&self, by: Instance) -> impl Iterator<Item = (LinkId, LinkAddress)> {
        self.links.iter().flat_map(move |(id, seen)| {
            seen.addresses
                .iter()
                .filter(move |held| held.address.instance == Some(by))
                .map(|held| (*id, held.address))
        })
    }

    /// The instances that have marked an address.
    pub(super) fn instances(&self) -> BTreeSet<Instance> {
        let held = self.links.values().flat_map(|seen| &seen.addresses);
        held.filter_map(|held| held.address.instance).collect()
    }

    /// The picture as the engine takes it.
    pub(super) fn snapshot(&self) -> LinkSnapshot {
        let links = self.links.values().map(|seen| Link {
            addresses: seen.addresses.iter().map(|held| held.address).collect(),
            ..seen.link.clone()
        });
        LinkSnapshot { links: links.collect() }
    }
}

/// Puts an address where the kernel has it. A known one stays in its place unless it ceased to
/// be, or became, a secondary one.
fn insert(addresses: &mut Vec<Held>, held: Held) -> bool {
    let known = addresses.iter().position(|known| is_same(known.address, held.address));
    match known.and_then(|at| addresses.get_mut(at)) {
        Some(known) if known.secondary == held.secondary => {
            return std::mem::replace(known, held) != held;
        }
        Some(_) => {
            remove(addresses, held.address);
        }
        None => {}
    }
    let at = place(addresses, &held);
    addresses.insert(at, held);
    true
}

/// Where the kernel inserts a new address: IPv4 (`__inet_insert_ifa`) behind the last primary one
/// that reaches no farther, or last if it is a secondary one; IPv6 (`ipv6_link_dev_addr`)
/// before the first that does not reach farther. IPv4 stands before IPv6, as in a dump.
fn place(addresses: &[Held], held: &Held) -> usize {
    let ipv4 = addresses
        .iter()
        .position(|other| other.address.address.is_ipv6())
        .unwrap_or(addresses.len());
    match held.address.address {
        IpAddr::V4(_) if held.secondary => ipv4,
        IpAddr::V4(_) => addresses
            .iter()
            .take(ipv4)
            .rposition(|other| !other.secondary && held.scope <= other.scope)
            .map_or(0, |last| last + 1),
        IpAddr::V6(_) => addresses
            .iter()
            .skip(ipv4)
            .position(|other| reach(other) <= reach(held))
            .map_or(addresses.len(), |first| ipv4 + first),
    }
}

/// How far an IPv6 address reaches, as the scope of RFC 4291 §2.7.
fn reach(held: &Held) -> u8 {
    const LINK: u8 = 2;
    const GLOBAL: u8 = 14;
    match held.address.address {
        IpAddr::V6(v6) if v6.is_loopback() || v6.is_unicast_link_local() => LINK,
        IpAddr::V6(_) | IpAddr::V4(_) => GLOBAL,
    }
}

fn remove(addresses: &mut Vec<Held>, gone: LinkAddress) -> bool {
    let before = addresses.len();
    addresses.retain(|held| !is_same(held.address, gone));
    addresses.len() != before
}

/// One IPv4 address may stand on a link with several lengths.
fn is_same(a: LinkAddress, b: LinkAddress) -> bool {
    a.address == b.address && a.prefix_len == b.prefix_len
}

/// `struct ifinfomsg`.
struct LinkHeader {
    id: LinkId,
    is_ethernet: bool,
    flags: u32,
}

/// `None` where it is not about a link as such: bridges tell of their ports under their own
/// family, and a port that leaves the bridge is not a link that is gone.
fn header_of_link(payload: &[u8]) -> Option<LinkHeader> {
    let (header, _) = payload.split_first_chunk::<16>()?;
    let [family, _, t0, t1, i0, i1, i2, i3, f0, f1, f2, f3, ..] = *header;
    (family == 0).then(|| LinkHeader {
        id: LinkId(u32::from_ne_bytes([i0, i1, i2, i3])),
        is_ethernet: u16::from_ne_bytes([t0, t1]) == ARPHRD_ETHER,
        flags: u32::from_ne_bytes([f0, f1, f2, f3]),
    })
}

/// `None` also for the wireless stack's messages, which carry no name and only a part of the rest.
fn link(payload: &[u8]) -> Option<Link> {
    let header = header_of_link(payload)?;
    let mut name = None;
    let mut mac = None;
    let mut mtu = 0;
    let mut master = None;
    let mut is_in_vrf = false;
    for attribute in attributes(payload.get(16..)?) {
        let value = attribute.value();
        match attribute.kind() {
            IFLA_IFNAME => name = Some(text(value)),
            IFLA_ADDRESS => mac = value.try_into().ok().map(MacAddress),
            IFLA_MTU => mtu = number(value)?,
            IFLA_MASTER => master = Some(LinkId(number(value)?)),
            IFLA_LINKINFO => {
                is_in_vrf = attributes(value)
                    .any(|info| info.kind() == IFLA_INFO_SLAVE_KIND && text(info.value()) == "vrf");
            }
            _ => {}
        }
    }
    Some(Link {
        id: header.id,
        name: name?,
        mac: mac.filter(|mac| header.is_ethernet && mac.0 != [0; 6]),
        mtu,
        up: header.flags & IFF_UP != 0,
        carrier: header.flags & IFF_LOWER_UP != 0,
        // A VRF is a routing table: packets for the link still arrive on it.
        master: master.filter(|_| !is_in_vrf),
        forwards_ipv6: false,
        addresses: Vec::new(),
    })
}

/// `struct ifaddrmsg` and what follows it.
fn address(payload: &[u8]) -> Option<(LinkId, Held)> {
    let (header, rest) = payload.split_first_chunk::<8>()?;
    let [family, prefix_len, flags, scope, i0, i1, i2, i3] = *header;
    let mut flags = u32::from(flags);
    let mut peer_or_own = None;
    let mut own = None;
    let mut metric = 0;
    let mut protocol = None;
    for attribute in attributes(rest) {
        let value = attribute.value();
        match attribute.kind() {
            // IFA_ADDRESS is the other end's where IFA_LOCAL says which is ours.
            IFA_ADDRESS => peer_or_own = ip(family, value),
            IFA_LOCAL => own = ip(family, value),
            IFA_FLAGS => flags = number(value)?,
            IFA_RT_PRIORITY => metric = number(value)?,
            IFA_PROTO => protocol = value.first().copied(),
            _ => {}
        }
    }
    let is_marked = protocol.is_none_or(|protocol| protocol == MARK);
    let is_waiting = flags & IFA_F_TENTATIVE != 0 && flags & IFA_F_OPTIMISTIC == 0;
    let held = Held {
        address: LinkAddress {
            address: own.or(peer_or_own)?,
            prefix_len,
            instance: Instance::from_metric(metric).filter(|_| is_marked),
            usable: !is_waiting && flags & IFA_F_DADFAILED == 0,
        },
        scope,
        secondary: flags & IFA_F_SECONDARY != 0 && family == AF_INET,
    };
    Some((LinkId(u32::from_ne_bytes([i0, i1, i2, i3])), held))
}

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

fn ip(family: u8, value: &[u8]) -> Option<IpAddr> {
    match family {
        AF_INET => <[u8; 4]>::try_from(value).ok().map(IpAddr::from),
        AF_INET6 => <[u8; 16]>::try_from(value).ok().map(IpAddr::from),
        _ => None,
    }
}

fn number(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_ne_bytes)
}

fn text(value: &[u8]) -> String {
    let end = value.iter().position(|byte| *byte == 0);
    let text = value.get(..end.unwrap_or(value.len())).unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// The attributes up to the first damaged one.
fn attributes(bytes: &[u8]) -> impl Iterator<Item = NlaBuffer<&[u8]>> {
    NlasIterator::new(bytes).map_while(Result::ok)
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::{DefaultNla, Emitable};
    use netlink_packet_route::AddressFamily;
    use netlink_packet_route::address::{
        AddressAttribute, AddressFlags, AddressMessage, AddressProtocol,
    };
    use netlink_packet_route::link::{
        InfoKind, InfoPortKind, LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage,
    };

    use super::*;

    const MINE: Instance = Instance(0x6261_0001);

    fn bytes(message: &impl Emitable) -> Vec<u8> {
        let mut bytes = vec![0; message.buffer_len()];
        message.emit(&mut bytes);
        bytes
    }

    fn ethernet(attributes: Vec<LinkAttribute>) -> LinkMessage {
        let mut message = LinkMessage::default();
        message.header.index = 3;
        message.header.link_layer_type = LinkLayerType::Ether;
        message.header.flags = LinkFlags::Up | LinkFlags::LowerUp;
        message.attributes.push(LinkAttribute::IfName("eth0".to_owned()));
        message.attributes.extend(attributes);
        message
    }

    fn read_link(message: &LinkMessage) -> Option<Link> {
        let change = Change::read((NEW_LINK, &bytes(message)))?;
        let Change::Link(link) = change else { panic!("{change:?}") };
        Some(link)
    }

    fn inet(text: &str, attributes: Vec<AddressAttribute>) -> AddressMessage {
        let net: ipnet::IpNet = text.parse().unwrap();
        let mut message = AddressMessage::default();
        message.header.family =
            if net.addr().is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        message.header.index = 3;
        message.header.prefix_len = net.prefix_len();
        message.attributes.push(AddressAttribute::Address(net.addr()));
        message.attributes.extend(attributes);
        message
    }

    fn read_address(message: &AddressMessage) -> LinkAddress {
        match Change::read((NEW_ADDRESS, &bytes(message))) {
            Some(Change::Address(LinkId(3), held)) => held.address,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_link_is_read() {
        let mac = vec![2, 0, 0, 0, 0, 7];
        let attributes = vec![LinkAttribute::Address(mac), LinkAttribute::Mtu(1400)];
        let link = read_link(&ethernet(attributes)).unwrap();
        assert_eq!((link.id, link.name.as_str(), link.mtu), (LinkId(3), "eth0", 1400));
        assert_eq!(link.mac, Some(MacAddress([2, 0, 0, 0, 0, 7])));
        assert!(link.up && link.carrier && link.master.is_none());
    }

    #[test]
    fn an_attribute_that_nobody_understands_hides_no_link() {
        let strange = vec![
            LinkAttribute::Other(DefaultNla::new(6, vec![0xff; 3])), // IFLA_QDISC, no text
            LinkAttribute::Other(DefaultNla::new(4711, vec![1])),
            LinkAttribute::Mtu(9000),
        ];
        assert_eq!(read_link(&ethernet(strange)).unwrap().mtu, 9000);
    }

    #[test]
    fn a_tunnels_address_is_no_mac() {
        let mut tunnel = ethernet(vec![LinkAttribute::Address(vec![192, 0, 2, 1])]);
        assert_eq!(read_link(&tunnel).unwrap().mac, None);
        tunnel.attributes.push(LinkAttribute::Address(vec![1; 6]));
        tunnel.header.link_layer_type = LinkLayerType::Ip6gre;
        assert_eq!(read_link(&tunnel).unwrap().mac, None);
    }

    #[test]
    fn a_bridge_swallows_its_ports_and_a_vrf_does_not() {
        let port = |kind| {
            let info = vec![LinkInfo::Kind(InfoKind::Veth), LinkInfo::PortKind(kind)];
            ethernet(vec![LinkAttribute::Controller(9), LinkAttribute::LinkInfo(info)])
        };
        assert_eq!(read_link(&port(InfoPortKind::Bridge)).unwrap().master, Some(LinkId(9)));
        assert_eq!(read_link(&port(InfoPortKind::Vrf)).unwrap().master, None);
    }

    #[test]
    fn what_a_bridge_or_the_wireless_stack_says_is_not_about_the_link() {
        let mut of_bridge = ethernet(Vec::new());
        of_bridge.header.interface_family = AddressFamily::Bridge;
        let of_bridge = bytes(&of_bridge);
        assert_eq!(Change::read((NEW_LINK, &of_bridge)), None);
        assert_eq!(Change::read((DEL_LINK, &of_bridge)), None, "it only left the bridge");
        let mut without_name = ethernet(Vec::new());
        without_name.attributes.clear();
        assert_eq!(read_link(&without_name), None);
    }

    #[test]
    fn an_address_is_ours_by_metric_and_protocol() {
        let metric = AddressAttribute::RoutePriority(MINE.0);
        let ours = AddressAttribute::Protocol(AddressProtocol::Other(MARK));
        let instance = |attributes| read_address(&inet("192.0.2.50/32", attributes)).instance;
        assert_eq!(instance(vec![metric.clone(), ours.clone()]), Some(MINE));
        // Kernels before 5.18 do not tell the protocol.
        assert_eq!(instance(vec![metric.clone()]), Some(MINE));
        let keepalived = AddressAttribute::Protocol(AddressProtocol::Other(18));
        assert_eq!(instance(vec![metric, keepalived]), None);
        assert_eq!(instance(vec![ours]), None);
        assert_eq!(instance(vec![AddressAttribute::RoutePriority(100)]), None);
    }

    #[test]
    fn the_own_address_is_the_local_one_where_there_is_a_peer() {
        let local = AddressAttribute::Local("10.0.0.1".parse().unwrap());
        let address = read_address(&inet("10.0.0.2/32", vec![local]));
        assert_eq!(address.address, IpAddr::from([10, 0, 0, 1]));
    }

    #[test]
    fn an_address_is_usable_once_no_duplicate_was_found() {
        let usable = |flags| {
            read_address(&inet("2001:db8::1/64", vec![AddressAttribute::Flags(flags)])).usable
        };
        assert!(usable(AddressFlags::Permanent));
        assert!(!usable(AddressFlags::Tentative));
        assert!(usable(AddressFlags::Tentative | AddressFlags::Optimistic));
        assert!(!usable(AddressFlags::Permanent | AddressFlags::Dadfailed));
    }

    #[test]
    fn cut_short_or_empty_messages_say_nothing_and_panic_nobody() {
        let whole = bytes(&inet("192.0.2.50/32", vec![AddressAttribute::RoutePriority(MINE.0)]));
        for kind in [NEW_LINK, DEL_LINK, NEW_ADDRESS, DEL_ADDRESS, 0, u16::MAX] {
            for length in 0..whole.len() {
                Change::read((kind, &whole[..length]));
            }
        }
        assert_eq!(Change::read((NEW_ADDRESS, &whole[..8])), None);
    }

    #[test]
    fn a_change_that_a_snapshot_does_not_show_is_none() {
        let mut picture = Picture::default();
        let link = Change::read((NEW_LINK, &bytes(&ethernet(Vec::new())))).unwrap();
        let address =
            |verb| Change::read((verb, &bytes(&inet("192.0.2.1/24", Vec::new())))).unwrap();
        assert!(!picture.apply(address(NEW_ADDRESS)), "on a link that is not there");
        assert!(picture.apply(link.clone()));
        assert!(picture.set_forwarding(LinkId(3), true));
        assert!(!picture.apply(link), "forwarding is kept");
        assert!(picture.apply(address(NEW_ADDRESS)));
        assert!(!picture.apply(address(NEW_ADDRESS)), "a refresh");
        assert!(picture.apply(address(DEL_ADDRESS)));
        assert!(!picture.apply(address(DEL_ADDRESS)));
        assert!(picture.apply(Change::LinkGone(LinkId(3))));
        assert_eq!(picture, Picture::default());
    }
}
