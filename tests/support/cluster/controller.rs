//! A controller as the program is one: a copy of the world, decisions from it, writes with
//! preconditions, and each write shown in the copy at once.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use barevip::engine::cluster::allocator::{Allocation, allocate};
use barevip::engine::cluster::decision::{RouterClaims, ServiceChange};
use barevip::engine::cluster::world::{Claim, Service, Uid, World};

use super::api::{Api, spec};
use super::judge::statuses;

/// One of possibly several.
#[derive(Default)]
pub(crate) struct Controller {
    /// What it sees; a test may make it look at an old one.
    pub(crate) world: World,
}

impl Controller {
    /// Its watches catch up. A new controller knows of no unpublished claims.
    pub(crate) fn look(&mut self, api: &Api) {
        let unpublished = std::mem::take(&mut self.world.unpublished);
        let under_way = std::mem::take(&mut self.world.under_way);
        self.world = World { unpublished, under_way, ..api.world.clone() };
    }

    /// Decides, and sends claims that nothing is heard of yet.
    pub(crate) fn send_claims(&mut self, api: &Api) -> BTreeMap<Arc<str>, RouterClaims> {
        let sent = self.allocate(api).routers;
        let specs = sent.iter().map(|(name, wanted)| (Arc::clone(name), spec(wanted)));
        self.world.under_way = specs.collect();
        sent
    }

    pub(crate) fn allocate(&self, api: &Api) -> Allocation {
        allocate(&self.world, api.now)
    }

    /// Decides and writes claims; how many writes it tried.
    pub(crate) fn claim(&mut self, api: &mut Api) -> usize {
        let mut tried = 0;
        for (name, wanted) in self.allocate(api).routers {
            let seen = self.world.routers.get(&name);
            if seen.map_or(wanted.claims.is_empty(), |seen| seen.spec.claims == wanted.claims) {
                continue;
            }
            tried += 1;
            let before = seen.map(|seen| pairs(&seen.spec.claims)).unwrap_or_default();
            let seen = seen.map(|seen| (seen.uid.clone(), seen.generation));
            if let Ok(object) = api.put_claims(&name, seen, &wanted) {
                let is_shown = |(address, uid): &(IpAddr, Uid)| {
                    let service = self.world.services.get(uid);
                    service.is_some_and(|service| statuses(service).any(|shown| shown == *address))
                };
                let mut new = pairs(&object.spec.claims);
                new.retain(|pair| !before.contains(pair) && !is_shown(pair));
                self.world.unpublished.extend(new);
                self.world.routers.insert(name, object);
            }
        }
        tried
    }

    /// Decides and writes what Services say; how many writes it tried.
    pub(crate) fn publish(&mut self, api: &mut Api) -> usize {
        let changes = self.allocate(api).services;
        for change in &changes {
            self.write(api, change);
        }
        changes.len()
    }

    fn write(&mut self, api: &mut Api, change: &ServiceChange) {
        let before = &self.world.services[&change.uid].ingress;
        let gains = change.ingress.iter().flatten().any(|shown| !before.contains(shown));
        // Losses go the other way round: externalIPs never show what the status does not.
        let done = (gains || self.write_external(api, change))
            && self.write_status(api, change)
            && (!gains || self.write_external(api, change));
        if done {
            api.tell(&change.uid, &change.notices);
        }
    }

    pub(crate) fn write_status(&mut self, api: &mut Api, change: &ServiceChange) -> bool {
        if change.ingress.is_none() && change.condition.is_none() {
            return true;
        }
        let version = self.world.services[&change.uid].resource_version.clone();
        let (ingress, condition) = (change.ingress.as_ref(), change.condition.as_ref());
        let answer = api.patch_status(&change.uid, &version, ingress, condition);
        // Done, or nobody knows: clients may have heard of them.
        if answer.as_ref().err().is_none_or(|code| *code >= 500) {
            for ingress in change.ingress.iter().flatten() {
                let address = ingress.ip.as_deref().and_then(|ip| ip.parse().ok());
                if let Some(address) = address {
                    self.world.unpublished.remove(&(address, change.uid.clone()));
                }
            }
        }
        self.overlay(&change.uid, answer)
    }

    fn write_external(&mut self, api: &mut Api, change: &ServiceChange) -> bool {
        let Some(external_ips) = &change.external_ips else { return true };
        let version = self.world.services[&change.uid].resource_version.clone();
        let answer = api.patch_external(&change.uid, &version, external_ips);
        self.overlay(&change.uid, answer)
    }

    fn overlay(&mut self, uid: &Uid, answer: Result<Service, u16>) -> bool {
        match answer {
            Ok(service) => self.world.services.insert(uid.clone(), service).is_some(),
            // DenyServiceExternalIPs: it will say so again, and the status stands.
            Err(403) => true,
            Err(_) => false,
        }
    }

    /// One round: look, claim, publish. How many writes it tried.
    pub(crate) fn round(&mut self, api: &mut Api) -> usize {
        self.look(api);
        self.claim(api) + self.publish(api)
    }
}

fn pairs(claims: &BTreeMap<IpAddr, Claim>) -> Vec<(IpAddr, Uid)> {
    let holders = |claim: &Claim| match claim {
        Claim::Held(holders) => holders.iter().map(|holder| holder.uid.clone()).collect(),
        Claim::Released(_) | Claim::Pinned => Vec::new(),
    };
    claims.iter().flat_map(|(at, claim)| holders(claim).into_iter().map(|uid| (*at, uid))).collect()
}
