//! All objects of a kind, and then each change of them: list, watch, and from time to time list
//! again.
//!
//! kube's watcher hides how far a list has come, and never lists again while a watch says nothing.
//! After etcd was restored from a backup versions begin anew, lower; the API server accepts a watch
//! from a version of the future, and is silent until that is reached. Only a list tells.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::delta::{Delta, Listing, Seen, Trouble};
use crate::io::clock;

/// The server ends a watch after so long; the next one goes on where it ended.
const WATCH: Duration = Duration::from_secs(25);
/// A connection that is silent for so much longer has died without a word.
const GRACE: Duration = Duration::from_secs(5);
/// Objects that one answer lists.
const PAGE: u32 = 500;
/// After a failure, doubled with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(800);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Nobody listens any more.
struct Unheard;

/// How a watch ended.
enum End {
    /// As it should.
    Over,
    /// The server does not know the version that it was to begin with.
    Expired,
    Failed(String),
}

/// Follows all objects of a kind, and tells of it in messages `C`.
pub(super) struct Follower<K, V, C> {
    kind: &'static str,
    api: Api<K>,
    /// A field selector; empty: all objects.
    fields: String,
    /// What is kept of an object.
    see: Box<dyn Fn(K) -> Seen<V> + Send + Sync>,
    change: fn(Delta<V>) -> C,
    /// About how often everything is listed.
    relist: Duration,
    out: mpsc::Sender<C>,
    /// All up to this version is told.
    version: Arc<str>,
    /// After the next failure.
    pause: Duration,
}

fn number(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}

/// Between 0.8 and 1.2 times as long, so that not all kinds and controllers ask at once.
fn about(time: Duration) -> Duration {
    let chance = clock::since_boot().since_origin().subsec_nanos() % 1_000;
    time * (800 + chance * 2 / 5) / 1_000
}

impl<K, V, C> Follower<K, V, C>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    V: Send + 'static,
    C: From<Trouble> + Send + 'static,
{
    /// Keeps what `see` says of each object, and tells it as `change` says.
    pub(super) fn new(
        kind: &'static str,
        api: Api<K>,
        see: Box<dyn Fn(K) -> Seen<V> + Send + Sync>,
        change: fn(Delta<V>) -> C,
        relist: Duration,
        out: mpsc::Sender<C>,
    ) -> Self {
        Self {
            kind,
            api,
            fields: String::new(),
            see,
            change,
            relist,
            out,
            version: "".into(),
            pause: FIRST_PAUSE,
        }
    }

    /// Follows the object of this name alone.
    pub(super) fn only(self, name: &str) -> Self {
        Self { fields: format!("metadata.name={name}"), ..self }
    }

    /// Tells everything, until nobody listens.
    pub(super) async fn run(mut self) {
        while self.round().await.is_ok() {}
    }

    /// One list, and the changes until the next one is due.
    async fn round(&mut self) -> Result<(), Unheard> {
        match timeout(WATCH, self.list()).await {
            Ok(Ok((objects, version))) => {
                let restored = number(&version) < number(&self.version);
                if restored {
                    let (now, before) = (&*version, &*self.version);
                    tracing::warn!(
                        kind = self.kind,
                        now,
                        before,
                        "the cluster was restored from a backup: what is listed now replaces what was known"
                    );
                }
                self.version = Arc::clone(&version);
                self.pause = FIRST_PAUSE;
                let version = number(&version);
                self.tell(Delta::All(Listing { objects, version, restored })).await?;
                self.watch_until(Instant::now() + about(self.relist)).await
            }
            Ok(Err(error)) => self.trouble(format!("they can't be listed: {error}")).await,
            Err(_) => self.trouble("they can't be listed: no answer".to_owned()).await,
        }
    }

    async fn list(&self) -> kube::Result<(Vec<Seen<V>>, Arc<str>)> {
        let mut params = ListParams::default().fields(&self.fields).limit(PAGE);
        let mut objects = Vec::new();
        loop {
            let page = self.api.list(&params).await?;
            objects.extend(page.items.into_iter().map(&self.see));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => {
                    let version = page.metadata.resource_version.unwrap_or_default();
                    return Ok((objects, version.into()));
                }
            }
        }
    }

    /// Tells changes until about then.
    async fn watch_until(&mut self, due: Instant) -> Result<(), Unheard> {
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            match self.watch(left.min(WATCH)).await? {
                End::Over => {}
                End::Expired => return Ok(()),
                End::Failed(error) => self.trouble(error).await?,
            }
        }
    }

    /// Tells changes for so long.
    async fn watch(&mut self, time: Duration) -> Result<End, Unheard> {
        let (begin, patience) = (Instant::now(), time + GRACE);
        let seconds = u32::try_from(time.as_secs()).unwrap_or(u32::MAX).max(1);
        let params = WatchParams::default().fields(&self.fields).timeout(seconds);
        let opened = timeout(patience, self.api.watch(&params, &self.version)).await;
        let mut stream = match opened {
            Ok(Ok(stream)) => Box::pin(stream),
            Ok(Err(kube::Error::Api(status))) if status.code == 410 => return Ok(End::Expired),
            Ok(Err(error)) => return Ok(End::Failed(error.to_string())),
            Err(_) => return Ok(End::Failed("no answer".to_owned())),
        };
        loop {
            let event = match timeout(patience, stream.try_next()).await {
                Ok(Ok(Some(event))) => event,
                Ok(Ok(None)) if begin.elapsed() < FIRST_PAUSE => {
                    return Ok(End::Failed("the server ended the watch at once".to_owned()));
                }
                Ok(Ok(None)) | Err(_) => return Ok(End::Over),
                Ok(Err(error)) => return Ok(End::Failed(error.to_string())),
            };
            self.pause = FIRST_PAUSE;
            let delta = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    self.note(object.meta().resource_version.as_deref());
                    Delta::Applied((self.see)(object))
                }
                WatchEvent::Deleted(object) => {
                    self.note(object.meta().resource_version.as_deref());
                    let Seen { key, version, .. } = (self.see)(object);
                    Delta::Deleted { key, version }
                }
                WatchEvent::Bookmark(mark) => {
                    self.note(Some(&mark.metadata.resource_version));
                    continue;
                }
                WatchEvent::Error(status) if status.code == 410 => return Ok(End::Expired),
                WatchEvent::Error(status) => return Ok(End::Failed(status.message)),
            };
            self.tell(delta).await?;
        }
    }

    fn note(&mut self, version: Option<&str>) {
        if let Some(version) = version {
            self.version = version.into();
        }
    }

    async fn trouble(&mut self, error: String) -> Result<(), Unheard> {
        self.out.send(Trouble { kind: self.kind, error }.into()).await.map_err(|_| Unheard)?;
        sleep(about(self.pause)).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }

    async fn tell(&self, delta: Delta<V>) -> Result<(), Unheard> {
        self.out.send((self.change)(delta)).await.map_err(|_| Unheard)
    }
}
