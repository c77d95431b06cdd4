//! Where addresses live and who may serve them: homes, VRIDs, candidates and their priorities.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::candidates::{Firsts, Site, first};
use super::decision::{RouterChange, RouterClaims};
use super::groups::{Groups, Home, NewGroup};
use super::standing::{Standing, incumbent};
use super::succession::heading;
use super::vrids::Vrids;
use super::world::{Claim, Claims, Condition, Memory, RouterObject, RouterSpec, Timestamp, World};
use crate::model::{Family, Pool, Vrid};

/// The condition of a pool that says whether its addresses have the routers that they need.
pub const PLACED: &str = "Placed";

/// What placement wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The writes that it needs, by the router's name.
    pub routers: BTreeMap<Arc<str>, RouterChange>,
    /// What keeps addresses of a pool from being served, by the pool's name and the type.
    pub conditions: BTreeMap<(Arc<str>, &'static str), Condition>,
    /// When to place again though nothing changes: somebody has been silent for long enough.
    pub wake_at: Option<Timestamp>,
    /// What the next round is to find in the world.
    pub memory: Memory,
}

/// The writes that turn the world's routers into ones with these claims and the right candidates.
/// A router that is not wanted but still claims something stays as it is.
#[must_use]
pub fn place(world: &World, wanted: BTreeMap<Arc<str>, RouterClaims>, now: Timestamp) -> Placement {
    let mut architect = Architect::new(world, &wanted, now);
    let (known, new): (BTreeMap<_, _>, BTreeMap<_, _>) =
        wanted.into_iter().partition(|(name, _)| world.routers.contains_key(name));
    let mut placement = Placement::default();
    architect.reserve(&mut placement);
    let mut plans = BTreeMap::new();
    for (name, object) in &world.routers {
        let is_left_over = object.spec.claims.is_empty();
        let claims = match known.get(name) {
            Some(router) => router.claims.clone(),
            None if is_left_over => Claims::default(),
            None => continue,
        };
        plans.insert(&**name, architect.plan(name, object, claims));
    }
    for (name, router) in new {
        if router.claims.is_empty() {
            continue;
        }
        if let Some(vrid) = architect.new_vrid(&name, &router.pool, router.family) {
            let change = architect.build(&name, vrid, router);
            placement.routers.extend(change.map(|change| (name, change)));
        }
    }
    architect.even_out(&mut plans);
    architect.warn(&plans);
    for (name, plan) in plans {
        if let Some(change) = plan.change() {
            placement.routers.insert(name.into(), change);
        }
    }
    let Architect { memory, conditions, wake_at, .. } = architect;
    Placement { conditions, wake_at, memory, ..placement }
}

/// What is looked up for many routers while they are placed, and what becomes of it.
pub(super) struct Architect<'a> {
    pub(super) world: &'a World,
    pub(super) now: Timestamp,
    groups: Groups<'a>,
    sites: BTreeMap<(Arc<str>, Family), Site<'a>>,
    pub(super) firsts: Firsts,
    pub(super) vrids: Vrids,
    pub(super) memory: Memory,
    pub(super) conditions: BTreeMap<(Arc<str>, &'static str), Condition>,
    wake_at: Option<Timestamp>,
    /// Routers, those to be made included.
    pub(super) count: u32,
}

/// What is to become of one existing router.
pub(super) struct Plan<'a> {
    pub(super) object: &'a RouterObject,
    pub(super) standing: Standing<'a>,
    /// What it is to say.
    pub(super) spec: RouterSpec,
    /// Though it may be empty still.
    is_wanted: bool,
    /// The wish that is done, or can't be.
    pub(super) answered: Option<Arc<str>>,
}

impl Plan<'_> {
    /// Whether its candidates may change places now.
    pub(super) fn may_be_evened(&self) -> bool {
        let is_moving = self.spec.takeover.is_some() || self.object.spec.takeover.is_some();
        self.spec.serves() && !is_moving && self.object.move_to.is_none()
    }

    /// The write that it needs. It is retired once it is empty and nobody serves anything of it.
    fn change(self) -> Option<RouterChange> {
        let Self { object, standing, spec, is_wanted, answered } = self;
        let (uid, generation) = (object.uid.clone(), object.generation);
        if spec != object.spec || answered.is_some() {
            return Some(RouterChange::Update { uid, generation, spec, answered });
        }
        (spec.is_empty() && !is_wanted && standing.is_retired())
            .then_some(RouterChange::Delete { uid, generation })
    }
}

impl<'a> Architect<'a> {
    fn new(world: &'a World, wanted: &BTreeMap<Arc<str>, RouterClaims>, now: Timestamp) -> Self {
        let mut memory = world.memory.clone();
        memory.forget(|name| !world.routers.contains_key(name));
        let vrids = Vrids::new(world, &mut memory, now);
        let new = wanted.keys().filter(|name| !world.routers.contains_key(*name)).count();
        let count = u32::try_from(world.routers.len() + new).unwrap_or(u32::MAX);
        Self {
            world,
            now,
            groups: Groups::new(world, wanted, now),
            sites: BTreeMap::new(),
            firsts: Firsts::new(world),
            vrids,
            memory,
            conditions: BTreeMap::new(),
            wake_at: None,
            count,
        }
    }

