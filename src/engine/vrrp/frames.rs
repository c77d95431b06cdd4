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
mod tests {
    use super::*;

    const MAC: MacAddress = MacAddress([0x02, 0, 0, 0, 0, 1]);
    const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10));

    /// Ethernet, IPv4, request: 192.0.2.10 at 02:00:00:00:00:01 tells of itself.
    #[rustfmt::skip]
    const GRATUITOUS_ARP: [u8; 28] = [
        0, 1, 0x08, 0x00, 6, 4, 0, 1,
        0x02, 0, 0, 0, 0, 1, 192, 0, 2, 10,
        0, 0, 0, 0, 0, 0, 192, 0, 2, 10,
    ];
    /// The whole frame for 2001:db8::10 from a router; the sum is of an independent program.
    #[rustfmt::skip]
    const UNSOLICITED_NA: [u8; 86] = [
        0x33, 0x33, 0x00, 0x00, 0x00, 0x01, 0x02, 0, 0, 0, 0, 1, 0x86, 0xdd,
        0x60, 0, 0, 0, 0, 32, 58, 255,
        0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
        0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x01,
        136, 0, 0x79, 0x0c, 0xa0, 0, 0, 0,
        0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
        2, 1, 0x02, 0, 0, 0, 0, 1,
    ];
    /// Who has 2001:db8::ab12:3456, from the unspecified address, sum as above.
    #[rustfmt::skip]
    const PROBING_NS: [u8; 78] = [
        0x33, 0x33, 0xff, 0x12, 0x34, 0x56, 0x02, 0, 0, 0, 0, 1, 0x86, 0xdd,
        0x60, 0, 0, 0, 0, 24, 58, 255,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x01, 0xff, 0x12, 0x34, 0x56,
        135, 0, 0x39, 0x1e, 0, 0, 0, 0,
        0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xab, 0x12, 0x34, 0x56,
    ];
    /// DSCP CS6, TTL 255, protocol 112, from 192.0.2.1 to 224.0.0.18, 16 octets follow.
    #[rustfmt::skip]
    const IPV4_HEADER: [u8; 20] = [
        0x45, 0xc0, 0, 36, 0, 1, 0, 0, 255, 112, 0x18, 0x95, 192, 0, 2, 1, 224, 0, 0, 18,
    ];

    fn v6(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn announcement(address: IpAddr) -> Announcement {
        Announcement { address, mac: MAC }
    }

    /// An IPv4 datagram whose header was changed and its sum made right, with a payload of 16.
    fn ipv4(change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
        let mut header = IPV4_HEADER.to_vec();
        change(&mut header);
        header[10..12].fill(0);
        let sum = checksum(&header, NO_WORD).to_be_bytes();
        header[10..12].copy_from_slice(&sum);
        [header, vec![7; 16]].concat()
    }

    #[test]
    fn an_ipv4_datagram_is_taken_apart() {
        let bytes = ipv4(|_| ());
        assert_eq!(bytes[..20], IPV4_HEADER);
        let datagram = Datagram {
            source: [192, 0, 2, 1].into(),
            destination: [224, 0, 0, 18].into(),
            ttl: 255,
            protocol: 112,
            payload: &[7; 16],
        };
        assert_eq!(Datagram::parse(&bytes), Some(datagram));
        let padded = [bytes, vec![0xa5; 26]].concat();
        assert_eq!(Datagram::parse(&padded), Some(datagram), "padding is cut");
        let other_dscp = ipv4(|header| header[1] = 0);
        assert_eq!(Datagram::parse(&other_dscp), Some(datagram));
        let do_not_fragment = ipv4(|header| header[6] = 0x40);
        assert_eq!(Datagram::parse(&do_not_fragment), Some(datagram));
        // IHL 6: router alert (RFC 2113).
        let options = ipv4(|header| {
            header[0] = 0x46;
            header[3] += 4;
            header.extend([0x94, 4, 0, 0]);
        });
        assert_eq!(Datagram::parse(&options), Some(datagram));
    }

    #[test]
    fn a_damaged_ipv4_datagram_is_none() {
        let whole = ipv4(|_| ());
        for len in 0..whole.len() {
            assert_eq!(Datagram::parse(&whole[..len]), None, "cut to {len}");
        }
        for (byte, value) in [
            (0, 0x44), // IHL 4: shorter than a header
            (0, 0x4f), // IHL 15: longer than the datagram
            (0, 0x55), // version 5
            (3, 19),   // total length shorter than the header
            (3, 37),   // longer than what came
        ] {
            let bytes = ipv4(|header| header[byte] = value);
            assert_eq!(Datagram::parse(&bytes), None, "byte {byte} is {value}");
        }
        let mut flipped = whole;
        flipped[12] ^= 1;
        assert_eq!(Datagram::parse(&flipped), None, "header checksum");
    }

    #[test]
    fn fragments_are_none() {
        for (high, low) in [(0x20, 0), (0, 1), (0x1f, 0xff), (0x60, 0)] {
            let bytes = ipv4(|header| header[6..8].copy_from_slice(&[high, low]));
            assert_eq!(Datagram::parse(&bytes), None, "{high:02x}{low:02x}");
        }
        let mut bytes = UNSOLICITED_NA[14..].to_vec();
        bytes[6] = FRAGMENT;
        assert_eq!(Datagram::parse(&bytes), None);
    }

    #[test]
    fn an_ipv6_datagram_is_taken_apart() {
        let bytes = &UNSOLICITED_NA[14..];
        let datagram = Datagram {
            source: v6("2001:db8::10"),
            destination: v6("ff02::1"),
            ttl: 255,
            protocol: 58,
            payload: &bytes[40..],
        };
        assert_eq!(Datagram::parse(bytes), Some(datagram));
        let padded = [bytes, &[0xa5; 26]].concat();
        assert_eq!(Datagram::parse(&padded), Some(datagram), "padding is cut");
        for len in 0..bytes.len() {
            assert_eq!(Datagram::parse(&bytes[..len]), None, "cut to {len}");
        }
        let mut hop_by_hop = bytes.to_vec();
        hop_by_hop[6] = 0;
        let protocol = Datagram::parse(&hop_by_hop).map(|datagram| datagram.protocol);
        assert_eq!(protocol, Some(0), "an extension header is no ICMPv6");
    }

    #[test]
    fn arp_replies_and_gratuitous_requests_announce() {
        let expected = Some(announcement(VIP));
        assert_eq!(Announcement::from_arp(&GRATUITOUS_ARP), expected);
        let padded = [&GRATUITOUS_ARP[..], &[0; 18]].concat();
        assert_eq!(Announcement::from_arp(&padded), expected);
        let mut gratuitous_reply = GRATUITOUS_ARP;
        gratuitous_reply[7] = 2;
        assert_eq!(Announcement::from_arp(&gratuitous_reply), expected);
        let mut reply_to_a_probe = gratuitous_reply;
        reply_to_a_probe[24..].fill(0);
        assert_eq!(Announcement::from_arp(&reply_to_a_probe), expected);
    }

    #[test]
    fn arp_that_states_nothing_is_none() {
        let changed = |from: usize, octets: &[u8]| {
            let mut packet = GRATUITOUS_ARP;
            packet[from..from + octets.len()].copy_from_slice(octets);
            Announcement::from_arp(&packet)
        };
        let from_nobody = [2, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0];
        let cases: [(&str, usize, &[u8]); _] = [
            ("an ordinary request", 27, &[11]),
            ("a probe (RFC 5227 §2.1.1)", 14, &[0; 4]),
            ("a reply from 0.0.0.0", 7, &from_nobody),
            ("RARP", 7, &[3]),
            ("an unknown operation", 6, &[1]),
            ("not Ethernet", 1, &[6]),
            ("not IPv4", 2, &[0x86, 0xdd]),
            ("hardware address length", 4, &[8]),
            ("protocol address length", 5, &[16]),
            ("zero MAC", 8, &[0; 6]),
            ("broadcast MAC", 8, &[0xff; 6]),
            ("group MAC", 8, &[1]),
        ];
        for (what, from, octets) in cases {
            assert_eq!(changed(from, octets), None, "{what}");
        }
        for len in 0..GRATUITOUS_ARP.len() {
            assert_eq!(Announcement::from_arp(&GRATUITOUS_ARP[..len]), None);
        }
    }

    /// What the NA announces after a change of it, its checksum made right again.
    fn changed_na(change: impl Fn(&mut Vec<u8>)) -> Option<Announcement> {
        let mut message = UNSOLICITED_NA[54..].to_vec();
        change(&mut message);
        message[2..4].fill(0);
        let (source, group) = ("2001:db8::10".parse().unwrap(), ALL_NODES);
        let protocol = IpNextHeaderProtocols::Icmpv6;
        let sum = ipv6_checksum(&message, NO_WORD, &[], &source, &group, protocol);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        Announcement::from_neighbour_advertisement(&Datagram {
            source: source.into(),
            destination: group.into(),
            ttl: 255,
            protocol: 58,
            payload: &message,
        })
    }

    #[test]
    fn a_neighbour_advertisement_announces_its_target() {
        let expected = Some(announcement(v6("2001:db8::10")));
        assert_eq!(changed_na(|_| ()), expected);
        assert_eq!(changed_na(|na| na[4] = 0), expected, "flags do not matter");
        let other_target = changed_na(|na| na[23] = 0x11);
        assert_eq!(other_target, Some(announcement(v6("2001:db8::11"))));
        // Options before it are skipped by their length, later ones do not replace it.
        let nonce = [14, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1];
        let among_others = changed_na(|na| {
            na.splice(24..24, nonce);
            na.extend([2, 1, 2, 0, 0, 0, 0, 9]);
        });
        assert_eq!(among_others, expected);
    }

    #[test]
    fn an_invalid_neighbour_advertisement_is_none_rfc4861_7_1_2() {
        let cases: [(&str, fn(&mut Vec<u8>)); _] = [
            ("a solicitation", |na| na[0] = 135),
            ("code", |na| na[1] = 1),
            ("solicited, to a group", |na| na[4] |= SOLICITED),
            ("group target", |na| na[8] = 0xff),
            ("no target", |na| na[8..24].fill(0)),
            ("no option", |na| na.truncate(24)),
            ("another option", |na| na[24] = 1),
            ("an option without length", |na| na[25] = 0),
            ("an option beyond the end", |na| na[25] = 2),
            ("an option far beyond the end", |na| na[25] = 255),
            ("zero MAC", |na| na[26..].fill(0)),
            ("group MAC", |na| na[26] = 0x33),
            ("an option without length after it", |na| na.extend([14, 0])),
            ("half an option after it", |na| na.push(14)),
            ("no EUI-48", |na| {
                na[25] = 2;
                na.extend([0; 8]);
            }),
        ];
        for (what, change) in cases {
            assert_eq!(changed_na(change), None, "{what}");
        }
        for len in 4..32 {
            assert_eq!(changed_na(|na| na.truncate(len)), None, "cut to {len}");
        }
    }

    #[test]
    fn a_neighbour_advertisement_is_judged_by_its_datagram_too() {
        let valid = Datagram::parse(&UNSOLICITED_NA[14..]).unwrap();
        let read = |datagram| Announcement::from_neighbour_advertisement(&datagram);
        assert!(read(valid).is_some());
        let routed = Datagram { ttl: 254, ..valid };
        assert_eq!(read(routed), None, "hop limit");
        let tcp = Datagram { protocol: 6, ..valid };
        assert_eq!(read(tcp), None, "protocol");
        let elsewhere = Datagram { destination: v6("ff02::2"), ..valid };
        assert_eq!(read(elsewhere), None, "checksum");
        let ipv4 = Datagram { source: VIP, destination: VIP, ..valid };
        assert_eq!(read(ipv4), None, "family");
    }

    #[test]
    fn an_ipv4_address_is_announced_by_a_gratuitous_request_rfc9568_errata_7947_7949() {
        let frame = announcement(VIP).frame(true);
        assert_eq!(frame[..6], [0xff; 6]);
        assert_eq!(frame[6..14], [0x02, 0, 0, 0, 0, 1, 0x08, 0x06]);
        assert_eq!(frame[14..], GRATUITOUS_ARP);
        assert_eq!(announcement(VIP).frame(false), frame, "IPv4 has no R");
    }

    #[test]
    fn an_ipv6_address_is_announced_by_an_unsolicited_na_rfc9568_6_4_1() {
        let announcement = announcement(v6("2001:db8::10"));
        assert_eq!(announcement.frame(true), UNSOLICITED_NA);
        let host = announcement.frame(false);
        assert_eq!(host[58], OVERRIDE);
        let datagram = Datagram::parse(&host[14..]).unwrap();
        let read = Announcement::from_neighbour_advertisement(&datagram);
        assert_eq!(read, Some(announcement));
    }

    #[test]
    fn an_arp_probe_claims_nothing_rfc5227_2_1_1() {
        let frame = probe(VIP, MAC);
        assert_eq!(frame[..6], [0xff; 6]);
        assert_eq!(frame[6..14], [0x02, 0, 0, 0, 0, 1, 0x08, 0x06]);
        let mut expected = GRATUITOUS_ARP;
        expected[14..18].fill(0);
        assert_eq!(frame[14..], expected);
        assert_eq!(Announcement::from_arp(&frame[14..]), None);
    }

    #[test]
    fn a_probing_solicitation_has_no_source_and_no_option_rfc4862_5_4_2() {
        assert_eq!(probe(v6("2001:db8::ab12:3456"), MAC), PROBING_NS);
    }
}
