//! Writes on their way: at most one for each object, a bounded number at a time, and a pause
//! before one that failed is tried again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::engine::cluster::decision::{Notice, RouterChange, ServiceChange};
use crate::engine::cluster::world::{RouterObject, Service, Uid};
use crate::io::kubernetes::delta::Seen;
use crate::io::kubernetes::lease::Leadership;
use crate::io::kubernetes::resources::IngressPoolStatus;
use crate::io::kubernetes::watch::PoolSeen;
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
    Pool { name: Arc<str>, version: Option<u64>, status: IngressPoolStatus },
    Announcer { node: Arc<str>, uid: Uid },
}

/// The object that a write is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Object {
    Router(Arc<str>),
    Service(Arc<str>),
    Pool(Arc<str>),
    Announcer(Arc<str>),
}

/// How a write ended.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) object: Object,
    pub(super) written: Written,
    /// What the world is to know, if it was carried out.
    pub(super) news: Option<News>,
}

/// Whether the API server has carried out a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// It has.
    Done,
    /// It has not: the object has changed or gone since the decision.
    Stale,
    /// It has not: nobody is allowed to write `spec.externalIPs`.
    MirrorRefused,
    /// It has said no, or nothing.
    Failed,
}

/// What a write has made.
#[derive(Debug)]
pub(super) enum News {
    /// With what is to be told of it.
    Service(Box<(Seen<Service>, Vec<Notice>)>),
    Router(Box<Seen<Result<RouterObject, String>>>),
    Pool(Box<Seen<PoolSeen>>),
}

type Ended = (Object, Result<Option<News>, WriteError>);

#[derive(Debug)]
pub(super) struct Queue {
    writer: Writer,
    leadership: watch::Receiver<Leadership>,
    running: JoinSet<Ended>,
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

impl Object {
    /// Its kind, as metrics name it.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Router(_) => "virtualrouter",
            Self::Service(_) => "service",
            Self::Pool(_) => "ingresspool",
            Self::Announcer(_) => "announcer",
        }
    }
}

impl Written {
    /// As metrics name it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Stale => "stale",
            Self::MirrorRefused => "refused",
            Self::Failed => "failed",
        }
    }

    const fn of(error: &WriteError) -> Self {
        match error {
            WriteError::Stale => Self::Stale,
            WriteError::MirrorRefused(_) => Self::MirrorRefused,
            WriteError::Deposed | WriteError::Unanswered | WriteError::Refused(_) => Self::Failed,
        }
    }
}

impl Write {
    fn object(&self) -> Object {
        match self {
            Self::Router { name, .. } => Object::Router(Arc::clone(name)),
            Self::Service(both) => Object::Service(Arc::clone(&both.1.uid.0)),
            Self::Pool { name, .. } => Object::Pool(Arc::clone(name)),
            Self::Announcer { node, .. } => Object::Announcer(Arc::clone(node)),
        }
    }

    async fn run(self, writer: &Writer) -> Result<Option<News>, WriteError> {
        match self {
            Self::Router { name, change, version } => {
                let written = writer.router(&name, &change, version).await?;
                Ok(written.map(|seen| News::Router(Box::new(seen))))
            }
            Self::Service(both) => {
                let (service, change) = *both;
                // One write a round: the rest is decided from what the first has made.
                let seen = match mirrored_first(&service, &change) {
                    Some(addresses) => writer.external_ips(&service, &change, addresses).await?,
                    None => writer.service_status(&service, &change).await?,
                };
                Ok(Some(News::Service(Box::new((seen, change.notices)))))
            }
            Self::Pool { name, version, status } => {
                let seen = writer.pool_status(&name, version, &status).await?;
                Ok(Some(News::Pool(Box::new(seen))))
            }
            Self::Announcer { node, uid } => writer.announcer(&node, &uid).await.map(|()| None),
        }
    }
}

