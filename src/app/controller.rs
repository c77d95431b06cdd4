//! `barevip controller`: gives every Service of type LoadBalancer its address.
//!
//! One serial loop: watches fill the world, the engine decides, and what it decided is written,
//! each write with the precondition that nothing has changed. A write that fails is simply decided
//! anew from what the world is then.

mod cache;
mod metrics;
mod pace;
mod pages;
mod queue;
mod unpublished;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use hyper::StatusCode;
use k8s_openapi::jiff;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until};

use self::cache::Cache;
use self::metrics::Metrics;
use self::pace::Pace;
use self::pages::{Known, Page, Question, Questions};
use self::queue::{News, Object, Outcome, Queue, Write, Written};
use self::unpublished::UnderWay;
use super::runtime::runtime;
use crate::engine::cluster::decide::decide;
use crate::engine::cluster::decision::{Decision, Notice, PoolReport};
use crate::engine::cluster::election::Timing;
use crate::engine::cluster::world::{Settings, Timestamp, Uid};
use crate::io::clock;
use crate::io::http::{Reply, Server};
use crate::io::kubernetes::client::connect;
use crate::io::kubernetes::delta::Trouble;
use crate::io::kubernetes::event::Events;
use crate::io::kubernetes::lease::{Contender, Leadership};
use crate::io::kubernetes::pool_status::pool_status;
use crate::io::kubernetes::protection::Keeper;
use crate::io::kubernetes::watch::{Change, Watches};
use crate::io::kubernetes::write::Writer;

/// Decided anew at least so often: it repairs what no event has told.
const RESYNC: Duration = Duration::from_secs(300);

/// How the controller runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its namespace, where its lease is.
    pub namespace: String,
    /// Where it answers `/healthz`, `/readyz`, `/metrics` and `/state`.
    pub http: Option<SocketAddr>,
    /// Whether Services without a class are ours.
    pub default_class: bool,
    /// Whether addresses are written into `spec.externalIPs` too.
    pub mirror: bool,
    /// Of the lease.
    pub timing: Timing,
    /// About how often everything is listed anew.
    pub relist: Duration,
}

/// Runs until it is told to stop.
///
/// # Errors
/// Where no cluster is configured, or the custom resources are not installed.
pub fn run(options: &Options) -> anyhow::Result<()> {
    runtime()?.block_on(serve(options))
}

