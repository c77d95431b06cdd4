//! The packets around VRRP as bytes: IP headers of what was heard, and the ARP and neighbour
//! discovery frames that tell the LAN who holds an address.
//!
//! What was heard is hostile and read here by hand; pnet only writes what we send.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pnet::packet::arp::{Arp, ArpHardwareTypes, ArpOperations, MutableArpPacket};
use pnet::packet::ethernet::{EtherType, EtherTypes, Ethernet, MutableEthernetPacket};
use pnet::packet::icmpv6::{Icmpv6, Icmpv6Code, Icmpv6Type, Icmpv6Types, MutableIcmpv6Packet};
use pnet::packet::ip::IpNextHeaderProtocols;
use pnet::packet::ipv6::{Ipv6, MutableIpv6Packet};
use pnet::util::{MacAddr, checksum, ipv6_checksum};
use serde::{Deserialize, Serialize};

/// Next header values of IPv6 (IANA protocol numbers).
const FRAGMENT: u8 = 44;
const ICMPV6: u8 = 58;
/// Neighbour discovery is heard from the same link only (RFC 4861 §7.1).
const HOP_LIMIT: u8 = 255;
/// Flags of a neighbour advertisement (RFC 4861 §4.4).
const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
/// Target link-layer address option (RFC 4861 §4.6.1); its length is in units of 8 octets.
const TARGET_LINK_LAYER: u8 = 2;
/// To pnet's checksums: leave no word out of the sum. Over bytes that carry a right checksum the
/// result is then 0.
const NO_WORD: usize = usize::MAX;

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// A MAC address (EUI-48).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    const ZERO: Self = Self([0; 6]);
    const BROADCAST: Self = Self([0xff; 6]);

    /// Where a frame for an IPv6 group goes (RFC 2464 §7).
    const fn of_group(group: Ipv6Addr) -> Self {
        let [.., a, b, c, d] = group.octets();
        Self([0x33, 0x33, a, b, c, d])
    }

    /// Whether one station can have it: no group address and not all zero.
    const fn is_station(self) -> bool {
        let [a, b, c, d, e, g] = self.0;
        a & 1 == 0 && a | b | c | d | e | g != 0
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl From<MacAddress> for MacAddr {
    fn from(mac: MacAddress) -> Self {
        mac.0.into()
    }
}

/// An IP datagram taken apart as far as VRRP needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Who sent it.
    pub source: IpAddr,
    /// To whom.
    pub destination: IpAddr,
    /// TTL or hop limit.
    pub ttl: u8,
    /// The protocol of the payload: 112 is VRRP, 58 ICMPv6. Where IPv6 has extension headers it is
    /// the number of the first one, and they are in the payload.
    pub protocol: u8,
    /// The payload, cut to the length that the header states (Ethernet pads short frames).
    pub payload: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// Reads an IPv4 or IPv6 datagram. `None` where the header is damaged (its IPv4 checksum
    /// counts: nobody has looked at a packet before a packet socket gets it), the payload is
    /// shorter than stated, or it is a fragment.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        match bytes.first()? >> 4 {
            4 => Self::parse_ipv4(bytes),
            6 => Self::parse_ipv6(bytes),
            _ => None,
        }
    }

    /// RFC 791 §3.1.
    fn parse_ipv4(bytes: &'a [u8]) -> Option<Self> {
        let (fixed, _) = bytes.split_first_chunk::<20>()?;
        let &[
            start,
            _,
            len_high,
            len_low,
            _,
            _,
            flags,
            offset,
            ttl,
            protocol,
            _,
            _,
            ref addresses @ ..,
        ] = fixed;
        let header_len = usize::from(start & 0x0f) * 4;
        let total_len = usize::from(u16::from_be_bytes([len_high, len_low]));
        let header = bytes.get(..header_len)?;
        let payload = bytes.get(header_len..total_len)?;
        let is_fragment = u16::from_be_bytes([flags, offset]) & 0x3fff != 0;
        if header_len < fixed.len() || is_fragment || checksum(header, NO_WORD) != 0 {
            return None;
        }
        let &[a, b, c, d, e, f, g, h] = addresses;
        Some(Self {
            source: [a, b, c, d].into(),
            destination: [e, f, g, h].into(),
            ttl,
            protocol,
            payload,
        })
    }

    /// RFC 8200 §3.
    fn parse_ipv6(bytes: &'a [u8]) -> Option<Self> {
        let (&[_, _, _, _, len_high, len_low, protocol, ttl], rest) = bytes.split_first_chunk()?;
        let (&source, rest) = rest.split_first_chunk::<16>()?;
        let (&destination, rest) = rest.split_first_chunk::<16>()?;
        let payload = rest.get(..usize::from(u16::from_be_bytes([len_high, len_low])))?;
        (protocol != FRAGMENT).then(|| Self {
            source: source.into(),
            destination: destination.into(),
            ttl,
            protocol,
            payload,
        })
    }
}

