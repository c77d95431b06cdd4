//! What keeps users from the pools' addresses: an admission policy of the API server, which reads
//! their ranges from a ConfigMap.
//!
//! An address is given only once the ConfigMap shows it, so that nobody is quicker. A ConfigMap
//! that can't be written holds nothing up, neither does a policy that is not there: then claims in
//! `VirtualRouter`s are what decides, and the pools' conditions say so.

use std::net::IpAddr;

use ipnet::IpNet;

use super::decision::{Decision, PoolReport, RouterChange};
use super::world::{Condition, Guard, Protection, RouterObject, World};

/// The condition of a pool that says whether users are kept from its addresses.
pub const PROTECTED: &str = "Protected";

/// Networks that the policy is given at most: it looks at each of them whenever a Service gains an
/// address, and beyond some thousands the API server refuses to.
pub const MOST: usize = 512;

/// Holds back what would give an address before its time, and says in the pools' conditions
/// whether users are kept from their addresses.
pub(super) fn guard(decision: &mut Decision, world: &World) {
    let Some(protection) = &world.protection else { return };
    let mut wanted = decision.protected.take().unwrap_or_default();
    wanted.truncate(MOST);
    let shown = protection.ranges.as_deref().unwrap_or_default();
    let is_stale = match &protection.ranges {
        Some(shown) => *shown != wanted,
        None => !wanted.is_empty(),
    };
    let is_pending = is_stale && protection.refused.is_none();
    if is_pending {
        decision
            .routers
            .retain(|name, change| !gives_openly(change, world.routers.get(name), shown));
        // What could be said of these pools is not true for long.
        decision.pools.retain(|_, report| is_covered(report, shown));
    }
    for report in decision.pools.values_mut().filter(|report| !report.networks.is_empty()) {
        let condition = condition(protection, is_covered(report, shown));
        report.conditions.push((PROTECTED, condition));
    }
    decision.protected = is_stale.then_some(wanted);
}

/// Whether a router would have an address that it had not and that nothing protects.
fn gives_openly(change: &RouterChange, before: Option<&RouterObject>, shown: &[IpNet]) -> bool {
    let spec = match change {
        RouterChange::Create(spec) | RouterChange::Update { spec, .. } => spec,
        RouterChange::Delete { .. } => return false,
    };
    let had = |address: IpAddr| {
        before.is_some_and(|before| before.spec.held().any(|(held, _)| held == address))
    };
    spec.held().any(|(address, _)| !covers(shown, address.into()) && !had(address))
}

fn is_covered(report: &PoolReport, shown: &[IpNet]) -> bool {
    report.networks.iter().all(|network| covers(shown, *network))
}

/// Whether one of these networks, sorted and disjoint, contains this one.
fn covers(shown: &[IpNet], network: IpNet) -> bool {
    let after = shown.partition_point(|shown| shown.network() <= network.network());
    let nearest = after.checked_sub(1).and_then(|at| shown.get(at));
    nearest.is_some_and(|nearest| nearest.contains(&network))
}

