//! `Announcer`: what the agent of a node sees and does.

#![allow(unreachable_pub, reason = "the derive repeats the structs where nobody can reach them")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::virtual_router::IpFamily;

/// The report of a node's agent. The controller makes it, the agent of that node alone writes its
/// status.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "barevip.io",
    version = "v1alpha1",
    kind = "Announcer",
    plural = "announcers",
    category = "barevip",
    status = "AnnouncerStatus",
    derive = "PartialEq",
    doc = "What the barevip agent of the node of this name sees and does.",
    printcolumn = r#"{"name":"Reported","type":"date","jsonPath":".status.at"}"#,
    printcolumn = r#"{"name":"Active","type":"string","jsonPath":".status.active[*].router"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
pub struct AnnouncerSpec {}

/// The agent's report.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AnnouncerStatus {
    /// When it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// The links that can carry addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub links: Vec<UsableLink>,
    /// The routers that it is Active for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["router".into()]))]
    pub active: Vec<ActiveRouter>,
    /// VRIDs that others use on its links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["family".into(), "vrid".into()]))]
    pub foreign: Vec<ForeignVrid>,
}

/// A link that can carry addresses.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UsableLink {
    /// Its name.
    pub name: String,
    /// Its own addresses with their lengths.
    pub addresses: Vec<String>,
}

/// A router that the node is Active for.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActiveRouter {
    /// Its name.
    pub router: String,
    /// The uid of the object that was taken up.
    pub uid: String,
    /// Its generation.
    pub generation: i64,
    /// The VRID that it announces it with: a router that comes back gets it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vrid: Option<u8>,
}

/// A VRID that somebody else uses.
#[derive(KubeSchema, Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForeignVrid {
    /// The family of the adverts.
    pub family: IpFamily,
    /// The VRID.
    #[schemars(with = "i32", range(min = 1, max = 255))]
    pub vrid: u8,
}
