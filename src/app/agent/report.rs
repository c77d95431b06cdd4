//! When a node's report is due: on change and at most once a second, and every minute though
//! nothing has changed, so that the controller sees that the agent lives.

use std::time::Duration;

use crate::engine::time::Instant;
use crate::io::kubernetes::resources::AnnouncerStatus;

/// At least between two reports.
const PAUSE: Duration = Duration::from_secs(1);
/// Between two reports that say the same, ± 10 %: not all agents at once.
const HEARTBEAT: Duration = Duration::from_secs(60);
/// After a report that was not written, doubled with each further one.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// What was reported, and when the next report is due.
#[derive(Debug)]
pub(super) struct Pace {
    /// What is true now.
    current: AnnouncerStatus,
    /// What was reported last.
    reported: Option<AnnouncerStatus>,
    /// No report before.
    not_before: Instant,
    /// A report then, whatever happens.
    heartbeat: Instant,
    retry: Duration,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self {
            current: AnnouncerStatus::default(),
            reported: None,
            not_before: Instant::ZERO,
            heartbeat: Instant::ZERO,
            retry: FIRST_RETRY,
        }
    }

    /// What is true now.
    pub(super) fn see(&mut self, current: AnnouncerStatus) {
        self.current = current;
    }

    /// When the next report is due.
    pub(super) fn due(&self) -> Instant {
        let is_news = self.reported.as_ref() != Some(&self.current);
        let wanted = if is_news { self.not_before } else { self.heartbeat };
        wanted.max(self.not_before)
    }

    /// The report that is due now.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<AnnouncerStatus> {
        if now < self.due() {
            return None;
        }
        // Until it is known what became of it.
        self.not_before = now + LONGEST_RETRY;
        Some(self.current.clone())
    }

    /// It was written.
    pub(super) fn written(&mut self, report: AnnouncerStatus, now: Instant) {
        let chance = now.since_origin().subsec_nanos() % 200;
        self.reported = Some(report);
        self.not_before = now + PAUSE;
        self.heartbeat = now + HEARTBEAT * (900 + chance) / 1_000;
        self.retry = FIRST_RETRY;
    }

    /// It was not.
    pub(super) fn failed(&mut self, now: Instant) {
        self.not_before = now + self.retry;
        self.retry = (self.retry * 2).min(LONGEST_RETRY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::kubernetes::resources::{ForeignVrid, IpFamily};

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn hears(vrid: u8) -> AnnouncerStatus {
        let foreign = vec![ForeignVrid { family: IpFamily::IPv4, vrid }];
        AnnouncerStatus { foreign, ..AnnouncerStatus::default() }
    }

    fn reported(pace: &mut Pace, now: Instant) {
        let report = pace.take_due(now).expect("a report is due");
        pace.written(report, now);
    }

    #[test]
    fn a_change_is_reported_at_once_and_the_next_ones_together_a_second_later() {
        let mut pace = Pace::new();
        reported(&mut pace, at(0));
        pace.see(hears(1));
        assert_eq!(pace.due(), at(1_000));
        pace.see(hears(2));
        assert_eq!(pace.take_due(at(999)), None);
        reported(&mut pace, at(1_000));
        pace.see(hears(3));
        assert_eq!(pace.due(), at(2_000));
        reported(&mut pace, at(9_000));
    }

    #[test]
    fn nothing_new_is_reported_after_about_a_minute() {
        let mut pace = Pace::new();
        reported(&mut pace, at(0));
        assert!(pace.due() >= at(54_000) && pace.due() <= at(66_000));
    }

    #[test]
    fn what_was_not_written_is_tried_again_more_and_more_seldom() {
        let mut pace = Pace::new();
        let mut now = at(0);
        for pause in [1, 2, 4, 8, 16, 30, 30] {
            assert!(pace.take_due(now).is_some());
            assert_eq!(pace.take_due(now), None, "it is under way");
            pace.failed(now);
            assert_eq!(pace.due(), now + Duration::from_secs(pause));
            now = pace.due();
        }
    }
}
