//! When each bound address is told to the LAN: at once when it was bound, a few times more with
//! spacing, and ever after at a slow pace that keeps switches' tables from ageing.
//!
//! Switches police ARP and neighbour discovery at their CPU, so all but the first round of each
//! address leave in small groups.

use std::collections::BTreeMap;
use std::time::Duration;

use super::links::{Key, LinkId};
use crate::engine::time::Instant;

/// Announcements of one link that may leave together, apart from first rounds.
const GROUP: usize = 16;
/// Time between two such groups.
const PACE: Duration = Duration::from_millis(32);

/// The announcements to come.
#[derive(Debug, Default)]
pub(super) struct Announcements {
    queue: BTreeMap<(Instant, u64), Round>,
    /// Where each address stands in the queue: one place each.
    places: BTreeMap<Key, (Instant, u64)>,
    /// Since when each link's group is under way, and how many have left with it.
    groups: BTreeMap<LinkId, (Instant, usize)>,
    serial: u64,
}

#[derive(Clone, Copy, Debug)]
struct Round {
    key: Key,
    /// Rounds after this one.
    left: u8,
    spacing: Duration,
    /// Whether it leaves in any case when it is due.
    urgent: bool,
}

impl Announcements {
    /// Announces an address `rounds` times from now on; `urgent`: the first one at once.
    pub(super) fn start(
        &mut self,
        key: Key,
        rounds: u8,
        spacing: Duration,
        urgent: bool,
        now: Instant,
    ) {
        let before = self.cancel(key);
        let left = rounds.saturating_sub(1).max(before.map_or(0, |round| round.left));
        let urgent = urgent || before.is_some_and(|round| round.urgent);
        self.insert(now, Round { key, left, spacing, urgent });
    }

    /// Announces an address no longer.
    pub(super) fn stop(&mut self, key: Key) {
        self.cancel(key);
    }

    /// The addresses to announce now.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Key> {
        let mut due = Vec::new();
        while let Some((&(at, serial), &round)) = self.queue.first_key_value() {
            if at > now {
                break;
            }
            self.queue.remove(&(at, serial));
            self.places.remove(&round.key);
            let (since, sent) = self.groups.entry(round.key.0).or_insert((now, 0));
            if now.since(*since) >= PACE {
                (*since, *sent) = (now, 0);
            }
            if !round.urgent && *sent >= GROUP {
                let next_group = *since + PACE;
                self.insert(next_group, round);
                continue;
            }
            *sent += usize::from(!round.urgent);
            due.push(round.key);
            if round.left > 0 {
                let next = Round { left: round.left - 1, urgent: false, ..round };
                self.insert(now + round.spacing, next);
            }
        }
        due
    }

    /// When [`Self::take_due`] has something.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.queue.first_key_value().map(|((at, _), _)| *at)
    }

    fn insert(&mut self, at: Instant, round: Round) {
        self.serial += 1;
        self.places.insert(round.key, (at, self.serial));
        self.queue.insert((at, self.serial), round);
    }

    fn cancel(&mut self, key: Key) -> Option<Round> {
        let place = self.places.remove(&key)?;
        self.queue.remove(&place)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    const SPACING: Duration = Duration::from_millis(250);

    fn key(host: u8) -> Key {
        (LinkId(2), IpAddr::from([192, 0, 2, host]))
    }

    fn at(millis: u64) -> Instant {
        Instant::after_origin(Duration::from_millis(millis))
    }

    /// Runs the queue dry; (milliseconds, how many left together).
    fn drain(announcements: &mut Announcements) -> Vec<(u128, usize)> {
        let mut log = Vec::new();
        while let Some(due) = announcements.poll_timeout() {
            log.push((due.since_origin().as_millis(), announcements.take_due(due).len()));
        }
        log
    }

    #[test]
    fn the_first_round_is_at_once_and_the_others_are_spaced() {
        let mut announcements = Announcements::default();
        announcements.start(key(1), 3, SPACING, true, at(1000));
        assert_eq!(drain(&mut announcements), [(1000, 1), (1250, 1), (1500, 1)]);
    }

    #[test]
    fn first_rounds_are_never_paced_and_later_ones_leave_in_groups() {
        let mut announcements = Announcements::default();
        for host in 1..=40 {
            announcements.start(key(host), 2, SPACING, true, at(0));
        }
        assert_eq!(drain(&mut announcements), [(0, 40), (250, 16), (282, 16), (314, 8)]);
    }

    #[test]
    fn announcing_again_replaces_what_waits() {
        let mut announcements = Announcements::default();
        announcements.start(key(1), 3, SPACING, true, at(0));
        assert_eq!(announcements.take_due(at(0)).len(), 1);
        announcements.start(key(1), 1, SPACING, true, at(100));
        assert_eq!(drain(&mut announcements), [(100, 1), (350, 1)]);
        announcements.start(key(1), 3, SPACING, true, at(400));
        announcements.stop(key(1));
        assert_eq!(announcements.poll_timeout(), None);
    }
}