/// Somebody's statement that an address is at this MAC: ARP sender, or NA target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The address.
    pub address: IpAddr,
    /// Where it is.
    pub mac: MacAddress,
}

impl Announcement {
    /// Reads an ARP packet (without the Ethernet header): any reply, and a gratuitous request.
    /// A probe states nothing, an ordinary request asks: `None`.
    #[must_use]
    pub fn from_arp(packet: &[u8]) -> Option<Self> {
        let (head, rest) = packet.split_first_chunk::<8>()?;
        let (&mac, rest) = rest.split_first_chunk::<6>()?;
        let (&sender, rest) = rest.split_first_chunk::<4>()?;
        let (_target_mac, rest) = rest.split_first_chunk::<6>()?;
        let (&target, _padding) = rest.split_first_chunk::<4>()?;
        let [head @ .., operation] = *head;
        let is_announcement = match operation {
            1 => sender == target,
            2 => true,
            _ => false,
        };
        let announcement = Self { address: sender.into(), mac: MacAddress(mac) };
        // Ethernet and IPv4, with the lengths of their addresses (RFC 826).
        (head == [0, 1, 0x08, 0x00, 6, 4, 0]
            && is_announcement
            && !announcement.address.is_unspecified()
            && announcement.mac.is_station())
        .then_some(announcement)
    }

    /// Reads a neighbour advertisement (an ICMPv6 message in its datagram) that is valid by
    /// RFC 4861 §7.1.2 and has a target link-layer address option.
    #[must_use]
    pub fn from_neighbour_advertisement(datagram: &Datagram<'_>) -> Option<Self> {
        let (IpAddr::V6(source), IpAddr::V6(destination)) = (datagram.source, datagram.destination)
        else {
            return None;
        };
        let message = datagram.payload;
        let (&[kind, code, _, _, flags, _, _, _], rest) = message.split_first_chunk()?;
        let (&target, options) = rest.split_first_chunk::<16>()?;
        let target = Ipv6Addr::from(target);
        let protocol = IpNextHeaderProtocols::Icmpv6;
        let is_valid = datagram.protocol == ICMPV6
            && datagram.ttl == HOP_LIMIT
            && Icmpv6Type(kind) == Icmpv6Types::NeighborAdvert
            && code == 0
            && !(destination.is_multicast() && flags & SOLICITED != 0)
            && !target.is_multicast()
            && !target.is_unspecified()
            && ipv6_checksum(message, NO_WORD, &[], &source, &destination, protocol) == 0;
        let mac = target_link_layer_address(options).filter(|_| is_valid)?;
        Some(Self { address: target.into(), mac })
    }

    /// The Ethernet frame that tells it to the LAN: a gratuitous ARP request (errata 7947 and
    /// 7949 of RFC 9568), or an unsolicited NA to ff02::1 with S=0 and O=1 and `router` as R.
    #[must_use]
    pub fn frame(&self, router: bool) -> Vec<u8> {
        match self.address {
            IpAddr::V4(address) => arp_request(self.mac, address, address),
            IpAddr::V6(address) => {
                let flags = if router { ROUTER | OVERRIDE } else { OVERRIDE };
                let [a, b, c, d, e, g] = self.mac.0;
                let option = [TARGET_LINK_LAYER, 1, a, b, c, d, e, g];
                neighbour_discovery(
                    self.mac,
                    address,
                    ALL_NODES,
                    Icmpv6Types::NeighborAdvert,
                    [&[flags, 0, 0, 0], &address.octets()[..], &option].concat(),
                )
            }
        }
    }
}

