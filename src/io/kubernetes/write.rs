//! Writes, each with the state that it was decided from as its precondition.

use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use k8s_openapi::jiff;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::delta::Seen;
use super::reading;
use super::resources::{
    ALLOCATED, AddressEntry, AddressHolder, AddressRelease, Announcer, AnnouncerSpec,
    CandidateNode, FIELD_MANAGER, GuestEntry, GuestState, IngressPool, IngressPoolStatus, MOVE_TO,
    VirtualRouter, VirtualRouterSpec,
};
use super::watch::PoolSeen;
use crate::engine::cluster::decision::{RouterChange, ServiceChange};
use crate::engine::cluster::world::{
    Claim, Condition, Guest, RouterObject, RouterSpec, Service, ServiceKey, Timestamp, Uid,
};

/// No write is waited for longer: its answer would tell of a past that others may have changed.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a write did not happen, or is not known to have happened.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The object has changed or gone since: decide anew.
    #[error("it has changed meanwhile")]
    Stale,
    /// No answer in time: it may have happened.
    #[error("no answer from the API server within 5 s")]
    Unanswered,
    /// It was not sent: another may lead by now.
    #[error("the lease is over")]
    Deposed,
    /// Writing `spec.externalIPs` is forbidden in this cluster.
    #[error("spec.externalIPs may not be written: {0}")]
    MirrorRefused(String),
    /// The API server said no.
    #[error(transparent)]
    Refused(#[from] kube::Error),
}

/// 404, 409 and 422 mean that the precondition failed (kubernetes.md: 422 for a JSON patch's test,
/// and for an ingress of what is no LoadBalancer any more).
async fn answer<T>(write: impl Future<Output = kube::Result<T>>) -> Result<T, WriteError> {
    match timeout(PATIENCE, write).await {
        Ok(Ok(object)) => Ok(object),
        Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409 | 422) => {
            tracing::debug!(%status, "a write found its object changed");
            Err(WriteError::Stale)
        }
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(WriteError::Unanswered),
    }
}

/// Writes for the leader.
#[derive(Clone)]
pub struct Writer {
    client: Client,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

impl Writer {
    /// A writer through this client.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Makes, changes or deletes a `VirtualRouter`; gives what it is now, `None`: gone.
    /// `version`, the one that the decision saw, guards a deletion.
    ///
    /// # Errors
    /// [`WriteError`].
    pub async fn router(
        &self,
        name: &str,
        change: &RouterChange,
        version: Option<u64>,
    ) -> Result<Option<Seen<Result<RouterObject, String>>>, WriteError> {
        let api = Api::<VirtualRouter>::all(self.client.clone());
        let written = match change {
            RouterChange::Create(spec) => {
                let params = PostParams { field_manager: manager(), ..PostParams::default() };
                answer(api.create(&params, &VirtualRouter::new(name, router_spec(spec)))).await?
            }
            RouterChange::Update { uid, generation, spec, answered } => {
                let mut patch = vec![
                    json!({"op": "test", "path": "/metadata/uid", "value": &*uid.0}),
                    json!({"op": "test", "path": "/metadata/generation", "value": generation}),
                    json!({"op": "replace", "path": "/spec", "value": router_spec(spec)}),
                ];
                if let Some(wish) = answered {
                    let path = format!("/metadata/annotations/{}", MOVE_TO.replace('/', "~1"));
                    patch.push(json!({"op": "test", "path": path, "value": &**wish}));
                    patch.push(json!({"op": "remove", "path": path}));
                }
                let patch =
                    serde_json::from_value(Value::Array(patch)).map_err(kube::Error::SerdeError)?;
                answer(api.patch(name, &patched(), &Patch::Json::<()>(patch))).await?
            }
            RouterChange::Delete { uid, .. } => {
                let preconditions = Preconditions {
                    uid: Some(uid.to_string()),
                    resource_version: version.map(|version| version.to_string()),
                };
                let params = DeleteParams::default().preconditions(preconditions);
                answer(api.delete(name, &params)).await?;
                return Ok(None);
            }
        };
        Ok(Some(Seen {
            key: name.into(),
            version: reading::version(&written.metadata),
            value: reading::router_object(written).map_err(|error| error.to_string()),
        }))
    }

