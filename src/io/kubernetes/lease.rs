//! The Lease that says which controller decides. The engine's [`Elector`] says what to ask; here
//! it is asked.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease as LeaseObject, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

use super::resources::FIELD_MANAGER;
use crate::engine::cluster::election::{
    Action, Elector, Lease, ReadOutcome, Statement, Timing, WriteOutcome,
};
use crate::engine::time::Instant;
use crate::io::clock;

/// The Lease's name.
pub const LEASE: &str = "barevip-controller";

/// Who leads, as this process knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    /// This process leads before then (a clock of [`clock::since_boot`]).
    pub until: Option<Instant>,
    /// Who holds the Lease.
    pub holder: Option<String>,
}

impl Leadership {
    /// Whether this process leads now.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.until.is_some_and(|until| clock::since_boot() < until)
    }
}

/// A contender for the Lease of a namespace.
pub struct Contender {
    api: Api<LeaseObject>,
    elector: Elector,
    patience: Duration,
    /// As it was read last: what we don't know in it stays.
    read: LeaseObject,
}

impl Contender {
    /// A contender that has asked nothing yet. `identity` is of this process alone.
    #[must_use]
    pub fn new(client: Client, namespace: &str, identity: &str, timing: Timing) -> Self {
        let seed = identity
            .bytes()
            .fold(0, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
        Self {
            api: Api::namespaced(client, namespace),
            elector: Elector::new(identity, timing, seed),
            patience: timing.request_timeout(),
            read: LeaseObject::default(),
        }
    }

    /// Contends until `stop` resolves and the Lease is given back; tells each change.
    pub async fn run(mut self, told: watch::Sender<Leadership>, mut stop: oneshot::Receiver<()>) {
        let mut stopping = false;
        while !self.elector.is_finished() {
            match self.elector.poll(clock::since_boot()) {
                Some(Action::Read) => {
                    let outcome = self.read().await;
                    self.elector.handle_read(outcome, clock::since_boot());
                }
                Some(Action::Write { lease, precondition }) => {
                    let outcome = self.write(&lease, precondition).await;
                    self.elector.handle_written(outcome, clock::since_boot());
                }
                None => {
                    let now = clock::since_boot();
                    let next =
                        self.elector.poll_timeout().map_or(self.patience, |at| at.since(now));
                    tokio::select! {
                        () = sleep(next) => {}
                        _ = &mut stop, if !stopping => {
                            stopping = true;
                            self.elector.handle_shutdown(clock::since_boot());
                        }
                    }
                }
            }
            let now = Leadership {
                until: self.elector.leader_until(),
                holder: self.elector.holder().map(ToOwned::to_owned),
            };
            told.send_if_modified(|before| {
                let is_news = *before != now;
                *before = now;
                is_news
            });
        }
    }

    async fn read(&mut self) -> ReadOutcome {
        match timeout(self.patience, self.api.get_opt(LEASE)).await {
            Ok(Ok(Some(object))) => {
                let lease = read_lease(&object);
                self.read = object;
                ReadOutcome::Found(lease)
            }
            Ok(Ok(None)) => ReadOutcome::Absent,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the lease can't be read");
                ReadOutcome::Failed
            }
            Err(_) => ReadOutcome::Failed,
        }
    }

    async fn write(
        &mut self,
        statement: &Statement,
        precondition: Option<Arc<str>>,
    ) -> WriteOutcome {
        let lease = self.object(statement, precondition.as_deref());
        let params =
            PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let written = match &precondition {
            Some(_) => timeout(self.patience, self.api.replace(LEASE, &params, &lease)).await,
            None => timeout(self.patience, self.api.create(&params, &lease)).await,
        };
        match written {
            Ok(Ok(object)) => {
                let version = object.metadata.resource_version.as_deref().unwrap_or_default();
                let outcome = WriteOutcome::Written(version.into());
                self.read = object;
                outcome
            }
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => WriteOutcome::Conflict,
            Ok(Err(kube::Error::Api(status))) => {
                tracing::warn!(%status, "the lease can't be written");
                WriteOutcome::Failed
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "the lease may not have been written");
                WriteOutcome::TimedOut
            }
            Err(_) => WriteOutcome::TimedOut,
        }
    }

    fn object(&self, statement: &Statement, version: Option<&str>) -> LeaseObject {
        let now = MicroTime(jiff::Timestamp::now());
        let before = self.read.spec.clone().unwrap_or_default();
        let seconds = i32::try_from(statement.duration.as_secs()).unwrap_or(i32::MAX);
        LeaseObject {
            metadata: ObjectMeta {
                name: Some(LEASE.to_owned()),
                resource_version: version.map(ToOwned::to_owned),
                ..version.map(|_| self.read.metadata.clone()).unwrap_or_default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(statement.holder.to_string()),
                lease_duration_seconds: Some(seconds),
                lease_transitions: Some(statement.transitions),
                acquire_time: if statement.acquires {
                    Some(now.clone())
                } else {
                    before.acquire_time
                },
                renew_time: Some(now),
                ..before
            }),
        }
    }
}

fn read_lease(object: &LeaseObject) -> Lease {
    let spec = object.spec.clone().unwrap_or_default();
    let duration = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Lease {
        resource_version: object.metadata.resource_version.as_deref().unwrap_or_default().into(),
        holder: spec.holder_identity.map(Into::into),
        duration: duration.map(Duration::from_secs),
        transitions: spec.lease_transitions,
        renewed: spec.renew_time.map(|time| time.0.to_string().into()),
    }
}
