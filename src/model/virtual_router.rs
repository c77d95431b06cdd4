//! A virtual router as the plan states it, and what it is made of.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Family, Interval, Invalid, Priority, Vip, Vrid, parse_duration};

/// Whether a higher candidate takes the role from a lower Active one (RFC 9568 Preempt_Mode).
///
/// An owner (priority 255) preempts always, and a healthy Backup an unhealthy Active.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Preempt {
    /// As the RFC's Preempt_Mode true.
    Now,
    /// As the RFC's Preempt_Mode false.
    Never,
    /// Once it was eligible and higher without a break for this long.
    After(Duration),
}

impl Default for Preempt {
    fn default() -> Self {
        Self::After(Duration::from_secs(300))
    }
}

impl FromStr for Preempt {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        match text {
            "now" => Ok(Self::Now),
            "never" => Ok(Self::Never),
            _ => match text.strip_prefix("after ") {
                Some(rest) => parse_duration(rest.trim()).map(Self::After),
                None => Err(Invalid::new(format!(
                    "{text:?} is no preempt mode; write \"now\", \"never\" or \"after 300s\""
                ))),
            },
        }
    }
}

impl TryFrom<String> for Preempt {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<Preempt> for String {
    fn from(preempt: Preempt) -> Self {
        preempt.to_string()
    }
}

impl fmt::Display for Preempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now => f.write_str("now"),
            Self::Never => f.write_str("never"),
            Self::After(delay) => write!(f, "after {}", humantime::format_duration(*delay)),
        }
    }
}

/// How a bound address is told to the LAN by gratuitous ARP or unsolicited NA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Announce {
    /// Announcements of each address after it was bound, 1–20. The first is never delayed.
    pub rounds: u8,
    /// Time between rounds.
    #[serde(with = "duration_text")]
    pub spacing: Duration,
    /// Time between the slow announcements that keep switches' tables from ageing.
    #[serde(with = "duration_text")]
    pub refresh: Duration,
}

impl Default for Announce {
    fn default() -> Self {
        Self { rounds: 5, spacing: Duration::from_millis(250), refresh: Duration::from_secs(60) }
    }
}

/// Durations as people write them, in files and in JSON.
mod duration_text {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&humantime::format_duration(*value))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(from)?;
        super::parse_duration(&text).map_err(D::Error::custom)
    }
}

/// Checksum form of version 3 over IPv4; both are always accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChecksumForm {
    /// The form last heard from a valid peer; RFC 9568's until one was heard.
    #[default]
    Auto,
    /// Over the message alone (RFC 9568 §5.2.8).
    Rfc9568,
    /// With the pseudo-header, as RFC 5798 was read by keepalived and FRR.
    PseudoHeader,
}

/// Where a router's adverts go, besides what it hears on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transport {
    /// To the family's VRRP group.
    pub multicast: bool,
    /// To each of these addresses on the router's own link.
    pub peers: Vec<IpAddr>,
}

impl Default for Transport {
    fn default() -> Self {
        Self { multicast: true, peers: Vec::new() }
    }
}

/// Which link a router lives on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkSelector {
    /// The link of this name.
    Name(String),
    /// The first of these names whose link can carry it.
    OneOf(Vec<String>),
    /// The link with an own address in the addresses' subnet, so that the router follows it to a
    /// bridge.
    Subnet,
}

/// One address of a router, with what is to be done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The address.
    pub vip: Vip,
    /// Whether the Active node binds it.
    pub state: EntryState,
}

/// What the Active node does with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EntryState {
    /// Listed in adverts, bound and announced.
    Served,
    /// Listed, so that an Active with an older plan is still recognised as ours, and not bound.
    Released,
}

/// A node that may become Active for a router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The node's name.
    pub node: String,
    /// Its priority.
    pub priority: Priority,
    /// New in a router that others serve: silent until it has heard an Active or this is gone.
    pub joining: bool,
}

/// Who may become Active.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Candidates {
    /// This node, and others that nobody lists (a configuration file).
    Open {
        /// This node's priority.
        priority: Priority,
    },
    /// Exactly these nodes (a cluster).
    Listed(Vec<Candidate>),
}

/// Which statement of the plan this is: generations are compared within one uid, and another uid
/// is a new plan for the same router. Empty in a configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// The object's uid.
    pub uid: String,
    /// Its generation.
    pub generation: u64,
}

/// RFC 9568: a VRID on one LAN and address family, and the addresses it backs. The unit of
/// election, and the same type for file and cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VirtualRouter {
    /// Its name, unique in the plan.
    pub name: String,
    /// Which statement of the plan this is.
    pub version: Version,
    /// Its identifier on the LAN.
    pub vrid: Vrid,
    /// The family of all its addresses.
    pub family: Family,
    /// Which link it lives on.
    pub link: LinkSelector,
    /// How often the Active node advertises.
    pub interval: Interval,
    /// Whether a higher candidate takes over from a lower one.
    pub preempt: Preempt,
    /// Its addresses, in the order that adverts list them.
    pub entries: Vec<Entry>,
    /// Who may become Active.
    pub candidates: Candidates,
    /// The candidate that is asked to become Active now, as a handover.
    pub takeover: Option<String>,
    /// Whether priorities 1–31 mean "take it if you are healthy". Off for a configuration file,
    /// whose foreign peers may use such priorities for nothing special.
    pub health_band: bool,
    /// Where adverts go.
    pub transport: Transport,
    /// How addresses are announced.
    pub announce: Announce,
    /// The checksum form that is sent.
    pub checksum: ChecksumForm,
}

impl VirtualRouter {
    /// The addresses that the Active node binds.
    pub fn served(&self) -> impl Iterator<Item = Vip> {
        self.entries.iter().filter(|entry| entry.state == EntryState::Served).map(|entry| entry.vip)
    }

    /// What this router says of `node`: `None` where it is no candidate.
    #[must_use]
    pub fn candidate(&self, node: &str) -> Option<Candidate> {
        match &self.candidates {
            Candidates::Open { priority } => {
                Some(Candidate { node: node.to_owned(), priority: *priority, joining: false })
            }
            Candidates::Listed(list) => list.iter().find(|c| c.node == node).cloned(),
        }
    }

    /// Whether this node owns the addresses: the administrator has bound them here, and it speaks
    /// with priority 255 (RFC 9568 §8.3.2).
    #[must_use]
    pub fn is_owner(&self) -> bool {
        matches!(self.candidates, Candidates::Open { priority: Priority::OWNER })
    }

    /// Whether this router lists an address, served or released.
    #[must_use]
    pub fn lists(&self, address: IpAddr) -> bool {
        self.entries.iter().any(|entry| entry.vip.address() == address)
    }

    /// Whether `node` is the only one that may ever be Active.
    #[must_use]
    pub fn is_alone(&self, node: &str) -> bool {
        match &self.candidates {
            Candidates::Open { .. } => false,
            Candidates::Listed(list) => list.iter().all(|c| c.node == node) && !list.is_empty(),
        }
    }
}

/// The agent's input: the virtual routers that this machine takes part in.
pub type Plan = Vec<VirtualRouter>;