async fn serve(options: &Options) -> anyhow::Result<()> {
    let questions = match options.http {
        Some(address) => Questions::of(Server::bind_tcp(address).await?),
        None => Questions::none(),
    };
    let client = connect(options.timing.request_timeout()).await?;
    let settings = Settings {
        default_class: options.default_class,
        mirror: options.mirror,
        ..Settings::default()
    };
    let (told, leadership) = watch::channel(Leadership::default());
    let (stop, stopped) = oneshot::channel();
    let identity = identity()?;
    let contender = Contender::new(client.clone(), &options.namespace, &identity, options.timing);
    let contending = tokio::spawn(contender.run(told, stopped));
    let mut controller = Controller {
        cache: Cache::new(settings),
        queue: Queue::new(Writer::new(client.clone()), leadership.clone()),
        under_way: UnderWay::default(),
        unmirrored: BTreeSet::new(),
        events: Events::start(client.clone(), &identity),
        watches: Watches::start(&client, options.relist),
        keeper: Keeper::start(&client, &options.namespace, options.relist),
        questions,
        metrics: Metrics::new(),
        pace: Pace::default(),
        reports: BTreeMap::new(),
        identity,
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
    controller.keeper.stop().await;
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

struct Controller {
    cache: Cache,
    queue: Queue,
    under_way: UnderWay,
    /// Services whose owners know that their externalIPs may not be written.
    unmirrored: BTreeSet<Uid>,
    events: Events,
    watches: Watches,
    /// Of the ranges that admission protects.
    keeper: Keeper,
    questions: Questions,
    metrics: Metrics,
    /// Of the pools' statuses.
    pace: Pace,
    /// What was decided of the pools last.
    reports: BTreeMap<Arc<str>, PoolReport>,
    identity: String,
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
                    Some(change) => self.take(change),
                    None => bail!("the watches ended"),
                },
                changed = self.leadership.changed() => {
                    changed.context("the lease's task ended")?;
                    // A renewal changes nothing.
                    if self.led && self.leads() {
                        continue;
                    }
                }
                outcome = self.queue.finished() => self.settle(outcome),
                question = self.questions.next() => {
                    self.answer(question);
                    continue;
                }
                () = self.keeper.changed() => {
                    self.cache.world.protection = self.keeper.known();
                }
                () = sleep_until(self.resync_at) => self.resync_at = Instant::now() + RESYNC,
            }
            while let Some(change) = self.watches.next_waiting() {
                self.take(change);
            }
            while let Some(outcome) = self.queue.finished_waiting() {
                self.settle(outcome);
            }
            if !self.leads() {
                ensure!(
                    !self.led,
                    "the lease was not renewed in time: another controller may lead now"
                );
            } else if self.cache.missing().is_empty() {
                self.decide();
            }
        }
    }

    fn take(&mut self, change: Change) {
        if let Change::Trouble(Trouble { kind, error }) = &change {
            tracing::warn!(kind, error, "a watch failed; it is tried again");
            self.metrics.watch_failed(kind);
        }
        self.cache.take(change);
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
        let started = Instant::now();
        let now = now();
        self.cache.try_contested_again();
        let mut decision = decide(&self.cache.world, now);
        self.cache.world.memory = std::mem::take(&mut decision.memory);
        self.metrics.decided(started.elapsed());
        let rest = decision.wake_at.map(|at| u64::try_from(at.0 - now.0).unwrap_or(0));
        let pause = rest.map_or(RESYNC, |rest| RESYNC.min(Duration::from_secs(rest + 1)));
        self.resync_at = started + self.queue.pause().map_or(pause, |wait| wait.min(pause));
        self.write(decision);
    }

    /// Claims first; a Service's status is decided only once the world shows its claim.
    fn write(&mut self, decision: Decision) {
        if let Some(ranges) = decision.protected {
            self.keeper.want(ranges);
        }
        for (name, change) in decision.routers {
            if !self.queue.accepts(&Object::Router(Arc::clone(&name))) {
                continue;
            }
            self.under_way.send_claims(&mut self.cache.world, &name, &change);
            let version = self.cache.router_version(&name);
            self.queue.push(Write::Router { name, change, version });
        }
        for change in decision.services {
            if !self.queue.accepts(&Object::Service(Arc::clone(&change.uid.0))) {
                continue;
            }
            let Some(service) = self.cache.world.services.get(&change.uid).cloned() else {
                continue;
            };
            let gives_some = change.ingress.as_ref().is_some_and(|all| !all.is_empty());
            let lacking_since = self.cache.lacking_since(&change.uid).filter(|_| gives_some);
            self.under_way.send(&mut self.cache.world, &change, lacking_since);
            self.cache.publishes(&change);
            self.queue.push(Write::Service(Box::new((service, change))));
        }
        for (node, uid) in decision.announcers {
            self.queue.push(Write::Announcer { node, uid });
        }
        self.report_pools(&decision.pools);
        self.reports = decision.pools;
    }

    fn report_pools(&mut self, reports: &BTreeMap<Arc<str>, PoolReport>) {
        for (name, report) in reports {
            let Some(pool) = self.cache.world.pools.get(name) else { continue };
            let before = self.cache.pool_statuses.get(name);
            let status = pool_status(report, pool.generation, before);
            let object = Object::Pool(Arc::clone(name));
            if before == Some(&status) || !self.queue.accepts(&object) {
                continue;
            }
            let now = Instant::now();
            if let Some(wait) = self.pace.wait(name, before, &status, now) {
                self.resync_at = self.resync_at.min(now + wait);
                continue;
            }
            self.pace.wrote(name, now);
            let version = self.cache.pool_version(name);
            self.queue.push(Write::Pool { name: Arc::clone(name), version, status });
        }
    }

    fn settle(&mut self, outcome: Outcome) {
        let Outcome { object, written, news } = outcome;
        self.metrics.wrote(&object, written);
        match object {
            Object::Router(name) => {
                let is_done = written == Written::Done;
                self.under_way.settle_claims(&mut self.cache.world, &name, is_done);
            }
            Object::Service(uid) => self.settle_publication(Uid(uid), written),
            Object::Pool(_) | Object::Announcer(_) => {}
        }
        match news {
            Some(News::Service(both)) => {
                let (seen, notices) = *both;
                for notice in &notices {
                    self.events.tell(&Uid(Arc::clone(&seen.key)), &seen.value.key, notice);
                }
                self.cache.wrote_service(seen);
            }
            Some(News::Router(seen)) => self.cache.wrote_router(*seen),
            Some(News::Pool(seen)) => self.cache.wrote_pool(*seen),
            None => {}
        }
    }

    fn settle_publication(&mut self, uid: Uid, written: Written) {
        match written {
            Written::Stale => self.under_way.refused(&mut self.cache.world, &uid),
            Written::Done => {
                if let Some(since) = self.under_way.told(&uid) {
                    self.metrics.allocated(clock::since_boot().since(since));
                }
            }
            Written::Failed => drop(self.under_way.told(&uid)),
            Written::MirrorRefused => {
                let service = self.cache.world.services.get(&uid);
                if let Some(service) = service.filter(|_| self.unmirrored.insert(uid.clone())) {
                    self.events.tell(&uid, &service.key, &mirror_refused());
                }
            }
        }
    }

    fn answer(&mut self, question: Question) {
        let leads = self.leadership.borrow().is_ours();
        let reply = match question.page {
            Page::Health => Reply::text(StatusCode::OK, "ok\n"),
            Page::Ready => pages::ready(&self.cache.missing()),
            Page::Metrics => pages::metrics(self.metrics.page(leads, &self.reports, now())),
            Page::State => pages::state(
                Known {
                    identity: &self.identity,
                    leads,
                    leader: self.leadership.borrow().holder.as_deref(),
                    missing: self.cache.missing(),
                    writes: self.queue.len(),
                    pools: &self.reports,
                },
                &self.cache.world,
            ),
        };
        // Who asked may have gone.
        let _answered = question.reply.send(reply);
    }
}

fn now() -> Timestamp {
    Timestamp(jiff::Timestamp::now().as_second())
}

fn mirror_refused() -> Notice {
    Notice {
        reason: "ExternalIPsRefused",
        warning: true,
        note: "the address is in the status only: this cluster forbids writing spec.externalIPs \
               (DenyServiceExternalIPs or a policy); allow it, or run the controller with \
               --mirror-external-ips=false"
            .to_owned(),
    }
}
