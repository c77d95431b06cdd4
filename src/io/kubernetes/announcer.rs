//! What an agent reports of its node, in the node's own `Announcer`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use std::time::Duration;
use tokio::time::timeout;

use super::resources::{ActiveRouter, Announcer, AnnouncerStatus, ForeignVrid, UsableLink};
use crate::engine::node::status::NodeStatus;
use crate::engine::vrrp::role::Role;

/// Whose writes these are, in `managedFields`.
const FIELD_MANAGER: &str = "barevip-agent";
/// No report is waited for longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a node reports, but for the time.
#[must_use]
pub fn announcer_status(node: &NodeStatus) -> AnnouncerStatus {
    let links = node.links.iter().map(|(name, link)| UsableLink {
        name: name.clone(),
        addresses: link.addresses.iter().map(ToString::to_string).collect(),
    });
    let active = node.routers.iter().filter(|router| router.role == Role::Active);
    let active = active.map(|router| ActiveRouter {
        router: router.name.clone(),
        uid: router.version.uid.clone(),
        generation: i64::try_from(router.version.generation).unwrap_or(i64::MAX),
        vrid: Some(router.vrid.get()),
    });
    let foreign = node
        .foreign
        .iter()
        .map(|(family, vrid)| ForeignVrid { family: (*family).into(), vrid: vrid.get() });
    AnnouncerStatus {
        at: None,
        links: links.collect(),
        active: active.collect(),
        foreign: foreign.collect(),
    }
}

/// Why a report was not written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The API server said no. 404: the controller has not made the `Announcer` yet.
    #[error(transparent)]
    Refused(#[from] kube::Error),
    /// It said nothing.
    #[error("no answer from the API server within 5 s")]
    Unanswered,
}

/// Writes what the agent of a node reports. Nobody else does, so it needs no precondition.
#[derive(Clone)]
pub struct Reporter {
    api: Api<Announcer>,
    node: String,
}

impl std::fmt::Debug for Reporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reporter").field("node", &self.node).finish_non_exhaustive()
    }
}

impl Reporter {
    /// A reporter for the agent of this node.
    #[must_use]
    pub fn new(client: Client, node: &str) -> Self {
        Self { api: Api::all(client), node: node.to_owned() }
    }

    /// Writes a report, with the time.
    ///
    /// # Errors
    /// [`ReportError`].
    pub async fn report(&self, status: AnnouncerStatus) -> Result<(), ReportError> {
        let at = Some(Time(jiff::Timestamp::now()));
        // A list that has become empty has to be written too.
        let AnnouncerStatus { links, active, foreign, .. } = status;
        let patch = Patch::Merge(json!({
            "status": {"at": at, "links": links, "active": active, "foreign": foreign},
        }));
        let params =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        match timeout(PATIENCE, self.api.patch_status(&self.node, &params, &patch)).await {
            Ok(written) => Ok(written.map(drop)?),
            Err(_) => Err(ReportError::Unanswered),
        }
    }
}
