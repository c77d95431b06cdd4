//! What systemd is told (sd_notify(3)). Without one, all of this does nothing.

use std::time::Duration;

use sd_notify::NotifyState;

/// The service manager that started this process, if one did.
#[derive(Debug, Default)]
pub struct ServiceManager {
    last_status: String,
}

impl ServiceManager {
    /// Nothing was told yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How often [`Self::alive`] has to be told at least: a third of the time after which the
    /// service manager takes this process for hung. `None`: it does not watch.
    #[must_use]
    pub fn heartbeat() -> Option<Duration> {
        sd_notify::watchdog_enabled().map(|limit| limit / 3)
    }

    /// The daemon does its work now.
    pub fn ready(&self) {
        tell(NotifyState::Ready);
    }

    /// The daemon is not hung.
    pub fn alive(&self) {
        tell(NotifyState::Watchdog);
    }

    /// The daemon is handing over.
    pub fn stopping(&self) {
        tell(NotifyState::Stopping);
    }

    /// One line for `systemctl status`; told again only if it is another one.
    pub fn status(&mut self, line: String) {
        if line != self.last_status {
            tell(NotifyState::Status(&line));
            self.last_status = line;
        }
    }
}

fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "the service manager could not be told how the daemon is");
    }
}
