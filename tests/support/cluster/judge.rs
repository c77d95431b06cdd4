//! What must hold when all is quiet.
//!
//! * I1: no two Services have one address of a pool, unless they share it by key.
//! * I2: every Service of ours has an address, unless the range is full.
//! * I3: claims, statuses and the pools' counts agree.
//! * I4: another round makes no write.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use barevip::engine::cluster::allocator::allocate;
use barevip::engine::cluster::world::{Claim, Service, Uid, World};

use super::api::Api;
use super::controller::Controller;

fn is_ours(service: &Service) -> bool {
    service.load_balancer
        && !service.deleting
        && !service.contested
        && service.class.as_deref().is_none_or(|class| class == "barevip.io/vip")
}

fn of_pools(world: &World, address: &IpAddr) -> bool {
    let mut pools = world.pools.values().filter_map(|object| object.pool.as_ref().ok());
    pools.any(|pool| pool.contains(*address))
}

/// The addresses that its status shows.
pub(crate) fn statuses(service: &Service) -> impl Iterator<Item = IpAddr> + '_ {
    service.ingress.iter().filter_map(|ingress| ingress.ip.as_deref()?.parse().ok())
}

fn externals(service: &Service) -> impl Iterator<Item = IpAddr> + '_ {
    service.external_ips.iter().filter_map(|text| text.parse().ok())
}

/// Checks I1 to I4.
#[track_caller]
pub(crate) fn judge(api: &Api) {
    one_owner(api);
    agreement(api);
    everybody_served(api);
    quiet(api);
}

#[track_caller]
fn one_owner(api: &Api) {
    let world = &api.world;
    let mut owners: BTreeMap<IpAddr, Vec<&Service>> = BTreeMap::new();
    for service in world.services.values().filter(|service| is_ours(service)) {
        let mirrored = world.settings.mirror.then(|| externals(service));
        let all: BTreeSet<_> = statuses(service).chain(mirrored.into_iter().flatten()).collect();
        for address in all.into_iter().filter(|address| of_pools(world, address)) {
            owners.entry(address).or_default().push(service);
        }
    }
    for (address, owners) in owners {
        let keys: BTreeSet<_> = owners.iter().map(|service| service.share.as_deref()).collect();
        let do_share = keys.len() == 1 && !keys.contains(&None);
        let names: Vec<_> = owners.iter().map(|service| service.key.to_string()).collect();
        assert!(owners.len() == 1 || do_share, "I1: {address} is of {names:?}");
    }
}

#[track_caller]
fn agreement(api: &Api) {
    let world = &api.world;
    let claims = world.routers.values().flat_map(|router| router.spec.claims.keys());
    let mut seen = BTreeSet::new();
    for address in claims {
        assert!(seen.insert(*address), "I3: {address} is claimed in two routers");
    }
    let by_uid = api.held();
    let held_by = |uid: &Uid| by_uid.get(uid).cloned().unwrap_or_default();
    for (uid, service) in world.services.iter().filter(|(_, service)| is_ours(service)) {
        let held = held_by(uid);
        let published: BTreeSet<_> = statuses(service)
            .filter(|address| of_pools(world, address) || held.contains(address))
            .collect();
        assert_eq!(held, published, "I3: claims and status of {}", service.key);
    }
    let held = api.claims();
    let used = held
        .iter()
        .filter(|(address, claim)| matches!(claim, Claim::Held(_)) && of_pools(world, address));
    let allocation = allocate(world, api.now);
    let told: u64 = allocation.pools.values().map(|report| report.used).sum();
    assert_eq!(told, used.count() as u64, "I3: used addresses of the pools");
}

#[track_caller]
fn everybody_served(api: &Api) {
    let reports = allocate(&api.world, api.now).pools;
    let free: u128 = reports.values().map(|report| report.free).sum();
    let held = api.held();
    for (uid, service) in api.world.services.iter().filter(|(_, service)| is_ours(service)) {
        let count = held.get(uid).map_or(0, BTreeSet::len);
        assert!(count <= service.families.len(), "I2: {} has {count} addresses", service.key);
        let is_refused = service.condition.as_ref().is_some_and(|condition| !condition.met);
        assert!(
            count == service.families.len() || free == 0 || is_refused,
            "I2: {} waits though {free} are free",
            service.key
        );
    }
}

#[track_caller]
fn quiet(api: &Api) {
    let mut fresh = Controller::default();
    fresh.look(api);
    let allocation = fresh.allocate(api);
    let claims = |name: &str| api.world.routers.get(name).map(|router| &router.spec.claims);
    for (name, wanted) in &allocation.routers {
        let is_same = claims(name).map_or(wanted.claims.is_empty(), |is| *is == wanted.claims);
        assert!(is_same, "I4: {name} is to change: {:?} → {:?}", claims(name), wanted.claims);
    }
    assert_eq!(allocation.services, [], "I4: Services are to change");
}
