//! A planned stop: the signals that ask for one, and how long it may take.

use std::future;
use std::time::Duration;

use anyhow::{Context, anyhow};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep_until};

/// A handover is over long before, and the engine gives up after 10 s by itself; one that is not
/// done then hangs.
const STOP_LIMIT: Duration = Duration::from_secs(12);

/// The stop of a daemon that hands its addresses over.
pub(super) struct Stop {
    signals: Signals,
    /// Once it was asked for.
    give_up: Option<Instant>,
}

impl Stop {
    pub(super) fn listen() -> anyhow::Result<Self> {
        Ok(Self { signals: Signals::listen()?, give_up: None })
    }

    /// Waits until it is asked for; from then on until there is no time left for it.
    ///
    /// # Errors
    /// It is asked for again, or hangs: the daemon is to end at once.
    pub(super) async fn asked(&mut self) -> anyhow::Result<()> {
        tokio::select! {
            biased;
            name = self.signals.next() => {
                if self.give_up.is_some() {
                    return Err(stopped_at_once(name));
                }
                tracing::info!("{name}: a planned stop, the addresses are handed over");
                self.give_up = Some(Instant::now() + STOP_LIMIT);
                Ok(())
            }
            () = at(self.give_up) => Err(hung_in_stop()),
        }
    }
}

/// The signals that mean "stop". A terminal that closes (SIGHUP) is a planned stop too.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("signals can't be listened to");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.hang_up.recv() => "SIGHUP",
        }
    }
}

fn stopped_at_once(name: &str) -> anyhow::Error {
    anyhow!(
        "{name} again: stopped at once; addresses that are still bound vanish by themselves in \
         some seconds, or now with `barevip cleanup`"
    )
}

fn hung_in_stop() -> anyhow::Error {
    anyhow!(
        "the handover did not end within {} s; addresses that are still bound vanish by \
         themselves in some seconds, or now with `barevip cleanup`",
        STOP_LIMIT.as_secs()
    )
}

/// Waits for a deadline; for ever where there is none.
async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => future::pending().await,
    }
}
