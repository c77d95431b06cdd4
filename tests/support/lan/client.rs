//! A model of a client in the LAN: a neighbour entry for each virtual address. An announcement
//! updates it, a resolution takes the first answer. Packets are not sent one by one: what counts
//! is since when the machine in the entry serves the address, so an outage is known exactly.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::time::{Nanos, SECOND};

/// How long a client sends into the void before it asks anew (network.md 2: 8 s and more).
pub(crate) const PROBES_AFTER: Nanos = 8 * SECOND;

#[derive(Debug, Default)]
pub(crate) struct Client {
    pub(crate) entries: BTreeMap<IpAddr, Entry>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entry {
    /// The machine that the entry leads to.
    pub(crate) machine: Option<usize>,
    /// Since when packets are lost; `None` while they are answered, and before the first answer.
    pub(crate) lost_since: Option<Nanos>,
    /// Whether any packet was ever answered.
    pub(crate) was_served: bool,
    /// The longest outage that is over, since [`Client::forget_outages`].
    pub(crate) longest: Nanos,
    /// A question is under way.
    pub(crate) asking: bool,
}

impl Entry {
    /// What the entry leads to, or what serves, has changed.
    pub(crate) fn update(&mut self, is_served: bool, now: Nanos) {
        if is_served {
            self.was_served = true;
            if let Some(since) = self.lost_since.take() {
                self.longest = self.longest.max(now - since);
            }
        } else if self.was_served {
            self.lost_since.get_or_insert(now);
        }
    }

    /// The longest outage, one that lasts included.
    pub(crate) fn outage(&self, now: Nanos) -> Nanos {
        self.longest.max(self.lost_since.map_or(0, |since| now - since))
    }
}

impl Client {
    pub(crate) fn forget_outages(&mut self, now: Nanos) {
        for entry in self.entries.values_mut() {
            entry.longest = 0;
            entry.lost_since = entry.lost_since.map(|_| now);
        }
    }
}
