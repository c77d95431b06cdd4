//! One machine's engine. It is level-triggered: each router yields a role, the node compares the
//! addresses wanted (role × plan) with those seen (the last snapshot) and asks for the difference.
//! A lost message, a restart, a foreign removal and a failed command all heal by that comparison,
//! and every input is legal in every state.
//!
//! After any number of `handle_*` calls drain [`Node::next_command`], then wait for the next input
//! or for [`Node::poll_timeout`], then call [`Node::handle_timeout`]. Time never runs backwards,
//! but `received_at` may lie before `now` of an earlier call: drain all sockets before
//! `handle_timeout`.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::command::{Command, CommandId, Failure};
use super::links::{Instance, LinkId, LinkSnapshot};
use super::status::{Counters, NodeStatus};
use crate::engine::time::Instant;
use crate::engine::vrrp::frames::MacAddress;
use crate::model::VirtualRouter;

/// Who this machine is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The node's name, as candidates are listed.
    pub node: String,
    /// The mark of this instance's addresses.
    pub instance: Instance,
}

/// Whether a node or router can serve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// The engine of one machine.
#[derive(Debug)]
pub struct Node {
    identity: Identity,
}

impl Node {
    /// A node with an empty plan that sees no links. `seed` spreads what is jittered.
    #[must_use]
    pub fn new(identity: Identity, seed: u64) -> Self {
        let _ = seed;
        Self { identity }
    }

    /// The plan, whole: routers are matched by name.
    pub fn handle_plan(&mut self, plan: Vec<VirtualRouter>, now: Instant) {
        let _ = (plan, now);
    }

    /// The machine's links, whole: after every dump or change.
    pub fn handle_links(&mut self, snapshot: LinkSnapshot, now: Instant) {
        let _ = (snapshot, now);
    }

    /// A VRRP message heard on a link; `received_at` is the kernel's time stamp.
    pub fn handle_advert(
        &mut self,
        link: LinkId,
        source: IpAddr,
        destination: IpAddr,
        ttl: u8,
        message: &[u8],
        received_at: Instant,
    ) {
        let _ = (link, source, destination, ttl, message, received_at);
    }

    /// Somebody announced, by ARP or NA, that `address` is at `mac`.
    pub fn handle_neighbour(
        &mut self,
        link: LinkId,
        address: IpAddr,
        mac: MacAddress,
        now: Instant,
    ) {
        let _ = (link, address, mac, now);
    }

    /// The health of the node or of one router.
    pub fn handle_health(&mut self, scope: Scope, health: Health, now: Instant) {
        let _ = (scope, health, now);
    }

    /// Whether to hand everything over and take no part (`true`) or to take part (`false`).
    pub fn handle_drain(&mut self, drain: bool, now: Instant) {
        let _ = (drain, now);
    }

    /// The answer to a [`Command::Address`].
    pub fn handle_done(&mut self, id: CommandId, result: Result<(), Failure>, now: Instant) {
        let _ = (id, result, now);
    }

    /// The machine was suspended for `slept` (boot time ran on, monotonic time did not). Comes
    /// before the inputs that follow the suspend.
    pub fn handle_suspend(&mut self, slept: Duration, now: Instant) {
        let _ = (slept, now);
    }

    /// A deadline of [`Self::poll_timeout`] has passed. Calling it early does nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        let _ = now;
    }

    /// A planned stop: everything is handed over, then released. It is over when
    /// [`Self::is_finished`].
    pub fn handle_shutdown(&mut self, now: Instant) {
        let _ = now;
    }

    /// Whether a shutdown is complete: nothing is bound, nothing awaited.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        true
    }

    /// When to call [`Self::handle_timeout`]; `None`: only an input can change anything.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// The next thing to do; drain it after every input.
    pub fn next_command(&mut self) -> Option<Command> {
        None
    }

    /// What this node is and sees.
    #[must_use]
    pub fn status(&self) -> NodeStatus {
        NodeStatus::default()
    }

    /// Counters since the start.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters::default()
    }
}
