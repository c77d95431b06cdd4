//! What an operator is told, each in one sentence: roles, addresses, links and foreign routers.
//! Never a packet.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::links::LinkFault;
use crate::engine::vrrp::frames::MacAddress;
use crate::engine::vrrp::role::Cause;
use crate::model::{Interval, Priority, Vip, Vrid};

/// Something happened that an operator cares about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The virtual router that it concerns; `None` for the whole node.
    pub router: Option<String>,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventKind {
    /// This node is now the Active router.
    BecameActive {
        /// Why.
        cause: Cause,
    },
    /// All addresses are bound and were announced for the first time.
    Serving {
        /// How many.
        addresses: usize,
        /// Since the last sign of life of the former Active, or since this node became Active.
        took: Duration,
    },
    /// This node is now a Backup router.
    BecameBackup {
        /// Why.
        cause: Cause,
    },
    /// This node takes no part any more.
    LeftElection {
        /// Why.
        cause: Cause,
    },
    /// All addresses of a former Active were handed over or removed.
    Released {
        /// How many were announced by another node first.
        handed_over: usize,
        /// How many were removed without such an announcement.
        unclaimed: usize,
    },
    /// The router takes no part until its link is usable.
    LinkLost(LinkFault),
    /// Its link is usable again.
    LinkBack {
        /// The link's name.
        link: String,
    },
    /// A bound address was removed by somebody else; it is added again.
    AddressLost {
        /// The address.
        vip: Vip,
    },
    /// The lifetime of a bound address ended before it was refreshed; it is added again.
    AddressExpired {
        /// The address.
        vip: Vip,
    },
    /// A problem has begun.
    Began(Problem),
    /// A problem is over.
    Ended(Problem),
    /// This process did not run for longer than the down interval.
    Stalled {
        /// How long.
        gap: Duration,
    },
    /// The machine was suspended.
    Slept {
        /// How long.
        gap: Duration,
    },
}

/// A lasting state that an operator should know and can do something about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "type")]
pub enum Problem {
    /// The address is on this machine and not ours: it is neither bound nor changed.
    AddressInUse {
        /// The address.
        address: IpAddr,
    },
    /// The kernel keeps refusing an address; the role was given away.
    BindFailed {
        /// The address.
        address: IpAddr,
        /// The kernel's words.
        reason: String,
    },
    /// The address is advertised under another VRID: not bound.
    AddressElsewhere {
        /// The address.
        address: IpAddr,
        /// The other VRID.
        vrid: Vrid,
        /// Who advertises it.
        source: IpAddr,
    },
    /// Somebody else announces an address of ours while we are Active.
    ForeignClaim {
        /// The address.
        address: IpAddr,
        /// The MAC address it was announced from.
        mac: MacAddress,
    },
    /// Another group of machines uses our VRID for other addresses.
    ForeignRouter {
        /// Who.
        source: IpAddr,
    },
    /// Somebody sends adverts with our own source address.
    DuplicateSource {
        /// The address.
        source: IpAddr,
    },
    /// The Active node lacks addresses of our plan for 45 s.
    StaleActive {
        /// Who.
        source: IpAddr,
    },
    /// A router of lower priority does not hear us and never yields.
    DeafPeer {
        /// Who.
        source: IpAddr,
        /// The priority it advertises.
        priority: Priority,
    },
    /// Adverts are heard by unicast alone: the LAN filters their group.
    MulticastFiltered,
    /// More addresses than one advert can list: the last ones are bound and not listed.
    NotListed {
        /// How many are not listed.
        count: usize,
    },
    /// A round of refreshes takes so long that the address lifetime had to be raised above 30 s.
    FenceSlow,
    /// Adverts do not leave this machine, so others can't know of it.
    AdvertsUnsent,
    /// Another router of ours advertises with another interval.
    IntervalDiffers {
        /// Who.
        source: IpAddr,
        /// Its interval.
        interval: Interval,
    },
    /// Two routers claim to own the addresses.
    TwoOwners {
        /// The other one.
        source: IpAddr,
    },
}

