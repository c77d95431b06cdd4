//! What a pool's owner must know of how its addresses are announced: that its ranges lie on
//! several networks, and that a node has more addresses than a kernel handles well.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::candidates::first;
use super::placement::{Architect, Plan};
use super::world::Condition;
use crate::model::Family;

/// The condition of a pool whose ranges of one family no link of any node carries all.
pub const SEVERAL_NETWORKS: &str = "SeveralNetworks";
/// The condition of a pool that gives a node more addresses than it should have on one link.
pub const OVERFLOW: &str = "Overflow";

/// Addresses that one link of a node should carry: what the kernel does for each change grows with
/// their number.
const fn limit(family: Family) -> usize {
    match family {
        Family::Ipv4 => 4_000,
        Family::Ipv6 => 500,
    }
}

/// What one link of a node is to carry while all are healthy.
#[derive(Default)]
struct Load<'p> {
    addresses: usize,
    pools: BTreeSet<&'p Arc<str>>,
}

impl<'a> Architect<'a> {
    /// Adds both conditions where they hold.
    pub(super) fn warn(&mut self, plans: &BTreeMap<&'a str, Plan<'a>>) {
        let mut loads: BTreeMap<(&str, &str, Family), Load<'_>> = BTreeMap::new();
        for plan in plans.values() {
            let spec = &plan.spec;
            let Some(preferred) = first(&spec.candidates) else { continue };
            let Some(site) = self.site(&spec.pool, spec.family) else { continue };
            let link = site.nodes.get(preferred).and_then(|seat| seat.link);
            let Some(link) = link else { continue };
            let load = loads.entry((preferred, link, spec.family)).or_default();
            load.addresses += spec.served();
            load.pools.insert(&spec.pool);
        }
        for ((node, link, family), Load { addresses: count, pools }) in loads {
            if count <= limit(family) {
                continue;
            }
            let condition = Condition {
                met: true,
                reason: "TooManyOnOneNode".to_owned(),
                message: format!(
                    "Node {node} is to announce {count} {family} addresses on {link}, and above {} a takeover gets slow. Let more nodes announce, or move Services to a pool of other nodes.",
                    limit(family)
                ),
            };
            for pool in pools {
                self.conditions.insert((Arc::clone(pool), OVERFLOW), condition.clone());
            }
        }
        for pool in self.world.pools.keys() {
            for family in [Family::Ipv4, Family::Ipv6] {
                let several =
                    self.site(pool, family).and_then(|site| site.several_networks(family));
                if let Some(message) = several {
                    let reason = "NoLinkCarriesAll".to_owned();
                    let condition = Condition { met: true, reason, message };
                    self.conditions.insert((Arc::clone(pool), SEVERAL_NETWORKS), condition);
                }
            }
        }
    }
}