fn condition(protection: &Protection, is_covered: bool) -> Condition {
    let guards = [
        (&protection.policy, "ValidatingAdmissionPolicy", "PolicyMissing"),
        (&protection.binding, "ValidatingAdmissionPolicyBinding", "BindingMissing"),
    ];
    let open = "users can put its addresses into externalIPs and into the status of Services";
    let fault = guards.into_iter().find_map(|(guard, kind, missing)| match guard {
        Guard::Stands => None,
        Guard::Missing => Some((
            missing,
            format!(
                "The {kind} barevip-ingress-addresses is not there, so {open}; apply what `barevip manifests policies` prints."
            ),
        )),
        Guard::Useless(why) => Some((
            "BindingUseless",
            format!("The {kind} barevip-ingress-addresses {why}, so {open}."),
        )),
        Guard::Unreadable(why) => Some((
            "Unknown",
            format!("Whether the {kind} barevip-ingress-addresses is there can't be read: {why}"),
        )),
    });
    let uncovered = || match &protection.refused {
        Some(why) => (
            "RangesNotWritten",
            format!("The ConfigMap barevip-ranges does not list it, so {open}: {why}"),
        ),
        None => (
            "TooManyRanges",
            format!(
                "All pools together have more than {MOST} networks, and this one is beyond them, so {open}; let ranges begin and end where networks do."
            ),
        ),
    };
    let fault = fault.or_else(|| (!is_covered).then(uncovered));
    let met = fault.is_none();
    let (reason, message) = fault.unwrap_or_else(|| {
        let text = "Users can't put its addresses into externalIPs or the status of Services.";
        ("Protected", text.to_owned())
    });
    Condition { met, reason: reason.to_owned(), message }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::engine::cluster::world::{Claim, Holder, Manner, RouterSpec, ServiceKey, Uid};
    use crate::model::{Family, Vrid};

    fn networks(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn router(address: &str) -> RouterSpec {
        let service = ServiceKey { namespace: "default".into(), name: "web".into() };
        let holder = Holder { uid: Uid::from("web"), service };
        RouterSpec {
            pool: "new".into(),
            family: Family::Ipv4,
            vrid: Vrid::try_from(100).unwrap(),
            claims: [(address.parse().unwrap(), Claim::Held(vec![holder]))].into_iter().collect(),
            elsewhere: BTreeMap::new(),
            guests: BTreeMap::new(),
            candidates: Vec::new(),
            takeover: None,
            manner: Manner::default(),
        }
    }

    /// Pool `old` of .0/28, pool `new` of .16/28, and a first claim in the latter.
    fn decision() -> Decision {
        let report =
            |network: &str| PoolReport { networks: networks(&[network]), ..PoolReport::default() };
        let first = RouterChange::Create(router("192.0.2.16"));
        Decision {
            routers: BTreeMap::from([(Arc::from("new-v4-0"), first)]),
            pools: BTreeMap::from([
                ("old".into(), report("192.0.2.0/28")),
                ("new".into(), report("192.0.2.16/28")),
            ]),
            protected: Some(networks(&["192.0.2.0/27"])),
            ..Decision::default()
        }
    }

    fn world(ranges: Option<&[&str]>) -> World {
        let protection = Protection {
            ranges: ranges.map(networks),
            refused: None,
            policy: Guard::Stands,
            binding: Guard::Stands,
        };
        World { protection: Some(protection), ..World::default() }
    }

    fn guarded(world: &World) -> Decision {
        let mut decision = decision();
        guard(&mut decision, world);
        decision
    }

    fn says<'a>(decision: &'a Decision, pool: &str) -> Option<&'a str> {
        let report = decision.pools.get(pool)?;
        let condition = report.conditions.iter().find(|(kind, _)| *kind == PROTECTED);
        condition.map(|(_, condition)| condition.reason.as_str())
    }

    #[test]
    fn nothing_is_given_before_the_ranges_are_shown() {
        for shown in [None, Some(&["192.0.2.0/28"][..])] {
            let decision = guarded(&world(shown));
            assert_eq!(decision.routers, BTreeMap::new(), "{shown:?}");
            assert_eq!(decision.protected, Some(networks(&["192.0.2.0/27"])));
            assert_eq!(says(&decision, "new"), None, "it is told when it is known");
        }
        assert_eq!(says(&guarded(&world(Some(&["192.0.2.0/28"]))), "old"), Some("Protected"));
        let decision = guarded(&world(Some(&["192.0.2.0/27"])));
        assert_eq!(decision.routers.len(), 1);
        assert_eq!(decision.protected, None, "nothing is to be written");
        assert_eq!(says(&decision, "new"), Some("Protected"));
    }

    #[test]
    fn what_was_given_before_is_not_held_up() {
        let mut world = world(Some(&["192.0.2.0/28"]));
        let spec = router("192.0.2.16");
        let object =
            RouterObject { uid: Uid::from("r"), generation: 1, spec: spec.clone(), move_to: None };
        world.routers.insert("new-v4-0".into(), object);
        let mut decision = decision();
        let update =
            RouterChange::Update { uid: Uid::from("r"), generation: 1, spec, answered: None };
        decision.routers.insert("new-v4-0".into(), update);
        guard(&mut decision, &world);
        assert_eq!(decision.routers.len(), 1);
    }

    #[test]
    fn what_can_not_be_written_holds_nothing_up() {
        let mut world = world(None);
        world.protection.as_mut().unwrap().refused = Some("quota exceeded".to_owned());
        let decision = guarded(&world);
        assert_eq!(decision.routers.len(), 1);
        assert!(decision.protected.is_some(), "it is tried again");
        assert_eq!(says(&decision, "new"), Some("RangesNotWritten"));
    }

    #[test]
    fn every_lack_is_named() {
        let cases = [
            (Guard::Missing, Guard::Missing, "PolicyMissing"),
            (Guard::Stands, Guard::Missing, "BindingMissing"),
            (Guard::Stands, Guard::Useless("denies nothing".to_owned()), "BindingUseless"),
            (Guard::Unreadable("403".to_owned()), Guard::Stands, "Unknown"),
        ];
        for (policy, binding, reason) in cases {
            let mut world = world(Some(&["192.0.2.0/27"]));
            let protection = world.protection.as_mut().unwrap();
            (protection.policy, protection.binding) = (policy, binding);
            let decision = guarded(&world);
            assert_eq!(says(&decision, "new"), Some(reason));
            assert_eq!(decision.routers.len(), 1, "{reason}: addresses are given all the same");
        }
    }

    #[test]
    fn more_networks_than_the_policy_bears_are_cut_and_said() {
        let all: Vec<IpNet> = (0..=255)
            .flat_map(|a| [0, 64, 128].map(|b| format!("10.{a}.{b}.0/24").parse().unwrap()))
            .collect();
        let written = all.get(..MOST).unwrap().to_vec();
        let mut world = world(None);
        world.protection.as_mut().unwrap().ranges = Some(written);
        let mut decision = decision();
        decision.protected = Some([all, networks(&["192.0.2.0/27"])].concat());
        guard(&mut decision, &world);
        assert_eq!(decision.protected, None);
        assert_eq!(decision.routers.len(), 1);
        assert_eq!(says(&decision, "new"), Some("TooManyRanges"));
    }
}
