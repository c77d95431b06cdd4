//! The vocabulary as types: what a configuration file, a custom resource, the engines and the
//! wire all mean by a VRID, a priority, an interval, an address and a virtual router.
//!
//! Every type holds only legal values, so nothing below has to check again.

mod pool;
pub mod range;
mod virtual_router;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU8;
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

pub use self::pool::{Announcing, Labels, Pinned, Pool, Requests, Rule, Selector, Sharing};
pub use self::range::AddressRange;
pub use self::virtual_router::{
    Announce, Candidate, Candidates, ChecksumForm, Entry, EntryState, LinkSelector, Plan, Preempt,
    Transport, Version, VirtualRouter,
};

/// Why a value is outside what the protocol or the machine can carry.
///
/// The text names the value and what would be accepted; whoever reads the input adds the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(String);

impl Invalid {
    /// An error with this text: the value, and what would be accepted.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// Virtual router identifier, 1–255 (RFC 9568 §5.2.3). One LAN and address family has each once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Vrid(NonZeroU8);

impl Vrid {
    /// The number as it stands on the wire.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0.get()
    }

    /// The link-local address of an IPv6 virtual router, made of its virtual MAC (RFC 9568 §7.3,
    /// RFC 4291 appendix A). It is listed first in adverts and never bound.
    #[must_use]
    pub const fn link_local(self) -> Ipv6Addr {
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0x0200, 0x5eff, 0xfe00, 0x0200 | self.get() as u16)
    }
}

impl TryFrom<u8> for Vrid {
    type Error = Invalid;

    fn try_from(value: u8) -> Result<Self, Invalid> {
        NonZeroU8::new(value)
            .map(Self)
            .ok_or_else(|| Invalid::new("a VRID is a number from 1 to 255, not 0"))
    }
}

impl From<Vrid> for u8 {
    fn from(vrid: Vrid) -> Self {
        vrid.get()
    }
}

impl fmt::Display for Vrid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// Priority of a candidate, 1–255 (RFC 9568 §5.2.4). 0, "I am leaving", is no priority but a
/// message: see [`crate::engine::vrrp::packet::Advert`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Priority(NonZeroU8);

impl Priority {
    /// The address owner's priority; a takeover speaks with it too.
    pub const OWNER: Self = Self(NonZeroU8::MAX);
    /// RFC 9568's default.
    pub const DEFAULT: Self = Self(match NonZeroU8::new(100) {
        Some(value) => value,
        None => NonZeroU8::MIN,
    });
    /// Candidates a router may have: with more, neighbours in rank wake within scheduling jitter.
    pub const RANKS: u8 = 9;
    /// The highest priority that means "take it if you are healthy".
    const HEALTH_BAND: u8 = 31;

