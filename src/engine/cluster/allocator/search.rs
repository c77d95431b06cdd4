//! The lowest free address of a pool, found without looking twice at those that are not.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::ledger::{Ledger, State};
use super::ours::Member;
use super::pools::Source;
use super::reserved::Reserved;
use crate::engine::cluster::world::Timestamp;
use crate::model::range::{address, number};
use crate::model::{AddressRange, Family};

/// How far the search of each pool and family has come.
#[derive(Default)]
pub(super) struct Search {
    walks: BTreeMap<(usize, Family), Walk>,
    rests: BTreeMap<(usize, Family), Vec<(Timestamp, IpAddr)>>,
}

/// The way through a pool's ranges. What lies behind stays taken for the rest of the round.
struct Walk {
    family: Family,
    /// First and last number of each range still to be walked, the current one last.
    ahead: Vec<(u128, u128)>,
    avoid: Vec<AddressRange>,
    /// Homes without room, by the addresses' remainder.
    full: BTreeSet<u128>,
    routers: u128,
}

impl Search {
    /// The first address in the order of the pool's ranges that nobody has, uses or had lately.
    pub(super) fn lowest_free<'w>(
        &mut self,
        source: Source<'w>,
        family: Family,
        ledger: &Ledger<'w>,
        reserved: &Reserved<'w>,
    ) -> Option<IpAddr> {
        let walk = self.walks.entry((source.order, family));
        let walk = walk.or_insert_with(|| Walk::new(source, family));
        walk.find(|walk, found| {
            let is_taken = ledger.entry(found).is_some() || reserved.contains(found);
            if is_taken || !source.pool.may_give(found) {
                return false;
            }
            let has_room = !ledger.is_home_full(found, source);
            if !has_room {
                walk.full.insert(number(found) % walk.routers);
            }
            has_room
        })
    }

    /// The address that has been at rest longest, of those that no node serves any more.
    pub(super) fn longest_at_rest<'w>(
        &mut self,
        source: Source<'w>,
        member: Member<'w>,
        family: Family,
        ledger: &Ledger<'w>,
        reserved: &Reserved<'w>,
    ) -> Option<IpAddr> {
        let rests = self.rests.entry((source.order, family)).or_insert_with(|| {
            let mut rests: Vec<_> = ledger
                .entries()
                .filter(|(at, entry)| Family::of(*at) == family && entry.source == Some(source))
                .filter_map(|(address, entry)| match &entry.state {
                    State::Resting(release) => release.confirmed.then_some((release.at, address)),
                    State::Held(_) | State::Pinned => None,
                })
                .filter(|(_, address)| source.pool.may_give(*address))
                .collect();
            rests.sort_unstable_by(|a, b| b.cmp(a));
            rests
        });
        let is_at_rest = |address: IpAddr| {
            ledger.entry(address).is_some_and(|entry| matches!(entry.state, State::Resting(_)))
        };
        while let Some((_, address)) = rests.last() {
            if is_at_rest(*address) && reserved.against(*address, member).is_none() {
                return Some(*address);
            }
            rests.pop();
        }
        None
    }
}

impl Walk {
    fn new(source: Source<'_>, family: Family) -> Self {
        let bounds = |range: AddressRange| {
            let (first, last) = range.usable();
            (number(first), number(last))
        };
        let mut ahead: Vec<_> = source.pool.ranges(family).map(bounds).collect();
        ahead.reverse();
        let avoid = source.pool.avoid.iter().copied();
        let avoid = avoid.filter(|range| range.family() == family).collect();
        let routers = u128::from(source.pool.routers.max(1));
        Self { family, ahead, avoid, full: BTreeSet::new(), routers }
    }

    /// Walks to the first address that `is_free`; the next walk begins there.
    fn find(&mut self, mut is_free: impl FnMut(&mut Self, IpAddr) -> bool) -> Option<IpAddr> {
        while u128::try_from(self.full.len()).is_ok_and(|full| full < self.routers) {
            let (at, last) = *self.ahead.last()?;
            let here = address(self.family, at);
            let avoided = self.avoid.iter().find(|range| range.contains(here)).copied();
            let step = match avoided {
                None if !self.full.contains(&(at % self.routers)) && is_free(self, here) => {
                    return Some(here);
                }
                None => at.checked_add(1),
                Some(avoided) => number(avoided.last()).checked_add(1),
            };
            self.ahead.pop();
            if let Some(next) = step.filter(|next| *next <= last) {
                self.ahead.push((next, last));
            }
        }
        None
    }
}
