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
pub(super) enum Leaving {
    /// Addresses are held until others have announced them.
    Holding(Holding),
    /// Everything was let go; priority 0 follows once the kernel says so.
    Parting,
}

/// Addresses that wait for a successor.
#[derive(Debug)]
pub(super) struct Holding {
    held: BTreeSet<IpAddr>,
    /// Announced elsewhere, in that order, and held until then.
    claimed: VecDeque<(Instant, IpAddr)>,
    handed_over: usize,
    until: Instant,
}

impl Leaving {
    pub(super) fn holds(&self, address: IpAddr) -> bool {
        match self {
            Self::Holding(holding) => holding.held.contains(&address),
            Self::Parting => false,
        }
    }

    /// When to call [`Holding::release`], or when holding is over.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::Holding(holding) => Some(holding.poll_timeout()),
            Self::Parting => None,
        }
    }
}

impl Holding {
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

    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.held.is_empty() || self.until <= now
    }

    fn poll_timeout(&self) -> Instant {
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
        let mut holding = Holding::new([vip(1), vip(2)].into(), at(0));
        holding.claim(vip(2), at(100));
        holding.claim(vip(2), at(105));
        holding.claim(vip(3), at(105));
        assert_eq!(holding.poll_timeout(), at(110));
        assert!(!holding.release(at(109)));
        assert!(holding.release(at(110)));
        assert!(holding.held == [vip(1)].into());
        assert!(!holding.is_over(at(1099)) && holding.is_over(at(1100)));
        assert_eq!(holding.summary(), EventKind::Released { handed_over: 1, unclaimed: 1 });
    }

    #[test]
    fn it_is_over_when_the_last_one_was_released() {
        let mut holding = Holding::new([vip(1)].into(), at(0));
        holding.claim(vip(1), at(5));
        assert!(!holding.is_over(at(14)));
        holding.release(at(15));
        assert!(holding.is_over(at(15)));
    }
}
