//! How soon, and how often, a router announces everything again because of others.

use std::time::Duration;

use crate::engine::time::Instant;

/// Between two announcements of all addresses that others ask for, at least.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// One reason to announce everything, heeded at most once a second.
#[derive(Debug, Default)]
pub(super) struct Pace {
    heeded_at: Option<Instant>,
    due: Option<Instant>,
}

impl Pace {
    /// There is a reason to announce everything at `at`, which is now or later. One that waits
    /// already is not put off by another.
    pub(super) fn ask(&mut self, at: Instant) {
        let at = self.heeded_at.map_or(at, |heeded| at.max(heeded + PAUSE));
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Whether to announce everything now.
    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        let is_due = self.due.take_if(|at| *at <= now).is_some();
        if is_due {
            self.heeded_at = Some(now);
        }
        is_due
    }

    /// There is nothing to announce any more.
    pub(super) fn forget(&mut self) {
        self.due = None;
    }

    /// When [`Self::take_due`] has something.
    pub(super) const fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }
}
