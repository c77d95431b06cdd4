//! Waiting for a condition, never for a time.

use std::time::Duration;

use barevip::io::clock::now;

/// Nothing in these tests takes this long unless it is broken.
const PATIENCE: Duration = Duration::from_secs(40);

/// Between two looks, so that what is waited for gets the processor.
const PAUSE: Duration = Duration::from_millis(2);

/// Looks again and again until there is something to see, and returns that. `look` says what it
/// saw instead.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let begin = now();
    loop {
        match look() {
            Ok(seen) => return seen,
            Err(instead) if now().since(begin) > PATIENCE => {
                panic!("{what}: not within {PATIENCE:?}; last seen: {instead}")
            }
            Err(_) => std::thread::park_timeout(PAUSE),
        }
    }
}

/// Nothing yet: `seen` is what there is instead.
pub(crate) fn unless<T>(good: bool, seen: impl FnOnce() -> T) -> Result<(), String>
where
    T: std::fmt::Debug,
{
    if good { Ok(()) } else { Err(format!("{:?}", seen())) }
}
