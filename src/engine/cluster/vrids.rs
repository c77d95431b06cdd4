//! Which VRIDs are free: each is used once in the cluster by address family, and never where
//! others use it on a LAN of ours.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use super::hash::stable_hash;
use super::world::World;
use crate::model::{Family, Vrid};

/// The VRIDs that are in use, ours and others'.
pub(super) struct Vrids {
    used: BTreeSet<(Family, Vrid)>,
}

impl Vrids {
    /// Those of all routers, and those that any agent hears others use.
    pub(super) fn new(world: &World) -> Self {
        let ours = world.routers.values().map(|object| (object.spec.family, object.spec.vrid));
        let reports = world.nodes.values().filter_map(|node| node.report.as_ref());
        let foreign = reports.flat_map(|report| report.foreign.iter().copied());
        Self { used: ours.chain(foreign).collect() }
    }

    /// Takes a VRID of `range` for a new router: where the hash of the cluster and its name points,
    /// or the next free one upwards, around the end. `None` when all are in use.
    pub(super) fn take(
        &mut self,
        range: &RangeInclusive<u8>,
        family: Family,
        cluster: &str,
        router: &str,
    ) -> Option<Vrid> {
        let length = u64::try_from(range.len()).ok().filter(|length| *length > 0)?;
        let first = stable_hash(&[cluster.as_bytes(), router.as_bytes()]) % length;
        let skipped = usize::try_from(first).ok()?;
        let vrid = range
            .clone()
            .skip(skipped)
            .chain(range.clone().take(skipped))
            .filter_map(|number| Vrid::try_from(number).ok())
            .find(|vrid| !self.used.contains(&(family, *vrid)))?;
        self.used.insert((family, vrid));
        Some(vrid)
    }
}
