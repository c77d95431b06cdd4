//! How often a pool's status is written. Its numbers change with every Service: whoever reads them
//! is served once a second, while a write for each would be half of what a crowd of Services costs.
//! What is wrong with a pool is written at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::io::kubernetes::resources::IngressPoolStatus;

/// Between two writes of numbers alone.
const PAUSE: Duration = Duration::from_secs(1);

/// When each pool's status was written last.
#[derive(Debug, Default)]
pub(super) struct Pace {
    written: BTreeMap<Arc<str>, Instant>,
}

impl Pace {
    /// How long the pool's status has to wait; nothing if it is due.
    pub(super) fn wait(
        &mut self,
        pool: &str,
        shown: Option<&IngressPoolStatus>,
        wanted: &IngressPoolStatus,
        now: Instant,
    ) -> Option<Duration> {
        self.written.retain(|_, at| now < *at + PAUSE);
        let at = *self.written.get(pool)?;
        shown.is_some_and(|shown| is_same_but_numbers(shown, wanted)).then(|| at + PAUSE - now)
    }

    pub(super) fn wrote(&mut self, pool: &Arc<str>, now: Instant) {
        self.written.insert(Arc::clone(pool), now);
    }
}

fn is_same_but_numbers(shown: &IngressPoolStatus, wanted: &IngressPoolStatus) -> bool {
    let IngressPoolStatus { networks, observed_generation, conditions, .. } = wanted;
    shown.networks == *networks
        && shown.observed_generation == *observed_generation
        && shown.conditions == *conditions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(used: i64) -> IngressPoolStatus {
        IngressPoolStatus { used, ..IngressPoolStatus::default() }
    }

    #[test]
    fn numbers_wait_for_the_end_of_a_second() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        assert_eq!(pace.wait("a", None, &status(0), start), None);
        pace.wrote(&"a".into(), start);
        let later = start + Duration::from_millis(300);
        let wait = Duration::from_millis(700);
        assert_eq!(pace.wait("a", Some(&status(0)), &status(1), later), Some(wait));
        assert_eq!(pace.wait("b", Some(&status(0)), &status(1), later), None, "another pool");
        assert_eq!(pace.wait("a", Some(&status(0)), &status(1), start + PAUSE), None);
    }

    #[test]
    fn what_is_wrong_is_told_at_once() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        pace.wrote(&"a".into(), start);
        let edited = IngressPoolStatus { observed_generation: Some(2), ..status(0) };
        assert_eq!(pace.wait("a", Some(&status(0)), &edited, start), None);
        assert_eq!(pace.wait("a", None, &status(0), start), None, "a new object of this name");
    }
}
