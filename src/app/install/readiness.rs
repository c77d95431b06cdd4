//! What an installation still waits for, as the cluster shows it.

use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::io::kubernetes::resources::{Announcer, IngressPool};
use crate::model::AddressRange;

/// What the cluster shows of an installation.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) agents: Option<DaemonSet>,
    pub(super) controller: Option<Deployment>,
    /// Of agents and controller.
    pub(super) pods: Vec<Pod>,
    pub(super) announcers: Vec<Announcer>,
    pub(super) pools: Vec<IngressPool>,
}

impl Seen {
    /// What is lacking, a sentence each; nothing: an address would be given and announced.
    pub(super) fn lacks(&self) -> Vec<String> {
        let mut lacks = Vec::new();
        lacks.extend(self.controller_lacks());
        lacks.extend(self.agents_lack());
        // Before agents have reported nobody knows their networks.
        if lacks.is_empty() {
            lacks.extend(self.pools.iter().filter_map(|pool| self.pool_lacks(pool)));
        }
        lacks
    }

    fn controller_lacks(&self) -> Option<String> {
        let Some(deployment) = &self.controller else {
            return Some("the controller is not there".to_owned());
        };
        let status = deployment.status.clone().unwrap_or_default();
        let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let is_seen = status.observed_generation == deployment.metadata.generation;
        let (updated, available) =
            (status.updated_replicas.unwrap_or(0), status.available_replicas.unwrap_or(0));
        let is_done = is_seen && updated == wanted && available == wanted;
        let why = self.pods_lack("barevip-controller");
        (!is_done).then(|| format!("{available} of {wanted} controllers are up{why}"))
    }

    fn agents_lack(&self) -> Option<String> {
        let Some(set) = &self.agents else { return Some("the agents are not there".to_owned()) };
        let status = set.status.clone().unwrap_or_default();
        let wanted = status.desired_number_scheduled;
        let is_seen = status.observed_generation == set.metadata.generation;
        let updated = status.updated_number_scheduled.unwrap_or(0);
        if !is_seen || wanted == 0 || updated < wanted || status.number_ready < wanted {
            let ready = status.number_ready.min(updated);
            let why = self.pods_lack("barevip-agent");
            return Some(format!("{ready} of {wanted} agents are up{why}"));
        }
        let nodes = self.pods.iter().filter(|pod| is_of(pod, "barevip-agent"));
        let nodes = nodes.filter_map(|pod| pod.spec.as_ref()?.node_name.as_deref());
        let silent: Vec<&str> = nodes.filter(|node| !self.has_reported(node)).collect();
        (!silent.is_empty())
            .then(|| format!("no agent has reported yet from {}", silent.join(", ")))
    }

    fn has_reported(&self, node: &str) -> bool {
        let mut own = self.announcers.iter().filter(|announcer| announcer.name_any() == node);
        own.any(|announcer| announcer.status.as_ref().is_some_and(|status| status.at.is_some()))
    }

    /// Why pods are not up, as far as their nodes say.
    fn pods_lack(&self, name: &str) -> String {
        let pods = self.pods.iter().filter(|pod| is_of(pod, name));
        let reasons: Vec<String> = pods.filter_map(reason).collect();
        if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join("; ")) }
    }

    fn pool_lacks(&self, pool: &IngressPool) -> Option<String> {
        let name = pool.name_any();
        let status = pool.status.clone().unwrap_or_default();
        if status.observed_generation != pool.metadata.generation {
            return Some(format!("pool {name}: the controller has not looked at it yet"));
        }
        for (kind, wanted) in [("Ready", "True"), ("Protected", "True")] {
            let condition = status.conditions.iter().find(|condition| condition.type_ == kind);
            if let Some(condition) = condition.filter(|condition| condition.status != wanted) {
                return Some(format!("pool {name} is not {kind}: {}", condition.message));
            }
        }
        let names_links =
            pool.spec.announce.as_ref().is_some_and(|announce| !announce.interfaces.is_empty());
        let ranges = pool.spec.addresses.iter().filter_map(|text| text.parse().ok());
        let far = ranges.into_iter().find(|range| !names_links && !self.reaches(*range))?;
        Some(format!(
            "pool {name}: no node has an own address in the network of {far}; a pool belongs into the \
             LAN of the nodes, or name their links in its spec.announce.interfaces"
        ))
    }

    /// Whether a node could announce all of a range.
    fn reaches(&self, range: AddressRange) -> bool {
        let links = self.announcers.iter().flat_map(|announcer| &announcer.status);
        let mut addresses = links.flat_map(|status| &status.links).flat_map(|link| &link.addresses);
        let holds = |network: &IpNet, address: IpAddr| network.contains(&address);
        addresses.any(|text| {
            let network = text.parse::<IpNet>();
            network.is_ok_and(|net| holds(&net, range.first()) && holds(&net, range.last()))
        })
    }
}

pub(super) fn is_of(pod: &Pod, name: &str) -> bool {
    pod.labels().get("app.kubernetes.io/name").is_some_and(|value| value == name)
}

