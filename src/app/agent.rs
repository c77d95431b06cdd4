//! `barevip agent`: the virtual routers that the cluster's controller gives to this node.
//!
//! The engine is the same as for a configuration file; its plan comes from `VirtualRouter` objects.
//! The API server is not on the path of a failover, and nothing that it does, fails to do or loses
//! takes an address away: see [`HeldPlan`].

mod report;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use self::report::Pace;
use super::journal::log;
use super::node_loop::{self, NodeHandle};
use super::runtime::runtime;
use super::status::{About, answer};
use super::stop::Stop;
use crate::engine::node::identity::Identity;
use crate::engine::node::links::Instance;
use crate::engine::plan::HeldPlan;
use crate::io::clock;
use crate::io::http::Server;
use crate::io::kubernetes::announcer::{ReportError, Reporter, announcer_status};
use crate::io::kubernetes::client::connect;
use crate::io::kubernetes::delta::{Delta, Trouble};
use crate::io::kubernetes::resources::AnnouncerStatus;
use crate::io::kubernetes::routers::{PlanChange, RouterWatch};
use crate::io::store::Store;
use crate::model::Plan;

/// The name of the instance, so that a configuration file's daemon and the agent tell their
/// addresses apart.
const INSTANCE: &[u8] = b"cluster";
/// The API server gives up a report after this.
const WRITE_LIMIT: Duration = Duration::from_secs(3);
/// How often the node is looked at though it tells nothing.
const LOOK: Duration = Duration::from_secs(5);
/// A plan that was taken up just now shows in the node's state after this.
const SOON: Duration = Duration::from_millis(20);

/// How the agent runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// The node's name in the cluster.
    pub node: String,
    /// Where the last plan is remembered.
    pub state_dir: PathBuf,
    /// Where `barevip status` finds it.
    pub socket: PathBuf,
    /// Where it answers `/healthz` and `/state` besides.
    pub http: Option<SocketAddr>,
    /// About how often everything is listed anew.
    pub relist: Duration,
}

/// Runs until it is told to stop; then everything was handed over.
///
/// # Errors
/// No cluster is configured; an agent runs already; the kernel refuses; a stop that was not clean.
pub fn run(options: &Options) -> anyhow::Result<()> {
    runtime()?.block_on(serve(options))
}

async fn serve(options: &Options) -> anyhow::Result<()> {
    let stop = Stop::listen()?;
    let client = connect(WRITE_LIMIT).await?;
    let store = Store::new(&options.state_dir);
    let held = remembered(&store);
    let plan = held.plan();
    let identity = Identity { node: options.node.clone(), instance: Instance::named(INSTANCE) };
    let about = About { node: options.node.clone(), config: "cluster".into() };
    let mut servers = vec![Server::bind(options.socket.clone()).await?];
    if let Some(address) = options.http {
        servers.push(Server::bind_tcp(address).await?);
    }
    tracing::info!(
        node = options.node,
        "barevip {} starts with {} remembered virtual router(s)",
        env!("CARGO_PKG_VERSION"),
        plan.len(),
    );
    let node = NodeHandle::start(identity, plan.clone(), node_loop::Options::default())?;
    let mut pages = JoinSet::new();
    let about = Arc::new(about);
    for server in servers {
        let (remote, about) = (node.remote(), Arc::clone(&about));
        pages.spawn(async move {
            let never =
                server.serve(move |path| answer(path, remote.clone(), Arc::clone(&about))).await;
            match never {}
        });
    }
    let agent = Agent {
        held,
        plan,
        store,
        node,
        watch: RouterWatch::start(client.clone(), &options.node, options.relist),
        reporter: Reporter::new(client, &options.node),
        reporting: JoinSet::new(),
        pace: Pace::new(),
        look_at: Instant::now(),
    };
    agent.live(stop).await
}

/// The plan of before; without one the agent waits for the API server.
fn remembered(store: &Store) -> HeldPlan {
    match store.read() {
        Ok(plan) => HeldPlan::remembered(plan.unwrap_or_default()),
        Err(error) => {
            tracing::warn!("{error}");
            HeldPlan::default()
        }
    }
}

struct Agent {
    held: HeldPlan,
    /// What the node was told last.
    plan: Plan,
    store: Store,
    node: NodeHandle,
    watch: RouterWatch,
    reporter: Reporter,
    /// At most one report is under way.
    reporting: JoinSet<(AnnouncerStatus, Result<(), ReportError>)>,
    pace: Pace,
    look_at: Instant,
}

