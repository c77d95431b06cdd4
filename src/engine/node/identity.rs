//! Who a machine is, and how well it is.

use serde::{Deserialize, Serialize};

use super::links::Instance;

/// Who this machine is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The node's name, as candidates are listed.
    pub node: String,
    /// The mark of this instance's addresses.
    pub instance: Instance,
}

/// Whether a node or router can serve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    /// Serve with the configured priority.
    #[default]
    Healthy,
    /// Step behind every healthy candidate, but serve if there is none.
    Unhealthy,
    /// Be silent: serving from here would lead nowhere (no local endpoint).
    Ineligible,
}

/// What a health report is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// The whole node.
    Node,
    /// One router, by name.
    Router(String),
}
