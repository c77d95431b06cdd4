//! What a virtual router tells of itself.

use super::{Member, Takeover};
use crate::engine::node::machine::Machine;
use crate::engine::node::status::{ActiveRouter, AddressStatus, RouterStatus};
use crate::engine::vrrp::role::Role;
use crate::model::{EntryState, Priority, Vip};

impl Member {
    pub(in crate::engine::node) fn status(&self, machine: &Machine) -> RouterStatus {
        let settings = self.router.settings();
        let candidate = self.candidate(machine).ok();
        let link = self.link.and_then(|id| machine.links.get(id));
        let active = match self.role() {
            Role::Active => Some(ActiveRouter {
                address: settings.source,
                priority: settings.priority,
                here: true,
            }),
            Role::Backup | Role::Initialize => self.router.heard().map(|heard| ActiveRouter {
                address: heard.source,
                priority: heard.priority,
                here: false,
            }),
        };
        let is_ours = |vip: Vip| {
            self.link.is_some_and(|link| machine.addresses.is_ours((link, vip.address())))
        };
        // A released address that is still here counts: it is not confirmed as released.
        let addresses = self
            .config
            .entries
            .iter()
            .map(|entry| (entry.state, AddressStatus { vip: entry.vip, bound: is_ours(entry.vip) }))
            .filter(|(state, address)| *state == EntryState::Served || address.bound)
            .map(|(_, address)| address)
            .collect();
        RouterStatus {
            name: self.config.name.clone(),
            version: self.config.version.clone(),
            vrid: self.config.vrid,
            family: self.config.family,
            link: link.map(|link| link.name.clone()),
            fault: self.fault.as_ref().filter(|f| f.told).map(|f| f.fault.clone()),
            role: self.role(),
            since: self.role_since,
            priority: candidate.map(|candidate| match self.takeover {
                Takeover::Asked => Priority::OWNER,
                Takeover::No | Takeover::Unheard => self.base_priority(&candidate, machine),
            }),
            interval: self.config.interval,
            checksum: self.form,
            active,
            addresses,
            last_failover: self.last_failover,
            transitions: self.transitions,
            problems: self.problems.list(),
        }
    }
}
