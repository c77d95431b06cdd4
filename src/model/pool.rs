//! A pool of ingress IPs as its owner states it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::{AddressRange, Announce, ChecksumForm, Family, Interval, Preempt};

/// What an `IngressPool` says, defaults filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The addresses, both families mixed.
    pub addresses: Vec<AddressRange>,
    /// Addresses of these ranges are never given out.
    pub avoid: Vec<AddressRange>,
    /// Always announced and never given out.
    pub pinned: Vec<Pinned>,
    /// Whose Services may have its addresses.
    pub services: Selector,
    /// Of which namespaces.
    pub namespaces: Selector,
    /// Whether Services that name no pool get its addresses.
    pub auto_assign: bool,
    /// Pools of a higher one are asked first; equal ones in the order of their names.
    pub priority: i32,
    /// How long a released address rests before another Service gets it.
    pub reuse_after: Duration,
    /// Who may ask for a certain address.
    pub requests: Requests,
    /// Whose Services may share an address.
    pub sharing: Sharing,
    /// Virtual routers of each family, 1–64: an address's home is its number modulo this.
    pub routers: u8,
    /// The VRIDs that its routers may have.
    pub vrids: RangeInclusive<u8>,
    /// How its addresses are announced.
    pub announcing: Announcing,
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            avoid: Vec::new(),
            pinned: Vec::new(),
            services: Selector::default(),
            namespaces: Selector::default(),
            auto_assign: true,
            priority: 0,
            reuse_after: Duration::from_secs(300),
            requests: Requests::Anyone,
            sharing: Sharing::SameNamespace,
            routers: 8,
            vrids: 100..=254,
            announcing: Announcing::default(),
        }
    }
}

impl Pool {
    /// Whether `address` lies in one of its ranges, given out or not.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|range| range.contains(address))
    }

    /// Whether `address` may be given to a Service: in the usable part of a range, not avoided,
    /// not pinned.
    #[must_use]
    pub fn may_give(&self, address: IpAddr) -> bool {
        let in_usable = |range: &AddressRange| {
            let (first, last) = range.usable();
            range.contains(address) && first <= address && address <= last
        };
        self.addresses.iter().any(in_usable)
            && !self.avoid.iter().any(|range| range.contains(address))
            && !self.pins(address)
    }

    /// Whether `address` is always announced and never given out.
    #[must_use]
    pub fn pins(&self, address: IpAddr) -> bool {
        self.contains(address) && self.pinned.iter().any(|pinned| pinned.address == address)
    }

    /// Its ranges of one family, in the order stated.
    pub fn ranges(&self, family: Family) -> impl Iterator<Item = AddressRange> {
        self.addresses.iter().copied().filter(move |range| range.family() == family)
    }
}

/// An address that is always announced and never given out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// The address.
    pub address: IpAddr,
}

/// Who may ask for a certain address of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Requests {
    /// Whoever may make a Service.
    #[default]
    Anyone,
    /// Nobody: the pool chooses.
    Nobody,
}

/// Whose Services may share an address, the same key provided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Those of one namespace.
    #[default]
    SameNamespace,
    /// Those of any namespace.
    AnyNamespace,
}

/// How a pool's addresses are announced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announcing {
    /// Links that may carry them; empty: the one with an own address in their subnet.
    pub interfaces: Vec<String>,
    /// Nodes that may announce.
    pub nodes: Selector,
    /// Nodes that are preferred while they are healthy; none: all are alike.
    pub preferred: Option<Selector>,
    /// How often the Active node advertises; the default grows with the routers on a link.
    pub interval: Option<Interval>,
    /// Whether a higher candidate takes over from a lower one.
    pub preempt: Preempt,
    /// To the VRRP group besides each candidate's address.
    pub multicast: bool,
    /// Rounds, spacing and refresh of gratuitous ARP and unsolicited NA.
    pub announce: Announce,
    /// The checksum form that is sent.
    pub checksum: ChecksumForm,
}

/// A Kubernetes label selector; the empty one selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// All of these must be so.
    pub rules: Vec<Rule>,
}

/// One requirement of a [`Selector`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The label has one of these values.
    In(String, BTreeSet<String>),
    /// The label is absent or has none of these values.
    NotIn(String, BTreeSet<String>),
    /// The label is there.
    Exists(String),
    /// The label is not there.
    Absent(String),
}

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

impl Selector {
    /// Whether an object with these labels is selected.
    #[must_use]
    pub fn selects(&self, labels: &Labels) -> bool {
        self.rules.iter().all(|rule| match rule {
            Rule::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            Rule::NotIn(key, values) => labels.get(key).is_none_or(|value| !values.contains(value)),
            Rule::Exists(key) => labels.contains_key(key),
            Rule::Absent(key) => !labels.contains_key(key),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_mean_what_kubernetes_means() {
        let labels = |pairs: &[(&str, &str)]| -> Labels {
            pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
        };
        let values = || BTreeSet::from(["blue".to_owned(), "green".to_owned()]);
        let (blue, red, none) =
            (labels(&[("team", "blue")]), labels(&[("team", "red")]), labels(&[]));
        for (rule, expected) in [
            (Rule::In("team".into(), values()), [true, false, false]),
            (Rule::NotIn("team".into(), values()), [false, true, true]),
            (Rule::Exists("team".into()), [true, true, false]),
            (Rule::Absent("team".into()), [false, false, true]),
        ] {
            let selector = Selector { rules: vec![rule] };
            assert_eq!([&blue, &red, &none].map(|l| selector.selects(l)), expected);
        }
        assert!(Selector::default().selects(&none));
    }

    #[test]
    fn avoided_pinned_and_edge_addresses_are_not_given() {
        let pool = Pool {
            addresses: vec!["172.16.0.0/28".parse().unwrap()],
            avoid: vec!["172.16.0.1-172.16.0.3".parse().unwrap()],
            pinned: vec![Pinned { address: "172.16.0.9".parse().unwrap() }],
            ..Pool::default()
        };
        let given: Vec<u8> =
            (0..=16).filter(|last| pool.may_give(IpAddr::from([172, 16, 0, *last]))).collect();
        assert_eq!(given, [4, 5, 6, 7, 8, 10, 11, 12, 13, 14]);
        assert!(pool.contains("172.16.0.15".parse().unwrap()));
    }
}
