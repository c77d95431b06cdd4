//! Where addresses live and who may serve them: homes, VRIDs, candidates and their priorities.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::candidates::{Firsts, Site, first};
use super::decision::{RouterChange, RouterClaims};
use super::standing::Standing;
use super::vrids::Vrids;
use super::world::{Claim, Claims, Condition, RouterObject, RouterSpec, Timestamp, World};
use crate::model::range::number;
use crate::model::{Family, Pool};

/// The condition of a pool that says whether its addresses have the routers that they need.
pub const PLACED: &str = "Placed";

/// What placement wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The writes that it needs, by the router's name.
    pub routers: BTreeMap<Arc<str>, RouterChange>,
    /// What keeps addresses of a pool from being served, by the pool's name: `(type, condition)`.
    pub conditions: BTreeMap<Arc<str>, (&'static str, Condition)>,
    /// When to place again though nothing changes: somebody has been silent for long enough.
    pub wake_at: Option<Timestamp>,
}

/// The name of the router that `address` lives in while it is free.
#[must_use]
pub fn home(pool_name: &str, pool: &Pool, address: IpAddr) -> Arc<str> {
    let number = number(address) % u128::from(pool.routers.max(1));
    let family = match Family::of(address) {
        Family::Ipv4 => "v4",
        Family::Ipv6 => "v6",
    };
    format!("{pool_name}-{family}-{number}").into()
}

/// The writes that turn the world's routers into ones with these claims and the right candidates.
/// A router that is not wanted but still claims something stays as it is.
#[must_use]
pub fn place(world: &World, wanted: BTreeMap<Arc<str>, RouterClaims>, now: Timestamp) -> Placement {
    let mut placement = Placement::default();
    let mut architect = Architect::new(world, now);
    let (standing, new): (BTreeMap<_, _>, BTreeMap<_, _>) =
        wanted.into_iter().partition(|(name, _)| world.routers.contains_key(name));
    for (name, object) in &world.routers {
        let is_left_over = object.spec.claims.is_empty();
        let claims = match standing.get(name) {
            Some(router) => router.claims.clone(),
            None if is_left_over => Claims::default(),
            None => continue,
        };
        let standing = Standing::new(world, name, object, now);
        placement.wake_at = placement.wake_at.into_iter().chain(standing.wake_at()).min();
        if let Some(change) = architect.alter(name, object, claims, &standing) {
            placement.routers.insert(Arc::clone(name), change);
        }
    }
    for (name, router) in new {
        let Some(Ok(pool)) = world.pools.get(&router.pool).map(|object| &object.pool) else {
            continue;
        };
        if router.claims.is_empty() {
            continue;
        }
        let family = router.family;
        match architect.build(&name, pool, &router) {
            Some(spec) => {
                placement.routers.insert(name, RouterChange::Create(spec));
            }
            None => {
                placement.conditions.insert(router.pool, (PLACED, no_vrid_free(pool, family)));
            }
        }
    }
    placement
}

/// What is looked up for many routers while they are placed.
struct Architect<'a> {
    world: &'a World,
    now: Timestamp,
    sites: BTreeMap<(Arc<str>, Family), Site<'a>>,
    firsts: Firsts<'a>,
    vrids: Vrids,
}

impl<'a> Architect<'a> {
    fn new(world: &'a World, now: Timestamp) -> Self {
        let (firsts, vrids) = (Firsts::new(world), Vrids::new(world));
        Self { world, now, sites: BTreeMap::new(), firsts, vrids }
    }

    /// A router that there is none of yet. Its first candidate is asked to take over, so that its
    /// first Service need not wait for a down interval. `None` when no VRID is free.
    fn build(&mut self, name: &str, pool: &Pool, router: &RouterClaims) -> Option<RouterSpec> {
        let family = router.family;
        let vrid = self.vrids.take(&pool.vrids, family, &self.world.settings.cluster, name)?;
        let (world, now) = (self.world, self.now);
        let site = self
            .sites
            .entry((Arc::clone(&router.pool), family))
            .or_insert_with(|| Site::new(world, pool, family, now));
        let candidates = site.choose(name, &mut self.firsts);
        Some(RouterSpec {
            pool: Arc::clone(&router.pool),
            family,
            vrid,
            claims: router.claims.clone(),
            takeover: first(&candidates).map(Into::into),
            candidates,
        })
    }

    /// What an existing router needs: it is altered, or retired once it is empty and nobody serves
    /// anything of it.
    fn alter(
        &mut self,
        name: &str,
        object: &'a RouterObject,
        mut claims: Claims,
        standing: &Standing<'_>,
    ) -> Option<RouterChange> {
        let RouterObject { uid, generation, spec: old } = object;
        confirm(&mut claims, &old.claims, standing.is_settled());
        let mut spec = RouterSpec { claims, ..old.clone() };
        if spec.claims.is_empty() {
            spec.takeover = None;
            if spec == *old && standing.is_retired() {
                return Some(RouterChange::Delete { uid: uid.clone(), generation: *generation });
            }
        } else {
            self.list_candidates(name, object, &mut spec, standing);
        }
        (spec != *old).then(|| RouterChange::Update {
            uid: uid.clone(),
            generation: *generation,
            spec,
        })
    }

    fn list_candidates(
        &mut self,
        name: &str,
        object: &'a RouterObject,
        spec: &mut RouterSpec,
        standing: &Standing<'_>,
    ) {
        let (world, now, family) = (self.world, self.now, spec.family);
        // Without its pool nobody can say who may serve it: whoever did goes on.
        if let Some(Ok(pool)) = world.pools.get(&spec.pool).map(|object| &object.pool) {
            let site = self
                .sites
                .entry((Arc::clone(&spec.pool), family))
                .or_insert_with(|| Site::new(world, pool, family, now));
            let listed = &object.spec.candidates;
            spec.candidates = site.keep(name, listed, standing, &mut self.firsts);
        }
        let candidates = &spec.candidates;
        spec.takeover = spec.takeover.take().filter(|node| {
            let is_listed = candidates.iter().any(|candidate| *candidate.node == **node);
            is_listed && !standing.is_taken_up_by(node)
        });
    }
}

/// Confirms the releases that the object `shown` states too, if nobody serves anything that it
/// states no more. A confirmation is never taken back.
fn confirm(claims: &mut Claims, shown: &Claims, is_settled: bool) {
    let is_confirmed = |(address, claim): &(&IpAddr, &Claim)| match (claim, shown.get(*address)) {
        (Claim::Released(release), Some(Claim::Released(shown))) => {
            (release.at, &release.by) == (shown.at, &shown.by)
                && !release.confirmed
                && (shown.confirmed || is_settled)
        }
        _ => false,
    };
    let confirmed: Vec<_> = claims.iter().filter(is_confirmed).map(|(at, _)| *at).collect();
    for address in confirmed {
        if let Some(Claim::Released(release)) = claims.get_mut(&address) {
            release.confirmed = true;
        }
    }
}

fn no_vrid_free(pool: &Pool, family: Family) -> Condition {
    let (first, last) = (pool.vrids.start(), pool.vrids.end());
    Condition {
        met: false,
        reason: "NoFreeVrid".to_owned(),
        message: format!(
            "Every VRID of {first}-{last} is in use for {family}, by other routers or by strangers on the LAN, so some addresses are claimed but not served. Widen the pool's vrids, or lower its number of routers in a new pool."
        ),
    }
}
