//! What a service account may do, and what it has done.

use std::collections::BTreeSet;
use std::{fmt, fs};

use serde_json::Value;

use crate::support::control_plane::ControlPlane;

/// A right of its roles, or a request that needs one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Right {
    /// Empty: in the whole cluster.
    pub(crate) namespace: String,
    pub(crate) group: String,
    /// With its subresource.
    pub(crate) resource: String,
    pub(crate) verb: String,
    /// Of one object alone; empty: of any.
    pub(crate) name: String,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, group, resource, verb, name } = self;
        write!(f, "{verb} {resource}.{group} {name:?} in {namespace:?}")
    }
}

impl Right {
    /// Whether a request was within this right.
    fn covers(&self, request: &Self) -> bool {
        (self.group.as_str(), self.resource.as_str(), self.verb.as_str())
            == (request.group.as_str(), request.resource.as_str(), request.verb.as_str())
            && (self.namespace.is_empty() || self.namespace == request.namespace)
            && (self.name.is_empty() || self.name == request.name)
    }
}

fn texts(value: &Value) -> impl Iterator<Item = String> + '_ {
    value.as_array().into_iter().flatten().map(|text| text.as_str().unwrap().to_owned())
}

/// The rights of a Role or a `ClusterRole`, from its JSON.
pub(crate) fn granted(role: &Value) -> BTreeSet<Right> {
    let namespace = role["metadata"]["namespace"].as_str().unwrap_or_default();
    let mut rights = BTreeSet::new();
    for rule in role["rules"].as_array().unwrap() {
        let mut names: Vec<String> = texts(&rule["resourceNames"]).collect();
        if names.is_empty() {
            names.push(String::new());
        }
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                for verb in texts(&rule["verbs"]) {
                    rights.extend(names.iter().map(|name| Right {
                        namespace: namespace.to_owned(),
                        group: group.clone(),
                        resource: resource.clone(),
                        verb: verb.clone(),
                        name: name.clone(),
                    }));
                }
            }
        }
    }
    rights
}

/// What service accounts have asked for, and what of it was refused for want of a right.
pub(crate) fn requested(plane: &ControlPlane) -> (BTreeSet<Right>, BTreeSet<String>) {
    let log = fs::read_to_string(plane.scratch.path().join("audit.log")).unwrap();
    let (mut requests, mut refused) = (BTreeSet::new(), BTreeSet::new());
    for line in log.lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        let object = &entry["objectRef"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (resource, subresource) = (text(&object["resource"]), text(&object["subresource"]));
        let right = Right {
            namespace: text(&object["namespace"]),
            group: text(&object["apiGroup"]),
            resource: match subresource.as_str() {
                "" => resource,
                subresource => format!("{resource}/{subresource}"),
            },
            verb: text(&entry["verb"]),
            name: text(&object["name"]),
        };
        if entry["responseStatus"]["code"] == 403 {
            refused.insert(format!("{right}: {}", entry["responseStatus"]["message"]));
        }
        requests.insert(right);
    }
    (requests, refused)
}

/// Rights that no request has needed.
pub(crate) fn unused(granted: &BTreeSet<Right>, requests: &BTreeSet<Right>) -> Vec<String> {
    let idle = |right: &&Right| !requests.iter().any(|request| right.covers(request));
    granted.iter().filter(idle).map(ToString::to_string).collect()
}
