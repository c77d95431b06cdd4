//! Ranges of addresses, as a pool states them.

use std::cmp::Ordering;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Subnets, Ipv6Subnets};
use serde::{Deserialize, Serialize};

use super::{Family, Invalid, Vip};

/// Addresses of one family without a gap: `192.0.2.0/28`, `192.0.2.10-192.0.2.20`, `192.0.2.10`.
///
/// A network's own and broadcast address belong to the range but are never given out; of an IPv6
/// network that is its first address (subnet-router anycast, RFC 4291 §2.6.1). In networks of one
/// or two addresses (/31, /32, /127, /128) and in `first-last` ranges every address is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AddressRange {
    first: IpAddr,
    last: IpAddr,
    network: Option<IpNet>,
}

impl AddressRange {
    /// Its first address, given out or not.
    #[must_use]
    pub const fn first(self) -> IpAddr {
        self.first
    }

    /// Its last address, given out or not.
    #[must_use]
    pub const fn last(self) -> IpAddr {
        self.last
    }

    /// The family of all its addresses.
    #[must_use]
    pub fn family(self) -> Family {
        Family::of(self.first)
    }

    /// Whether `address` lies in it, given out or not.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        Family::of(address) == self.family() && self.first <= address && address <= self.last
    }

    /// Whether both have an address in common.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.family() == other.family() && self.first <= other.last && other.first <= self.last
    }

    /// The first and last address that may be given out.
    #[must_use]
    pub fn usable(self) -> (IpAddr, IpAddr) {
        let host_bits = self.network.map_or(0, |net| net.max_prefix_len() - net.prefix_len());
        if host_bits < 2 {
            return (self.first, self.last);
        }
        let first = number(self.first) + 1;
        let last = match self.last {
            IpAddr::V4(_) => number(self.last) - 1,
            IpAddr::V6(_) => number(self.last),
        };
        (address(self.family(), first), address(self.family(), last))
    }

    /// How many addresses may be given out; at most `u128::MAX`.
    #[must_use]
    pub fn size(self) -> u128 {
        let (first, last) = self.usable();
        (number(last) - number(first)).saturating_add(1)
    }

    /// The fewest networks that cover it exactly.
    pub fn networks(self) -> Vec<IpNet> {
        match (self.first, self.last) {
            (IpAddr::V4(first), IpAddr::V4(last)) => {
                Ipv4Subnets::new(first, last, 0).map(IpNet::V4).collect()
            }
            (IpAddr::V6(first), IpAddr::V6(last)) => {
                Ipv6Subnets::new(first, last, 0).map(IpNet::V6).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// An address as a number, so that ranges can be walked.
#[must_use]
pub fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    }
}

/// The address of this number; an IPv4 number beyond 32 bits keeps the lower ones.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "said above")]
pub fn address(family: Family, number: u128) -> IpAddr {
    match family {
        Family::Ipv4 => Ipv4Addr::from(number as u32).into(),
        Family::Ipv6 => Ipv6Addr::from(number).into(),
    }
}

impl From<IpNet> for AddressRange {
    fn from(net: IpNet) -> Self {
        let net = net.trunc();
        Self { first: net.network(), last: net.broadcast(), network: Some(net) }
    }
}

impl From<IpAddr> for AddressRange {
    fn from(address: IpAddr) -> Self {
        Self { first: address, last: address, network: None }
    }
}

impl FromStr for AddressRange {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let unreadable = || {
            Invalid::new(format!(
                "{text:?} is no range of addresses; write \"192.0.2.0/28\", \"192.0.2.10-192.0.2.20\" or \"2001:db8::/120\""
            ))
        };
        let range = if let Some((first, last)) = text.split_once('-') {
            let parse = |text: &str| text.trim().parse::<IpAddr>().map_err(|_| unreadable());
            let (first, last) = (parse(first)?, parse(last)?);
            if Family::of(first) != Family::of(last) {
                return Err(Invalid::new(format!("{text:?} mixes IPv4 and IPv6")));
            }
            if first > last {
                return Err(Invalid::new(format!(
                    "{text:?} ends before it begins; write \"{last}-{first}\""
                )));
            }
            Self { first, last, network: None }
        } else if text.contains('/') {
            let net: IpNet = text.trim().parse().map_err(|_| unreadable())?;
            if net != net.trunc() {
                return Err(Invalid::new(format!(
                    "{text:?} has bits beyond its length; write \"{}\"",
                    net.trunc()
                )));
            }
            net.into()
        } else {
            text.trim().parse::<IpAddr>().map_err(|_| unreadable())?.into()
        };
        let (first, last) = range.usable();
        Vip::try_from(first)?;
        Vip::try_from(last)?;
        Ok(range)
    }
}

impl TryFrom<String> for AddressRange {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<AddressRange> for String {
    fn from(range: AddressRange) -> Self {
        range.to_string()
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.network {
            Some(net) => net.fmt(f),
            None if self.first.cmp(&self.last) == Ordering::Equal => self.first.fmt(f),
            None => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> AddressRange {
        text.parse().unwrap()
    }

    #[test]
    fn edges_of_networks_are_never_given_out() {
        let usable = |text: &str| {
            let (first, last) = range(text).usable();
            format!("{first} {last} {}", range(text).size())
        };
        assert_eq!(usable("172.16.0.0/28"), "172.16.0.1 172.16.0.14 14");
        assert_eq!(usable("172.16.0.0/30"), "172.16.0.1 172.16.0.2 2");
        assert_eq!(usable("172.16.0.0/31"), "172.16.0.0 172.16.0.1 2");
        assert_eq!(usable("172.16.0.7"), "172.16.0.7 172.16.0.7 1");
        assert_eq!(usable("172.16.0.0-172.16.0.3"), "172.16.0.0 172.16.0.3 4");
        assert_eq!(usable("2001:db8::/126"), "2001:db8::1 2001:db8::3 3");
    }

    #[test]
    fn ranges_print_as_written_and_are_covered_exactly() {
        for text in ["172.16.0.0/28", "172.16.0.3-172.16.0.9", "2001:db8::/120", "192.0.2.1"] {
            assert_eq!(range(text).to_string(), text);
        }
        let nets = range("172.16.0.3-172.16.0.8").networks();
        let nets: Vec<_> = nets.iter().map(ToString::to_string).collect();
        assert_eq!(nets, ["172.16.0.3/32", "172.16.0.4/30", "172.16.0.8/32"]);
    }

    #[test]
    fn overlap_is_of_one_family_and_contains_the_edges() {
        assert!(range("10.0.0.0/24").overlaps(range("10.0.0.255-10.0.1.3")));
        assert!(!range("10.0.0.0/24").overlaps(range("10.0.1.0/24")));
        assert!(!range("0.0.0.1-0.0.0.9").overlaps(range("::1:1-::1:9")));
        assert!(range("10.0.0.0/24").contains("10.0.0.0".parse().unwrap()));
    }

    #[test]
    fn what_is_no_range_is_refused_with_the_remedy() {
        for (text, remedy) in [
            ("172.16.0.9-172.16.0.3", "172.16.0.3-172.16.0.9"),
            ("172.16.0.9/24", "172.16.0.0/24"),
            ("172.16.0.1-::1", "mixes"),
            ("224.0.0.0/24", "multicast"),
            ("web", "write"),
            ("", "write"),
        ] {
            let error = text.parse::<AddressRange>().unwrap_err().to_string();
            assert!(error.contains(remedy), "{error}");
        }
    }
}
