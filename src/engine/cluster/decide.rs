//! One decision: what the allocator gives, where placement puts it.

use std::sync::Arc;

use super::decision::Decision;
use super::world::{Timestamp, World};
use super::{allocator, placement, protection};

/// All that the world needs now.
#[must_use]
pub fn decide(world: &World, now: Timestamp) -> Decision {
    let allocation = allocator::allocate(world, now);
    let placement = placement::place(world, allocation.routers, now);
    let mut pools = allocation.pools;
    for ((pool, kind), condition) in placement.conditions {
        if let Some(report) = pools.get_mut(&pool) {
            report.conditions.push((kind, condition));
        }
    }
    let lacking = world.nodes.iter().filter(|(_, node)| !node.has_announcer);
    let mut decision = Decision {
        announcers: lacking.map(|(name, node)| (Arc::clone(name), node.uid.clone())).collect(),
        routers: placement.routers,
        services: allocation.services,
        pools,
        protected: Some(allocation.protected),
        wake_at: allocation.wake_at.into_iter().chain(placement.wake_at).min(),
        memory: placement.memory,
    };
    protection::guard(&mut decision, world);
    decision
}
