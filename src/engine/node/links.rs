//! What the kernel shows of this machine's links, and which of them can carry a virtual router.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::engine::vrrp::frames::MacAddress;
use crate::model::{Family, LinkSelector, VirtualRouter};

/// A link's index in the kernel (ifindex).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
pub struct LinkId(pub u32);

/// An address on a link.
pub(super) type Key = (LinkId, IpAddr);

/// Which barevip instance of this machine an address belongs to: the metric it is marked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Instance(pub u32);

impl Instance {
    /// The upper half of every mark: "ba" in ASCII. The lower half names the instance.
    const MARK: u32 = 0x6261_0000;

    /// The instance that this text names: `cluster`, or the path of a configuration file. The
    /// same text names the same instance for ever, as addresses outlive processes.
    #[must_use]
    pub fn named(text: &[u8]) -> Self {
        // FNV-1a, folded to 16 bits.
        let hash = text.iter().fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
        });
        Self(Self::MARK | (hash >> 16) ^ (hash & 0xffff))
    }

    /// The instance whose mark this metric is; `None` for anybody else's metric.
    #[must_use]
    pub const fn from_metric(metric: u32) -> Option<Self> {
        if metric & 0xffff_0000 == Self::MARK { Some(Self(metric)) } else { None }
    }
}

/// The machine's links and addresses at one moment: always the full picture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSnapshot {
    /// Every link, in the order of their indices.
    pub links: Vec<Link>,
}

/// One link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Its index.
    pub id: LinkId,
    /// Its name.
    pub name: String,
    /// Its MAC address; `None` where the link has none (a tunnel) or it is no Ethernet.
    pub mac: Option<MacAddress>,
    /// Its MTU in octets.
    pub mtu: u32,
    /// Whether it is administratively up (IFF_UP).
    pub up: bool,
    /// Whether it has carrier (IFF_LOWER_UP).
    pub carrier: bool,
    /// The bridge, bond or OVS device that it is enslaved to (IFLA_MASTER).
    pub master: Option<LinkId>,
    /// Whether the link forwards IPv6: the R flag of neighbour advertisements.
    pub forwards_ipv6: bool,
    /// Its addresses, in the kernel's order.
    pub addresses: Vec<LinkAddress>,
}

/// One address of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkAddress {
    /// The address.
    pub address: IpAddr,
    /// Its prefix length.
    pub prefix_len: u8,
    /// The mark of a barevip instance; `None` for anybody else's address.
    pub instance: Option<Instance>,
    /// Whether the kernel uses it: neither tentative nor found to be a duplicate.
    pub usable: bool,
}

/// A link that can carry addresses: it is up and has carrier, and belongs to no bridge or bond.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsableLink {
    /// Its own addresses with their lengths, none that barevip has put there.
    pub addresses: Vec<IpNet>,
}

/// Why a router has no link that it can use. The text is for an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum LinkFault {
    /// No link has the configured name.
    #[error("there is no link {0}")]
    Missing(String),
    /// No link has an own address in the subnet of the router's addresses.
    #[error("no link has an own address in the subnet of the virtual addresses")]
    NoSubnet,
    /// The link is administratively down.
    #[error("link {0} is down")]
    Down(String),
    /// The link has no carrier.
    #[error("link {0} has no carrier")]
    NoCarrier(String),
    /// The link belongs to a bridge or bond, so packets for it go elsewhere.
    #[error("link {0} is enslaved to a bridge or bond; name that one instead")]
    Enslaved(String),
    /// The link has no own address of the family, so adverts would have no source.
    #[error("link {0} has no own {1} address to send adverts from")]
    NoSource(String, Family),
}

impl LinkFault {
    /// Whether the fault may be the moment between two addresses of a reconfigured link, which is
    /// waited out for less than an interval.
    #[must_use]
    pub const fn may_be_brief(&self) -> bool {
        matches!(self, Self::NoSource(..) | Self::NoSubnet)
    }
}

impl LinkSnapshot {
    /// The link of this index.
    #[must_use]
    pub fn get(&self, id: LinkId) -> Option<&Link> {
        self.links.iter().find(|link| link.id == id)
    }