    /// The number as it stands on the wire.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0.get()
    }

    /// Priority of the candidate at `rank`, 0 the first: 254 − 24 · rank, so that each has spoken
    /// before the next one wakes. `None` beyond the ninth.
    #[must_use]
    pub fn for_rank(rank: u8) -> Option<Self> {
        (rank < Self::RANKS).then(|| 254 - 24 * rank).and_then(NonZeroU8::new).map(Self)
    }

    /// What a candidate of this priority advertises while it is unhealthy: a value of the band
    /// 1–31 that keeps the order among unhealthy ones.
    #[must_use]
    pub fn unhealthy(self) -> Self {
        Self(NonZeroU8::new(self.get() / 8).unwrap_or(NonZeroU8::MIN))
    }

    /// Whether this priority says "take it if you are healthy".
    #[must_use]
    pub const fn in_health_band(self) -> bool {
        self.get() <= Self::HEALTH_BAND
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl TryFrom<u8> for Priority {
    type Error = Invalid;

    fn try_from(value: u8) -> Result<Self, Invalid> {
        NonZeroU8::new(value)
            .map(Self)
            .ok_or_else(|| Invalid::new("a priority is a number from 1 to 255, not 0"))
    }
}

impl From<Priority> for u8 {
    fn from(priority: Priority) -> Self {
        priority.get()
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// Advertisement interval: 10 ms to 40.95 s in steps of 10 ms, as the wire carries centiseconds
/// (RFC 9568 §5.2.7). Everywhere but in the codec it is a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Interval(u16);

impl Interval {
    /// 200 ms: failover in about 0.6 s, and room to spare for a busy node.
    pub const DEFAULT: Self = Self(20);
    /// What the wire can carry at most: 40.95 s.
    pub const LONGEST: Self = Self(4095);

    /// From the wire's unit; `None` for 0 and for more than 12 bits.
    #[must_use]
    pub const fn from_centiseconds(value: u16) -> Option<Self> {
        match value {
            1..=4095 => Some(Self(value)),
            _ => None,
        }
    }

    /// In the wire's unit, 1–4095.
    #[must_use]
    pub const fn centiseconds(self) -> u16 {
        self.0
    }

    /// As a duration.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.0 as u64 * 10)
    }

    /// RFC 9568 §6.1 Skew_Time: (256 − priority) · interval / 256, to the nanosecond.
    #[must_use]
    pub fn skew(self, priority: Priority) -> Duration {
        self.duration() * (256 - u32::from(priority.get())) / 256
    }

    /// RFC 9568 §6.1 Active_Down_Interval: 3 · interval + skew.
    #[must_use]
    pub fn down(self, priority: Priority) -> Duration {
        self.duration() * 3 + self.skew(priority)
    }
}

impl Default for Interval {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl TryFrom<Duration> for Interval {
    type Error = Invalid;

    fn try_from(value: Duration) -> Result<Self, Invalid> {
        let nanos = value.as_nanos();
        u16::try_from(nanos / 10_000_000)
            .ok()
            .filter(|_| nanos.is_multiple_of(10_000_000))
            .and_then(Self::from_centiseconds)
            .ok_or_else(|| {
                Invalid::new("an interval is 10ms to 40950ms in steps of 10ms, such as \"200ms\"")
            })
    }
}

impl FromStr for Interval {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        parse_duration(text)?.try_into()
    }
}

impl TryFrom<String> for Interval {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<Interval> for String {
    fn from(interval: Interval) -> Self {
        interval.to_string()
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.duration()).fmt(f)
    }
}

/// Reads "200ms", "5m" or "1h 30m".
///
/// # Errors
/// With the text and an example, where it is no duration.
pub fn parse_duration(text: &str) -> Result<Duration, Invalid> {
    humantime::parse_duration(text).map_err(|error| {
        Invalid::new(format!(
            "{text:?} is no duration ({error}); write \"200ms\", \"5s\" or \"2m\""
        ))
    })
}

/// An address family. A virtual router has one, and so have all its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4, adverts to 224.0.0.18.
    Ipv4,
    /// IPv6, adverts to ff02::12.
    Ipv6,
}

impl Family {
    /// The family of an address.
    #[must_use]
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::Ipv4,
            IpAddr::V6(_) => Self::Ipv6,
        }
    }

    /// The group that adverts are sent to: 224.0.0.18 or ff02::12 (RFC 9568 §5.1.1.2, §5.1.2.2).
    #[must_use]
    pub const fn group(self) -> IpAddr {
        match self {
            Self::Ipv4 => IpAddr::V4(Ipv4Addr::new(224, 0, 0, 18)),
            Self::Ipv6 => IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x12)),
        }
    }

    /// Octets of one address on the wire.
    #[must_use]
    pub const fn address_len(self) -> usize {
        match self {
            Self::Ipv4 => 4,
            Self::Ipv6 => 16,
        }
    }

    /// Prefix length of a single address: 32 or 128.
    #[must_use]
    pub const fn host_prefix_len(self) -> u8 {
        match self {
            Self::Ipv4 => 32,
            Self::Ipv6 => 128,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
        })
    }
}

/// A virtual address with the prefix length that it is bound with: /32 or /128 unless said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Vip(IpNet);

impl Vip {
    /// The address itself.
    #[must_use]
    pub fn address(self) -> IpAddr {
        self.0.addr()
    }

    /// The prefix length it is bound with.
    #[must_use]
    pub fn prefix_len(self) -> u8 {
        self.0.prefix_len()
    }

    /// The family of the address.
    #[must_use]
    pub fn family(self) -> Family {
        Family::of(self.address())
    }
}

impl TryFrom<IpNet> for Vip {
    type Error = Invalid;

