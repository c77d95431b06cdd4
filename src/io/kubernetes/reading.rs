//! Objects of the API, pruned to what `engine::cluster` decides from. An object that makes no
//! sense is read as far as it does: nobody's typing error stops the others.

mod pool;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

pub use self::pool::pool_object;
use super::resources::{
    ADDRESSES, ALLOCATED, AddressEntry, Announcer, DRAIN, GuestState, MOVE_TO, POOL, SHARE,
    VirtualRouter, VirtualRouterSpec,
};
use crate::engine::cluster::world::{
    Claim, Condition, Elsewhere, Guest, Holder, Ingress, Manner, Node, Port, Protocol, Reign,
    Release, Report, RouterObject, RouterSpec, Service, ServiceKey, Timestamp, Uid,
};
use crate::model::{AddressRange, Candidate, Family, Invalid, Priority, Vrid};

/// The uid of an object from the API server, which always has one.
#[must_use]
pub fn uid(meta: &ObjectMeta) -> Uid {
    Uid::from(meta.uid.as_deref().unwrap_or_default())
}

/// The name of an object from the API server, which always has one.
#[must_use]
pub fn name(meta: &ObjectMeta) -> Arc<str> {
    meta.name.as_deref().unwrap_or_default().into()
}

/// How far this version of an object has come, comparable among versions of all objects of its
/// kind (KEP-5504).
#[must_use]
pub fn version(meta: &ObjectMeta) -> u64 {
    meta.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn timestamp(time: Option<&Time>) -> Timestamp {
    Timestamp(time.map_or(0, |time| time.0.as_second()))
}

/// A Service.
#[must_use]
pub fn service(service: core::Service) -> Service {
    let meta = service.metadata;
    let spec = service.spec.unwrap_or_default();
    let status = service.status.unwrap_or_default();
    let mut annotations = meta.annotations.unwrap_or_default();
    let requested = spec.load_balancer_ip.filter(|text| !text.is_empty());
    let shorten = |text: String| Arc::<str>::from(text);
    Service {
        key: ServiceKey {
            namespace: meta.namespace.unwrap_or_default().into(),
            name: meta.name.unwrap_or_default().into(),
        },
        resource_version: meta.resource_version.unwrap_or_default().into(),
        created: timestamp(meta.creation_timestamp.as_ref()),
        deleting: meta.deletion_timestamp.is_some(),
        load_balancer: spec.type_.as_deref() == Some("LoadBalancer"),
        class: spec.load_balancer_class.map(shorten),
        families: families(&spec.ip_families.unwrap_or_default()),
        requires_both: spec.ip_family_policy.as_deref() == Some("RequireDualStack"),
        ports: spec.ports.unwrap_or_default().iter().filter_map(port).collect(),
        local: spec.external_traffic_policy.as_deref() == Some("Local"),
        publish_not_ready: spec.publish_not_ready_addresses.unwrap_or(false),
        selector: spec.selector.unwrap_or_default(),
        labels: meta.labels.unwrap_or_default(),
        requested: requested.into_iter().chain(annotations.remove(ADDRESSES)).collect(),
        pool: annotations.remove(POOL).map(shorten),
        share: annotations.remove(SHARE).filter(|key| !key.is_empty()).map(shorten),
        external_ips: spec.external_ips.unwrap_or_default(),
        ingress: status
            .load_balancer
            .and_then(|balancer| balancer.ingress)
            .unwrap_or_default()
            .into_iter()
            .map(|entry| Ingress { ip: entry.ip, hostname: entry.hostname })
            .collect(),
        condition: status.conditions.unwrap_or_default().into_iter().find_map(|condition| {
            (condition.type_ == ALLOCATED).then(|| Condition {
                met: condition.status == "True",
                reason: condition.reason,
                message: condition.message,
            })
        }),
        contested: false,
    }
}

fn families(names: &[String]) -> Vec<Family> {
    let parse = |name: &String| match name.as_str() {
        "IPv4" => Some(Family::Ipv4),
        "IPv6" => Some(Family::Ipv6),
        _ => None,
    };
    names.iter().filter_map(parse).collect()
}

fn port(port: &core::ServicePort) -> Option<Port> {
    let protocol = match port.protocol.as_deref() {
        None | Some("TCP") => Protocol::Tcp,
        Some("UDP") => Protocol::Udp,
        Some("SCTP") => Protocol::Sctp,
        Some(_) => return None,
    };
    Some(Port { protocol, number: u16::try_from(port.port).ok()? })
}

/// A `VirtualRouter`.
///
/// # Errors
/// The field that holds no legal value: only the controller writes these, so somebody else did.
pub fn router_object(router: VirtualRouter) -> Result<RouterObject, Invalid> {
    let spec = router.spec;
    let address = |field: &str, text: &str| {
        let parsed = text.parse::<IpAddr>();
        parsed.map_err(|_| Invalid::new(format!("{field}: {text:?} is no IP address")))
    };
    let mut elsewhere = BTreeMap::new();
    for entry in &spec.addresses {
        if let Some(router) = entry.served_by.as_deref() {
            let other = Elsewhere { router: router.into(), leaving: entry.leaving };
            elsewhere.insert(address("spec.addresses", &entry.ip)?, other);
        }
    }
    let guests = spec.guests.iter().map(|guest| {
        let state = match guest.state {
            GuestState::Served => Guest::Served,
            GuestState::Leaving => Guest::Leaving,
            GuestState::Left => Guest::Left,
        };
        Ok((address("spec.guests", &guest.ip)?, state))
    });
    let guests = guests.collect::<Result<_, Invalid>>()?;
    let manner = manner(&spec)?;
    let claims = spec.addresses.into_iter().map(|entry| {
        let address = address("spec.addresses", &entry.ip)?;
        claim(entry).map(|claim| (address, claim))
    });
    let candidates = spec.candidates.into_iter().map(|candidate| {
        Ok(Candidate {
            node: candidate.node,
            priority: Priority::try_from(candidate.priority)?,
            joining: candidate.joining,
        })
    });
    Ok(RouterObject {
        uid: uid(&router.metadata),
        generation: router.metadata.generation.unwrap_or(0),
        spec: RouterSpec {
            pool: spec.pool.into(),
            family: spec.family.into(),
            vrid: Vrid::try_from(spec.vrid)?,
            claims: claims.collect::<Result<_, Invalid>>()?,
            elsewhere,
            guests,
            candidates: candidates.collect::<Result<_, Invalid>>()?,
            takeover: spec.takeover.map(Into::into),
            manner,
        },
        move_to: router
            .metadata
            .annotations
            .and_then(|mut all| all.remove(MOVE_TO))
            .map(Into::into),
    })
}

fn manner(spec: &VirtualRouterSpec) -> Result<Manner, Invalid> {
    let usual = Manner::default();
    let peers = spec.candidates.iter().filter_map(|candidate| {
        let address = candidate.address.as_ref()?;
        let parsed = address
            .parse()
            .map_err(|_| Invalid::new(format!("spec.candidates: {address:?} is no IP address")));
        Some(parsed.map(|address| (candidate.node.clone(), address)))
    });
    Ok(Manner {
        interfaces: spec.interfaces.clone(),
        interval: stated("spec.interval", spec.interval.as_deref(), usual.interval)?,
        preempt: stated("spec.preempt", spec.preempt.as_deref(), usual.preempt)?,
        multicast: spec.multicast.unwrap_or(usual.multicast),
        peers: peers.collect::<Result<_, Invalid>>()?,
    })
}

fn stated<T: FromStr<Err = Invalid>>(
    field: &str,
    text: Option<&str>,
    usual: T,
) -> Result<T, Invalid> {
    let Some(text) = text else { return Ok(usual) };
    text.parse().map_err(|error| Invalid::new(format!("{field}: {error}")))
}

fn claim(entry: AddressEntry) -> Result<Claim, Invalid> {
    let key = |namespace: String, name: String| ServiceKey {
        namespace: namespace.into(),
        name: name.into(),
    };
    if let Some(released) = entry.released {
        return Ok(Claim::Released(Release {
            at: timestamp(Some(&released.at)),
            by: key(released.namespace, released.name),
            confirmed: released.confirmed,
        }));
    }
    if entry.pinned {
        return Ok(Claim::Pinned);
    }
    if entry.holders.is_empty() {
        return Err(Invalid::new(format!(
            "spec.addresses: {} has neither holders nor a release, and is not pinned",
            entry.ip
        )));
    }
    let holders = entry.holders.into_iter().map(|holder| Holder {
        uid: Uid(holder.uid.into()),
        service: key(holder.namespace, holder.name),
    });
    Ok(Claim::Held(holders.collect()))
}

/// A Node, without its agent's report.
#[must_use]
pub fn node(node: &core::Node) -> Node {
    let meta = &node.metadata;
    let annotations = meta.annotations.as_ref();
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    Node {
        uid: uid(meta),
        labels: meta.labels.clone().unwrap_or_default(),
        drained: annotations.and_then(|all| all.get(DRAIN)).is_some_and(|value| value == "true"),
        out_of_service: taints
            .is_some_and(|all| all.iter().any(|t| t.key == "node.kubernetes.io/out-of-service")),
        unknown: conditions
            .is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "Unknown")),
        has_announcer: false,
        report: None,
    }
}

