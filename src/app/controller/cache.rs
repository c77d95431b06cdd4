//! The world as the watches show it, with our own writes ahead of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::cluster::world::{Node, Report, RouterObject, Service, Settings, World};
use crate::io::kubernetes::resources::IngressPoolStatus;
use crate::io::kubernetes::watch::{Change, Delta, PoolSeen, Seen, Taken, Versions};

/// All that is known of the cluster.
#[derive(Debug, Default)]
pub(super) struct Cache {
    pub(super) world: World,
    /// What the pools' statuses say.
    pub(super) pool_statuses: BTreeMap<Arc<str>, IngressPoolStatus>,
    pools: BTreeMap<Arc<str>, PoolSeen>,
    routers: BTreeMap<Arc<str>, Result<RouterObject, String>>,
    nodes: BTreeMap<Arc<str>, (Node, Taken)>,
    reports: BTreeMap<Arc<str>, Option<Report>>,
    service_ranges: BTreeMap<Arc<str>, Taken>,
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

    /// Whether every kind has been listed: nothing may be decided before.
    pub(super) fn is_complete(&self) -> bool {
        let kinds = &self.versions;
        let all = [
            &kinds.services,
            &kinds.pools,
            &kinds.routers,
            &kinds.namespaces,
            &kinds.nodes,
            &kinds.reports,
            &kinds.service_ranges,
        ];
        all.into_iter().all(Versions::listed)
    }

    /// The version of a `VirtualRouter`, for preconditions.
    pub(super) fn router_version(&self, name: &str) -> Option<u64> {
        self.versions.routers.of(name)
    }

    pub(super) fn take(&mut self, change: Change) {
        let kinds = &mut self.versions;
        match change {
            Change::Services(delta) => kinds.services.take(&mut self.world.services, delta),
            Change::Pools(delta) => {
                kinds.pools.take(&mut self.pools, delta);
                self.show_pools();
            }
            Change::Routers(delta) => {
                kinds.routers.take(&mut self.routers, delta);
                self.show_routers();
            }
            Change::Namespaces(delta) => kinds.namespaces.take(&mut self.world.namespaces, delta),
            Change::Nodes(delta) => {
                kinds.nodes.take(&mut self.nodes, delta);
                self.show_nodes();
            }
            Change::Announcers(delta) => {
                kinds.reports.take(&mut self.reports, delta);
                self.show_nodes();
            }
            Change::ServiceRanges(delta) => {
                kinds.service_ranges.take(&mut self.service_ranges, delta);
                self.show_nodes();
            }
            Change::Trouble { kind, error } => {
                tracing::warn!(kind, error, "a watch failed; it is tried again");
            }
        }
    }

    /// What we wrote is known before the watch shows it.
    pub(super) fn wrote_service(&mut self, seen: Seen<Service>) {
        self.take(Change::Services(Delta::Applied(seen)));
    }

    pub(super) fn wrote_router(&mut self, seen: Seen<Result<RouterObject, String>>) {
        self.take(Change::Routers(Delta::Applied(seen)));
    }

    fn show_pools(&mut self) {
        self.world.pools.clear();
        self.pool_statuses.clear();
        for (name, (pool, status)) in &self.pools {
            self.world.pools.insert(Arc::clone(name), pool.clone());
            self.pool_statuses.insert(Arc::clone(name), status.clone());
        }
    }

    fn show_routers(&mut self) {
        self.world.routers.clear();
        for (name, router) in &self.routers {
            match router {
                Ok(router) => {
                    self.world.routers.insert(Arc::clone(name), router.clone());
                }
                Err(error) => tracing::error!(
                    router = %name, error,
                    "a VirtualRouter can't be read; nothing of it is changed"
                ),
            }
        }
    }

    fn show_nodes(&mut self) {
        self.world.nodes.clear();
        self.world.taken.clear();
        for (name, (node, taken)) in &self.nodes {
            let report = self.reports.get(name).cloned().flatten();
            self.world.nodes.insert(Arc::clone(name), Node { report, ..node.clone() });
            self.world.taken.extend(taken.iter().cloned());
        }
        self.world.taken.extend(self.service_ranges.values().flatten().cloned());
    }
}
