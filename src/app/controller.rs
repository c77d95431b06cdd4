//! `barevip controller`: gives every Service of type LoadBalancer its address.
//!
//! One serial loop: watches fill the world, the engine decides, and what it decided is written,
//! each write with the precondition that nothing has changed. A write that fails is simply decided
//! anew from what the world is then.

mod cache;
mod queue;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use k8s_openapi::jiff;
use kube::{Client, Config};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until};

use self::cache::Cache;
use self::queue::{Outcome, Queue, Write};
use crate::engine::cluster::decide::decide;
use crate::engine::cluster::decision::{Decision, PoolReport};
use crate::engine::cluster::election::Timing;
use crate::engine::cluster::world::{Settings, Timestamp, Uid};
use crate::io::clock;
use crate::io::kubernetes::event::Events;
use crate::io::kubernetes::lease::{Contender, Leadership};
use crate::io::kubernetes::pool_status::pool_status;
use crate::io::kubernetes::watch::Watches;
use crate::io::kubernetes::write::Writer;

/// Decided anew at least so often: it repairs what no event has told.
const RESYNC: Duration = Duration::from_secs(300);

/// How the controller runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its namespace, where its lease is.
    pub namespace: String,
    /// Whether Services without a class are ours.
    pub default_class: bool,
    /// Of the lease.
    pub timing: Timing,
}

/// Runs until it is told to stop.
///
/// # Errors
/// Where no cluster is configured, or the custom resources are not installed.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no asynchronous runtime")?;
    runtime.block_on(serve(options))
}

async fn serve(options: &Options) -> anyhow::Result<()> {
    let client = connect().await?;
    let settings = Settings { default_class: options.default_class, ..Settings::default() };
    let (told, leadership) = watch::channel(Leadership::default());
    let (stop, stopped) = oneshot::channel();
    let identity = identity()?;
    let contender = Contender::new(client.clone(), &options.namespace, &identity, options.timing);
    let contending = tokio::spawn(contender.run(told, stopped));
    let mut controller = Controller {
        cache: Cache::new(settings),
        queue: Queue::new(Writer::new(client.clone())),
        events: Events::start(client.clone(), &identity),
        watches: Watches::start(&client),
        leadership,
        led: false,
        resync_at: Instant::now(),
    };
    let mut term = signal(SignalKind::terminate()).context("can't wait for SIGTERM")?;
    let mut int = signal(SignalKind::interrupt()).context("can't wait for SIGINT")?;
    let ended = tokio::select! {
        ended = controller.run() => ended,
        _ = term.recv() => Ok(()),
        _ = int.recv() => Ok(()),
    };
    // What was written as leader ends before another may lead.
    controller.queue.drain().await;
    drop(stop);
    contending.await.context("the lease's task ended by a panic")?;
    ended
}

/// Of this process: a restarted one must not take its predecessor's lease for its own.
fn identity() -> anyhow::Result<String> {
    let host = nix::unistd::gethostname().context("this machine has no name")?;
    let started = clock::since_boot().since_origin().as_nanos();
    Ok(format!("{}_{}_{started:x}", host.to_string_lossy(), std::process::id()))
}

/// The cluster of the pod's service account, else of `KUBECONFIG`.
async fn connect() -> anyhow::Result<Client> {
    let mut config = Config::infer().await.context(
        "no cluster is configured: run it in a pod, or set KUBECONFIG to a kubeconfig file",
    )?;
    // A write that is repeated later than we think could land after the lease has passed on.
    config.default_retry = false;
    Client::try_from(config).context("the cluster's configuration can't be used")
}

struct Controller {
    cache: Cache,
    queue: Queue,
    events: Events,
    watches: Watches,
    leadership: watch::Receiver<Leadership>,
    /// Has led: whoever loses the lease starts anew, with nothing in its memory.
    led: bool,
    resync_at: Instant,
}

impl Controller {
    async fn run(&mut self) -> anyhow::Result<()> {
        loop {
            tokio::select! {
                change = self.watches.next() => match change {
                    Some(change) => self.cache.take(change),
                    None => bail!("the watches ended"),
                },
                changed = self.leadership.changed() => changed.context("the lease's task ended")?,
                outcome = self.queue.finished() => self.settle(outcome),
                () = sleep_until(self.resync_at) => {}
            }
            while let Some(change) = self.watches.next_waiting() {
                self.cache.take(change);
            }
            if !self.leads() {
                ensure!(!self.led, "the lease was lost: another controller leads now");
            } else if self.cache.is_complete() {
                self.decide();
            }
        }
    }

    fn leads(&mut self) -> bool {
        let leads = self.leadership.borrow_and_update().is_ours();
        if leads && !self.led {
            self.led = true;
            tracing::info!("this controller leads");
        }
        leads
    }

    fn decide(&mut self) {
        let now = jiff::Timestamp::now().as_second();
        let decision = decide(&self.cache.world, Timestamp(now));
        let rest = decision.wake_at.map(|at| u64::try_from(at.0 - now).unwrap_or(0));
        let pause = rest.map_or(RESYNC, |rest| RESYNC.min(Duration::from_secs(rest + 1)));
        self.resync_at = Instant::now() + self.queue.pause().map_or(pause, |wait| wait.min(pause));
        self.write(decision);
    }

    /// Claims first; a Service's status is decided only once the world shows its claim.
    fn write(&mut self, decision: Decision) {
        for (name, change) in decision.routers {
            let version = self.cache.router_version(&name);
            self.queue.push(Write::Router { name, change, version });
        }
        for change in decision.services {
            if let Some(service) = self.cache.world.services.get(&change.uid) {
                self.queue.push(Write::Service(Box::new((service.clone(), change))));
            }
        }
        self.report_pools(decision.pools);
    }

    fn report_pools(&mut self, reports: BTreeMap<Arc<str>, PoolReport>) {
        for (name, report) in reports {
            let Some(pool) = self.cache.world.pools.get(&name) else { continue };
            let before = self.cache.pool_statuses.get(&name);
            let status = pool_status(&report, pool.generation, before);
            if before != Some(&status) {
                self.queue.push(Write::Pool { name, status });
            }
        }
    }

    fn settle(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Service(written) => {
                let (seen, notices) = *written;
                for notice in &notices {
                    self.events.tell(&Uid(Arc::clone(&seen.key)), &seen.value.key, notice);
                }
                self.cache.wrote_service(seen);
            }
            Outcome::Router(seen) => self.cache.wrote_router(seen),
            Outcome::Nothing => {}
        }
    }
}
