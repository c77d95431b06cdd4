//! A `VirtualRouter` of the API as the plan of an agent has it.

use super::reading;
use super::resources::VirtualRouter;
use crate::engine::cluster::world::{Claim, Guest, Manner, RouterSpec};
use crate::model::{
    Announce, Candidates, ChecksumForm, Entry, EntryState, Invalid, LinkSelector, Transport,
    Version, Vip, VirtualRouter as Planned,
};

/// What the router says to the agent of `node`.
///
/// # Errors
/// The field that holds no legal value, or an address that no machine can hold.
pub fn virtual_router(object: VirtualRouter, node: &str) -> Result<Planned, Invalid> {
    let name = reading::name(&object.metadata).to_string();
    let object = reading::router_object(object)?;
    let RouterSpec { family, vrid, candidates, takeover, manner, .. } = &object.spec;
    Ok(Planned {
        name,
        version: Version {
            uid: object.uid.to_string(),
            generation: u64::try_from(object.generation).unwrap_or(0),
        },
        vrid: *vrid,
        family: *family,
        link: link(&manner.interfaces),
        interval: manner.interval,
        preempt: manner.preempt,
        entries: entries(&object.spec)?,
        candidates: Candidates::Listed(candidates.clone()),
        takeover: takeover.as_ref().map(ToString::to_string),
        health_band: true,
        transport: transport(manner, node),
        announce: Announce::default(),
        checksum: ChecksumForm::Auto,
    })
}

fn link(interfaces: &[String]) -> LinkSelector {
    match interfaces {
        [] => LinkSelector::Subnet,
        [only] => LinkSelector::Name(only.clone()),
        several => LinkSelector::OneOf(several.to_vec()),
    }
}

fn transport(manner: &Manner, node: &str) -> Transport {
    let others = manner.peers.iter().filter(|(other, _)| *other != node);
    Transport { multicast: manner.multicast, peers: others.map(|(_, address)| *address).collect() }
}

/// What it announces, and what it lists because some node may announce it still.
fn entries(spec: &RouterSpec) -> Result<Vec<Entry>, Invalid> {
    let own = spec.claims.iter().filter_map(|(address, claim)| {
        let state = match (claim, spec.elsewhere.get(address)) {
            (Claim::Released(release), _) if release.confirmed => return None,
            (Claim::Released(_), _) => EntryState::Released,
            (_, None) => EntryState::Served,
            (_, Some(elsewhere)) if elsewhere.leaving => EntryState::Released,
            (_, Some(_)) => return None,
        };
        Some((*address, state))
    });
    let guests = spec.guests.iter().filter_map(|(address, guest)| match guest {
        Guest::Served => Some((*address, EntryState::Served)),
        Guest::Leaving => Some((*address, EntryState::Released)),
        Guest::Left => None,
    });
    own.chain(guests)
        .map(|(address, state)| Ok(Entry { vip: Vip::try_from(address)?, state }))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::Preempt;

    fn read(spec: serde_json::Value) -> Result<Planned, Invalid> {
        let object = json!({
            "apiVersion": "barevip.io/v1alpha1",
            "kind": "VirtualRouter",
            "metadata": {"name": "default-v4-0", "uid": "u", "generation": 7},
            "spec": spec,
        });
        virtual_router(serde_json::from_value(object).unwrap(), "b")
    }

    fn minimal() -> serde_json::Value {
        let holders = json!([{"uid": "s", "namespace": "default", "name": "web"}]);
        let released = |confirmed: bool| json!({"at": "2026-01-01T00:00:00Z", "namespace": "default", "name": "old", "confirmed": confirmed});
        json!({
            "pool": "default", "family": "IPv4", "vrid": 101,
            "addresses": [
                {"ip": "192.0.2.200", "holders": holders},
                {"ip": "192.0.2.201", "released": released(false)},
                {"ip": "192.0.2.202", "released": released(true)},
                {"ip": "192.0.2.203", "holders": holders, "servedBy": "default-v4-g", "leaving": true},
                {"ip": "192.0.2.204", "holders": holders, "servedBy": "default-v4-g"},
            ],
            "guests": [
                {"ip": "192.0.2.210", "state": "Served"},
                {"ip": "192.0.2.211", "state": "Leaving"},
                {"ip": "192.0.2.212", "state": "Left"},
            ],
            "candidates": [
                {"node": "a", "priority": 254, "address": "192.0.2.1"},
                {"node": "b", "priority": 230, "address": "192.0.2.2"},
                {"node": "c", "priority": 206, "joining": true},
            ],
        })
    }

    #[test]
    fn an_agent_needs_nothing_but_the_router() {
        let router = read(minimal()).unwrap();
        let served: Vec<String> = router.served().map(|vip| vip.to_string()).collect();
        assert_eq!(served, ["192.0.2.200", "192.0.2.210"]);
        let listed: Vec<String> = router.entries.iter().map(|e| e.vip.to_string()).collect();
        assert_eq!(
            listed,
            ["192.0.2.200", "192.0.2.201", "192.0.2.203", "192.0.2.210", "192.0.2.211"]
        );
        assert_eq!(router.transport.peers, ["192.0.2.1".parse::<std::net::IpAddr>().unwrap()]);
        assert!(router.candidate("c").unwrap().joining);
        assert_eq!(router.version, Version { uid: "u".to_owned(), generation: 7 });
    }

    #[test]
    fn what_the_pool_says_of_announcing_is_in_the_router() {
        let mut spec = minimal();
        spec["interfaces"] = json!(["eth0", "bond0"]);
        spec["interval"] = json!("500ms");
        spec["preempt"] = json!("never");
        spec["multicast"] = json!(false);
        let router = read(spec).unwrap();
        assert_eq!(router.link, LinkSelector::OneOf(vec!["eth0".to_owned(), "bond0".to_owned()]));
        assert_eq!(router.interval.duration().as_millis(), 500);
        assert_eq!(router.preempt, Preempt::Never);
        assert!(!router.transport.multicast);
    }

    #[test]
    fn a_field_that_makes_no_sense_is_named() {
        let mut spec = minimal();
        spec["interval"] = json!("fast");
        assert!(read(spec).unwrap_err().to_string().contains("spec.interval: \"fast\""));
    }
}