/// Why a pod is not up: "worker-3: ImagePullBackOff, no such image".
fn reason(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let place = pod.spec.as_ref()?.node_name.clone().unwrap_or_else(|| pod.name_any());
    let says = |reason: &str, message: Option<&str>| match message {
        Some(message) => format!("{place}: {reason}, {}", message.trim()),
        None => format!("{place}: {reason}"),
    };
    for container in status.container_statuses.iter().flatten().filter(|status| !status.ready) {
        let state = container.state.as_ref()?;
        if let Some(waiting) = &state.waiting {
            let reason = waiting.reason.as_deref().unwrap_or("waiting");
            return Some(says(reason, waiting.message.as_deref()));
        }
        if let Some(ended) = &state.terminated {
            return Some(says(
                &format!("ended with {}", ended.exit_code),
                ended.message.as_deref(),
            ));
        }
    }
    let conditions = status.conditions.iter().flatten();
    let mut unscheduled = conditions.filter(|c| c.type_ == "PodScheduled" && c.status == "False");
    let condition = unscheduled.next()?;
    Some(says(condition.reason.as_deref().unwrap_or("not scheduled"), condition.message.as_deref()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    /// One node, and everything is well.
    fn ready() -> Seen {
        Seen {
            agents: Some(read(json!({
                "metadata": {"generation": 2},
                "status": {"observedGeneration": 2, "desiredNumberScheduled": 1, "numberReady": 1,
                    "updatedNumberScheduled": 1, "currentNumberScheduled": 1, "numberMisscheduled": 0},
            }))),
            controller: Some(read(json!({
                "metadata": {"generation": 1},
                "spec": {"replicas": 2, "selector": {}, "template": {}},
                "status": {"observedGeneration": 1, "updatedReplicas": 2, "availableReplicas": 2},
            }))),
            pods: vec![pod("barevip-agent", json!({"containerStatuses": []}))],
            announcers: vec![read(json!({
                "apiVersion": "barevip.io/v1alpha1", "kind": "Announcer",
                "metadata": {"name": "worker-1"}, "spec": {},
                "status": {"at": "2026-12-01T00:00:00Z",
                    "links": [{"name": "eth0", "addresses": ["192.0.2.1/24"]}]},
            }))],
            pools: vec![pool("192.0.2.200-192.0.2.210", "True")],
        }
    }

    fn pod(name: &str, status: Value) -> Pod {
        read(json!({
            "metadata": {"name": "pod", "labels": {"app.kubernetes.io/name": name}},
            "spec": {"nodeName": "worker-1", "containers": []},
            "status": status,
        }))
    }

    fn pool(addresses: &str, ready: &str) -> IngressPool {
        read(json!({
            "apiVersion": "barevip.io/v1alpha1", "kind": "IngressPool",
            "metadata": {"name": "default", "generation": 1},
            "spec": {"addresses": [addresses]},
            "status": {"observedGeneration": 1, "conditions": [{
                "type": "Ready", "status": ready, "reason": "X", "message": "why",
                "lastTransitionTime": "2026-12-01T00:00:00Z",
            }]},
        }))
    }

    #[test]
    fn nothing_lacks_where_an_address_would_be_announced() {
        assert_eq!(ready().lacks(), Vec::<String>::new());
    }

    #[test]
    fn agents_that_are_not_up_are_named_with_the_reason() {
        let waiting = json!({"containerStatuses": [{
            "name": "agent", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}},
        }]});
        let mut seen = ready();
        seen.agents.as_mut().unwrap().status.as_mut().unwrap().number_ready = 0;
        seen.pods = vec![pod("barevip-agent", waiting)];
        assert_eq!(seen.lacks(), ["0 of 1 agents are up (worker-1: ErrImagePull, no such image)"]);
    }

    #[test]
    fn an_agent_that_has_not_reported_is_waited_for() {
        let seen = Seen { announcers: Vec::new(), ..ready() };
        assert_eq!(seen.lacks(), ["no agent has reported yet from worker-1"]);
    }

    #[test]
    fn a_rollout_that_the_controllers_of_the_cluster_have_not_seen_is_not_done() {
        let mut seen = ready();
        seen.agents.as_mut().unwrap().metadata.generation = Some(3);
        seen.controller.as_mut().unwrap().metadata.generation = Some(2);
        assert_eq!(seen.lacks(), ["2 of 2 controllers are up", "1 of 1 agents are up"]);
    }

    #[test]
    fn a_pool_that_gives_nothing_or_lies_elsewhere_is_said() {
        let refused = Seen { pools: vec![pool("192.0.2.200", "False")], ..ready() };
        assert_eq!(refused.lacks(), ["pool default is not Ready: why"]);
        let far = Seen { pools: vec![pool("198.51.100.0/28", "True")], ..ready() };
        let [lack] = &far.lacks()[..] else { panic!("one is lacking") };
        assert!(lack.contains("no node has an own address in the network of 198.51.100.0/28"));
    }
}