    /// The links that can carry addresses, by name.
    pub(super) fn usable(&self) -> BTreeMap<String, UsableLink> {
        let usable = self
            .links
            .iter()
            .filter(|link| link.up && link.carrier && link.master.is_none() && link.mac.is_some());
        usable.map(|link| (link.name.clone(), link.usable())).collect()
    }

    /// The link that can carry `router`, or why there is none.
    ///
    /// # Errors
    /// The first fault of the link that the router names, or of the one in its subnet.
    pub fn carrier_of(&self, router: &VirtualRouter) -> Result<&Link, LinkFault> {
        let link = match &router.link {
            LinkSelector::Name(name) => self
                .links
                .iter()
                .find(|link| link.name == *name)
                .ok_or_else(|| LinkFault::Missing(name.clone()))?,
            LinkSelector::OneOf(names) => {
                self.named(names).ok_or_else(|| LinkFault::Missing(names.join(", nor ")))?
            }
            LinkSelector::Subnet => self.in_subnet_of(router).ok_or(LinkFault::NoSubnet)?,
        };
        let name = || link.name.clone();
        if !link.up {
            return Err(LinkFault::Down(name()));
        }
        if !link.carrier {
            return Err(LinkFault::NoCarrier(name()));
        }
        if link.master.is_some() {
            return Err(LinkFault::Enslaved(name()));
        }
        match link.source(router) {
            Some(_) => Ok(link),
            None => Err(LinkFault::NoSource(name(), router.family)),
        }
    }

    /// The first of these names whose link works, else the first that is there.
    fn named(&self, names: &[String]) -> Option<&Link> {
        let links = || names.iter().filter_map(|name| self.links.iter().find(|l| l.name == *name));
        let works = |link: &&Link| link.up && link.carrier && link.master.is_none();
        links().find(works).or_else(|| links().next())
    }

    /// A link whose own addresses' subnet holds the router's addresses; one that works comes
    /// before one that does not.
    fn in_subnet_of(&self, router: &VirtualRouter) -> Option<&Link> {
        self.links
            .iter()
            .filter(|link| {
                link.own_addresses(router).any(|own| {
                    IpNet::new(own.address, own.prefix_len).is_ok_and(|net| {
                        router.entries.iter().any(|e| net.contains(&e.vip.address()))
                    })
                })
            })
            .max_by_key(|link| (link.up && link.carrier && link.master.is_none(), !link.id.0))
    }
}

impl Link {
    /// The address that adverts of `router` leave from: an own one of the family, for IPv6 a
    /// link-local one (RFC 9568 §5.1.2.1), and never a virtual address, unless this machine is
    /// the addresses' owner.
    #[must_use]
    pub fn source(&self, router: &VirtualRouter) -> Option<IpAddr> {
        self.own_addresses(router).map(|own| own.address).find(|address| match address {
            IpAddr::V4(_) => true,
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
        })
    }

    fn usable(&self) -> UsableLink {
        let own = self.addresses.iter().filter(|a| a.instance.is_none() && a.usable);
        let nets = own.filter_map(|own| IpNet::new(own.address, own.prefix_len).ok());
        UsableLink { addresses: nets.collect() }
    }

    /// Whether the link holds `address`, whoever put it there.
    #[must_use]
    pub fn address(&self, address: IpAddr) -> Option<&LinkAddress> {
        self.addresses.iter().find(|a| a.address == address)
    }

    /// The usable addresses of the router's family that no barevip instance put there. An
    /// administrator's address that equals one of the router's counts only for its owner.
    fn own_addresses(&self, router: &VirtualRouter) -> impl Iterator<Item = &LinkAddress> {
        self.addresses.iter().filter(move |a| {
            a.instance.is_none()
                && a.usable
                && Family::of(a.address) == router.family
                && (router.is_owner() || !router.lists(a.address))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_named_the_same_for_ever() {
        assert_eq!(Instance::named(b"cluster"), Instance(0x6261_f88c));
        assert_eq!(Instance::named(b""), Instance(0x6261_1cd9));
        let named = Instance::named(b"/etc/barevip/barevip.toml");
        assert_eq!(Instance::from_metric(named.0), Some(named));
        assert_eq!(Instance::from_metric(1024), None);
    }
}