impl Agent {
    async fn live(mut self, mut stop: Stop) -> anyhow::Result<()> {
        let mut events = self.node.events();
        let result = loop {
            let due = self.due();
            tokio::select! {
                biased;
                result = self.node.finished() => break result,
                asked = stop.asked() => match asked {
                    Ok(()) => self.node.shutdown(),
                    Err(error) => break Err(error),
                },
                Some(told) = events.recv() => {
                    log(&told);
                    self.look_soon();
                }
                change = self.watch.next() => match change {
                    Some(change) => self.take(change),
                    None => bail!("the watch of the plan has ended"),
                },
                Some(ended) = self.reporting.join_next() => {
                    self.reported(ended.context("a report has ended by a panic")?);
                }
                () = sleep_until(due) => self.look().await,
            }
        };
        while let Ok(told) = events.try_recv() {
            log(&told);
        }
        if result.is_ok() {
            tracing::info!("stopped: no address of this agent is left on this node");
        }
        result
    }

    fn take(&mut self, change: PlanChange) {
        let now = clock::since_boot();
        match change {
            PlanChange::Routers(Delta::All(listing)) => {
                let (mut readable, mut unreadable) = (Vec::new(), Vec::new());
                for seen in listing.objects {
                    match seen.value {
                        Ok(router) => readable.push(*router),
                        Err(error) => {
                            warn_unreadable(&seen.key, &error);
                            unreadable.push(seen.key);
                        }
                    }
                }
                let unreadable: Vec<&str> = unreadable.iter().map(|name| &**name).collect();
                self.held.handle_list(readable, &unreadable, now);
            }
            PlanChange::Routers(Delta::Applied(seen)) => match seen.value {
                Ok(router) => self.held.handle_applied(*router, now),
                Err(error) => warn_unreadable(&seen.key, &error),
            },
            PlanChange::Routers(Delta::Deleted { key, .. }) => {
                tracing::warn!(
                    router = &*key,
                    "the virtual router was deleted; its addresses stay until it is made again or ten minutes have passed"
                );
                self.held.handle_deleted(&key, now);
            }
            PlanChange::Trouble(Trouble { kind, error }) => {
                tracing::warn!(kind, error, "a watch failed; it is tried again");
                return;
            }
        }
        self.tell_node();
    }

    /// Tells the node what is held to now, if that is news, and remembers it.
    fn tell_node(&mut self) {
        let plan = self.held.plan();
        if plan == self.plan {
            return;
        }
        if let Err(error) = self.store.write(&plan) {
            tracing::warn!("{error}");
        }
        self.node.remote().plan(plan.clone());
        self.plan = plan;
        self.look_soon();
    }

    fn look_soon(&mut self) {
        self.look_at = self.look_at.min(Instant::now() + SOON);
    }

    /// When something has to be done though nothing happens.
    fn due(&self) -> Instant {
        let report = self.reporting.is_empty().then(|| self.pace.due());
        let next = report.into_iter().chain(self.held.poll_timeout()).min();
        let now = clock::since_boot();
        let next = next.map(|at| Instant::now() + at.since(now));
        next.map_or(self.look_at, |at| at.min(self.look_at))
    }

    /// Looks at the node, and reports what is due.
    async fn look(&mut self) {
        let now = clock::since_boot();
        self.held.handle_timeout(now);
        self.tell_node();
        self.look_at = Instant::now() + LOOK;
        match self.node.status().await {
            Ok(seen) => self.pace.see(announcer_status(&seen.status)),
            Err(error) => tracing::error!("{error:#}"),
        }
        if self.reporting.is_empty()
            && let Some(report) = self.pace.take_due(now)
        {
            let reporter = self.reporter.clone();
            self.reporting.spawn(async move {
                let result = reporter.report(report.clone()).await;
                (report, result)
            });
        }
    }

    fn reported(&mut self, (report, result): (AnnouncerStatus, Result<(), ReportError>)) {
        let now = clock::since_boot();
        match result {
            Ok(()) => self.pace.written(report, now),
            Err(error) => {
                tracing::warn!(%error, "this node's report was not written; it is tried again");
                self.pace.failed(now);
            }
        }
    }
}

fn warn_unreadable(router: &str, error: &str) {
    tracing::error!(router, error, "a VirtualRouter can't be read; what it said before stays");
}