    fn try_from(net: IpNet) -> Result<Self, Invalid> {
        let address = net.addr();
        let refused = match address {
            _ if address.is_unspecified() => Some("the unspecified address"),
            _ if address.is_multicast() => Some("a multicast address"),
            _ if address.is_loopback() => Some("a loopback address"),
            IpAddr::V4(v4) if v4.is_broadcast() => Some("the broadcast address"),
            IpAddr::V4(v4) if net.prefix_len() < 31 && v4.octets() != [0; 4] => {
                let is_edge = address == net.network() || address == net.broadcast();
                is_edge.then_some("the network's own or broadcast address")
            }
            IpAddr::V4(_) => None,
            IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => Some("an IPv4-mapped address"),
            IpAddr::V6(_) => None,
        };
        match refused {
            Some(what) => Err(Invalid::new(format!("{net} is {what}, which no machine can hold"))),
            None if net.prefix_len() == 0 => {
                Err(Invalid::new(format!("{net}: a prefix length is at least 1")))
            }
            None => Ok(Self(net)),
        }
    }
}

impl TryFrom<IpAddr> for Vip {
    type Error = Invalid;

    fn try_from(address: IpAddr) -> Result<Self, Invalid> {
        IpNet::from(address).try_into()
    }
}

impl FromStr for Vip {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let parsed = if text.contains('/') {
            text.parse::<IpNet>().ok()
        } else {
            text.parse::<IpAddr>().ok().map(IpNet::from)
        };
        parsed
            .ok_or_else(|| {
                Invalid::new(format!(
                    "{text:?} is no address; write \"192.0.2.10\", \"192.0.2.10/24\" or \"2001:db8::10\""
                ))
            })?
            .try_into()
    }
}

impl TryFrom<String> for Vip {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<Vip> for String {
    fn from(vip: Vip) -> Self {
        vip.to_string()
    }
}

impl fmt::Display for Vip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.prefix_len() == self.family().host_prefix_len() {
            self.address().fmt(f)
        } else {
            self.0.fmt(f)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_24_apart_and_never_reach_the_health_band() {
        let ranks: Vec<u8> = (0..12).filter_map(Priority::for_rank).map(Priority::get).collect();
        assert_eq!(ranks, [254, 230, 206, 182, 158, 134, 110, 86, 62]);
    }

    #[test]
    fn unhealthy_priorities_stay_in_the_band_and_in_order() {
        let band: Vec<Priority> =
            (0..9).filter_map(Priority::for_rank).map(Priority::unhealthy).collect();
        assert!(band.iter().all(|p| p.in_health_band()));
        assert!(band.windows(2).all(|pair| pair[0] > pair[1]));
        assert_eq!(Priority::try_from(1).unwrap().unhealthy().get(), 1);
    }

    #[test]
    fn skew_and_down_interval_keep_nanoseconds_rfc9568_6_1() {
        let interval = Interval::from_centiseconds(1).unwrap();
        let priority = Priority::try_from(254).unwrap();
        assert_eq!(interval.skew(priority), Duration::from_nanos(78_125));
        assert_eq!(interval.down(priority), Duration::from_nanos(30_078_125));
    }

    #[test]
    fn intervals_are_what_the_wire_can_carry() {
        assert_eq!("100ms".parse::<Interval>().unwrap().centiseconds(), 10);
        for bad in ["0ms", "5ms", "15ms", "41s", "100", "fast", ""] {
            assert!(bad.parse::<Interval>().is_err(), "{bad}");
        }
    }

    #[test]
    fn addresses_without_a_length_are_single_and_print_as_written() {
        for text in ["192.0.2.200", "192.0.2.201/24", "2001:db8::1", "fe80::1/64"] {
            assert_eq!(text.parse::<Vip>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn addresses_that_no_machine_can_hold_are_refused() {
        let bad = [
            "0.0.0.0",
            "224.0.0.18",
            "127.0.0.1",
            "255.255.255.255",
            "192.0.2.0/24",
            "ff02::12",
            "192.0.2.255/24",
            "::",
            "::1",
            "::ffff:192.0.2.1",
            "192.0.2.1/0",
            "192.0.2.1/33",
            "web",
        ];
        for text in bad {
            assert!(text.parse::<Vip>().is_err(), "{text}");
        }
    }

    #[test]
    fn preempt_reads_what_it_prints() {
        for text in ["now", "never", "after 5m"] {
            assert_eq!(text.parse::<Preempt>().unwrap().to_string(), text);
        }
        assert_eq!("after 300s".parse::<Preempt>().unwrap(), Preempt::default());
        assert!("soon".parse::<Preempt>().is_err());
    }
}