    /// To be called again at this time.
    pub(super) fn wake(&mut self, at: Timestamp) {
        self.wake_at = self.wake_at.into_iter().chain([at]).min();
    }

    pub(super) fn pool(&self, name: &str) -> Option<&'a Pool> {
        self.world.pools.get(name)?.pool.as_ref().ok()
    }

    /// Who may announce a router of this pool and family; `None` without the pool: nobody can say.
    pub(super) fn site(&mut self, pool: &Arc<str>, family: Family) -> Option<&Site<'a>> {
        let (world, now, of) = (self.world, self.now, self.pool(pool)?);
        let key = (Arc::clone(pool), family);
        Some(self.sites.entry(key).or_insert_with(|| Site::new(world, of, family, now)))
    }

    /// Makes the routers of groups that there are none of yet. A group that no VRID is free for
    /// changes nothing: its Services are served as they are.
    fn reserve(&mut self, placement: &mut Placement) {
        let mut impossible = BTreeSet::new();
        for (name, group) in std::mem::take(&mut self.groups.new) {
            let NewGroup { pool, family } = group;
            let Some(vrid) = self.new_vrid(&name, &pool, family) else {
                impossible.insert(name);
                continue;
            };
            let router = RouterClaims { pool, family, claims: Claims::default() };
            let change = self.build(&name, vrid, router);
            placement.routers.extend(change.map(|change| (name, change)));
        }
        self.groups.give_up(&impossible);
    }

    /// A router that there is none of yet. Its first candidate is asked to take over, so that its
    /// first Service need not wait for a down interval.
    fn build(&mut self, name: &str, vrid: Vrid, router: RouterClaims) -> Option<RouterChange> {
        let RouterClaims { pool, family, claims } = router;
        let incumbent = incumbent(self.world, name);
        let firsts = std::mem::take(&mut self.firsts);
        let candidates = self.site(&pool, family)?.choose(name, incumbent, &firsts);
        self.firsts = firsts;
        self.firsts.change(None, first(&candidates));
        let elsewhere =
            self.groups.elsewhere(None, &claims, Home { is_settled: false, is_current: true });
        let manner = self.manner(&pool, family, &candidates, None);
        let mut spec = RouterSpec {
            manner,
            pool,
            family,
            vrid,
            claims,
            elsewhere,
            guests: self.groups.first_guests(name),
            candidates,
            takeover: None,
        };
        spec.takeover = first(&spec.candidates).filter(|_| spec.serves()).map(Into::into);
        Some(RouterChange::Create(spec))
    }

    /// What an existing router needs.
    fn plan(
        &mut self,
        name: &'a Arc<str>,
        object: &'a RouterObject,
        mut claims: Claims,
    ) -> Plan<'a> {
        let standing = Standing::new(self.world, name, object, self.now);
        if let Some(at) = standing.wake_at() {
            self.wake(at);
        }
        let (old, settled) = (&object.spec, standing.is_settled());
        let home = Home { is_settled: settled, is_current: standing.is_retired() };
        confirm(&mut claims, &old.claims, |address| match old.elsewhere.get(&address) {
            Some(elsewhere) if !elsewhere.leaving => {
                self.groups.has_left(&elsewhere.router, address)
            }
            Some(_) | None => settled,
        });
        let elsewhere = self.groups.elsewhere(Some(old), &claims, home);
        let guests = self.groups.guests(name, old.family, &old.guests, settled);
        let spec = RouterSpec { claims, elsewhere, guests, ..old.clone() };
        let is_wanted = self.groups.is_wanted(name);
        let mut plan = Plan { object, standing, spec, is_wanted, answered: None };
        if plan.spec.is_empty() {
            plan.spec.takeover = None;
            plan.answered.clone_from(&object.move_to);
        } else {
            let is_handed_over = self.conclude(name, &mut plan);
            self.list_candidates(name, &mut plan, is_handed_over);
            self.ask(name, &mut plan);
            self.evade(name, &mut plan);
        }
        let RouterSpec { pool, family, candidates, .. } = &plan.spec;
        plan.spec.manner = self.manner(pool, *family, candidates, Some(&old.manner));
        self.firsts.change(heading(&object.spec), heading(&plan.spec));
        plan
    }

    fn list_candidates(&mut self, name: &str, plan: &mut Plan<'a>, is_handed_over: bool) {
        let Plan { standing, spec, .. } = plan;
        let firsts = std::mem::take(&mut self.firsts);
        // Without its pool nobody can say who may serve it: whoever did goes on.
        if let Some(site) = self.site(&spec.pool, spec.family) {
            // Whoever is leaving stays until it has handed over.
            let stays = |node: &str| !is_handed_over && standing.is_served_by(node);
            spec.candidates = site.keep(name, &spec.candidates, standing, stays, &firsts);
        }
        self.firsts = firsts;
    }
}

/// Confirms the releases that the object `shown` states too, if nobody serves anything that it
/// states no more. A confirmation is never taken back.
fn confirm(claims: &mut Claims, shown: &Claims, is_settled: impl Fn(IpAddr) -> bool) {
    let is_confirmed = |(address, claim): &(&IpAddr, &Claim)| match (claim, shown.get(*address)) {
        (Claim::Released(release), Some(Claim::Released(shown))) => {
            (release.at, &release.by) == (shown.at, &shown.by)
                && !release.confirmed
                && (shown.confirmed || is_settled(**address))
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
