//! A network namespace, made and entered without any external command: threads enter it, and what
//! they create there, sockets and child processes alike, belongs to it for good.

use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::process::{Command, Output};
use std::thread;

use anyhow::{Context as _, anyhow};
use nix::errno::Errno;
use nix::sched::{CloneFlags, setns, unshare};

use super::privilege;
use super::process::Process;

/// A network namespace. It lives until this value is dropped and the last process and socket
/// inside is gone.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    descriptor: OwnedFd,
}

impl Namespace {
    /// A new namespace that holds nothing but a loopback link, which is down. The name is for
    /// people: nothing in the system carries it.
    ///
    /// # Errors
    /// Where the kernel refuses, with the setting that would allow it.
    pub fn new(name: &str) -> anyhow::Result<Self> {
        let descriptor = on_own_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET).map_err(privilege::refused)?;
            File::open("/proc/thread-self/ns/net").context("cannot open /proc/thread-self/ns/net")
        })
        .with_context(|| format!("cannot make the network namespace {name:?}"))?;
        Ok(Self { name: name.to_owned(), descriptor: descriptor.into() })
    }

    /// The name given to it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `work` on a thread inside the namespace and waits for it. A socket opened there stays
    /// in the namespace, wherever it is used later.
    ///
    /// # Errors
    /// Those of `work`, with the namespace's name; a panic in `work` goes on in the caller.
    pub fn run<T: Send>(
        &self,
        work: impl FnOnce() -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        on_own_thread(|| {
            setns(&self.descriptor, CloneFlags::CLONE_NEWNET)?;
            work()
        })
        .with_context(|| format!("in the network namespace {:?}", self.name))
    }

    /// Starts a process in the namespace; it is killed when the returned value is dropped.
    ///
    /// # Errors
    /// Where the program cannot be started, with its name.
    pub fn spawn(&self, command: Command) -> anyhow::Result<Process> {
        self.run(|| Process::start(command))
    }

    /// Runs a program in the namespace to its end and returns what it wrote.
    ///
    /// # Errors
    /// Where it cannot be started or fails, with what it wrote.
    pub fn output(&self, mut command: Command) -> anyhow::Result<String> {
        let Output { status, stdout, stderr } = self.run(|| Ok(command.output()?))?;
        if status.success() {
            return Ok(String::from_utf8_lossy(&stdout).into_owned());
        }
        Err(anyhow!(
            "{command:?} in the network namespace {:?} ended with {status}: {}{}",
            self.name,
            String::from_utf8_lossy(&stdout),
            String::from_utf8_lossy(&stderr),
        ))
    }

    /// The descriptor by which netlink names this namespace, valid as long as `self`.
    #[must_use]
    pub fn descriptor(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// Asks the kernel of this namespace by route netlink.
    ///
    /// # Errors
    /// Those of `request`, with the namespace's name.
    pub fn netlink<T: Send>(
        &self,
        request: impl AsyncFnOnce(&rtnetlink::Handle) -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        self.run(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
            runtime.block_on(async {
                let (connection, handle, _) = rtnetlink::new_connection()?;
                let connection = tokio::spawn(connection);
                let answer = request(&handle).await;
                connection.abort();
                answer
            })
        })
    }
}

/// The index of the link `name` in the calling thread's namespace.
pub(super) fn index_of(name: &str) -> anyhow::Result<u32> {
    nix::net::if_::if_nametoindex(name).map_err(|error: Errno| anyhow!("no link {name}: {error}"))
}

/// A namespace is a property of a thread, so whatever enters one gets a thread that ends after it.
fn on_own_thread<T: Send>(work: impl FnOnce() -> anyhow::Result<T> + Send) -> anyhow::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, work)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
