//! What the API server shows, as it changes: one watch for each kind, pruned to own types in the
//! stream, so that no API object is ever kept.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use futures_util::TryStreamExt;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DeserializeGuard;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::reading;
use super::resources::{Announcer, IngressPool, IngressPoolStatus, VirtualRouter};
use crate::engine::cluster::world::{Node, PoolObject, Report, RouterObject, Service};
use crate::model::{AddressRange, Labels};

/// The server ends a watch after so many seconds; it starts again by itself. A connection that
/// died without a word is noticed 5 s later.
const WATCH_SECONDS: u32 = 25;
/// Changes that wait for the decider; more wait in the connections.
const QUEUE: usize = 4_096;

/// One version of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen<V> {
    /// What it is found by: the uid of a Service, the name of anything else.
    pub key: Arc<str>,
    /// Higher ones are later.
    pub version: u64,
    /// What it says.
    pub value: V,
}

/// What happened to objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta<V> {
    /// These are all that there are.
    All(Vec<Seen<V>>),
    /// This one is new or has changed.
    Applied(Seen<V>),
    /// This one is gone since this version.
    Deleted {
        /// What it was found by.
        key: Arc<str>,
        /// Its last version.
        version: u64,
    },
}

/// A pool, and what its status says.
pub type PoolSeen = (PoolObject, IngressPoolStatus);
/// Ranges that something takes, and whose they are.
pub type Taken = Vec<(AddressRange, String)>;

/// Something happened.
#[derive(Clone, Debug)]
pub enum Change {
    /// To Services, found by uid.
    Services(Delta<Service>),
    /// To `IngressPool`s.
    Pools(Delta<PoolSeen>),
    /// To `VirtualRouter`s; what can't be read, with the reason.
    Routers(Delta<Result<RouterObject, String>>),
    /// To Namespaces.
    Namespaces(Delta<Labels>),
    /// To Nodes.
    Nodes(Delta<(Node, Taken)>),
    /// To `Announcer`s.
    Announcers(Delta<Option<Report>>),
    /// To `ServiceCIDR`s.
    ServiceRanges(Delta<Taken>),
    /// A watch of these objects failed; it goes on by itself.
    Trouble {
        /// The kind, in the plural.
        kind: &'static str,
        /// What went wrong.
        error: String,
    },
}

/// All watches. Dropping it ends them.
#[derive(Debug)]
pub struct Watches {
    changes: mpsc::Receiver<Change>,
    _tasks: JoinSet<()>,
}

impl Watches {
    /// Starts all watches on this runtime.
    #[must_use]
    pub fn start(client: &Client) -> Self {
        let (out, changes) = mpsc::channel(QUEUE);
        let mut follower = Follower { client, out, tasks: JoinSet::new() };
        follower.follow("services", by_uid, reading::service, Change::Services);
        follower.follow("ingresspools", by_name, pool, Change::Pools);
        follower.follow("virtualrouters", by_name, router, Change::Routers);
        let labels = |namespace: core::Namespace| namespace.metadata.labels.unwrap_or_default();
        follower.follow("namespaces", by_name, labels, Change::Namespaces);
        let node = |node: core::Node| (reading::node(&node), reading::taken_by_node(&node));
        follower.follow("nodes", by_name, node, Change::Nodes);
        let report = |announcer: Announcer| reading::report(&announcer);
        follower.follow("announcers", by_name, report, Change::Announcers);
        let ranges = |cidr: ServiceCIDR| reading::taken_by_services(&cidr);
        follower.follow("servicecidrs", by_name, ranges, Change::ServiceRanges);
        Self { changes, _tasks: follower.tasks }
    }

    /// The next change. They never end.
    pub async fn next(&mut self) -> Option<Change> {
        self.changes.recv().await
    }

    /// The next change that has arrived already.
    pub fn next_waiting(&mut self) -> Option<Change> {
        self.changes.try_recv().ok()
    }
}

struct Follower<'a> {
    client: &'a Client,
    out: mpsc::Sender<Change>,
    tasks: JoinSet<()>,
}

impl Follower<'_> {
    fn follow<K, V>(
        &mut self,
        kind: &'static str,
        key: fn(&ObjectMeta) -> Arc<str>,
        read: impl Fn(K) -> V + Send + 'static,
        change: fn(Delta<V>) -> Change,
    ) where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
        V: Send + 'static,
    {
        let stream =
            watcher(Api::<K>::all(self.client.clone()), Config::default().timeout(WATCH_SECONDS))
                .default_backoff();
        let out = self.out.clone();
        let see = move |object: K| {
            let (key, version) = (key(object.meta()), reading::version(object.meta()));
            Seen { key, version, value: read(object) }
        };
        self.tasks.spawn(async move {
            let mut stream = Box::pin(stream);
            let mut listed = Vec::new();
            loop {
                let told = match stream.try_next().await {
                    Ok(Some(Event::Init)) => {
                        listed.clear();
                        continue;
                    }
                    Ok(Some(Event::InitApply(object))) => {
                        listed.push(see(object));
                        continue;
                    }
                    Ok(Some(Event::InitDone)) => change(Delta::All(std::mem::take(&mut listed))),
                    Ok(Some(Event::Apply(object))) => change(Delta::Applied(see(object))),
                    Ok(Some(Event::Delete(object))) => {
                        let Seen { key, version, .. } = see(object);
                        change(Delta::Deleted { key, version })
                    }
                    Ok(None) => return,
                    Err(error) => Change::Trouble { kind, error: error.to_string() },
                };
                if out.send(told).await.is_err() {
                    return;
                }
            }
        });
    }
}