    /// Writes a Service's status as decided: ingress and our condition in one patch.
    ///
    /// # Errors
    /// [`WriteError`].
    pub async fn service_status(
        &self,
        service: &Service,
        change: &ServiceChange,
    ) -> Result<Seen<Service>, WriteError> {
        let mut status = serde_json::Map::new();
        if let Some(ingress) = &change.ingress {
            let entries: Vec<Value> = ingress
                .iter()
                .map(|entry| match (&entry.ip, &entry.hostname) {
                    (Some(ip), None) => json!({"ip": ip, "ipMode": "VIP"}),
                    (ip, hostname) => json!({"ip": ip, "hostname": hostname}),
                })
                .collect();
            status.insert("loadBalancer".to_owned(), json!({"ingress": entries}));
        }
        match &change.condition {
            Some(Some(condition)) => {
                let condition = service_condition(condition, service.condition.as_ref());
                status.insert("conditions".to_owned(), json!([condition]));
            }
            Some(None) => {
                let gone = json!([{"type": ALLOCATED, "$patch": "delete"}]);
                status.insert("conditions".to_owned(), gone);
            }
            None => {}
        }
        let patch = json!({
            "metadata": {"uid": &*change.uid.0, "resourceVersion": &*service.resource_version},
            "status": status,
        });
        let api = self.services(&service.key);
        let patch = Patch::Strategic(patch);
        seen(answer(api.patch_status(&service.key.name, &patched(), &patch)).await?)
    }

    /// Writes a Service's `spec.externalIPs`.
    ///
    /// # Errors
    /// [`WriteError`].
    pub async fn external_ips(
        &self,
        service: &Service,
        change: &ServiceChange,
        addresses: &[String],
    ) -> Result<Seen<Service>, WriteError> {
        let patch = json!({
            "metadata": {"uid": &*change.uid.0, "resourceVersion": &*service.resource_version},
            "spec": {"externalIPs": addresses},
        });
        let api = self.services(&service.key);
        let patch = Patch::Merge(patch);
        match answer(api.patch(&service.key.name, &patched(), &patch)).await {
            Err(WriteError::Refused(kube::Error::Api(status))) if status.code == 403 => {
                Err(WriteError::MirrorRefused(status.message.clone()))
            }
            other => seen(other?),
        }
    }

    fn services(&self, key: &ServiceKey) -> Api<core::Service> {
        Api::namespaced(self.client.clone(), &key.namespace)
    }

    /// Makes the `Announcer` that the agent of a node reports in; it goes with its Node.
    ///
    /// # Errors
    /// [`WriteError`].
    pub async fn announcer(&self, node: &str, uid: &Uid) -> Result<(), WriteError> {
        let api = Api::<Announcer>::all(self.client.clone());
        let params = PostParams { field_manager: manager(), ..PostParams::default() };
        let mut announcer = Announcer::new(node, AnnouncerSpec::default());
        announcer.metadata.owner_references = Some(vec![OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: node.to_owned(),
            uid: uid.to_string(),
            ..OwnerReference::default()
        }]);
        answer(api.create(&params, &announcer)).await.map(drop)
    }

    /// Writes a pool's status, if the pool is still of this version.
    ///
    /// # Errors
    /// [`WriteError`].
    pub async fn pool_status(
        &self,
        name: &str,
        version: Option<u64>,
        status: &IngressPoolStatus,
    ) -> Result<Seen<PoolSeen>, WriteError> {
        let api = Api::<IngressPool>::all(self.client.clone());
        let version = version.map(|version| version.to_string());
        let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
        let written = answer(api.patch_status(name, &patched(), &Patch::Merge(patch))).await?;
        Ok(Seen {
            key: name.into(),
            version: reading::version(&written.metadata),
            value: (reading::pool_object(&written), written.status.unwrap_or_default()),
        })
    }
}

