//! How a former Active router lets go: it goes on accepting packets, and releases each address
//! once another machine has announced it, so that no packet finds nobody.

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use super::event::EventKind;
use crate::engine::time::Instant;

/// Without any announcement for this long, what is left is released all the same.
const PATIENCE: Duration = Duration::from_secs(1);
/// From an announcement to the release: clients hear it a little later than we, and what they
/// sent before is still under way to us, or being answered.
const GRACE: Duration = Duration::from_millis(10);

/// A handover under way.
#[derive(Debug)]
pub(super) struct Leaving {
    held: BTreeSet<IpAddr>,
    /// Announced elsewhere, in that order, and held until then.
    claimed: VecDeque<(Instant, IpAddr)>,
    handed_over: usize,
    until: Instant,
}

impl Leaving {
    pub(super) fn new(held: BTreeSet<IpAddr>, now: Instant) -> Self {
        Self { held, claimed: VecDeque::new(), handed_over: 0, until: now + PATIENCE }
    }

    /// Another machine announced `address`.
    pub(super) fn claim(&mut self, address: IpAddr, now: Instant) {
        if self.held.contains(&address) && self.claimed.iter().all(|(_, a)| *a != address) {
            self.claimed.push_back((now + GRACE, address));
            self.until = now + PATIENCE;
        }
    }

    /// Releases what was announced a moment ago; says whether there was any.
    pub(super) fn release(&mut self, now: Instant) -> bool {
        let before = self.handed_over;
        while let Some((_, address)) = self.claimed.pop_front_if(|(due, _)| *due <= now) {
            self.held.remove(&address);
            self.handed_over += 1;
        }
        self.handed_over > before
    }

    pub(super) fn holds(&self, address: IpAddr) -> bool {
        self.held.contains(&address)
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.held.is_empty() || self.until <= now
    }

    /// When to call [`Self::release`], or when it is over.
    pub(super) fn poll_timeout(&self) -> Instant {
        self.claimed.front().map_or(self.until, |(due, _)| self.until.min(*due))
    }

    pub(super) fn summary(&self) -> EventKind {
        EventKind::Released { handed_over: self.handed_over, unclaimed: self.held.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::after_origin(Duration::from_millis(millis))
    }

    fn vip(host: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, host])
    }

    #[test]
    fn each_address_is_released_a_moment_after_its_announcement() {
        let mut leaving = Leaving::new([vip(1), vip(2)].into(), at(0));
        leaving.claim(vip(2), at(100));
        leaving.claim(vip(2), at(105));
        leaving.claim(vip(3), at(105));
        assert_eq!(leaving.poll_timeout(), at(110));
        assert!(!leaving.release(at(109)));
        assert!(leaving.release(at(110)));
        assert!(leaving.holds(vip(1)) && !leaving.holds(vip(2)));
        assert!(!leaving.is_over(at(1099)) && leaving.is_over(at(1100)));
        assert_eq!(leaving.summary(), EventKind::Released { handed_over: 1, unclaimed: 1 });
    }

    #[test]
    fn it_is_over_when_the_last_one_was_released() {
        let mut leaving = Leaving::new([vip(1)].into(), at(0));
        leaving.claim(vip(1), at(5));
        assert!(!leaving.is_over(at(14)));
        leaving.release(at(15));
        assert!(leaving.is_over(at(15)));
    }
}