/// The first target link-layer address among the options of a neighbour advertisement; `None`
/// also where any option is damaged (RFC 4861 §4.6, §7.1.2).
fn target_link_layer_address(mut options: &[u8]) -> Option<MacAddress> {
    let mut found = None;
    while !options.is_empty() {
        let len = usize::from(*options.get(1)?) * 8;
        let (option, rest) = options.split_at_checked(len)?;
        // Fails on a length of 0, which would never end.
        let (&[kind, _], value) = option.split_first_chunk()?;
        if kind == TARGET_LINK_LAYER && found.is_none() {
            found = Some(MacAddress(value.try_into().ok()?));
        }
        options = rest;
    }
    found.filter(|mac| mac.is_station())
}

/// The Ethernet frame that asks who holds `address` without claiming it: an ARP probe (RFC 5227
/// §2.1.1), or a neighbour solicitation from the unspecified address (RFC 4862 §5.4.2).
#[must_use]
pub fn probe(address: IpAddr, mac: MacAddress) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => arp_request(mac, Ipv4Addr::UNSPECIFIED, address),
        IpAddr::V6(address) => neighbour_discovery(
            mac,
            Ipv6Addr::UNSPECIFIED,
            solicited_node(address),
            Icmpv6Types::NeighborSolicit,
            [&[0; 4], &address.octets()[..]].concat(),
        ),
    }
}

/// The group on which an IPv6 address is asked for: ff02::1:ff00:0/104 (RFC 4291 §2.7.1).
const fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., high, low] = address.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | high & 0x00ff, low)
}

/// A pnet value as its bytes: a packet type, and the value that it is made of.
macro_rules! bytes {
    ($packet:ident, $value:expr) => {{
        let value = $value;
        let mut bytes = vec![0; $packet::packet_size(&value)];
        if let Some(mut packet) = $packet::new(&mut bytes) {
            packet.populate(&value);
        }
        bytes
    }};
}

/// A broadcast ARP request; the target's MAC is what it asks for, so zero.
fn arp_request(mac: MacAddress, sender: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let arp = Arp {
        hardware_type: ArpHardwareTypes::Ethernet,
        protocol_type: EtherTypes::Ipv4,
        hw_addr_len: 6,
        proto_addr_len: 4,
        operation: ArpOperations::Request,
        sender_hw_addr: mac.into(),
        sender_proto_addr: sender,
        target_hw_addr: MacAddress::ZERO.into(),
        target_proto_addr: target,
        payload: Vec::new(),
    };
    ethernet(mac, MacAddress::BROADCAST, EtherTypes::Arp, bytes!(MutableArpPacket, arp))
}

/// An ICMPv6 message of neighbour discovery to a group; `body` follows the checksum.
fn neighbour_discovery(
    mac: MacAddress,
    source: Ipv6Addr,
    group: Ipv6Addr,
    kind: Icmpv6Type,
    body: Vec<u8>,
) -> Vec<u8> {
    let next_header = IpNextHeaderProtocols::Icmpv6;
    let mut icmp =
        Icmpv6 { icmpv6_type: kind, icmpv6_code: Icmpv6Code(0), checksum: 0, payload: body };
    let unsigned = bytes!(MutableIcmpv6Packet, &icmp);
    icmp.checksum = ipv6_checksum(&unsigned, NO_WORD, &[], &source, &group, next_header);
    let payload = bytes!(MutableIcmpv6Packet, &icmp);
    let datagram = Ipv6 {
        version: 6,
        traffic_class: 0,
        flow_label: 0,
        payload_length: u16::try_from(payload.len()).unwrap_or(u16::MAX),
        next_header,
        hop_limit: HOP_LIMIT,
        source,
        destination: group,
        payload,
    };
    ethernet(
        mac,
        MacAddress::of_group(group),
        EtherTypes::Ipv6,
        bytes!(MutableIpv6Packet, datagram),
    )
}

fn ethernet(
    source: MacAddress,
    destination: MacAddress,
    ethertype: EtherType,
    payload: Vec<u8>,
) -> Vec<u8> {
    let frame =
        Ethernet { destination: destination.into(), source: source.into(), ethertype, payload };
    bytes!(MutableEthernetPacket, frame)
}

#[cfg(test)]
mod tests;