fn manager() -> Option<String> {
    Some(FIELD_MANAGER.to_owned())
}

fn patched() -> PatchParams {
    PatchParams { field_manager: manager(), ..PatchParams::default() }
}

#[expect(clippy::unnecessary_wraps, reason = "it ends a chain of results")]
fn seen(service: core::Service) -> Result<Seen<Service>, WriteError> {
    let version = reading::version(&service.metadata);
    let key = reading::uid(&service.metadata).0;
    Ok(Seen { key, version, value: reading::service(service) })
}

/// A condition for the API; the time of its transition is kept while its status stays, which is
/// what an absent key means to a strategic patch.
fn service_condition(condition: &Condition, before: Option<&Condition>) -> Value {
    let mut value = json!({
        "type": ALLOCATED,
        "status": if condition.met { "True" } else { "False" },
        "reason": condition.reason,
        "message": condition.message,
    });
    let has_turned = before.is_none_or(|before| before.met != condition.met);
    if let (true, Some(object)) = (has_turned, value.as_object_mut()) {
        object.insert("lastTransitionTime".to_owned(), json!(Time(jiff::Timestamp::now())));
    }
    value
}

/// A router's statement as the API has it.
#[must_use]
pub fn router_spec(spec: &RouterSpec) -> VirtualRouterSpec {
    VirtualRouterSpec {
        pool: spec.pool.to_string(),
        family: spec.family.into(),
        vrid: spec.vrid.get(),
        addresses: spec
            .claims
            .iter()
            .map(|(ip, claim)| {
                let elsewhere = spec.elsewhere.get(ip);
                AddressEntry {
                    served_by: elsewhere.map(|elsewhere| elsewhere.router.to_string()),
                    leaving: elsewhere.is_some_and(|elsewhere| elsewhere.leaving),
                    ..entry(ip.to_string(), claim)
                }
            })
            .collect(),
        guests: spec.guests.iter().map(|(ip, guest)| guest_entry(ip.to_string(), *guest)).collect(),
        candidates: spec
            .candidates
            .iter()
            .map(|candidate| CandidateNode {
                node: candidate.node.clone(),
                priority: candidate.priority.get(),
                address: spec.manner.peers.get(&candidate.node).map(ToString::to_string),
                joining: candidate.joining,
            })
            .collect(),
        takeover: spec.takeover.as_ref().map(ToString::to_string),
        interfaces: spec.manner.interfaces.clone(),
        interval: Some(spec.manner.interval.to_string()),
        preempt: Some(spec.manner.preempt.to_string()),
        multicast: Some(spec.manner.multicast),
    }
}

fn guest_entry(ip: String, guest: Guest) -> GuestEntry {
    let state = match guest {
        Guest::Served => GuestState::Served,
        Guest::Leaving => GuestState::Leaving,
        Guest::Left => GuestState::Left,
    };
    GuestEntry { ip, state }
}

fn entry(ip: String, claim: &Claim) -> AddressEntry {
    let entry = AddressEntry { ip, ..AddressEntry::default() };
    match claim {
        Claim::Held(holders) => {
            let holders = holders.iter().map(|holder| AddressHolder {
                uid: holder.uid.to_string(),
                namespace: holder.service.namespace.to_string(),
                name: holder.service.name.to_string(),
            });
            AddressEntry { holders: holders.collect(), ..entry }
        }
        Claim::Released(release) => {
            let released = AddressRelease {
                at: time(release.at),
                namespace: release.by.namespace.to_string(),
                name: release.by.name.to_string(),
                confirmed: release.confirmed,
            };
            AddressEntry { released: Some(released), ..entry }
        }
        Claim::Pinned => AddressEntry { pinned: true, ..entry },
    }
}

fn time(at: Timestamp) -> Time {
    Time(jiff::Timestamp::from_second(at.0).unwrap_or_default())
}
