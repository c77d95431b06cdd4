//! How a router is announced: copies of what its pool says, and where its candidates are spoken
//! to, so that an agent needs nothing but the router itself.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::placement::Architect;
use super::world::Manner;
use crate::model::{Candidate, Family, Interval};

/// Adverts of all routers leave a node at least so far apart, unicast copies counted: one a node
/// hears by the group and one by its own address.
const SPACING: Duration = Duration::from_millis(5);
/// Intervals that have grown are multiples of this: not every new router changes all others.
const STEP: Duration = Duration::from_millis(50);

impl Architect<'_> {
    /// How a router of this pool and family with these candidates is announced. What nobody can
    /// say any more stays as it was: the pool may be gone, and a node silent.
    pub(super) fn manner(
        &mut self,
        pool: &Arc<str>,
        family: Family,
        candidates: &[Candidate],
        before: Option<&Manner>,
    ) -> Manner {
        let Some(announcing) = self.pool(pool).map(|pool| &pool.announcing) else {
            return before.cloned().unwrap_or_default();
        };
        let paths = if announcing.multicast { 2 } else { 1 };
        Manner {
            interfaces: announcing.interfaces.clone(),
            interval: announcing.interval.unwrap_or_else(|| usual_interval(self.count * paths)),
            preempt: announcing.preempt,
            multicast: announcing.multicast,
            peers: self.peers(pool, family, candidates, before),
        }
    }

    fn peers(
        &mut self,
        pool: &Arc<str>,
        family: Family,
        candidates: &[Candidate],
        before: Option<&Manner>,
    ) -> BTreeMap<String, IpAddr> {
        let world = self.world;
        let Some(site) = self.site(pool, family) else { return BTreeMap::new() };
        let now = |node: &str| {
            let report = world.nodes.get(node)?.report.as_ref()?;
            let own = report.links.get(site.nodes.get(node)?.link?)?;
            let of_family = own.iter().map(ipnet::IpNet::addr).filter(|a| Family::of(*a) == family);
            // Adverts come from a link-local address, and are only taken on their own link.
            of_family.max_by_key(|address| match address {
                IpAddr::V4(_) => false,
                IpAddr::V6(v6) => v6.is_unicast_link_local(),
            })
        };
        let address = |node: &str| now(node).or_else(|| before?.peers.get(node).copied());
        let nodes = candidates.iter().map(|candidate| &candidate.node);
        nodes.filter_map(|node| Some((node.clone(), address(node)?))).collect()
    }
}

/// The interval where the pool states none: the usual one while so many adverts keep their spacing
/// in it, else as much longer as they need.
fn usual_interval(adverts: u32) -> Interval {
    let usual = Interval::DEFAULT.duration();
    let needed = SPACING * adverts;
    if needed <= usual {
        return Interval::DEFAULT;
    }
    let steps = u32::try_from(needed.as_nanos().div_ceil(STEP.as_nanos())).unwrap_or(u32::MAX);
    Interval::try_from(STEP.saturating_mul(steps)).unwrap_or(Interval::LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_grows_with_the_routers_in_steps() {
        for (adverts, millis) in [(0, 200), (2, 200), (40, 200), (42, 250), (50, 250), (96, 500)] {
            assert_eq!(
                usual_interval(adverts).duration(),
                Duration::from_millis(millis),
                "{adverts} adverts"
            );
        }
        assert_eq!(usual_interval(u32::MAX), Interval::LONGEST);
    }
}
