//! What the API server shows, as it changes: one watch for each kind, pruned to own types in the
//! stream, so that no API object is ever kept.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DeserializeGuard;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::delta::{Delta, Seen, Trouble};
use super::follow::Follower;
use super::reading;
use super::resources::{Announcer, IngressPool, IngressPoolStatus, VirtualRouter};
use crate::engine::cluster::world::{Node, PoolObject, Report, RouterObject, Service};
use crate::model::{AddressRange, Labels};

/// Changes that wait for the decider; more wait in the connections.
const QUEUE: usize = 4_096;

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
    /// To Namespaces: uid and labels.
    Namespaces(Delta<(Arc<str>, Labels)>),
    /// To Nodes.
    Nodes(Delta<(Node, Taken)>),
    /// To `Announcer`s.
    Announcers(Delta<Option<Report>>),
    /// To `ServiceCIDR`s.
    ServiceRanges(Delta<Taken>),
    /// A watch failed.
    Trouble(Trouble),
}

impl From<Trouble> for Change {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

/// All watches. Dropping it ends them.
#[derive(Debug)]
pub struct Watches {
    changes: mpsc::Receiver<Change>,
    _tasks: JoinSet<()>,
}

impl Watches {
    /// Starts all watches on this runtime. Everything is listed anew about every `relist`.
    #[must_use]
    pub fn start(client: &Client, relist: Duration) -> Self {
        let (out, changes) = mpsc::channel(QUEUE);
        let mut follower = Starter { client, relist, out, tasks: JoinSet::new() };
        follower.follow("services", by_uid, reading::service, Change::Services);
        follower.follow("ingresspools", by_name, pool, Change::Pools);
        follower.follow("virtualrouters", by_name, router, Change::Routers);
        let namespace = |namespace: core::Namespace| {
            let uid = reading::uid(&namespace.metadata).0;
            (uid, namespace.metadata.labels.unwrap_or_default())
        };
        follower.follow("namespaces", by_name, namespace, Change::Namespaces);
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

struct Starter<'a> {
    client: &'a Client,
    relist: Duration,
    out: mpsc::Sender<Change>,
    tasks: JoinSet<()>,
}

impl Starter<'_> {
    fn follow<K, V>(
        &mut self,
        kind: &'static str,
        key: fn(&ObjectMeta) -> Arc<str>,
        read: impl Fn(K) -> V + Send + Sync + 'static,
        change: fn(Delta<V>) -> Change,
    ) where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
        V: Send + 'static,
    {
        let see = move |object: K| {
            let (key, version) = (key(object.meta()), reading::version(object.meta()));
            Seen { key, version, value: read(object) }
        };
        let api = Api::<K>::all(self.client.clone());
        let (relist, out) = (self.relist, self.out.clone());
        let follower = Follower::new(kind, api, Box::new(see), change, relist, out);
        self.tasks.spawn(follower.run());
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
