//! The VRRP version 3 message as bytes (RFC 9568 §5): [`Advert::parse`] checks all of §7.1 and
//! only a valid message comes out; [`Advert::emit`] writes what we send.

use std::net::{IpAddr, Ipv6Addr};

use pnet::packet::ip::IpNextHeaderProtocols;
use pnet::util::{checksum, ipv4_checksum, ipv6_checksum};
use serde::{Deserialize, Serialize};

use crate::model::{Family, Interval, Priority, Vrid};

/// Octets before the first address.
const HEADER_LEN: usize = 8;
/// The only version, and in it the only type: ADVERTISEMENT (RFC 9568 §5.2.1, §5.2.2).
const VERSION: u8 = 3;
const ADVERTISEMENT: u8 = 1;
/// The most that the count field can say.
const MAX_COUNT: usize = u8::MAX as usize;
/// To pnet's checksums: leave no word out of the sum. Over bytes that carry a right checksum the
/// result is then 0.
const NO_WORD: usize = usize::MAX;

/// An advertisement, valid by construction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advert {
    /// The virtual router.
    pub vrid: Vrid,
    /// The sender's priority; `None` is 0 on the wire: the Active router is leaving.
    pub priority: Option<Priority>,
    /// The sender's interval.
    pub interval: Interval,
    /// The addresses it lists, in its order, one at least.
    pub addresses: Vec<IpAddr>,
}

/// Which of the two checksum forms of version 3 over IPv4 a message carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Checksum {
    /// Over the message alone (RFC 9568 §5.2.8). IPv6 never has this form.
    Rfc9568,
    /// With the pseudo-header. IPv6 always has this form.
    PseudoHeader,
}

/// Why a received message was refused; it then touches no timer and no state.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, thiserror::Error,
)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// Source and destination are of different families.
    #[error("its source and destination are of different address families")]
    Family,
    /// TTL or hop limit (RFC 9568 §5.1.1.3, §5.1.2.3).
    #[error("its TTL or hop limit is {0}, not 255: a router forwarded it, or it is forged")]
    Ttl(u8),
    /// Fewer octets than a header, or than its count of addresses needs.
    #[error("it has {has} octets where {needs} are needed")]
    Length {
        /// Octets that arrived.
        has: usize,
        /// Octets that it must have at least.
        needs: usize,
    },
    /// Another version (RFC 9568 §5.2.1).
    #[error("it is VRRP version {0}, not 3: set version 3 on its sender")]
    Version(u8),
    /// Another type (RFC 9568 §5.2.2).
    #[error("it is of type {0}, not 1 (advertisement)")]
    Type(u8),
    /// Neither checksum form fits.
    #[error("its checksum {0:#06x} is wrong, with and without pseudo-header")]
    Checksum(u16),
    /// VRID 0 (RFC 9568 §5.2.3).
    #[error("its VRID is 0, not 1 to 255")]
    Vrid,
    /// It lists no address (RFC 9568 §5.2.5, erratum 8299).
    #[error("it lists no address")]
    Count,
    /// An interval of 0 would make a Backup take over at once (RFC 9568 §5.2.7, erratum 8301).
    #[error("its interval is 0, not 10ms to 40950ms")]
    Interval,
    /// An IPv6 source that is not link-local (RFC 9568 §5.1.2.1).
    #[error("its source {0} is not link-local")]
    Source(Ipv6Addr),
}

impl Refusal {
    /// A stable word for it, the key of its counter.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Family => "family",
            Self::Ttl(_) => "ttl",
            Self::Length { .. } => "length",
            Self::Version(_) => "version",
            Self::Type(_) => "type",
            Self::Checksum(_) => "checksum",
            Self::Vrid => "vrid",
            Self::Count => "count",
            Self::Interval => "interval",
            Self::Source(_) => "source",
        }
    }
}