impl Problem {
    /// The address that it is about, where it is about one.
    #[must_use]
    pub const fn address(&self) -> Option<IpAddr> {
        match self {
            Self::AddressInUse { address }
            | Self::BindFailed { address, .. }
            | Self::AddressElsewhere { address, .. }
            | Self::ForeignClaim { address, .. } => Some(*address),
            Self::ForeignRouter { .. }
            | Self::DuplicateSource { .. }
            | Self::StaleActive { .. }
            | Self::DeafPeer { .. }
            | Self::MulticastFiltered
            | Self::NotListed { .. }
            | Self::FenceSlow
            | Self::AdvertsUnsent
            | Self::IntervalDiffers { .. }
            | Self::TwoOwners { .. } => None,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.router {
            Some(router) => write!(f, "{router}: {}", self.kind),
            None => self.kind.fmt(f),
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BecameActive { cause } => write!(f, "is Active here: {cause}"),
            Self::Serving { addresses, took } => write!(
                f,
                "{addresses} address(es) bound and announced after {}",
                humantime::format_duration(to_tenths_of_ms(*took))
            ),
            Self::BecameBackup { cause } => write!(f, "is Backup here: {cause}"),
            Self::LeftElection { cause } => write!(f, "takes no part: {cause}"),
            Self::Released { handed_over, unclaimed: 0 } => {
                write!(f, "{handed_over} address(es) handed over and released")
            }
            Self::Released { handed_over, unclaimed } => write!(
                f,
                "{handed_over} address(es) handed over, {unclaimed} released that nobody else announced"
            ),
            Self::LinkLost(fault) => write!(f, "takes no part: {fault}"),
            Self::LinkBack { link } => write!(f, "takes part again on link {link}"),
            Self::AddressLost { vip } => {
                write!(f, "{vip} was removed by somebody else; it is added again")
            }
            Self::AddressExpired { vip } => write!(
                f,
                "{vip} expired because it could not be refreshed in time (a hanging process or kernel); it is added again"
            ),
            Self::Began(problem) => write!(f, "problem: {problem}"),
            Self::Ended(problem) => write!(f, "no longer: {problem}"),
            Self::Stalled { gap } => {
                write!(
                    f,
                    "this process did not run for {}",
                    humantime::format_duration(to_tenths_of_ms(*gap))
                )
            }
            Self::Slept { gap } => {
                write!(
                    f,
                    "the machine was suspended for {}",
                    humantime::format_duration(to_tenths_of_ms(*gap))
                )
            }
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddressInUse { address } => write!(
                f,
                "{address} is on this machine already and not ours; it is left alone (remove it, or take it out of the plan)"
            ),
            Self::BindFailed { address, reason } => {
                write!(f, "{address} can't be bound ({reason}); the role was given away")
            }
            Self::AddressElsewhere { address, vrid, source } => write!(
                f,
                "{address} is advertised by {source} under VRID {vrid}; it is not bound here"
            ),
            Self::ForeignClaim { address, mac } => {
                write!(
                    f,
                    "{address} was announced by {mac} while it is ours; it is announced again"
                )
            }
            Self::ForeignRouter { source } => write!(
                f,
                "{source} uses our VRID for other addresses; choose another VRID for one of the two"
            ),
            Self::DuplicateSource { source } => {
                write!(f, "another machine sends adverts with our own address {source}")
            }
            Self::StaleActive { source } => {
                write!(f, "the Active node {source} does not serve all addresses of our plan")
            }
            Self::DeafPeer { source, priority } => write!(
                f,
                "{source} (priority {priority}) does not hear our adverts; look for a filter on its side"
            ),
            Self::MulticastFiltered => f.write_str(
                "adverts are heard by unicast alone; let the LAN pass multicast to the VRRP group",
            ),
            Self::NotListed { count } => write!(
                f,
                "{count} address(es) do not fit into an advert; they are bound and not listed"
            ),
            Self::FenceSlow => f.write_str(
                "so many addresses that a dead node may hold them for over 30 s; spread them",
            ),
            Self::AdvertsUnsent => f.write_str(
                "adverts can't be sent; let the host's firewall pass IP protocol 112 out",
            ),
            Self::IntervalDiffers { source, interval } => write!(
                f,
                "{source} advertises every {interval}; give all machines the same interval"
            ),
            Self::TwoOwners { source } => {
                write!(f, "{source} has priority 255 too; only one machine can own the addresses")
            }
        }
    }
}

/// Durations for people: nobody reads nanoseconds.
fn to_tenths_of_ms(duration: Duration) -> Duration {
    let tenths = duration.as_micros() / 100;
    Duration::from_micros(u64::try_from(tenths).unwrap_or(u64::MAX).saturating_mul(100))
}
