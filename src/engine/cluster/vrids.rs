//! Which VRIDs are free: each is used once in the cluster by address family, and never where
//! others use it on a LAN of ours. One that was given up rests, so that no straggler meets a
//! stranger on it. A router that others disturb moves to another one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::hash::stable_hash;
use super::placement::{Architect, PLACED, Plan};
use super::standing::{RENEWED_WITHIN, is_heard};
use super::world::{Condition, Memory, Timestamp, World};
use crate::model::{Family, Pool, Vrid};

/// A stranger that is heard for so many seconds is there to stay.
const EVADED_AFTER: i64 = 60;
/// A router moves at most once in so many seconds.
const EVADED_EVERY: i64 = 600;
/// A VRID that was given up is given to another router after so many seconds.
const RESTS_FOR: i64 = 600;

/// The VRIDs that are in use, ours and others'.
pub(super) struct Vrids {
    used: BTreeSet<(Family, Vrid)>,
    /// Those of routers that have no object: what agents announce, the latest report last, and what
    /// is being made.
    remembered: BTreeMap<Arc<str>, Vrid>,
}

impl Vrids {
    /// Those of all routers, and those that any agent hears others use; notes which ones are free
    /// again.
    pub(super) fn new(world: &World, memory: &mut Memory, now: Timestamp) -> Self {
        let routers = world.routers.iter();
        let ours: BTreeMap<_, _> =
            routers.map(|(name, o)| ((o.spec.family, o.spec.vrid), Arc::clone(name))).collect();
        for (vrid, name) in std::mem::take(&mut memory.vrids) {
            if ours.contains_key(&vrid) {
                continue;
            }
            if world.routers.contains_key(&name) {
                memory.evaded_at.insert(Arc::clone(&name), now);
            }
            memory.freed.insert(vrid, (name, now));
        }
        memory
            .freed
            .retain(|vrid, (_, since)| !ours.contains_key(vrid) && since.after(RESTS_FOR) > now);
        memory.vrids = ours;
        let mut reports: Vec<_> =
            world.nodes.values().filter_map(|node| node.report.as_ref()).collect();
        reports.sort_by_key(|report| report.at);
        let foreign = reports.iter().flat_map(|report| report.foreign.iter().copied());
        let ours = memory.vrids.keys().copied();
        let (moving, new): (Vec<_>, Vec<_>) =
            world.under_way.iter().partition(|(name, _)| world.routers.contains_key(*name));
        let moving = moving.into_iter().map(|(_, spec)| (spec.family, spec.vrid));
        let used = ours.chain(foreign).chain(moving).collect();
        let active = reports.iter().flat_map(|report| &report.active);
        let remembered = active
            .filter(|(name, _)| !world.routers.contains_key(*name))
            .filter_map(|(name, reign)| Some((Arc::clone(name), reign.vrid?)))
            .chain(new.into_iter().map(|(name, spec)| (Arc::clone(name), spec.vrid)))
            .collect();
        Self { used, remembered }
    }

    /// Takes a VRID of `range` for a router: where the hash of the cluster and its name points, or
    /// the next free one upwards, around the end. `None` when all are in use or rest.
    fn take(
        &mut self,
        range: &RangeInclusive<u8>,
        family: Family,
        cluster: &str,
        router: &str,
        memory: &Memory,
    ) -> Option<Vrid> {
        let length = u64::try_from(range.len()).ok().filter(|length| *length > 0)?;
        let first = stable_hash(&[cluster.as_bytes(), router.as_bytes()]) % length;
        let skipped = usize::try_from(first).ok()?;
        let rests = |vrid: Vrid| {
            memory.freed.get(&(family, vrid)).is_some_and(|(whose, _)| **whose != *router)
        };
        let is_others = |vrid: Vrid| {
            self.remembered.iter().any(|(name, theirs)| *theirs == vrid && **name != *router)
        };
        let is_free = |vrid: &Vrid| {
            !self.used.contains(&(family, *vrid)) && !rests(*vrid) && !is_others(*vrid)
        };
        let vrid = range
            .clone()
            .skip(skipped)
            .chain(range.clone().take(skipped))
            .filter_map(|number| Vrid::try_from(number).ok())
            .find(is_free)?;
        self.used.insert((family, vrid));
        Some(vrid)
    }

    /// The VRID that an agent announces a router with that has lost its object.
    fn take_back(&mut self, family: Family, router: &str, memory: &Memory) -> Option<Vrid> {
        let vrid = *self.remembered.get(router)?;
        let is_free = !memory.vrids.contains_key(&(family, vrid));
        (is_free && self.used.insert((family, vrid))).then_some(vrid)
    }
}

impl<'a> Architect<'a> {
    /// A VRID for a router that there is none of.
    pub(super) fn new_vrid(&mut self, name: &str, pool: &Arc<str>, family: Family) -> Option<Vrid> {
        let back = self.vrids.take_back(family, name, &self.memory);
        back.or_else(|| self.another_vrid(name, pool, family))
    }

    /// The next one that is free; where there is none, the pool's condition says so.
    fn another_vrid(&mut self, name: &str, pool: &Arc<str>, family: Family) -> Option<Vrid> {
        let of = self.pool(pool)?;
        let cluster = &self.world.settings.cluster;
        let vrid = self.vrids.take(&of.vrids, family, cluster, name, &self.memory);
        if vrid.is_none() {
            self.conditions.insert((Arc::clone(pool), PLACED), no_vrid_free(of, family));
            if let Some(since) = self.memory.freed.values().map(|(_, since)| *since).min() {
                self.wake(since.after(RESTS_FOR));
            }
        }
        vrid
    }

    /// Moves a router to another VRID where one of its candidates has heard a stranger on its own
    /// for long enough. Where none is free it stays.
    pub(super) fn evade(&mut self, name: &Arc<str>, plan: &mut Plan<'a>) {
        let spec = &mut plan.spec;
        let key = (spec.family, spec.vrid);
        let hears = |node: &str| {
            let report = self.world.nodes.get(node).and_then(|state| state.report.as_ref());
            is_heard(self.world, node, RENEWED_WITHIN, self.now)
                && report.is_some_and(|report| report.foreign.contains(&key))
        };
        if !spec.candidates.iter().any(|candidate| hears(&candidate.node)) {
            self.memory.disturbed_since.remove(name);
            return;
        }
        let since = *self.memory.disturbed_since.entry(Arc::clone(name)).or_insert(self.now);
        let pause = self.memory.evaded_at.get(name).map(|at| at.after(EVADED_EVERY));
        let due = since.after(EVADED_AFTER).max(pause.unwrap_or_default());
        if due > self.now {
            return self.wake(due);
        }
        if let Some(vrid) = self.another_vrid(name, &spec.pool, spec.family) {
            spec.vrid = vrid;
        }
    }
}

/// The condition of a pool that has too few VRIDs.
fn no_vrid_free(pool: &Pool, family: Family) -> Condition {
    let (first, last) = (pool.vrids.start(), pool.vrids.end());
    Condition {
        met: false,
        reason: "NoFreeVrid".to_owned(),
        message: format!(
            "Every VRID of {first}-{last} is in use for {family} or was until ten minutes ago, by other routers or by strangers on the LAN, so some addresses are claimed but not served. Widen the pool's vrids, or lower its number of routers in a new pool."
        ),
    }
}