/// The ranges that a Node takes, which no pool may touch: its pods' and its own addresses.
#[must_use]
pub fn taken_by_node(node: &core::Node) -> Vec<(AddressRange, String)> {
    let name = name(&node.metadata);
    let pods = node.spec.as_ref().and_then(|spec| spec.pod_cidrs.clone()).unwrap_or_default();
    let own = node.status.as_ref().and_then(|status| status.addresses.clone()).unwrap_or_default();
    let pods = pods.into_iter().map(|cidr| (cidr, format!("the pods of node {name}")));
    let own = own
        .into_iter()
        .filter(|address| address.type_ == "InternalIP" || address.type_ == "ExternalIP")
        .map(|address| (address.address, format!("node {name}")));
    pods.chain(own).filter_map(|(text, owner)| Some((text.parse().ok()?, owner))).collect()
}

/// The ranges of a `ServiceCIDR`, which no pool may touch.
#[must_use]
pub fn taken_by_services(cidr: &ServiceCIDR) -> Vec<(AddressRange, String)> {
    let ranges = cidr.spec.as_ref().and_then(|spec| spec.cidrs.clone()).unwrap_or_default();
    let parse = |text: String| Some((text.parse().ok()?, "the Services' cluster IPs".to_owned()));
    ranges.into_iter().filter_map(parse).collect()
}

/// What an agent reports; nothing before its first report.
#[must_use]
pub fn report(announcer: &Announcer) -> Option<Report> {
    let status = announcer.status.as_ref()?;
    let at = timestamp(Some(status.at.as_ref()?));
    let links = status.links.iter().map(|link| {
        let addresses = link.addresses.iter().filter_map(|text| text.parse().ok()).collect();
        (Arc::from(link.name.as_str()), addresses)
    });
    let active = status.active.iter().map(|active| {
        let reign = Reign {
            uid: Uid::from(active.uid.as_str()),
            generation: active.generation,
            vrid: active.vrid.and_then(|vrid| Vrid::try_from(vrid).ok()),
        };
        (Arc::from(active.router.as_str()), reign)
    });
    let foreign: BTreeSet<_> = status
        .foreign
        .iter()
        .filter_map(|heard| Some((heard.family.into(), Vrid::try_from(heard.vrid).ok()?)))
        .collect();
    Some(Report { at, links: links.collect(), active: active.collect(), foreign })
}
