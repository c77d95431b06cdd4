//! Claims that nobody has been told of: their addresses need no rest when they are given back.
//!
//! A claim is told of once its publication was sent, whatever became of that; only one that the
//! API server refused because the Service had changed or gone is as if it had never been.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::engine::cluster::decision::{RouterChange, ServiceChange};
use crate::engine::cluster::world::{RouterSpec, Service, Uid, World};
use crate::engine::time::Instant;

/// Claims and publications under way.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    /// Claims, by router.
    claims: BTreeMap<Arc<str>, Vec<(IpAddr, Uid)>>,
    publications: BTreeMap<Uid, Sent>,
}

#[derive(Debug)]
struct Sent {
    /// Of these claims nobody had been told before.
    untold: Vec<IpAddr>,
    /// The Service had no address, since then.
    lacking_since: Option<Instant>,
}

impl UnderWay {
    /// A router's claims were sent. Noted at once: the watch may show them, and their publication
    /// may be sent, before the answer is here.
    pub(super) fn send_claims(
        &mut self,
        world: &mut World,
        router: &Arc<str>,
        change: &RouterChange,
    ) {
        let claims = match change {
            RouterChange::Create(spec) | RouterChange::Update { spec, .. } => pairs(spec),
            RouterChange::Delete { .. } => Vec::new(),
        };
        let before = world.routers.get(router).map(|seen| pairs(&seen.spec)).unwrap_or_default();
        for gone in before.iter().filter(|pair| !claims.contains(pair)) {
            world.unpublished.remove(gone);
        }
        let mut new = claims;
        new.retain(|pair| {
            let is_shown = world.services.get(&pair.1).is_some_and(|s| shows(s, pair.0));
            !before.contains(pair) && !is_shown
        });
        world.unpublished.extend(new.iter().cloned());
        self.claims.insert(Arc::clone(router), new);
        match change {
            RouterChange::Create(spec) | RouterChange::Update { spec, .. } => {
                world.under_way.insert(Arc::clone(router), spec.clone());
            }
            RouterChange::Delete { .. } => {}
        }
    }

    /// They were written; or not, or nobody knows: what is there then may be another leader's.
    pub(super) fn settle_claims(&mut self, world: &mut World, router: &str, written: bool) {
        world.under_way.remove(router);
        let claims = self.claims.remove(router).unwrap_or_default();
        for claim in claims.iter().filter(|_| !written) {
            world.unpublished.remove(claim);
        }
    }

    /// A publication was sent, to a Service that had no address since then.
    pub(super) fn send(
        &mut self,
        world: &mut World,
        change: &ServiceChange,
        lacking_since: Option<Instant>,
    ) {
        let shown = change.ingress.iter().flatten();
        let addresses = shown.filter_map(|entry| entry.ip.as_deref()?.parse::<IpAddr>().ok());
        let first_told =
            |address: &IpAddr| world.unpublished.remove(&(*address, change.uid.clone()));
        let untold: Vec<_> = addresses.filter(first_told).collect();
        if lacking_since.is_some() || !untold.is_empty() {
            self.publications.insert(change.uid.clone(), Sent { untold, lacking_since });
        }
    }

    /// It was carried out, or may have been. Since when the Service had had no address, if this is
    /// its first.
    pub(super) fn told(&mut self, uid: &Uid) -> Option<Instant> {
        self.publications.remove(uid)?.lacking_since
    }

    /// It was refused because the Service has changed or gone.
    pub(super) fn refused(&mut self, world: &mut World, uid: &Uid) {
        let untold = self.publications.remove(uid).map(|sent| sent.untold).unwrap_or_default();
        world.unpublished.extend(untold.into_iter().map(|address| (address, uid.clone())));
    }
}

fn pairs(router: &RouterSpec) -> Vec<(IpAddr, Uid)> {
    let held = router.held();
    held.flat_map(|(address, holders)| holders.iter().map(move |h| (address, h.uid.clone())))
        .collect()
}

fn shows(service: &Service, address: IpAddr) -> bool {
    let shown = service.ingress.iter().filter_map(|entry| entry.ip.as_deref());
    shown.filter_map(|ip| ip.parse().ok()).any(|ip: IpAddr| ip == address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::cluster::world::{Claim, Holder, Ingress, Manner, RouterSpec, ServiceKey};
    use crate::model::{Family, Vrid};

    const ADDRESS: &str = "192.0.2.200";

    fn service() -> Service {
        Service {
            key: ServiceKey { namespace: "default".into(), name: "web".into() },
            load_balancer: true,
            families: vec![Family::Ipv4],
            ..Service::default()
        }
    }

    fn claims() -> RouterChange {
        let holder = Holder { uid: "web".into(), service: service().key };
        RouterChange::Create(RouterSpec {
            pool: "default".into(),
            family: Family::Ipv4,
            vrid: Vrid::try_from(100).unwrap(),
            claims: [(ADDRESS.parse().unwrap(), Claim::Held(vec![holder]))].into_iter().collect(),
            elsewhere: [].into(),
            guests: [].into(),
            candidates: Vec::new(),
            takeover: None,
            manner: Manner::default(),
        })
    }

    fn publication() -> ServiceChange {
        let entry = Ingress { ip: Some(ADDRESS.to_owned()), hostname: None };
        ServiceChange {
            uid: "web".into(),
            ingress: Some(vec![entry]),
            condition: None,
            external_ips: None,
            notices: Vec::new(),
        }
    }

    fn claimed() -> (World, UnderWay) {
        let (mut world, mut under_way) = (World::default(), UnderWay::default());
        world.services.insert("web".into(), service());
        under_way.send_claims(&mut world, &"router".into(), &claims());
        assert_eq!(world.unpublished.len(), 1, "nobody has been told of it");
        (world, under_way)
    }

    #[test]
    fn a_publication_that_was_sent_may_have_been_seen() {
        let (mut world, mut under_way) = claimed();
        under_way.send(&mut world, &publication(), None);
        under_way.settle_claims(&mut world, "router", true);
        assert!(world.unpublished.is_empty(), "it is under way");
        under_way.told(&"web".into());
        under_way.refused(&mut world, &"web".into());
        assert!(world.unpublished.is_empty(), "a later refusal does not take that back");
    }

    #[test]
    fn a_publication_that_was_refused_has_told_nobody() {
        let (mut world, mut under_way) = claimed();
        under_way.settle_claims(&mut world, "router", true);
        under_way.send(&mut world, &publication(), None);
        under_way.refused(&mut world, &"web".into());
        assert_eq!(world.unpublished.len(), 1);
    }

    #[test]
    fn a_claim_that_was_not_written_may_be_anothers_later() {
        let (mut world, mut under_way) = claimed();
        under_way.settle_claims(&mut world, "router", false);
        assert!(world.unpublished.is_empty());
    }

    #[test]
    fn a_claim_that_the_status_shows_is_known_to_all() {
        let mut world = World::default();
        let ingress = publication().ingress.unwrap();
        world.services.insert("web".into(), Service { ingress, ..service() });
        UnderWay::default().send_claims(&mut world, &"router".into(), &claims());
        assert!(world.unpublished.is_empty());
    }
}
