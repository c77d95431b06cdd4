//! `barevip run`: the virtual routers of one configuration file, until told to stop.
//!
//! The engine has a thread of its own and never waits for anything here: signals, the event log,
//! the status socket and the service manager share this thread.

use std::future;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use hyper::StatusCode;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use super::node_loop::{NodeHandle, Options};
use super::status::{About, SOCKETS, State};
use crate::config;
use crate::engine::node::event::{Event, EventKind};
use crate::engine::node::links::Instance;
use crate::engine::node::node::Identity;
use crate::io::http::{Reply, Server};
use crate::io::lock::Lock;
use crate::io::service_manager::ServiceManager;
use crate::model::Plan;

/// How often the daemon looks at itself where no service manager asks for more.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// How often until it is ready.
const FIRST_HEARTBEATS: Duration = Duration::from_millis(50);
/// A handover is over long before; an engine that is not done then never will be.
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// Questions to the status socket that may wait for the engine.
const MAX_QUESTIONS: usize = 16;

/// A question to the status socket, and where its answer goes.
type Question = oneshot::Sender<Result<State, String>>;

/// Runs a configuration file; returns after a planned stop.
///
/// # Errors
/// [`config::Rejected`]; a daemon that runs already; a kernel that refuses; a stop that was not
/// clean.
pub fn run(config: &Path, socket: Option<PathBuf>) -> anyhow::Result<()> {
    let plan = config::load(config)?;
    let identity = Identity {
        node: hostname()?,
        instance: instance_of(config),
    };
    let about = About {
        node: identity.node.clone(),
        config: absolute(config),
    };
    let Some(_lock) = Lock::take(identity.instance).context("no lock for this instance")? else {
        bail!(
            "a daemon for {} is running already; stop it first (`systemctl stop barevip`)",
            config.display()
        );
    };
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
    config
        .canonicalize()
        .ok()
        .or_else(of_directory)
        .unwrap_or_else(|| config.to_owned())
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
    // First the socket: a second daemon is refused before it touches an address.
    let server = Server::bind(socket).await?;
    tracing::info!(
        config = %about.config.display(),
        socket = %server.path().display(),
        "barevip {} starts with {} virtual router(s)",
        env!("CARGO_PKG_VERSION"),
        plan.len(),
    );
    let node = NodeHandle::start(identity, plan, Options::default())?;
    let (questions, asked) = mpsc::channel(MAX_QUESTIONS);
    let daemon = Daemon {
        node,
        about,
        asked,
        service_manager: ServiceManager::new(),
        is_ready: false,
        answers: true,
    };
    tokio::select! {
        result = daemon.live(signals) => result,
        never = server.serve(move |path| answer(path, questions.clone())) => match never {},
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
    about: About,
    asked: mpsc::Receiver<Question>,
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
                Some((at, event)) = events.recv() => log_event(at, &event),
                () = at(give_up) => break Err(hung_in_stop()),
                () = sleep_until(heartbeat) => {
                    let pace = self.look_at_itself().await;
                    heartbeat = Instant::now() + pace;
                }
                Some(question) = self.asked.recv() => {
                    let state = self.state().await;
                    // Who asked may have gone meanwhile.
                    let _gone = question.send(state);
                }
            }
        };
        while let Ok((at, event)) = events.try_recv() {
            log_event(at, &event);
        }
        if result.is_ok() {
            tracing::info!("stopped: nothing of ours is left on this machine");
        }
        result
    }

    /// What the engine says now, or why it does not.
    async fn state(&mut self) -> Result<State, String> {
        match self.node.status().await {
            Ok(seen) => {
                if !self.answers {
                    tracing::info!("the engine answers again");
                }
                self.answers = true;
                Ok(State::of(&self.about, &seen.status, seen.now, seen.wall))
            }
            Err(error) => {
                if self.answers {
                    tracing::error!("the engine does not answer: {error:#}");
                }
                self.answers = false;
                Err(format!("{error:#}"))
            }
        }
    }

    /// Tells the service manager how the daemon is; returns when to do so again.
    async fn look_at_itself(&mut self) -> Duration {
        if let Ok(state) = self.state().await {
            self.service_manager.alive();
            self.service_manager.status(state.summary());
            // A router that has neither a link nor a fault was not held against the links yet.
            let saw_links =
                |r: &super::status::state::Router| r.link.is_some() || r.fault.is_some();
            if !self.is_ready && state.routers.iter().all(saw_links) {
                self.is_ready = true;
                self.service_manager.ready();
            }
        }
        if self.is_ready {
            ServiceManager::heartbeat().map_or(HEARTBEAT, |pace| pace.min(HEARTBEAT))
        } else {
            FIRST_HEARTBEATS
        }
    }
}

fn stopped_at_once(name: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "{name} again: stopped at once; addresses that are still bound vanish by themselves in \
         some seconds, or now with `barevip cleanup`"
    )
}

fn hung_in_stop() -> anyhow::Error {
    anyhow::anyhow!(
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
async fn answer(path: String, questions: mpsc::Sender<Question>) -> Option<Reply> {
    let as_json = match path.as_str() {
        "/state" => true,
        "/healthz" => false,
        _ => return None,
    };
    let (question, reply) = oneshot::channel();
    let is_asked = questions.send(question).await.is_ok();
    let state = match reply.await {
        Ok(state) if is_asked => state,
        _ => Err("the daemon is stopping".to_owned()),
    };
    Some(match state {
        Err(reason) => Reply::text(StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
        Ok(_) if !as_json => Reply::text(StatusCode::OK, "ok\n"),
        Ok(state) => match serde_json::to_string(&state) {
            Ok(json) => Reply::json(StatusCode::OK, json),
            Err(error) => Reply::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        },
    })
}

/// One sentence an event. Its own time is told only where the log falls behind.
fn log_event(at: SystemTime, event: &Event) {
    let at = humantime::format_rfc3339_millis(at);
    let router = event.router.as_deref();
    if is_worrying(&event.kind) {
        tracing::warn!(router, %at, "{event}");
    } else {
        tracing::info!(router, %at, "{event}");
    }
}

/// Whether a person should look at it.
const fn is_worrying(kind: &EventKind) -> bool {
    match kind {
        EventKind::LinkLost(_)
        | EventKind::AddressLost { .. }
        | EventKind::Began(_)
        | EventKind::Stalled { .. } => true,
        EventKind::Released { unclaimed, .. } => *unclaimed > 0,
        EventKind::BecameActive { .. }
        | EventKind::Serving { .. }
        | EventKind::BecameBackup { .. }
        | EventKind::LinkBack { .. }
        | EventKind::Ended(_)
        | EventKind::Slept { .. } => false,
    }
}
