//! The one place that reads clocks. Engines are told what time it is.
//!
//! [`Instant`]s count `CLOCK_MONOTONIC` from its origin, so they compare within one boot of the
//! machine and stand still while it is suspended.

use std::time::{Duration, SystemTime};

use nix::time::{ClockId, clock_gettime};

use crate::engine::time::Instant;

/// What of a growing difference between the clocks is called a suspend: less is the time between
/// two readings.
const SHORTEST_SLEEP: Duration = Duration::from_millis(10);

/// What time it is.
#[must_use]
pub fn now() -> Instant {
    Instant::after_origin(read(ClockId::CLOCK_MONOTONIC))
}

/// As [`now`], on a clock that counts the time that the machine sleeps: for promises to others.
#[must_use]
pub fn since_boot() -> Instant {
    Instant::after_origin(read(ClockId::CLOCK_BOOTTIME))
}

/// Linux has all these clocks, so reading them can't fail.
fn read(clock: ClockId) -> Duration {
    clock_gettime(clock).map_or(Duration::ZERO, Duration::from)
}

/// The monotonic and the wall clock, read together: what turns one into the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    now: Instant,
    wall: Duration,
}

impl Moment {
    /// Reads both clocks.
    #[must_use]
    pub fn read() -> Self {
        Self { now: now(), wall: read(ClockId::CLOCK_REALTIME) }
    }

    /// The monotonic half.
    #[must_use]
    pub const fn now(self) -> Instant {
        self.now
    }

    /// The wall clock's half.
    #[must_use]
    pub fn wall(self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.wall
    }

    /// What the wall clock showed at `instant`, if it was never set and the machine never
    /// suspended since.
    #[must_use]
    pub fn wall_at(self, instant: Instant) -> SystemTime {
        let wall = self.wall() + instant.since(self.now);
        wall.checked_sub(self.now.since(instant)).unwrap_or(wall)
    }

    /// When a packet with this time stamp of the kernel (time since 1970) was received. It was
    /// not in the queue at `not_before`, so a wall clock that was set meanwhile does no harm
    /// beyond that.
    #[must_use]
    pub fn received_at(self, stamp: Duration, not_before: Instant) -> Instant {
        let age = self.wall.saturating_sub(stamp);
        (self.now - age).max(not_before).min(self.now)
    }
}

/// Notices that the machine was suspended: boot time ran on, monotonic time did not.
#[derive(Debug)]
pub struct SleepWatch {
    /// The largest difference of the two clocks seen.
    ahead: Duration,
}

impl SleepWatch {
    /// Notices what is slept from now on.
    #[must_use]
    pub fn start() -> Self {
        Self { ahead: boot_time_ahead() }
    }

    /// How long the machine was suspended since the last call, if it was.
    pub fn slept(&mut self) -> Option<Duration> {
        self.observe(boot_time_ahead())
    }

    fn observe(&mut self, ahead: Duration) -> Option<Duration> {
        let slept = ahead.saturating_sub(self.ahead);
        self.ahead = self.ahead.max(ahead);
        (slept >= SHORTEST_SLEEP).then_some(slept)
    }
}

/// How far boot time is ahead of monotonic time. Read in this order, whatever delays the second
/// reading makes the result smaller, so that a delay is never taken for a suspend.
fn boot_time_ahead() -> Duration {
    let boot = read(ClockId::CLOCK_BOOTTIME);
    boot.saturating_sub(read(ClockId::CLOCK_MONOTONIC))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(value: u64) -> Duration {
        Duration::from_secs(value)
    }

    #[test]
    fn a_time_stamp_of_the_kernel_becomes_an_instant() {
        let moment = Moment { now: Instant::after_origin(seconds(100)), wall: seconds(5000) };
        let at = |stamp, not_before| {
            moment
                .received_at(seconds(stamp), Instant::after_origin(seconds(not_before)))
                .since_origin()
        };
        assert_eq!(at(4998, 90), seconds(98));
        assert_eq!(at(1, 90), seconds(90), "the wall clock was set forward");
        assert_eq!(at(9000, 90), seconds(100), "the wall clock was set back");
    }

    #[test]
    fn an_instant_becomes_wall_clock_time_on_both_sides_of_now() {
        let moment = Moment { now: Instant::after_origin(seconds(100)), wall: seconds(5000) };
        let wall_at = |s| moment.wall_at(Instant::after_origin(seconds(s)));
        assert_eq!(wall_at(40), SystemTime::UNIX_EPOCH + seconds(4940));
        assert_eq!(wall_at(160), SystemTime::UNIX_EPOCH + seconds(5060));
    }

    #[test]
    fn only_a_growing_difference_of_the_clocks_is_a_suspend() {
        let mut watch = SleepWatch { ahead: seconds(7) };
        assert_eq!(watch.observe(seconds(7)), None);
        assert_eq!(watch.observe(seconds(6)), None, "the second reading was late");
        assert_eq!(watch.observe(seconds(7)), None, "and this one was not");
        assert_eq!(watch.observe(seconds(67)), Some(seconds(60)));
        assert_eq!(watch.observe(seconds(67)), None, "told once");
    }
}
