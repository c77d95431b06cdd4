//! The world as the watches show it, with our own writes ahead of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::cluster::contest::Contests;
use crate::engine::cluster::decision::ServiceChange;
use crate::engine::cluster::world::{Node, Report, RouterObject, Service, Settings, Uid, World};
use crate::engine::time::Instant;
use crate::io::clock;
use crate::io::kubernetes::delta::{Delta, Seen, Versions};
use crate::io::kubernetes::resources::IngressPoolStatus;
use crate::io::kubernetes::watch::{Change, PoolSeen, Taken};

/// Its uid names the cluster.
const SYSTEM_NAMESPACE: &str = "kube-system";

/// All that is known of the cluster.
#[derive(Debug, Default)]
pub(super) struct Cache {
    pub(super) world: World,
    /// What the pools' statuses say.
    pub(super) pool_statuses: BTreeMap<Arc<str>, IngressPoolStatus>,
    /// By node; an agent may be seen before its node is, and before it has said anything.
    reports: BTreeMap<Arc<str>, Option<Report>>,
    taken_by_nodes: BTreeMap<Arc<str>, Taken>,
    taken_by_services: BTreeMap<Arc<str>, Taken>,
    /// Services of type LoadBalancer without an address, since they were seen so.
    lacking: BTreeMap<Uid, Instant>,
    /// Whether others fight for what we publish.
    contests: Contests,
    versions: Kinds,
}

/// How far each kind is known.
#[derive(Debug, Default)]
struct Kinds {
    services: Versions,
    pools: Versions,
    routers: Versions,
    namespaces: Versions,
    nodes: Versions,
    reports: Versions,
    service_ranges: Versions,
}

impl Cache {
    pub(super) fn new(settings: Settings) -> Self {
        Self { world: World { settings, ..World::default() }, ..Self::default() }
    }

    /// The kinds that were not listed yet: nothing may be decided before.
    pub(super) fn missing(&self) -> Vec<&'static str> {
        let kinds = &self.versions;
        let all = [
            ("services", &kinds.services),
            ("ingresspools", &kinds.pools),
            ("virtualrouters", &kinds.routers),
            ("namespaces", &kinds.namespaces),
            ("nodes", &kinds.nodes),
            ("announcers", &kinds.reports),
            ("servicecidrs", &kinds.service_ranges),
        ];
        let unlisted = all.into_iter().filter(|(_, kind)| !kind.listed()).map(|(name, _)| name);
        let unguarded = self.world.protection.is_none().then_some("validatingadmissionpolicies");
        unlisted.chain(unguarded).collect()
    }

    /// The version of a `VirtualRouter`, for preconditions.
    pub(super) fn router_version(&self, name: &str) -> Option<u64> {
        self.versions.routers.of(name)
    }

    /// The version of an `IngressPool`, for preconditions.
    pub(super) fn pool_version(&self, name: &str) -> Option<u64> {
        self.versions.pools.of(name)
    }

    pub(super) fn take(&mut self, change: Change) {
        let world = &mut self.world;
        let kinds = &mut self.versions;
        match change {
            Change::Services(delta) => kinds.services.take(delta, |uid, service| {
                let lacks = |service: &Service| service.load_balancer && service.ingress.is_empty();
                let uid = Uid(uid);
                let service = service.map(|service| {
                    let contested = self.contests.see(&uid, &service, clock::since_boot());
                    Service { contested, ..service }
                });
                if service.is_none() {
                    self.contests.forget(&uid);
                }
                if service.as_ref().is_some_and(lacks) {
                    self.lacking.entry(uid.clone()).or_insert_with(clock::since_boot);
                } else {
                    self.lacking.remove(&uid);
                }
                put(&mut world.services, uid, service);
            }),
            Change::Pools(delta) => kinds.pools.take(delta, |name, seen| {
                let (pool, status) = seen.unzip();
                put(&mut world.pools, Arc::clone(&name), pool);
                put(&mut self.pool_statuses, name, status);
            }),
            Change::Routers(delta) => kinds.routers.take(delta, |name, router| {
                let readable = router.and_then(|router| readable(&name, router));
                put(&mut world.routers, name, readable);
            }),
            Change::Namespaces(delta) => kinds.namespaces.take(delta, |name, seen| {
                let (uid, labels) = seen.unzip();
                if let (Some(uid), SYSTEM_NAMESPACE) = (uid, &*name) {
                    world.settings.cluster = uid;
                }
                put(&mut world.namespaces, name, labels);
            }),
            Change::Nodes(delta) => {
                kinds.nodes.take(delta, |name, seen| {
                    let (node, taken) = seen.unzip();
                    let report = self.reports.get(&name).cloned();
                    let has_announcer = report.is_some();
                    let node =
                        node.map(|node| Node { has_announcer, report: report.flatten(), ..node });
                    put(&mut world.nodes, Arc::clone(&name), node);
                    put(&mut self.taken_by_nodes, name, taken);
                });
                self.show_taken();
            }
            Change::Announcers(delta) => kinds.reports.take(delta, |name, report| {
                if let Some(node) = world.nodes.get_mut(&name) {
                    node.has_announcer = report.is_some();
                    node.report = report.clone().flatten();
                }
                put(&mut self.reports, name, report);
            }),
            Change::ServiceRanges(delta) => {
                kinds
                    .service_ranges
                    .take(delta, |name, taken| put(&mut self.taken_by_services, name, taken));
                self.show_taken();
            }
            Change::Trouble(_) => {}
        }
    }

    /// Since when a Service has no address.
    pub(super) fn lacking_since(&self, uid: &Uid) -> Option<Instant> {
        self.lacking.get(uid).copied()
    }

    /// A publication was sent.
    pub(super) fn publishes(&mut self, change: &ServiceChange) {
        if let Some(ingress) = &change.ingress {
            self.contests.send(&change.uid, ingress);
        }
    }

    /// Services that were left to others for long are tried again.
    pub(super) fn try_contested_again(&mut self) {
        for uid in self.contests.ended(clock::since_boot()) {
            if let Some(service) = self.world.services.get_mut(&uid) {
                service.contested = false;
            }
        }
    }

    /// Its numbers are not written again because the watch is late.
    pub(super) fn wrote_pool(&mut self, seen: Seen<PoolSeen>) {
        self.take(Change::Pools(Delta::Applied(seen)));
    }

    /// What we wrote is known before the watch shows it.
    pub(super) fn wrote_service(&mut self, seen: Seen<Service>) {
        self.take(Change::Services(Delta::Applied(seen)));
    }

    pub(super) fn wrote_router(&mut self, seen: Seen<Result<RouterObject, String>>) {
        self.take(Change::Routers(Delta::Applied(seen)));
    }

    fn show_taken(&mut self) {
        let all = self.taken_by_nodes.values().chain(self.taken_by_services.values());
        self.world.taken = all.flatten().cloned().collect();
    }
}

fn put<K: Ord, V>(held: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => drop(held.insert(key, value)),
        None => drop(held.remove(&key)),
    }
}

fn readable(name: &str, router: Result<RouterObject, String>) -> Option<RouterObject> {
    let told = |error: &String| {
        tracing::error!(
            router = name,
            error,
            "a VirtualRouter can't be read; nothing of it is changed"
        );
    };
    router.inspect_err(told).ok()
}
