//! An `IngressPool` as the model's [`Pool`].

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{timestamp, uid};
use crate::engine::cluster::world::PoolObject;
use crate::io::kubernetes::resources::{
    AnnounceSpec, IngressPool, IngressPoolSpec, RequestsBy, SharedBy,
};
use crate::model::{
    AddressRange, Announcing, Invalid, Pinned, Pool, Requests, Rule, Selector, Sharing,
    parse_duration,
};

/// An `IngressPool`. What can't be read becomes the pool's error, for its condition.
#[must_use]
pub fn pool_object(object: &IngressPool) -> PoolObject {
    PoolObject {
        uid: uid(&object.metadata),
        generation: object.metadata.generation.unwrap_or(0),
        created: timestamp(object.metadata.creation_timestamp.as_ref()),
        pool: read(&object.spec).map_err(|error| error.to_string()),
    }
}

fn read(spec: &IngressPoolSpec) -> Result<Pool, Invalid> {
    let usual = Pool::default();
    Ok(Pool {
        addresses: ranges("spec.addresses", &spec.addresses)?,
        avoid: ranges("spec.avoid", &spec.avoid)?,
        pinned: spec.pinned.iter().map(|pinned| pin(&pinned.address)).collect::<Result<_, _>>()?,
        services: selector("spec.serviceSelector", spec.service_selector.as_ref())?,
        namespaces: selector("spec.namespaceSelector", spec.namespace_selector.as_ref())?,
        auto_assign: spec.auto_assign.unwrap_or(usual.auto_assign),
        priority: spec.priority.unwrap_or(usual.priority),
        reuse_after: match &spec.reuse_after {
            Some(text) => field("spec.reuseAfter", parse_duration(text))?,
            None => usual.reuse_after,
        },
        requests: match spec.requests {
            Some(RequestsBy::Nobody) => Requests::Nobody,
            Some(RequestsBy::Anyone) | None => Requests::Anyone,
        },
        sharing: match spec.share {
            Some(SharedBy::AnyNamespace) => Sharing::AnyNamespace,
            Some(SharedBy::SameNamespace) | None => Sharing::SameNamespace,
        },
        routers: spec.routers,
        vrids: spec.vrids.map_or(usual.vrids, |vrids| vrids.first..=vrids.last),
        announcing: announcing(spec.announce.clone().unwrap_or_default())?,
    })
}

fn field<T>(name: &str, value: Result<T, Invalid>) -> Result<T, Invalid> {
    value.map_err(|error| Invalid::new(format!("{name}: {error}")))
}

fn ranges(name: &str, texts: &[String]) -> Result<Vec<AddressRange>, Invalid> {
    texts.iter().map(|text| field(name, text.parse())).collect()
}

fn pin(text: &str) -> Result<Pinned, Invalid> {
    let address = text.parse().map_err(|_| {
        Invalid::new(format!("spec.pinned: {text:?} is no address; write \"192.0.2.10\""))
    })?;
    Ok(Pinned { address })
}

fn announcing(spec: AnnounceSpec) -> Result<Announcing, Invalid> {
    Ok(Announcing {
        interfaces: spec.interfaces,
        nodes: selector("spec.announce.nodeSelector", spec.node_selector.as_ref())?,
        preferred: spec
            .preferred_nodes
            .as_ref()
            .map(|preferred| selector("spec.announce.preferredNodes", Some(preferred)))
            .transpose()?,
        interval: spec
            .interval
            .map(|text| field("spec.announce.interval", text.parse()))
            .transpose()?,
        preempt: match spec.preempt {
            Some(text) => field("spec.announce.preempt", text.parse())?,
            None => Announcing::default().preempt,
        },
        multicast: spec.multicast.unwrap_or(true),
        ..Announcing::default()
    })
}

fn selector(name: &str, selector: Option<&LabelSelector>) -> Result<Selector, Invalid> {
    let Some(selector) = selector else { return Ok(Selector::default()) };
    let equal = selector
        .match_labels
        .iter()
        .flatten()
        .map(|(key, value)| Ok(Rule::In(key.clone(), [value.clone()].into())));
    let rules = selector.match_expressions.iter().flatten().map(|rule| {
        let (key, values) = (rule.key.clone(), rule.values.clone().unwrap_or_default());
        let values = values.into_iter().collect();
        Ok(match rule.operator.as_str() {
            "In" => Rule::In(key, values),
            "NotIn" => Rule::NotIn(key, values),
            "Exists" => Rule::Exists(key),
            "DoesNotExist" => Rule::Absent(key),
            other => {
                return Err(Invalid::new(format!(
                    "{name}: {other:?} is no operator; write In, NotIn, Exists or DoesNotExist"
                )));
            }
        })
    });
    Ok(Selector { rules: equal.chain(rules).collect::<Result<_, _>>()? })
}
