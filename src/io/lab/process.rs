//! A child process that does not outlive the value that stands for it.

use std::process::{Child, Command, ExitStatus};

use anyhow::{Context as _, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A running child process: killed and reaped when dropped, after a panic too.
#[derive(Debug)]
pub struct Process {
    program: String,
    child: Child,
}

impl Process {
    /// Starts the command in the calling thread's namespaces.
    ///
    /// # Errors
    /// Where it cannot be started, with the program's name.
    pub fn start(mut command: Command) -> anyhow::Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().with_context(|| format!("cannot start {program}"))?;
        Ok(Self { program, child })
    }

    /// The process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// Where it has ended already.
    pub fn signal(&mut self, signal: Signal) -> anyhow::Result<()> {
        // Until the child is reaped, its id cannot be somebody else's.
        if let Some(status) = self.ended()? {
            bail!("{} has ended already: {status}", self.program);
        }
        kill(Pid::from_raw(i32::try_from(self.child.id())?), signal)
            .with_context(|| format!("cannot send {signal} to {}", self.program))
    }

    /// Whether and how it has ended.
    ///
    /// # Errors
    /// Those of waitpid(2).
    pub fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        self.child.try_wait().with_context(|| format!("cannot wait for {}", self.program))
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// Those of waitpid(2).
    pub fn wait(&mut self) -> anyhow::Result<ExitStatus> {
        self.child.wait().with_context(|| format!("cannot wait for {}", self.program))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only for a child that is already reaped.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
