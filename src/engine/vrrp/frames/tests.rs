//! Golden bytes, and every way in which what was heard can be damaged.

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

/// An IPv4 datagram whose header was changed and its sum made right, with a payload of 16 octets.
fn ipv4(change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut header = IPV4_HEADER.to_vec();
    change(&mut header);
    header[10..12].fill(0);
    let len = header.len().min(usize::from(header[0] & 0x0f) * 4);
    let sum = checksum(&header[..len], NO_WORD).to_be_bytes();
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
    type Change = fn(&mut Vec<u8>);
    let cases: [(&str, Change); _] = [
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
    type Change = fn(&mut Datagram<'_>);
    let cases: [(&str, Change); _] = [
        ("hop limit", |datagram| datagram.ttl = 254),
        ("protocol", |datagram| datagram.protocol = 6),
        ("checksum", |datagram| datagram.destination = v6("ff02::2")),
        ("family", |datagram| datagram.source = VIP),
    ];
    for (what, change) in cases {
        let mut datagram = valid;
        change(&mut datagram);
        assert_eq!(read(datagram), None, "{what}");
    }
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