impl Advert {
    /// Reads a VRRP message that arrived from `source` for `destination` with this TTL or hop
    /// limit. Reserved bits and octets behind the last address are ignored.
    ///
    /// # Errors
    /// The first rule of RFC 9568 §7.1 that it breaks.
    pub fn parse(
        source: IpAddr,
        destination: IpAddr,
        ttl: u8,
        message: &[u8],
    ) -> Result<(Self, Checksum), Refusal> {
        let family = Family::of(source);
        if family != Family::of(destination) {
            return Err(Refusal::Family);
        }
        if ttl != 255 {
            return Err(Refusal::Ttl(ttl));
        }
        let too_short = |needs| Refusal::Length { has: message.len(), needs };
        let (&[kind, vrid, priority, count, interval @ .., sum_high, sum_low], _) =
            message.split_first_chunk::<HEADER_LEN>().ok_or(too_short(HEADER_LEN))?;
        // Version 2 would be read from here on by its own rules.
        if kind >> 4 != VERSION {
            return Err(Refusal::Version(kind >> 4));
        }
        if kind & 0x0f != ADVERTISEMENT {
            return Err(Refusal::Type(kind & 0x0f));
        }
        let len = HEADER_LEN + usize::from(count) * family.address_len();
        let message = message.get(..len).ok_or(too_short(len))?;
        let form = checksum_form(source, destination, message)
            .ok_or(Refusal::Checksum(u16::from_be_bytes([sum_high, sum_low])))?;
        if count == 0 {
            return Err(Refusal::Count);
        }
        if let IpAddr::V6(source) = source
            && !source.is_unicast_link_local()
        {
            return Err(Refusal::Source(source));
        }
        let advert = Self {
            vrid: Vrid::try_from(vrid).map_err(|_| Refusal::Vrid)?,
            priority: Priority::try_from(priority).ok(),
            interval: Interval::from_centiseconds(u16::from_be_bytes(interval) & 0x0fff)
                .ok_or(Refusal::Interval)?,
            addresses: addresses(family, message.get(HEADER_LEN..).unwrap_or_default()),
        };
        Ok((advert, form))
    }

    /// Writes the message, with the checksum for these addresses. `form` is used for IPv4 alone.
    ///
    /// Addresses that are not of the family of `source`, and those beyond the 255th, are left
    /// out, so that what is sent is well-formed whatever was asked for.
    #[must_use]
    pub fn emit(&self, source: IpAddr, destination: IpAddr, form: Checksum) -> Vec<u8> {
        let family = Family::of(source);
        let listed =
            self.addresses.iter().filter(|address| Family::of(**address) == family).take(MAX_COUNT);
        let count = listed.clone().count();
        let mut message = Vec::with_capacity(HEADER_LEN + count * family.address_len());
        message.extend([
            VERSION << 4 | ADVERTISEMENT,
            self.vrid.get(),
            self.priority.map_or(0, Priority::get),
            u8::try_from(count).unwrap_or(u8::MAX),
        ]);
        message.extend(self.interval.centiseconds().to_be_bytes());
        message.extend([0, 0]);
        for address in listed {
            match address {
                IpAddr::V4(address) => message.extend(address.octets()),
                IpAddr::V6(address) => message.extend(address.octets()),
            }
        }
        let sum = sum(source, destination, form, &message).to_be_bytes();
        if let Some(field) = message.get_mut(6..HEADER_LEN) {
            field.copy_from_slice(&sum);
        }
        message
    }

    /// How many addresses of a family one advert can list on a link of this MTU without being
    /// fragmented: at most 255; of IPv6 one fewer than fits, as keepalived accepts.
    #[must_use]
    pub fn capacity(family: Family, mtu: u32) -> usize {
        let mtu = usize::try_from(mtu).unwrap_or(usize::MAX);
        let fits = match family {
            Family::Ipv4 => mtu.saturating_sub(20 + HEADER_LEN) / 4,
            Family::Ipv6 => (mtu.saturating_sub(40 + HEADER_LEN) / 16).saturating_sub(1),
        };
        fits.min(MAX_COUNT)
    }
}

/// The list behind the header.
fn addresses(family: Family, octets: &[u8]) -> Vec<IpAddr> {
    match family {
        Family::Ipv4 => octets.as_chunks::<4>().0.iter().map(|&a| a.into()).collect(),
        Family::Ipv6 => octets.as_chunks::<16>().0.iter().map(|&a| a.into()).collect(),
    }
}

