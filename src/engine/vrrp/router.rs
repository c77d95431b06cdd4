//! The state machine of one virtual router on one machine (RFC 9568 §6.4): adverts and time in,
//! a role and adverts out.

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
    /// Placeholder.
    Started,
    /// Another router with a better claim advertises.
    Outranked {
        /// Who.
        by: IpAddr,
        /// Its priority.
        priority: Priority,
    },
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started => f.write_str("started"),
            Self::Outranked { by, priority } => write!(f, "{by} has priority {priority}"),
        }
    }
}
