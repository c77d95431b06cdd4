//! Writes on their way: at most one for each object, a bounded number at a time, and a pause
//! before one that failed is tried again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::engine::cluster::decision::{Notice, RouterChange, ServiceChange};
use crate::engine::cluster::world::{RouterObject, Service};
use crate::io::kubernetes::resources::IngressPoolStatus;
use crate::io::kubernetes::watch::Seen;
use crate::io::kubernetes::write::{WriteError, Writer};

/// Writes at a time. The API server does one in about 2 ms of its processor.
const AT_ONCE: usize = 32;
/// After a failure, doubled with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// One object's write.
#[derive(Clone, Debug)]
pub(super) enum Write {
    Router { name: Arc<str>, change: RouterChange, version: Option<u64> },
    Service(Box<(Service, ServiceChange)>),
    Pool { name: Arc<str>, status: IngressPoolStatus },
}

/// The object that a write is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Object {
    Router(Arc<str>),
    Service(Arc<str>),
    Pool(Arc<str>),
}

/// What the world is to know of a write.
#[derive(Debug)]
pub(super) enum Outcome {
    /// With what is to be told of it.
    Service(Box<(Seen<Service>, Vec<Notice>)>),
    Router(Seen<Result<RouterObject, String>>),
    Nothing,
}

#[derive(Debug)]
pub(super) struct Queue {
    writer: Writer,
    running: JoinSet<(Object, Result<Outcome, WriteError>)>,
    waiting: VecDeque<Write>,
    /// Objects of both.
    busy: BTreeSet<Object>,
    failed: BTreeMap<Object, Failure>,
}

#[derive(Clone, Copy, Debug)]
struct Failure {
    pause: Duration,
    until: Instant,
}

impl Write {
    fn object(&self) -> Object {
        match self {
            Self::Router { name, .. } => Object::Router(Arc::clone(name)),
            Self::Service(both) => Object::Service(Arc::clone(&both.1.uid.0)),
            Self::Pool { name, .. } => Object::Pool(Arc::clone(name)),
        }
    }

    async fn run(self, writer: &Writer) -> Result<Outcome, WriteError> {
        match self {
            Self::Router { name, change, version } => {
                let written = writer.router(&name, &change, version).await?;
                Ok(written.map_or(Outcome::Nothing, Outcome::Router))
            }
            Self::Service(both) => {
                let (service, change) = *both;
                let has_status = change.ingress.is_some() || change.condition.is_some();
                let is_loss = change.ingress.as_ref().is_some_and(Vec::is_empty);
                let seen = match &change.external_ips {
                    // One write a round: the rest is decided from what the first has made.
                    Some(addresses) if is_loss || !has_status => {
                        writer.external_ips(&service, &change, addresses).await?
                    }
                    _ => writer.service_status(&service, &change).await?,
                };
                Ok(Outcome::Service(Box::new((seen, change.notices))))
            }
            Self::Pool { name, status } => {
                writer.pool_status(&name, &status).await.map(|()| Outcome::Nothing)
            }
        }
    }
}

impl Queue {
    pub(super) fn new(writer: Writer) -> Self {
        Self {
            writer,
            running: JoinSet::new(),
            waiting: VecDeque::new(),
            busy: BTreeSet::new(),
            failed: BTreeMap::new(),
        }
    }

    /// Starts a write, unless its object has one already or must rest: it is decided again then.
    pub(super) fn push(&mut self, write: Write) {
        let object = write.object();
        let must_rest = self.failed.get(&object).is_some_and(|f| f.until > Instant::now());
        if must_rest || !self.busy.insert(object) {
            return;
        }
        // Claims are what everything else waits for.
        if matches!(write, Write::Router { .. }) {
            self.waiting.push_front(write);
        } else {
            self.waiting.push_back(write);
        }
        self.start();
    }

    fn start(&mut self) {
        while self.running.len() < AT_ONCE {
            let Some(write) = self.waiting.pop_front() else { return };
            let writer = self.writer.clone();
            let object = write.object();
            self.running.spawn(async move { (object, write.run(&writer).await) });
        }
    }

    /// The next write that has ended; pends while there is none.
    pub(super) async fn finished(&mut self) -> Outcome {
        let ended = loop {
            match self.running.join_next().await {
                Some(Ok(ended)) => break ended,
                Some(Err(error)) => tracing::error!(%error, "a write has ended by a panic"),
                None => std::future::pending().await,
            }
        };
        let (object, result) = ended;
        self.busy.remove(&object);
        self.start();
        match result {
            Ok(outcome) => {
                self.failed.remove(&object);
                outcome
            }
            Err(error) => {
                self.fail(object, &error);
                Outcome::Nothing
            }
        }
    }

    /// Starts nothing more, and waits for what is under way; each write ends within its patience.
    pub(super) async fn drain(&mut self) {
        self.waiting.clear();
        while self.running.join_next().await.is_some() {}
    }

    fn fail(&mut self, object: Object, error: &WriteError) {
        let before = self.failed.get(&object).map(|failure| failure.pause);
        let pause = before.map_or(FIRST_PAUSE, |pause| (pause * 2).min(LONGEST_PAUSE));
        if !matches!(error, WriteError::Stale) {
            tracing::warn!(?object, %error, "a write failed; it is tried again in {pause:?}");
        }
        self.failed.insert(object, Failure { pause, until: Instant::now() + pause });
    }

    /// How long until an object that failed may be tried again.
    pub(super) fn pause(&self) -> Option<Duration> {
        let now = Instant::now();
        let soonest = self.failed.values().map(|failure| failure.until).filter(|at| *at > now);
        soonest.min().map(|at| at - now)
    }
}
