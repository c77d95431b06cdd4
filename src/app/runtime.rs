//! The runtime of all that waits in turns: one thread.

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};

/// A new one, for the thread that calls.
pub(super) fn runtime() -> anyhow::Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("no asynchronous runtime")
}
