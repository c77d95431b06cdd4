//! How a former Active router lets go: it goes on accepting packets, and releases each address
//! when another machine announces it, so that no packet finds nobody.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use super::event::EventKind;
use crate::engine::time::Instant;

/// Without any announcement for this long, what is left is released all the same.
const PATIENCE: Duration = Duration::from_secs(1);

/// A handover under way.
#[derive(Debug)]
pub(super) struct Leaving {
    held: BTreeSet<IpAddr>,
    handed_over: usize,
    until: Instant,
}

impl Leaving {
    pub(super) fn new(held: BTreeSet<IpAddr>, now: Instant) -> Self {
        Self { held, handed_over: 0, until: now + PATIENCE }
    }

    /// Another machine announced `address`; says whether it was held here.
    pub(super) fn claimed(&mut self, address: IpAddr, now: Instant) -> bool {
        let was_held = self.held.remove(&address);
        if was_held {
            self.handed_over += 1;
            self.until = now + PATIENCE;
        }
        was_held
    }

    pub(super) fn holds(&self, address: IpAddr) -> bool {
        self.held.contains(&address)
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.held.is_empty() || self.until <= now
    }

    pub(super) const fn until(&self) -> Instant {
        self.until
    }

    pub(super) fn summary(&self) -> EventKind {
        EventKind::Released { handed_over: self.handed_over, unclaimed: self.held.len() }
    }
}
