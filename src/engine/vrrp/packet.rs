//! The VRRP version 3 message as bytes (RFC 9568 §5): [`Advert::parse`] checks all of §7.1 and
//! only a valid message comes out; [`Advert::emit`] writes what we send.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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
/// Where IPv4 adverts go by multicast (RFC 9568 §5.1.1.2).
const GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 18);
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
        Family::Ipv4 if right(GROUP.into(), Checksum::PseudoHeader) => Some(Checksum::PseudoHeader),
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
