//! `VirtualRouter`: the claims on addresses, and who may serve them.

#![allow(unreachable_pub, reason = "the derive repeats the structs where nobody can reach them")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::Family;

/// A virtual router (RFC 9568) of an `IngressPool`: the addresses that were given to Services, and
/// the nodes that may announce them. The controller alone writes it.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "barevip.io",
    version = "v1alpha1",
    kind = "VirtualRouter",
    plural = "virtualrouters",
    shortname = "vrouter",
    category = "barevip",
    status = "VirtualRouterStatus",
    derive = "PartialEq",
    doc = "A virtual router (RFC 9568): which addresses were given to whom, and which nodes may announce them. Written by the barevip controller alone; deleting one does not free its addresses.",
    printcolumn = r#"{"name":"Pool","type":"string","jsonPath":".spec.pool"}"#,
    printcolumn = r#"{"name":"Vrid","type":"integer","jsonPath":".spec.vrid"}"#,
    printcolumn = r#"{"name":"Active","type":"string","jsonPath":".status.active"}"#,
    printcolumn = r#"{"name":"Addresses","type":"string","jsonPath":".spec.addresses[*].ip","priority":1}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct VirtualRouterSpec {
    /// The pool that it was made for.
    pub pool: String,
    /// The family of all its addresses.
    pub family: IpFamily,
    /// Its identifier on the LAN, 1 to 255.
    #[schemars(with = "i32", range(min = 1, max = 255))]
    pub vrid: u8,
    /// Its addresses: who has them, or since when they rest.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["ip".into()]))]
    pub addresses: Vec<AddressEntry>,
    /// Addresses that other routers of the pool have the claim on, and this one serves: those of
    /// Services of policy Local that select the same pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guests: Vec<GuestEntry>,
    /// The nodes that may announce, the preferred one first.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["node".into()]))]
    pub candidates: Vec<CandidateNode>,
    /// The candidate that is asked to take over now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takeover: Option<String>,
    /// Links that may carry the addresses; none: the one with an own address in their network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<String>,
    /// How often the node that announces advertises ("200ms").
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<String>,
    /// Whether a preferred node that returns takes its addresses back: "now", "never" or
    /// "after 5m" of being well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preempt: Option<String>,
    /// Whether adverts go to the VRRP group besides each candidate's address. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multicast: Option<bool>,
}

/// A family of addresses, as in a Service's `ipFamilies`.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IpFamily {
    /// IPv4.
    IPv4,
    /// IPv6.
    IPv6,
}

impl From<Family> for IpFamily {
    fn from(family: Family) -> Self {
        match family {
            Family::Ipv4 => Self::IPv4,
            Family::Ipv6 => Self::IPv6,
        }
    }
}

impl From<IpFamily> for Family {
    fn from(family: IpFamily) -> Self {
        match family {
            IpFamily::IPv4 => Self::Ipv4,
            IpFamily::IPv6 => Self::Ipv6,
        }
    }
}

/// One address.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressEntry {
    /// The address.
    pub ip: String,
    /// The Services that have it; several share it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<AddressHolder>,
    /// How it was given back. Such an address is no longer announced, and rests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released: Option<AddressRelease>,
    /// Whether its pool pins it: it is announced for no Service.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
    /// The router that serves it instead of this one: its Services are of policy Local.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_by: Option<String>,
    /// This router has served it, and is about to let go of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leaving: bool,
}

/// An address that another router of the pool has the claim on, and this one serves.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GuestEntry {
    /// The address.
    pub ip: String,
    /// Served; or Leaving, while a node may still serve it; or Left.
    pub state: GuestState,
}

/// How far an address is that another router has the claim on.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GuestState {
    /// It is announced here.
    Served,
    /// It is not announced here any more, but a node may not know that yet.
    Leaving,
    /// No node serves it here any more.
    Left,
}

/// A Service that has an address.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AddressHolder {
    /// Its uid.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// How an address was given back.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AddressRelease {
    /// When.
    pub at: Time,
    /// The namespace of the Service that had it.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Whether it is known that no node serves it any more.
    #[serde(default)]
    pub confirmed: bool,
}

/// A node that may announce.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CandidateNode {
    /// Its name.
    pub node: String,
    /// Its priority, 1 to 254; the highest one that is alive announces.
    #[schemars(with = "i32", range(min = 1, max = 254))]
    pub priority: u8,
    /// Its own address on the link, which adverts are sent to besides the VRRP group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// New beside an Active one: silent until it has heard it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub joining: bool,
}

/// Who announces.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VirtualRouterStatus {
    /// The node that announces the addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<String>,
    /// What is wrong, if something is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}