/// The form in which the checksum of a received message is right. Where both are (a pseudo-header
/// that adds up to nothing) they are the same octets.
fn checksum_form(source: IpAddr, destination: IpAddr, message: &[u8]) -> Option<Checksum> {
    let right = |destination, form| sum(source, destination, form, message) == 0;
    match Family::of(source) {
        Family::Ipv4 if right(destination, Checksum::Rfc9568) => Some(Checksum::Rfc9568),
        _ if right(destination, Checksum::PseudoHeader) => Some(Checksum::PseudoHeader),
        // keepalived up to 1.3.6 sums the group even where it sends to a peer.
        Family::Ipv4 if right(Family::Ipv4.group(), Checksum::PseudoHeader) => {
            Some(Checksum::PseudoHeader)
        }
        Family::Ipv4 | Family::Ipv6 => None,
    }
}

/// The checksum over a message whose checksum field is 0; over one that carries it: 0.
fn sum(source: IpAddr, destination: IpAddr, form: Checksum, message: &[u8]) -> u16 {
    let protocol = IpNextHeaderProtocols::Vrrp;
    match (source, destination, form) {
        (IpAddr::V4(source), IpAddr::V4(destination), Checksum::PseudoHeader) => {
            ipv4_checksum(message, NO_WORD, &[], &source, &destination, protocol)
        }
        (IpAddr::V6(source), IpAddr::V6(destination), _) => {
            ipv6_checksum(message, NO_WORD, &[], &source, &destination, protocol)
        }
        _ => checksum(message, NO_WORD),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const V4_SOURCE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    const V4_GROUP: IpAddr = Family::Ipv4.group();
    const V4_PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
    const V6_SOURCE: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1));
    const V6_GROUP: IpAddr = Family::Ipv6.group();

    /// VRID 51, priority 200, 200 ms, from 192.0.2.1. The sums are of an independent program.
    #[rustfmt::skip]
    const V4_PLAIN: [u8; 16] = [
        0x31, 51, 200, 2, 0x00, 20, 0x82, 0x9f, 192, 0, 2, 10, 192, 0, 2, 11,
    ];
    /// The same with the sum over the pseudo-header too, to the group.
    #[rustfmt::skip]
    const V4_PSEUDO: [u8; 16] = [
        0x31, 51, 200, 2, 0x00, 20, 0xe0, 0x0a, 192, 0, 2, 10, 192, 0, 2, 11,
    ];
    /// VRID 51, leaving, 40.95 s, from fe80::1 to the group.
    #[rustfmt::skip]
    const V6: [u8; 40] = [
        0x31, 51, 0, 2, 0x0f, 0xff, 0x33, 0x1f,
        0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x02, 0x00, 0x5e, 0xff, 0xfe, 0x00, 0x02, 0x33,
        0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
    ];

    fn v4_advert() -> Advert {
        Advert {
            vrid: Vrid::try_from(51).unwrap(),
            priority: Priority::try_from(200).ok(),
            interval: Interval::from_centiseconds(20).unwrap(),
            addresses: vec![[192, 0, 2, 10].into(), [192, 0, 2, 11].into()],
        }
    }

    fn v6_advert() -> Advert {
        let vrid = Vrid::try_from(51).unwrap();
        Advert {
            vrid,
            priority: None,
            interval: Interval::from_centiseconds(4095).unwrap(),
            addresses: vec![vrid.link_local().into(), "2001:db8::10".parse::<IpAddr>().unwrap()],
        }
    }

    fn parse_v4(message: &[u8]) -> Result<(Advert, Checksum), Refusal> {
        Advert::parse(V4_SOURCE, V4_GROUP, 255, message)
    }

    fn parse_v6(message: &[u8]) -> Result<(Advert, Checksum), Refusal> {
        Advert::parse(V6_SOURCE, V6_GROUP, 255, message)
    }

    /// Both families' messages with `change` made to them and nothing else wrong: the sum fits.
    fn refusals(change: impl Fn(&mut Vec<u8>)) -> [Refusal; 2] {
        let changed = |message: &[u8], source, destination| {
            let mut message = message.to_vec();
            change(&mut message);
            message[6..8].fill(0);
            let sum = sum(source, destination, Checksum::Rfc9568, &message);
            message[6..8].copy_from_slice(&sum.to_be_bytes());
            message
        };
        [
            parse_v4(&changed(&V4_PLAIN, V4_SOURCE, V4_GROUP)).unwrap_err(),
            parse_v6(&changed(&V6, V6_SOURCE, V6_GROUP)).unwrap_err(),
        ]
    }

    #[test]
    fn every_octet_is_written_as_rfc9568_5_2() {
        let emit = |form| v4_advert().emit(V4_SOURCE, V4_GROUP, form);
        assert_eq!(emit(Checksum::Rfc9568), V4_PLAIN);
        assert_eq!(emit(Checksum::PseudoHeader), V4_PSEUDO);
        for form in [Checksum::Rfc9568, Checksum::PseudoHeader] {
            assert_eq!(v6_advert().emit(V6_SOURCE, V6_GROUP, form), V6);
        }
    }

    #[test]
    fn every_octet_is_read_as_rfc9568_5_2() {
        assert_eq!(parse_v4(&V4_PLAIN), Ok((v4_advert(), Checksum::Rfc9568)));
        let pseudo = Ok((v4_advert(), Checksum::PseudoHeader));
        assert_eq!(parse_v4(&V4_PSEUDO), pseudo);
        assert_eq!(parse_v6(&V6), Ok((v6_advert(), Checksum::PseudoHeader)));
    }

    #[test]
    fn a_unicast_copy_is_summed_for_its_destination_or_the_group() {
        let parse = |message: &[u8]| Advert::parse(V4_SOURCE, V4_PEER, 255, message);
        let for_peer = v4_advert().emit(V4_SOURCE, V4_PEER, Checksum::PseudoHeader);
        assert_ne!(for_peer, V4_PSEUDO);
        let pseudo = Ok((v4_advert(), Checksum::PseudoHeader));
        assert_eq!(parse(&for_peer), pseudo);
        assert_eq!(parse(&V4_PSEUDO), pseudo, "keepalived 1.3.6 and older");
        assert_eq!(parse(&V4_PLAIN), Ok((v4_advert(), Checksum::Rfc9568)));
        // And not the other way round.
        let refused = parse_v4(&for_peer).map_err(|refusal| refusal.name());
        assert_eq!(refused, Err("checksum"));
    }

    #[test]
    fn ipv6_sums_the_pseudo_header_of_its_destination_only_rfc9568_5_2_8() {
        let peer = "fe80::2".parse().unwrap();
        let wrong = Err(Refusal::Checksum(0x331f));
        assert_eq!(Advert::parse(V6_SOURCE, peer, 255, &V6), wrong);
        let mut plain = V6;
        plain[6..8].fill(0);
        let sum = checksum(&plain, NO_WORD);
        plain[6..8].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(parse_v6(&plain), Err(Refusal::Checksum(sum)));
    }

    #[test]
    fn a_ttl_other_than_255_is_refused_rfc9568_5_1_1_3() {
        for ttl in [0, 1, 64, 254] {
            let refused = Err(Refusal::Ttl(ttl));
            let v4 = Advert::parse(V4_SOURCE, V4_GROUP, ttl, &V4_PLAIN);
            assert_eq!(v4, refused);
            assert_eq!(Advert::parse(V6_SOURCE, V6_GROUP, ttl, &V6), refused);
        }
    }

    #[test]
    fn other_versions_are_refused_rfc9568_5_2_1() {
        for version in [0, 1, 2, 4, 15] {
            let refused = refusals(|message| message[0] = version << 4 | 1);
            assert_eq!(refused, [Refusal::Version(version); 2]);
        }
    }

    #[test]
    fn a_version_2_message_with_authentication_is_refused_by_its_version() {
        // RFC 3768 §5.3: type 1 (PASS), interval 1 s, one address, 8 octets of password.
        let message = b"\x21\x33\x64\x01\x01\x01\x00\x00\xc0\x00\x02\x0asecret\0\0";
        assert_eq!(parse_v4(message), Err(Refusal::Version(2)));
    }

    #[test]
    fn other_types_are_refused_rfc9568_5_2_2() {
        for kind in [0, 2, 15] {
            let refused = refusals(|message| message[0] = 3 << 4 | kind);
            assert_eq!(refused, [Refusal::Type(kind); 2]);
        }
    }

    #[test]
    fn an_incomplete_message_is_refused_rfc9568_7_1() {
        for has in 0..V4_PLAIN.len() {
            let needs = if has < 8 { 8 } else { 16 };
            let refused = Err(Refusal::Length { has, needs });
            assert_eq!(parse_v4(&V4_PLAIN[..has]), refused);
        }
        for has in 0..V6.len() {
            let needs = if has < 8 { 8 } else { 40 };
            let refused = Err(Refusal::Length { has, needs });
            assert_eq!(parse_v6(&V6[..has]), refused);
        }
        // A count of one more than there are, everything else right.
        let refused = refusals(|message| message[3] += 1);
        let lengths = [(16, 20), (40, 56)].map(|(has, needs)| Refusal::Length { has, needs });
        assert_eq!(refused, lengths);
    }

    #[test]
    fn an_ipv4_list_over_ipv6_is_refused_rfc9568_5_2_9() {
        let message = v4_advert().emit(V4_SOURCE, V4_GROUP, Checksum::Rfc9568);
        let refused = Err(Refusal::Length { has: 16, needs: 40 });
        assert_eq!(parse_v6(&message), refused);
    }

    #[test]
    fn a_checksum_off_by_one_is_refused_in_every_form_rfc9568_5_2_8() {
        let off_by_one = |message: &[u8]| {
            let mut message = message.to_vec();
            message[7] += 1;
            message
        };
        let refused = |sum| Err(Refusal::Checksum(sum));
        assert_eq!(parse_v4(&off_by_one(&V4_PLAIN)), refused(0x82a0));
        assert_eq!(parse_v4(&off_by_one(&V4_PSEUDO)), refused(0xe00b));
        assert_eq!(parse_v6(&off_by_one(&V6)), refused(0x3320));
    }

    #[test]
    fn vrid_0_is_refused_rfc9568_5_2_3() {
        assert_eq!(refusals(|message| message[1] = 0), [Refusal::Vrid; 2]);
    }

    #[test]
    fn an_empty_list_is_refused_rfc9568_5_2_5() {
        let emptied = refusals(|message| {
            message[3] = 0;
            message.truncate(8);
        });
        assert_eq!(emptied, [Refusal::Count; 2]);
        let mut followed = V4_PLAIN;
        followed[3] = 0;
        followed[6..8].fill(0);
        let sum = checksum(&followed[..8], NO_WORD).to_be_bytes();
        followed[6..8].copy_from_slice(&sum);
        assert_eq!(parse_v4(&followed), Err(Refusal::Count));
    }

    #[test]
    fn an_interval_of_0_is_refused_rfc9568_5_2_7() {
        for reserved in [0x00, 0xf0] {
            let refused = refusals(|message| message[4..6].copy_from_slice(&[reserved, 0]));
            assert_eq!(refused, [Refusal::Interval; 2]);
        }
    }

    #[test]
    fn an_ipv6_source_that_is_not_link_local_is_refused_rfc9568_5_1_2_1() {
        for source in ["2001:db8::1", "fec0::1", "::", "::1", "ff02::1"] {
            let source: Ipv6Addr = source.parse().unwrap();
            let message = v6_advert().emit(source.into(), V6_GROUP, Checksum::PseudoHeader);
            let parsed = Advert::parse(source.into(), V6_GROUP, 255, &message);
            assert_eq!(parsed, Err(Refusal::Source(source)));
        }
    }

    #[test]
    fn mixed_families_are_refused() {
        let v4 = Advert::parse(V4_SOURCE, V6_GROUP, 255, &V4_PLAIN);
        let v6 = Advert::parse(V6_SOURCE, V4_GROUP, 255, &V6);
        assert_eq!((v4, v6), (Err(Refusal::Family), Err(Refusal::Family)));
    }

    #[test]
    fn reserved_bits_are_ignored_rfc9568_5_2_6() {
        let mut message = V4_PLAIN;
        message[4] |= 0xf0;
        message[6..8].fill(0);
        let sum = checksum(&message, NO_WORD).to_be_bytes();
        message[6..8].copy_from_slice(&sum);
        assert_eq!(parse_v4(&message), Ok((v4_advert(), Checksum::Rfc9568)));
    }

    #[test]
    fn trailing_octets_are_ignored_rfc9568_7_1() {
        for count in 0..=26 {
            for filling in [0x00, 0xa5] {
                let followed = |message: &[u8]| [message, &vec![filling; count]].concat();
                let plain = Ok((v4_advert(), Checksum::Rfc9568));
                let pseudo = Ok((v4_advert(), Checksum::PseudoHeader));
                assert_eq!(parse_v4(&followed(&V4_PLAIN)), plain);
                assert_eq!(parse_v4(&followed(&V4_PSEUDO)), pseudo);
                let v6 = Ok((v6_advert(), Checksum::PseudoHeader));
                assert_eq!(parse_v6(&followed(&V6)), v6);
            }
        }
    }

    #[test]
    fn every_priority_is_read_rfc9568_5_2_4() {
        for priority in 0..=255 {
            let advert = Advert { priority: Priority::try_from(priority).ok(), ..v4_advert() };
            let message = advert.emit(V4_SOURCE, V4_GROUP, Checksum::Rfc9568);
            assert_eq!(message[2], priority);
            assert_eq!(parse_v4(&message).unwrap().0.priority, advert.priority);
        }
    }

    #[test]
    fn what_does_not_fit_is_left_out_of_a_message() {
        let mut advert = v4_advert();
        advert.addresses.insert(1, V6_SOURCE);
        assert_eq!(advert.emit(V4_SOURCE, V4_GROUP, Checksum::Rfc9568), V4_PLAIN);
        advert.addresses = vec![[192, 0, 2, 10].into(); 300];
        let message = advert.emit(V4_SOURCE, V4_GROUP, Checksum::Rfc9568);
        assert_eq!(message.len(), 8 + 255 * 4);
        assert_eq!(parse_v4(&message).unwrap().0.addresses.len(), 255);
    }

    #[test]
    fn capacity_keeps_an_advert_in_one_packet() {
        let capacities = |family| {
            [0, 28, 31, 32, 576, 1500, 9000, u32::MAX].map(|mtu| Advert::capacity(family, mtu))
        };
        assert_eq!(capacities(Family::Ipv4), [0, 0, 0, 1, 137, 255, 255, 255]);
        assert_eq!(capacities(Family::Ipv6), [0, 0, 0, 0, 32, 89, 255, 255]);
        assert_eq!(Advert::capacity(Family::Ipv6, 1280), 76);
    }

    #[test]
    fn refusals_have_distinct_stable_names() {
        let all = [
            Refusal::Family,
            Refusal::Ttl(1),
            Refusal::Length { has: 1, needs: 8 },
            Refusal::Version(2),
            Refusal::Type(2),
            Refusal::Checksum(1),
            Refusal::Vrid,
            Refusal::Count,
            Refusal::Interval,
            Refusal::Source(Ipv6Addr::LOCALHOST),
        ];
        let names = all.map(|refusal| refusal.name());
        let expected = [
            "family", "ttl", "length", "version", "type", "checksum", "vrid", "count", "interval",
            "source",
        ];
        assert_eq!(names, expected);
        assert_eq!(
            Refusal::Length { has: 12, needs: 16 }.to_string(),
            "it has 12 octets where 16 are needed"
        );
        assert_eq!(
            Refusal::Checksum(0x1f).to_string(),
            "its checksum 0x001f is wrong, with and without pseudo-header"
        );
    }
}
