//! Properties of the bytes: what is written is read again, by us and by an independent decoder,
//! and nothing that arrives does harm.

#![cfg(test)]

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use barevip::engine::vrrp::frames::{Announcement, Datagram, MacAddress, probe};
use barevip::engine::vrrp::packet::{Advert, Checksum};
use barevip::model::{Interval, Priority, Vrid};
use etherparse::icmpv6::{Icmpv6PayloadSlice, NdpOptionSlice};
use etherparse::{
    ArpEthIpv4Packet, ArpOperation, Icmpv6Slice, Icmpv6Type, Ipv4HeaderSlice, LinkSlice, NetSlice,
    SlicedPacket, TransportSlice,
};
use proptest::prelude::*;

const V4_GROUP: IpAddr = IpAddr::V4(Ipv4Addr::new(224, 0, 0, 18));

/// An advert, its source and its destination: of IPv4 to the group (an arbitrary destination
/// would now and then be one bit away from it), of IPv6 to anything.
fn any_sent_advert() -> impl Strategy<Value = (Advert, IpAddr, IpAddr)> {
    let v4 = (
        prop::collection::vec(any::<Ipv4Addr>().prop_map(IpAddr::V4), 1..=255),
        any::<Ipv4Addr>().prop_map(IpAddr::V4),
        Just(V4_GROUP),
    );
    let v6 = (
        prop::collection::vec(any::<Ipv6Addr>().prop_map(IpAddr::V6), 1..=255),
        any::<u64>().prop_map(|id| Ipv6Addr::from_bits(0xfe80 << 112 | u128::from(id)).into()),
        any::<Ipv6Addr>().prop_map(IpAddr::V6),
    );
    let head = (1..=u8::MAX, any::<u8>(), 1..=4095_u16);
    (head, prop_oneof![v4, v6]).prop_map(|((vrid, priority, interval), sent)| {
        let (addresses, source, destination) = sent;
        let advert = Advert {
            vrid: Vrid::try_from(vrid).unwrap(),
            priority: Priority::try_from(priority).ok(),
            interval: Interval::from_centiseconds(interval).unwrap(),
            addresses,
        };
        (advert, source, destination)
    })
}

