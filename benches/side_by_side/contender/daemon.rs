//! A running daemon of either kind on one node.

use std::fmt;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use ::barevip::io::lab::lan::Host;
use ::barevip::io::lab::process::Process;
use anyhow::{Context as _, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::setting::Setting;
use super::{barevip, keepalived};
use crate::laboratory::wait;

/// How long a daemon may take to start or to end.
const PATIENCE: Duration = Duration::from_secs(20);
/// What of a log is shown in an error.
const LAST_LINES: usize = 15;

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    Keepalived,
    Barevip,
}

/// A daemon, killed when dropped.
#[derive(Debug)]
pub(crate) struct Daemon {
    contender: Contender,
    process: Process,
    folder: PathBuf,
    routers: usize,
}

impl Contender {
    /// Both, in the table's order.
    pub(crate) const BOTH: [Self; 2] = [Self::Keepalived, Self::Barevip];
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keepalived => "keepalived",
            Self::Barevip => "barevip",
        })
    }
}

impl Daemon {
    /// Starts it on `host` with its files in `folder`.
    pub(crate) fn start(
        contender: Contender,
        host: &Host,
        folder: PathBuf,
        setting: &Setting,
        priority: u8,
    ) -> anyhow::Result<Self> {
        let configuration = folder.join("configuration");
        let (text, mut command) = match contender {
            Contender::Keepalived => (
                keepalived::configuration(setting, priority),
                keepalived::command(&folder, &configuration),
            ),
            Contender::Barevip => (
                barevip::configuration(setting, priority),
                barevip::command(&folder, &configuration),
            ),
        };
        fs::write(&configuration, text)?;
        let log = File::create(folder.join("log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let process = host.namespace().spawn(command)?;
        Ok(Self { contender, process, folder, routers: setting.routers.len() })
    }

    /// Waits until it takes part in the election.
    pub(crate) fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let ready = wait::until("the start", PATIENCE, || {
            if let Some(status) = self.process.ended()? {
                bail!("it ended with {status}");
            }
            let ready = match self.contender {
                Contender::Keepalived => keepalived::is_ready(&self.log()?, self.routers),
                Contender::Barevip => barevip::is_ready(&self.folder)?,
            };
            Ok(ready.then_some(()))
        });
        ready.with_context(|| format!("{} said at last:\n{}", self.contender, self.last_words()))
    }

    /// Asks it to hand over and end.
    pub(crate) fn stop(&mut self) -> anyhow::Result<()> {
        self.process.signal(Signal::SIGTERM)
    }

    /// Waits until it has ended.
    pub(crate) fn wait_until_ended(&mut self) -> anyhow::Result<()> {
        wait::until("the end of a stopped daemon", PATIENCE, || {
            Ok(self.process.ended()?.map(|_| ()))
        })
    }

    /// Sends every process of it a signal that none can catch. The child first: it would catch
    /// what the kernel tells it at its parent's death.
    pub(crate) fn strike(&self, signal: Signal) -> anyhow::Result<()> {
        for pid in self.processes().into_iter().rev() {
            kill(Pid::from_raw(i32::try_from(pid)?), signal)?;
        }
        Ok(())
    }

    /// Its processes, the one that speaks VRRP last.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let child = match self.contender {
            Contender::Keepalived => keepalived::vrrp_process(&self.folder),
            Contender::Barevip => None,
        };
        [Some(self.process.id()), child].into_iter().flatten().collect()
    }

    /// Its configuration file.
    pub(crate) fn configuration(&self) -> PathBuf {
        self.folder.join("configuration")
    }

    fn log(&self) -> anyhow::Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(self.folder.join("log"))?).into_owned())
    }

    /// The end of its log.
    pub(crate) fn last_words(&self) -> String {
        let log = self.log().unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines.get(lines.len().saturating_sub(LAST_LINES)..).unwrap_or_default().join("\n")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Until the parent is reaped, which the process does next, its child is no one else's
        // either: keepalived starts a new one under a new file content.
        if self.process.ended().is_ok_and(|ended| ended.is_none()) {
            self.strike(Signal::SIGKILL).ok();
        }
    }
}
