//! Virtual time: nanoseconds since the simulation began.

use std::time::Duration;

pub(crate) type Nanos = u64;

pub(crate) const US: Nanos = 1_000;
pub(crate) const MS: Nanos = 1_000_000;
pub(crate) const SECOND: Nanos = 1_000_000_000;

pub(crate) fn nanos(duration: Duration) -> Nanos {
    duration.as_nanos() as Nanos
}