fn any_form() -> impl Strategy<Value = Checksum> {
    prop_oneof![Just(Checksum::Rfc9568), Just(Checksum::PseudoHeader)]
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        (advert, source, destination) in any_sent_advert(),
        form in any_form(),
    ) {
        let message = advert.emit(source, destination, form);
        let (read, read_form) = Advert::parse(source, destination, 255, &message).unwrap();
        prop_assert_eq!(&read, &advert);
        // The form is known again by the octets that it makes.
        prop_assert_eq!(advert.emit(source, destination, read_form), message);
    }

    #[test]
    fn one_flipped_bit_is_noticed(
        (advert, source, destination) in any_sent_advert(),
        form in any_form(),
        bit in any::<prop::sample::Index>(),
    ) {
        let mut message = advert.emit(source, destination, form);
        let before = Advert::parse(source, destination, 255, &message);
        prop_assert!(before.is_ok());
        let bit = bit.index(message.len() * 8);
        message[bit / 8] ^= 1 << (bit % 8);
        prop_assert_ne!(Advert::parse(source, destination, 255, &message), before);
    }

    /// Near to valid, so that every check is reached; an independent judge says what is right.
    #[test]
    fn damaged_messages_are_read_exactly_where_they_are_valid(
        (advert, source, destination) in any_sent_advert(),
        form in any_form(),
        damage in prop::collection::vec((0..12_usize, any::<u8>()), 0..3),
        resum in any::<bool>(),
        cut in 0..4_usize,
    ) {
        let mut message = advert.emit(source, destination, form);
        for (index, value) in damage {
            message[index] = value;
        }
        if resum {
            let len = 8 + usize::from(message[3]) * octets(source).len();
            let len = len.min(message.len());
            message[6..8].fill(0);
            let pseudo = pseudo_header(source, destination, len);
            let rest = ones_complement_sum(&[&pseudo, &message[..len]]);
            message[6..8].copy_from_slice(&(!rest).to_be_bytes());
        }
        message.truncate(message.len() - cut);
        let parsed = Advert::parse(source, destination, 255, &message);
        prop_assert_eq!(parsed.is_ok(), is_valid(source, destination, &message), "{:?}", parsed);
        if let Ok((read, _)) = parsed {
            prop_assert_eq!(read.vrid.get(), message[1]);
            prop_assert_eq!(read.priority.map_or(0, Priority::get), message[2]);
            let listed: Vec<u8> = read.addresses.iter().flat_map(|&a| octets(a)).collect();
            prop_assert_eq!(&listed[..], &message[8..8 + listed.len()]);
            prop_assert_eq!(read.addresses.len(), usize::from(message[3]));
        }
    }

    #[test]
    fn arbitrary_octets_do_no_harm(
        source in any::<IpAddr>(),
        destination in any::<IpAddr>(),
        protocol in prop_oneof![Just(58), any::<u8>()],
        bytes in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        black_box(Advert::parse(source, destination, 255, &bytes).is_ok());
        black_box(Datagram::parse(&bytes));
        black_box(Announcement::from_arp(&bytes));
        let payload = &bytes;
        let datagram = Datagram { source, destination, ttl: 255, protocol, payload };
        black_box(Announcement::from_neighbour_advertisement(&datagram));
    }

    /// Near to valid and with a right header checksum, so that every check is reached.
    #[test]
    fn damaged_ipv4_headers_are_read_exactly_where_they_are_valid(
        ihl in 4..8_u8,
        len in 15..80_u8,
        fragment in prop_oneof![3 => Just(0_u16), 1 => any::<u16>()],
        rest in prop::collection::vec(any::<u8>(), 12..80),
    ) {
        let start = [0x40 | ihl, 0, 0, len, 0, 1];
        let mut bytes = [&start[..], &fragment.to_be_bytes(), &rest].concat();
        let header_len = usize::from(ihl) * 4;
        bytes[10..12].fill(0);
        let sum = !ones_complement_sum(&[&bytes[..header_len.min(bytes.len())]]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        let len = usize::from(len);
        let expected = Ipv4HeaderSlice::from_slice(&bytes)
            .ok()
            .filter(|header| !header.is_fragmenting_payload())
            .filter(|_| (header_len..=bytes.len()).contains(&len))
            .map(|header| Datagram {
                source: header.source_addr().into(),
                destination: header.destination_addr().into(),
                ttl: header.ttl(),
                protocol: header.protocol().0,
                payload: &bytes[header_len..len],
            });
        prop_assert_eq!(Datagram::parse(&bytes), expected);
    }

    /// A neighbour advertisement with a right checksum and any options: read to its end, and
    /// what is found in it is what an independent walk finds.
    #[test]
    fn options_of_neighbour_advertisements_are_walked_as_by_an_independent_decoder(
        target in any::<Ipv6Addr>(),
        options in prop::collection::vec(
            (prop_oneof![Just(1_u8), Just(2), Just(14), any::<u8>()], 0..3_u8, any::<[u8; 6]>()),
            0..4,
        ),
        cut in 0..3_usize,
    ) {
        let mut message = [&[136, 0, 0, 0, 0x20, 0, 0, 0], &target.octets()[..]].concat();
        for (kind, len, value) in options {
            message.extend([kind, len]);
            message.extend(value);
            message.extend(vec![0; usize::from(len.saturating_sub(1)) * 8]);
        }
        message.truncate(message.len() - cut);
        let source = IpAddr::from(target);
        let mut pseudo = pseudo_header(source, source, message.len());
        pseudo[39] = 58;
        let sum = !ones_complement_sum(&[&pseudo, &message]);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let datagram = Datagram {
            source,
            destination: source,
            ttl: 255,
            protocol: 58,
            payload: &message,
        };
        let read = Announcement::from_neighbour_advertisement(&datagram);
        let expected = first_target_option(&message)
            .filter(|mac| mac[0] & 1 == 0 && *mac != [0; 6] && !target.is_multicast());
        prop_assert_eq!(read.map(|announcement| announcement.mac.0), expected);
    }

    #[test]
    fn arp_frames_are_what_an_independent_decoder_reads(
        address in any::<Ipv4Addr>(),
        mac in any::<[u8; 6]>(),
        is_probe in any::<bool>(),
    ) {
        let frame = if is_probe {
            probe(address.into(), MacAddress(mac))
        } else {
            Announcement { address: address.into(), mac: MacAddress(mac) }.frame(true)
        };
        let sender = if is_probe { Ipv4Addr::UNSPECIFIED } else { address };
        prop_assert_eq!(frame.len(), 14 + 28);
        let packet = SlicedPacket::from_ethernet(&frame).unwrap();
        prop_assert_eq!(ethernet_addresses(&packet), (mac, [0xff; 6]));
        let Some(NetSlice::Arp(arp)) = &packet.net else { panic!("no ARP: {packet:?}") };
        let expected = ArpEthIpv4Packet {
            operation: ArpOperation::REQUEST,
            sender_mac: mac,
            sender_ipv4: sender.octets(),
            target_mac: [0; 6],
            target_ipv4: address.octets(),
        };
        prop_assert_eq!(arp.to_packet().try_eth_ipv4().unwrap(), expected);
    }

    #[test]
    fn neighbour_advertisements_are_what_an_independent_decoder_reads(
        address in any::<Ipv6Addr>(),
        mac in any::<[u8; 6]>(),
        router in any::<bool>(),
    ) {
        let frame = Announcement { address: address.into(), mac: MacAddress(mac) }.frame(router);
        prop_assert_eq!(frame.len(), 14 + 40 + 32);
        let packet = SlicedPacket::from_ethernet(&frame).unwrap();
        prop_assert_eq!(ethernet_addresses(&packet), (mac, [0x33, 0x33, 0, 0, 0, 1]));
        let icmp = icmpv6(&packet, address, "ff02::1".parse().unwrap());
        let Icmpv6Type::NeighborAdvertisement(header) = icmp.icmp_type() else {
            panic!("no advertisement: {:?}", icmp.icmp_type())
        };
        prop_assert_eq!(header.router, router);
        prop_assert!(!header.solicited && header.r#override);
        let Icmpv6PayloadSlice::NeighborAdvertisement(body) = icmp.payload_slice().unwrap() else {
            panic!("no advertisement: {:?}", icmp.payload_slice())
        };
        prop_assert_eq!(body.target_address(), address);
        let options: Vec<_> = body.options_iterator().map(Result::unwrap).collect();
        let [NdpOptionSlice::TargetLinkLayerAddress(option)] = &options[..] else {
            panic!("other options: {options:?}")
        };
        prop_assert_eq!(option.link_layer_address(), mac);
    }

    #[test]
    fn probing_solicitations_are_what_an_independent_decoder_reads(
        address in any::<Ipv6Addr>(),
        mac in any::<[u8; 6]>(),
    ) {
        let frame = probe(address.into(), MacAddress(mac));
        prop_assert_eq!(frame.len(), 14 + 40 + 24);
        let packet = SlicedPacket::from_ethernet(&frame).unwrap();
        let [.., a, b, c] = address.octets();
        prop_assert_eq!(ethernet_addresses(&packet), (mac, [0x33, 0x33, 0xff, a, b, c]));
        let group = format!("ff02::1:ff{a:02x}:{b:02x}{c:02x}").parse().unwrap();
        let icmp = icmpv6(&packet, Ipv6Addr::UNSPECIFIED, group);
        let Icmpv6PayloadSlice::NeighborSolicitation(body) = icmp.payload_slice().unwrap() else {
            panic!("no solicitation: {:?}", icmp.payload_slice())
        };
        prop_assert_eq!(body.target_address(), address);
        prop_assert!(body.options().is_empty());
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// RFC 9293 §3.1 for IPv4, RFC 8200 §8.1 for IPv6, of protocol 112.
fn pseudo_header(source: IpAddr, destination: IpAddr, len: usize) -> Vec<u8> {
    let len = u32::try_from(len).unwrap().to_be_bytes();
    let end = match source {
        IpAddr::V4(_) => [&[0, 112], &len[2..]].concat(),
        IpAddr::V6(_) => [&len[..], &[0, 0, 0, 112]].concat(),
    };
    [octets(source), octets(destination), end].concat()
}

/// RFC 1071, as the remainder by 65535 that it is; parts are of even length but the last.
fn ones_complement_sum(parts: &[&[u8]]) -> u16 {
    let bytes = parts.concat();
    let words = bytes
        .chunks(2)
        .map(|word| u64::from(word[0]) << 8 | u64::from(word.get(1).copied().unwrap_or_default()));
    match words.sum::<u64>() {
        0 => 0,
        sum => u16::try_from((sum - 1) % 0xffff + 1).unwrap(),
    }
}

/// RFC 9568 §7.1 said once more, for a message with TTL 255 and from a source that may send it.
fn is_valid(source: IpAddr, destination: IpAddr, message: &[u8]) -> bool {
    if message.len() < 8 || message[0] != 0x31 || message[1] == 0 || message[3] == 0 {
        return false;
    }
    let len = 8 + usize::from(message[3]) * octets(source).len();
    if message[4] & 0x0f == 0 && message[5] == 0 || message.len() < len {
        return false;
    }
    let message = &message[..len];
    let with_header = ones_complement_sum(&[&pseudo_header(source, destination, len), message]);
    with_header == 0xffff || source.is_ipv4() && ones_complement_sum(&[message]) == 0xffff
}

/// By etherparse: the MAC of the first target link-layer address option, if all options are whole.
fn first_target_option(message: &[u8]) -> Option<[u8; 6]> {
    let icmp = Icmpv6Slice::from_slice(message).unwrap();
    let Ok(Icmpv6PayloadSlice::NeighborAdvertisement(body)) = icmp.payload_slice() else {
        return None;
    };
    let options: Vec<_> = body.options_iterator().collect::<Result<_, _>>().ok()?;
    options.iter().find_map(|option| {
        let NdpOptionSlice::TargetLinkLayerAddress(option) = option else {
            return None;
        };
        Some(option.link_layer_address().try_into().ok())
    })?
}

/// Source and destination of the Ethernet header.
fn ethernet_addresses(packet: &SlicedPacket<'_>) -> ([u8; 6], [u8; 6]) {
    match &packet.link {
        Some(LinkSlice::Ethernet2(header)) => (header.source(), header.destination()),
        other => panic!("no Ethernet: {other:?}"),
    }
}

/// The ICMPv6 message, after its way to us was checked.
fn icmpv6<'a>(packet: &SlicedPacket<'a>, source: Ipv6Addr, group: Ipv6Addr) -> Icmpv6Slice<'a> {
    let Some(NetSlice::Ipv6(ip)) = &packet.net else { panic!("no IPv6: {packet:?}") };
    let header = ip.header();
    assert_eq!(header.hop_limit(), 255);
    assert_eq!((header.source_addr(), header.destination_addr()), (source, group));
    match &packet.transport {
        Some(TransportSlice::Icmpv6(icmp)) => {
            assert!(icmp.is_checksum_valid(source.octets(), group.octets()));
            icmp.clone()
        }
        other => panic!("no ICMPv6: {other:?}"),
    }
}
