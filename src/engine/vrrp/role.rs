//! The roles of a router, and why they change, in words for an operator.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::model::Priority;

/// The states of RFC 9568 §6.4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Takes no part: no usable link, drained, stopped.
    #[default]
    Initialize,
    /// Listens, and takes over when the Active router falls silent.
    Backup,
    /// Serves the addresses and advertises.
    Active,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Initialize => "initialize",
            Self::Backup => "backup",
            Self::Active => "active",
        })
    }
}

/// Why a role changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// It takes part from now on.
    Started,
    /// It owns the addresses (priority 255), or is the only candidate.
    Owner,
    /// No Active router was heard for the down interval.
    Silence,
    /// The Active router said that it leaves.
    Resigned {
        /// Who left.
        by: IpAddr,
    },
    /// It is higher than the Active router, and may preempt.
    Preempts {
        /// The Active router.
        from: IpAddr,
    },
    /// The Active router is unhealthy and this one is not.
    Relieves {
        /// The Active router.
        from: IpAddr,
    },
    /// The plan asks this node to take over.
    TakeoverRequested,
    /// Another router with a better claim advertises.
    Outranked {
        /// Who.
        by: IpAddr,
        /// Its priority.
        priority: Priority,
    },
    /// Another router took over while this one was silent.
    Replaced {
        /// Who.
        by: IpAddr,
    },
    /// A takeover was asked for, but the old Active router does not hear this one.
    TakeoverUnheard,
    /// The machine was suspended, and others may have taken over.
    Slept,
    /// An address could not be bound.
    BindFailed,
    /// The link is not usable.
    LinkLost,
    /// An operator drains the node.
    Drained,
    /// The plan no longer lists this node, or has no addresses.
    Unlisted,
    /// The node can't serve it (no local endpoint).
    Ineligible,
    /// A planned stop.
    Stopped,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started => f.write_str("takes part from now on"),
            Self::Owner => f.write_str("it has no rival"),
            Self::Silence => f.write_str("no Active router was heard for the down interval"),
            Self::Resigned { by } => write!(f, "{by} resigned"),
            Self::Preempts { from } => write!(f, "it preempts the lower {from}"),
            Self::Relieves { from } => write!(f, "it relieves the unhealthy {from}"),
            Self::TakeoverRequested => f.write_str("the plan asked for it"),
            Self::Outranked { by, priority } => write!(f, "{by} advertises priority {priority}"),
            Self::Replaced { by } => write!(f, "{by} took over while this node was silent"),
            Self::TakeoverUnheard => f.write_str("the old Active router does not hear this node"),
            Self::Slept => f.write_str("the machine was suspended"),
            Self::BindFailed => f.write_str("an address could not be bound"),
            Self::LinkLost => f.write_str("the link is not usable"),
            Self::Drained => f.write_str("the node is drained"),
            Self::Unlisted => f.write_str("the plan does not list this node"),
            Self::Ineligible => f.write_str("this node can't serve it"),
            Self::Stopped => f.write_str("planned stop"),
        }
    }
}
