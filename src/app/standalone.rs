//! `barevip run`: the virtual routers of one configuration file, until told to stop.
//!
//! The engine has a thread of its own and never waits for anything here: signals, the event log,
//! the status socket and the service manager share this thread.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::time::{Instant, sleep_until};

use super::journal::log;
use super::node_loop::{NodeHandle, Options};
use super::runtime::runtime;
use super::status::{About, SOCKETS, State, answer};
use super::stop::Stop;
use crate::config;
use crate::engine::node::identity::Identity;
use crate::engine::node::links::Instance;
use crate::io::http::Server;
use crate::io::service_manager::ServiceManager;
use crate::model::Plan;

/// How often the daemon looks at itself where no service manager asks for more.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// How often until it is ready.
const FIRST_HEARTBEATS: Duration = Duration::from_millis(50);

/// Runs a configuration file; returns after a planned stop.
///
/// # Errors
/// [`config::Rejected`]; a daemon that runs already; a kernel that refuses; a stop that was not
/// clean.
pub fn run(config: &Path, socket: Option<PathBuf>) -> anyhow::Result<()> {
    let plan = config::load(config)?;
    let identity = Identity { node: hostname()?, instance: instance_of(config) };
    let about = About { node: identity.node.clone(), config: absolute(config) };
    let runtime = runtime()?;
    let socket = socket.unwrap_or_else(|| default_socket(config));
    runtime.block_on(serve(identity, plan, about, socket))
}

/// The mark of the addresses of a configuration file's daemon: the same for every way to write
/// the file's path.
#[must_use]
pub fn instance_of(config: &Path) -> Instance {
    use std::os::unix::ffi::OsStrExt;
    Instance::named(absolute(config).as_os_str().as_bytes())
}

/// The canonical path, also of a file that is gone while its directory is still there.
fn absolute(config: &Path) -> PathBuf {
    let of_directory = || {
        let full = std::path::absolute(config).ok()?;
        let directory = full.parent()?.canonicalize().ok()?;
        Some(directory.join(full.file_name()?))
    };
    config.canonicalize().ok().or_else(of_directory).unwrap_or_else(|| config.to_owned())
}

fn default_socket(config: &Path) -> PathBuf {
    let mut name = config.file_stem().unwrap_or_default().to_owned();
    name.push(".sock");
    Path::new(SOCKETS).join(name)
}

fn hostname() -> anyhow::Result<String> {
    let name = nix::unistd::gethostname().context("this machine's name can't be read")?;
    Ok(name.to_string_lossy().into_owned())
}

async fn serve(
    identity: Identity,
    plan: Plan,
    about: About,
    socket: PathBuf,
) -> anyhow::Result<()> {
    let stop = Stop::listen()?;
    let server = Server::bind(socket).await?;
    tracing::info!(
        config = %about.config.display(),
        socket = server.place(),
        "barevip {} starts with {} virtual router(s)",
        env!("CARGO_PKG_VERSION"),
        plan.len(),
    );
    let node = NodeHandle::start(identity, plan, Options::default())?;
    let about = Arc::new(about);
    let (remote, known) = (node.remote(), Arc::clone(&about));
    let daemon = Daemon {
        node,
        about,
        service_manager: ServiceManager::new(),
        is_ready: false,
        answers: true,
    };
    tokio::select! {
        result = daemon.live(stop) => result,
        never = server.serve(move |path| answer(path, remote.clone(), Arc::clone(&known))) => {
            match never {}
        }
    }
}

/// What lives while the engine does.
struct Daemon {
    node: NodeHandle,
    about: Arc<About>,
    service_manager: ServiceManager,
    is_ready: bool,
    /// Whether the engine answered the last time.
    answers: bool,
}

impl Daemon {
    async fn live(mut self, mut stop: Stop) -> anyhow::Result<()> {
        let mut events = self.node.events();
        let mut heartbeat = Instant::now();
        let result = loop {
            tokio::select! {
                biased;
                result = self.node.finished() => break result,
                asked = stop.asked() => match asked {
                    Ok(()) => {
                        self.service_manager.stopping();
                        self.node.shutdown();
                    }
                    Err(error) => break Err(error),
                },
                Some(told) = events.recv() => log(&told),
                () = sleep_until(heartbeat) => {
                    self.look_at_itself().await;
                    heartbeat = Instant::now() + self.pace();
                }
            }
        };
        while let Ok(told) = events.try_recv() {
            log(&told);
        }
        if result.is_ok() {
            tracing::info!("stopped: no address of this daemon is left on this machine");
        }
        result
    }

    /// Tells the service manager how the daemon is: nothing while the engine does not answer.
    async fn look_at_itself(&mut self) {
        let seen = self.node.status().await;
        let answered = self.answers;
        self.answers = seen.is_ok();
        let seen = match seen {
            Ok(seen) => seen,
            Err(error) => {
                if answered {
                    tracing::error!("{error:#}");
                }
                return;
            }
        };
        if !answered {
            tracing::info!("the engine answers again");
        }
        self.service_manager.alive();
        self.service_manager.status(State::of(&self.about, &seen).summary());
        // The engine takes up the plan once it has seen the links.
        if !self.is_ready && !seen.status.routers.is_empty() {
            self.is_ready = true;
            self.service_manager.ready();
        }
    }

    /// Until it looks at itself again.
    fn pace(&self) -> Duration {
        match ServiceManager::heartbeat() {
            _ if !self.is_ready => FIRST_HEARTBEATS,
            Some(asked) => asked.min(HEARTBEAT),
            None => HEARTBEAT,
        }
    }
}