fn by_name(meta: &ObjectMeta) -> Arc<str> {
    reading::name(meta)
}

fn by_uid(meta: &ObjectMeta) -> Arc<str> {
    reading::uid(meta).0
}

fn pool(guard: DeserializeGuard<IngressPool>) -> PoolSeen {
    match guard.0 {
        Ok(object) => (reading::pool_object(&object), object.status.unwrap_or_default()),
        Err(invalid) => {
            let empty = IngressPool {
                metadata: invalid.metadata,
                ..IngressPool::new("", Default::default())
            };
            let pool = Err(invalid.error);
            (PoolObject { pool, ..reading::pool_object(&empty) }, IngressPoolStatus::default())
        }
    }
}

fn router(guard: DeserializeGuard<VirtualRouter>) -> Result<RouterObject, String> {
    match guard.0 {
        Ok(object) => reading::router_object(object).map_err(|error| error.to_string()),
        Err(invalid) => Err(invalid.error),
    }
}

/// Versions of what a map of objects holds. Our own writes are put in ahead of the watch, whose
/// older news must not undo them.
#[derive(Clone, Debug, Default)]
pub struct Versions {
    known: BTreeMap<Arc<str>, u64>,
    listed: bool,
}

impl Versions {
    /// Whether everything has been listed once.
    #[must_use]
    pub fn listed(&self) -> bool {
        self.listed
    }

    /// The version held of an object.
    #[must_use]
    pub fn of(&self, key: &str) -> Option<u64> {
        self.known.get(key).copied()
    }

    /// Notes an object's version; false: a later one is held already.
    fn note(&mut self, key: &Arc<str>, version: u64) -> bool {
        let is_news = self.of(key).is_none_or(|held| held <= version);
        if is_news {
            self.known.insert(Arc::clone(key), version);
        }
        is_news
    }

    /// Brings `held` up to date. A list that shows an older version of an object than is held is
    /// a list of before our own write; what it does not show is gone.
    pub fn take<K: From<Arc<str>> + Ord, V>(&mut self, held: &mut BTreeMap<K, V>, delta: Delta<V>) {
        match delta {
            Delta::All(all) => {
                let mut fresh = BTreeMap::new();
                let mut known = BTreeMap::new();
                for seen in all {
                    let ahead = self.of(&seen.key).filter(|mine| *mine > seen.version);
                    known.insert(Arc::clone(&seen.key), ahead.unwrap_or(seen.version));
                    let key = K::from(seen.key);
                    let value = ahead.and_then(|_| held.remove(&key)).unwrap_or(seen.value);
                    fresh.insert(key, value);
                }
                *held = fresh;
                self.known = known;
                self.listed = true;
            }
            Delta::Applied(seen) => {
                if self.note(&seen.key, seen.version) {
                    held.insert(K::from(seen.key), seen.value);
                }
            }
            Delta::Deleted { key, version } => {
                if self.of(&key).is_none_or(|mine| mine <= version) {
                    self.known.remove(&key);
                    held.remove(&K::from(key));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(key: &str, version: u64) -> Seen<u64> {
        Seen { key: key.into(), version, value: version }
    }

    #[test]
    fn older_news_does_not_undo_what_was_written() {
        let (mut versions, mut held) = (Versions::default(), BTreeMap::<Arc<str>, u64>::new());
        versions.take(&mut held, Delta::All(vec![seen("a", 5), seen("b", 6)]));
        versions.take(&mut held, Delta::Applied(seen("a", 9)));
        versions.take(&mut held, Delta::Applied(seen("a", 7)));
        versions.take(&mut held, Delta::Deleted { key: "a".into(), version: 8 });
        assert_eq!(held.get("a"), Some(&9));
        versions.take(&mut held, Delta::All(vec![seen("a", 7)]));
        assert_eq!(
            held,
            BTreeMap::from([(Arc::<str>::from("a"), 9)]),
            "b is gone, a stays as written"
        );
        versions.take(&mut held, Delta::Deleted { key: "a".into(), version: 10 });
        assert!(held.is_empty() && versions.listed());
    }
}
