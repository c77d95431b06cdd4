//! What a controller answers over HTTP. Every question goes to the loop that decides: an answer
//! shows that it is alive, and what it knows.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use hyper::StatusCode;
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::engine::cluster::decision::PoolReport;
use crate::engine::cluster::world::{Claim, World};
use crate::io::http::{Reply, Server};

/// What can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    /// `/healthz`: the process does its work.
    Health,
    /// `/readyz`: it has seen all of the cluster.
    Ready,
    /// `/metrics`
    Metrics,
    /// `/state`: what it knows, as JSON.
    State,
}

impl Page {
    fn of(path: &str) -> Option<Self> {
        match path {
            "/healthz" => Some(Self::Health),
            "/readyz" => Some(Self::Ready),
            "/metrics" => Some(Self::Metrics),
            "/state" => Some(Self::State),
            _ => None,
        }
    }
}

/// A question that waits for its answer.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) page: Page,
    pub(super) reply: oneshot::Sender<Reply>,
}

/// Questions as they come. Dropping it closes the server.
#[derive(Debug)]
pub(super) struct Questions {
    arriving: mpsc::Receiver<Question>,
    _server: JoinSet<()>,
}

impl Questions {
    /// None ever come.
    pub(super) fn none() -> Self {
        Self { arriving: mpsc::channel(1).1, _server: JoinSet::new() }
    }

    /// Those that this server is asked.
    pub(super) fn of(server: Server) -> Self {
        let (ask, arriving) = mpsc::channel(1);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let never = server.serve(move |path| answer(path, ask.clone())).await;
            match never {}
        });
        Self { arriving, _server: task }
    }

    /// The next one; pends while there is none.
    pub(super) async fn next(&mut self) -> Question {
        match self.arriving.recv().await {
            Some(question) => question,
            None => std::future::pending().await,
        }
    }
}

async fn answer(path: String, ask: mpsc::Sender<Question>) -> Option<Reply> {
    let page = Page::of(&path)?;
    let (reply, answered) = oneshot::channel();
    // Where the loop has ended the process is ending too: no answer is the right one.
    ask.send(Question { page, reply }).await.ok()?;
    answered.await.ok()
}

/// What a controller says of itself. Keys are added, never renamed.
#[derive(Debug, Serialize)]
pub(super) struct State<'a> {
    version: &'static str,
    /// This process in the lease.
    identity: &'a str,
    /// Whether it leads.
    leads: bool,
    /// Who holds the lease.
    leader: Option<&'a str>,
    /// Kinds of objects that were not listed yet: nothing is decided before.
    missing: Vec<&'static str>,
    /// Writes that are under way or wait.
    writes: usize,
    /// Services of any type.
    services: usize,
    pools: BTreeMap<&'a str, PoolState>,
    routers: BTreeMap<&'a str, RouterState<'a>>,
}

#[derive(Debug, Serialize)]
struct PoolState {
    total: String,
    used: u64,
    free: String,
    resting: u64,
    waiting: u64,
}

#[derive(Debug, Serialize)]
struct RouterState<'a> {
    vrid: u8,
    candidates: Vec<&'a str>,
    /// Who has an address; nobody: it rests.
    addresses: BTreeMap<IpAddr, Vec<String>>,
}

/// What is known beside the world.
#[derive(Debug)]
pub(super) struct Known<'a> {
    pub(super) identity: &'a str,
    pub(super) leads: bool,
    pub(super) leader: Option<&'a str>,
    pub(super) missing: Vec<&'static str>,
    pub(super) writes: usize,
    pub(super) pools: &'a BTreeMap<Arc<str>, PoolReport>,
}

/// The answer to `/readyz`.
pub(super) fn ready(missing: &[&str]) -> Reply {
    if missing.is_empty() {
        return Reply::text(StatusCode::OK, "ready\n");
    }
    let text = format!("the API server has not shown all of {} yet\n", missing.join(", "));
    Reply::text(StatusCode::SERVICE_UNAVAILABLE, text)
}

/// The answer to `/metrics`.
pub(super) fn metrics(page: String) -> Reply {
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Reply { status: StatusCode::OK, content_type, body: page }
}

/// The answer to `/state`.
pub(super) fn state(known: Known<'_>, world: &World) -> Reply {
    let routers = world.routers.iter().map(|(name, router)| {
        let addresses = router.spec.claims.iter().map(|(address, claim)| match claim {
            Claim::Held(holders) => {
                (*address, holders.iter().map(|holder| holder.service.to_string()).collect())
            }
            Claim::Released(_) | Claim::Pinned => (*address, Vec::new()),
        });
        let state = RouterState {
            vrid: router.spec.vrid.get(),
            candidates: router.spec.candidates.iter().map(|c| c.node.as_str()).collect(),
            addresses: addresses.collect(),
        };
        (&**name, state)
    });
    let pools = known.pools.iter().map(|(name, report)| {
        let state = PoolState {
            total: report.total.to_string(),
            used: report.used,
            free: report.free.to_string(),
            resting: report.resting,
            waiting: report.waiting,
        };
        (&**name, state)
    });
    let state = State {
        version: env!("CARGO_PKG_VERSION"),
        identity: known.identity,
        leads: known.leads,
        leader: known.leader,
        missing: known.missing,
        writes: known.writes,
        services: world.services.len(),
        pools: pools.collect(),
        routers: routers.collect(),
    };
    match serde_json::to_string(&state) {
        Ok(text) => Reply::json(StatusCode::OK, text),
        Err(error) => Reply::text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}
