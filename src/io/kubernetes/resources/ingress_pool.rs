//! `IngressPool`: where ingress IPs come from.

#![allow(unreachable_pub, reason = "the derive repeats the structs where nobody can reach them")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A pool of ingress IPs, and how they are announced. A list of addresses is a whole working pool:
/// everything else has a default.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "barevip.io",
    version = "v1alpha1",
    kind = "IngressPool",
    plural = "ingresspools",
    shortname = "ipool",
    category = "barevip",
    status = "IngressPoolStatus",
    derive = "PartialEq",
    doc = "A pool of ingress IPs that Services of type LoadBalancer get their addresses from.",
    validation = ("size(self.metadata.name) <= 48", "a pool's name has at most 48 characters: its virtual routers' names begin with it"),
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Used","type":"integer","jsonPath":".status.used"}"#,
    printcolumn = r#"{"name":"Free","type":"string","jsonPath":".status.free"}"#,
    printcolumn = r#"{"name":"Waiting","type":"integer","jsonPath":".status.waiting"}"#,
    printcolumn = r#"{"name":"Addresses","type":"string","jsonPath":".spec.addresses","priority":1}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct IngressPoolSpec {
    /// Networks ("192.0.2.0/28"), ranges ("192.0.2.200-192.0.2.250") and single addresses, IPv4
    /// and IPv6. A network's own and broadcast address are never given out. They should lie in
    /// the LAN of the nodes that announce them.
    #[x_kube(validation = ("self.size() >= 1 && self.size() <= 64", "a pool has 1 to 64 ranges of addresses"))]
    pub addresses: Vec<String>,
    /// Addresses and ranges that are never given out: a printer in the middle of a range.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub avoid: Vec<String>,
    /// Addresses that are always announced and never given to a Service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["address".into()]))]
    pub pinned: Vec<PinnedAddress>,
    /// Which Services may have its addresses, by their labels. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_selector: Option<LabelSelector>,
    /// Services of which namespaces may have its addresses, by the namespaces' labels. Default:
    /// all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Whether Services that name no pool get its addresses. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_assign: Option<bool>,
    /// Pools with a higher number are asked first; equal ones by name. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// How long a released address rests before another Service gets it ("5m"), so that clients
    /// that still know it do not meet a stranger. Default: 5m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse_after: Option<String>,
    /// Who may ask for a certain address (spec.loadBalancerIP, annotation barevip.io/addresses):
    /// Anyone or Nobody. Default: Anyone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<RequestsBy>,
    /// Whose Services may share an address through an equal annotation barevip.io/share:
    /// SameNamespace or AnyNamespace. Default: SameNamespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<SharedBy>,
    /// Virtual routers of each family that its addresses are spread over, 1 to 64. It can't be
    /// changed later: an address's router follows from it. Default: 8.
    #[serde(default = "default_routers")]
    #[x_kube(validation = ("self >= 1 && self <= 64", "a pool has 1 to 64 virtual routers of a family"), validation = ("self == oldSelf", "routers can't be changed: make another pool"))]
    #[schemars(with = "i32")]
    pub routers: u8,
    /// The VRIDs (RFC 9568) that its virtual routers may have. Default: 100 to 254.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vrids: Option<VridRange>,
    /// How its addresses are announced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub announce: Option<AnnounceSpec>,
}

fn default_routers() -> u8 {
    8
}

/// An address that is always announced.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PinnedAddress {
    /// One of the pool's addresses.
    pub address: String,
}

/// Who may ask for a certain address.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum RequestsBy {
    /// Whoever may make a Service.
    Anyone,
    /// Nobody: the pool chooses.
    Nobody,
}

/// Whose Services may share an address.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum SharedBy {
    /// Those of one namespace.
    SameNamespace,
    /// Those of any namespace.
    AnyNamespace,
}

/// The VRIDs that a pool's virtual routers may have.
#[derive(KubeSchema, Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[x_kube(validation = ("self.first >= 1 && self.first <= self.last && self.last <= 255", "VRIDs are numbers from 1 to 255, first not above last"))]
pub struct VridRange {
    /// The lowest.
    #[schemars(with = "i32")]
    pub first: u8,
    /// The highest.
    #[schemars(with = "i32")]
    pub last: u8,
}

/// How a pool's addresses are announced.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AnnounceSpec {
    /// Links that may carry the addresses. Default: the one with an own address in their network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<String>,
    /// Which nodes may announce, by their labels. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,
    /// Which of them are preferred while they are healthy. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_nodes: Option<LabelSelector>,
    /// How often the Active node advertises ("200ms"); a failover takes three of these and a
    /// little. Default: 200ms, more with many virtual routers on a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<String>,
    /// Whether a preferred node that returns takes its addresses back: "now", "never" or
    /// "after 300s" of being well. Default: after 300s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preempt: Option<String>,
    /// Whether adverts go to the VRRP group besides each node's address. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multicast: Option<bool>,
}

/// What is true of a pool now.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IngressPoolStatus {
    /// Addresses that could be given, all together (a number as text: IPv6 ranges are large).
    #[serde(default)]
    pub total: String,
    /// Addresses that Services have.
    #[serde(default)]
    pub used: i64,
    /// Addresses that could be given now.
    #[serde(default)]
    pub free: String,
    /// Addresses that rest after their release.
    #[serde(default)]
    pub resting: i64,
    /// Services that wait for one of its addresses.
    #[serde(default)]
    pub waiting: i64,
    /// The networks that its ranges cover.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<String>,
    /// The generation that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready, and what is wrong if it is not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}
