//! `barevip run`: the virtual routers of one configuration file, until told to stop.
//!
//! The engine has a thread of its own and never waits for anything here: signals, the event log,
//! the status socket and the service manager share this thread.

use std::future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use hyper::StatusCode;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep_until};
use tracing::field::display;

use super::node_loop::{NodeHandle, Options, Remote};
use super::observed::{News, Told};
use super::status::{About, SOCKETS, State};
use crate::config;
use crate::engine::node::event::EventKind;
use crate::engine::node::links::Instance;
use crate::engine::node::node::Identity;
use crate::io::clock::Moment;
use crate::io::http::{Reply, Server};
use crate::io::service_manager::ServiceManager;
use crate::model::Plan;

/// How often the daemon looks at itself where no service manager asks for more.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// How often until it is ready.
const FIRST_HEARTBEATS: Duration = Duration::from_millis(50);
/// A handover is over long before, and the engine gives up after 10 s by itself; one that is not
/// done then hangs.
const STOP_LIMIT: Duration = Duration::from_secs(12);

/// A log line that is later than this says when it was true.
const LAG: Duration = Duration::from_millis(100);

/// Runs a configuration file; returns after a planned stop.
///
/// # Errors
/// [`config::Rejected`]; a daemon that runs already; a kernel that refuses; a stop that was not
/// clean.
pub fn run(config: &Path, socket: Option<PathBuf>) -> anyhow::Result<()> {
    let plan = config::load(config)?;
    let identity = Identity { node: hostname()?, instance: instance_of(config) };
    let about = About { node: identity.node.clone(), config: absolute(config) };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no asynchronous runtime")?;
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
    let signals = Signals::listen()?;
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
        result = daemon.live(signals) => result,
        never = server.serve(move |path| answer(path, remote.clone(), Arc::clone(&known))) => {
            match never {}
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
    async fn live(mut self, mut signals: Signals) -> anyhow::Result<()> {
        let mut events = self.node.events();
        let mut heartbeat = Instant::now();
        let mut give_up: Option<Instant> = None;
        let result = loop {
            tokio::select! {
                biased;
                name = signals.next() => {
                    if give_up.is_some() {
                        break Err(stopped_at_once(name));
                    }
                    tracing::info!("{name}: a planned stop, the addresses are handed over");
                    self.service_manager.stopping();
                    self.node.shutdown();
                    give_up = Some(Instant::now() + STOP_LIMIT);
                }
                result = self.node.finished() => break result,
                Some(told) = events.recv() => log(&told),
                () = at(give_up) => break Err(hung_in_stop()),
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

/// The status socket: `/state` and `/healthz`.
async fn answer(path: String, node: Remote, about: Arc<About>) -> Option<Reply> {
    let as_json = match path.as_str() {
        "/state" => true,
        "/healthz" => false,
        _ => return None,
    };
    Some(match node.status().await {
        Err(error) => Reply::text(StatusCode::SERVICE_UNAVAILABLE, format!("{error:#}\n")),
        Ok(_) if !as_json => Reply::text(StatusCode::OK, "ok\n"),
        Ok(seen) => match serde_json::to_string(&State::of(&about, &seen)) {
            Ok(json) => Reply::json(StatusCode::OK, json),
            Err(error) => Reply::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        },
    })
}

/// One sentence; with the time at which it was true where the log lags behind.
fn log(told: &Told) {
    let lag = Moment::read().wall().duration_since(told.at).unwrap_or_default();
    let at = (lag > LAG).then(|| humantime::format_rfc3339_millis(told.at)).map(display);
    let router = match &told.news {
        News::Event(event) => event.router.as_deref(),
        News::Trouble(_) => None,
    };
    if is_worrying(&told.news) {
        tracing::warn!(router, at, "{}", told.news);
    } else {
        tracing::info!(router, at, "{}", told.news);
    }
}

/// Whether a person should look at it.
const fn is_worrying(news: &News) -> bool {
    let event = match news {
        News::Trouble(_) => return true,
        News::Event(event) => &event.kind,
    };
    match event {
        EventKind::LinkLost(_)
        | EventKind::AddressLost { .. }
        | EventKind::AddressExpired { .. }
        | EventKind::Began(_)
        | EventKind::Stalled { .. } => true,
        EventKind::Released { unclaimed, .. } => *unclaimed > 0,
        EventKind::BecameActive { .. }
        | EventKind::Serving { .. }
        | EventKind::BecameBackup { .. }
        | EventKind::LeftElection { .. }
        | EventKind::LinkBack { .. }
        | EventKind::Ended(_)
        | EventKind::Slept { .. } => false,
    }
}