/// `spec.externalIPs` where they are to be written before the status: what they gain is in the
/// status first, what they lose leaves them first.
fn mirrored_first<'a>(service: &Service, change: &'a ServiceChange) -> Option<&'a [String]> {
    let addresses = change.external_ips.as_deref()?;
    let has_status = change.ingress.is_some() || change.condition.is_some();
    let gains = addresses.iter().any(|address| !service.external_ips.contains(address));
    (!has_status || !gains).then_some(addresses)
}

impl Queue {
    pub(super) fn new(writer: Writer, leadership: watch::Receiver<Leadership>) -> Self {
        Self {
            writer,
            leadership,
            running: JoinSet::new(),
            waiting: VecDeque::new(),
            busy: BTreeSet::new(),
            failed: BTreeMap::new(),
        }
    }

    /// Whether a write of this object would be taken: it has none already and need not rest.
    pub(super) fn accepts(&self, object: &Object) -> bool {
        let must_rest = self.failed.get(object).is_some_and(|f| f.until > Instant::now());
        !must_rest && !self.busy.contains(object)
    }

    /// Starts a write if its object is accepted; else it is decided again later.
    pub(super) fn push(&mut self, write: Write) {
        let object = write.object();
        if !self.accepts(&object) {
            return;
        }
        self.busy.insert(object);
        // Claims are what everything else waits for.
        if matches!(write, Write::Router { .. }) {
            self.waiting.push_front(write);
        } else {
            self.waiting.push_back(write);
        }
        self.start();
    }

    /// Writes that are under way or wait.
    pub(super) fn len(&self) -> usize {
        self.busy.len()
    }

    fn start(&mut self) {
        while self.running.len() < AT_ONCE {
            let Some(write) = self.waiting.pop_front() else { return };
            let writer = self.writer.clone();
            let object = write.object();
            let leadership = self.leadership.clone();
            self.running.spawn(async move {
                // It may have waited for long, in the queue or in a process that was stopped.
                let leads = leadership.borrow().is_ours();
                let written =
                    if leads { write.run(&writer).await } else { Err(WriteError::Deposed) };
                (object, written)
            });
        }
    }

    /// The next write that has ended; pends while there is none.
    pub(super) async fn finished(&mut self) -> Outcome {
        loop {
            match self.running.join_next().await {
                Some(Ok(ended)) => return self.settle(ended),
                Some(Err(error)) => tracing::error!(%error, "a write has ended by a panic"),
                None => std::future::pending().await,
            }
        }
    }

    /// The next write that has ended already.
    pub(super) fn finished_waiting(&mut self) -> Option<Outcome> {
        self.running.try_join_next()?.ok().map(|ended| self.settle(ended))
    }

    fn settle(&mut self, (object, result): Ended) -> Outcome {
        self.busy.remove(&object);
        self.start();
        match result {
            Ok(news) => {
                self.failed.remove(&object);
                Outcome { object, written: Written::Done, news }
            }
            Err(error) => {
                self.fail(&object, &error);
                Outcome { object, written: Written::of(&error), news: None }
            }
        }
    }

    /// Starts nothing more, and waits for what is under way; each write ends within its patience.
    pub(super) async fn drain(&mut self) {
        self.waiting.clear();
        while self.running.join_next().await.is_some() {}
    }

    fn fail(&mut self, object: &Object, error: &WriteError) {
        let now = Instant::now();
        let before = self.failed.get(object).map(|failure| failure.pause);
        let pause = before.map_or(FIRST_PAUSE, |pause| (pause * 2).min(LONGEST_PAUSE));
        if !matches!(error, WriteError::Stale) {
            tracing::warn!(?object, %error, "a write failed; it is tried again in {pause:?}");
        }
        // What was not tried again for so long has gone.
        self.failed.retain(|_, failure| now < failure.until + LONGEST_PAUSE);
        self.failed.insert(object.clone(), Failure { pause, until: now + pause });
    }

    /// How long until an object that failed may be tried again.
    pub(super) fn pause(&self) -> Option<Duration> {
        let now = Instant::now();
        let soonest = self.failed.values().map(|failure| failure.until).filter(|at| *at > now);
        soonest.min().map(|at| at - now)
    }
}
