//! Waiting for conditions, with a deadline.

use std::thread;
use std::time::Duration;

use anyhow::bail;
use barevip::io::clock;

/// Between two looks: short beside what is measured, long beside what a look costs.
const STEP: Duration = Duration::from_millis(2);

/// Looks again and again until there is something to see, and says in its error what was waited
/// for.
pub(crate) fn until<T>(
    what: &str,
    within: Duration,
    look: impl FnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    match patiently(within, look)? {
        Some(seen) => Ok(seen),
        None => bail!("{what}: did not happen within {} s", within.as_secs_f64()),
    }
}

/// The same, where it is a result that nothing was seen.
pub(crate) fn patiently<T>(
    within: Duration,
    mut look: impl FnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<Option<T>> {
    let deadline = clock::now() + within;
    loop {
        if let Some(seen) = look()? {
            return Ok(Some(seen));
        }
        if clock::now() >= deadline {
            return Ok(None);
        }
        pause(STEP);
    }
}

/// Lets a steady state go on while it is observed.
#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark observes processes that tell it nothing, so it has to look from time to time"
)]
pub(crate) fn pause(duration: Duration) {
    thread::sleep(duration);
}
