//! Who gets which address: existing claims first, then statuses without a claim, then requests and
//! whoever waits, in the order (creation, uid).
//!
//! A round decides from what is there and remembers nothing. Its caller writes the claims, shows
//! them in the world and asks again: only then they are published, and only when the status has
//! let go of an old address its claim is released. When nothing is to be written, all is done.
//!
//! * A Service keeps what it has: whatever happens to its pool, and whoever else comes or goes. It
//!   moves when it asks for an address that is free, or when an admin writes a free one into its
//!   status; a request wins over what the status shows. A request that was refused stays refused
//!   while it stands unchanged, also when the address becomes free later.
//! * Asking for an address of a pool is naming the pool, also one that `auto_assign` keeps from
//!   others.
//! * An address rests after its release, except for a Service of the same name, or when nothing
//!   else is left: then the one that has been at rest longest is given, if no node serves it.

mod condition;
mod few;
mod ledger;
mod ours;
mod outcome;
mod pools;
mod publish;
mod report;
mod requests;
mod reserved;
mod search;
mod sharing;
mod waiting;

use std::collections::BTreeMap;
use std::sync::Arc;

use ipnet::IpNet;

use self::ledger::{Ledger, State};
use self::ours::{Roster, Standing};
use self::outcome::Outcome;
use self::pools::Pools;
use self::publish::Publisher;
use self::reserved::Reserved;
use self::search::Search;
use self::waiting::Round;
use super::decision::{PoolReport, RouterClaims, ServiceChange};
use super::world::{Timestamp, World};
use crate::model::AddressRange;

/// What the allocator wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// The claims of every router that has or had some, by the router's name.
    pub routers: BTreeMap<Arc<str>, RouterClaims>,
    /// Services whose status, condition or externalIPs are to change.
    pub services: Vec<ServiceChange>,
    /// What every pool's status is to say.
    pub pools: BTreeMap<Arc<str>, PoolReport>,
    /// The ranges of all pools, merged.
    pub protected: Vec<IpNet>,
    /// When to allocate again though nothing changes.
    pub wake_at: Option<Timestamp>,
}

/// Decides all claims and publications.
#[must_use]
pub fn allocate(world: &World, now: Timestamp) -> Allocation {
    let roster = Roster::new(world);
    let pools = Pools::new(world);
    let reserved = Reserved::new(&roster, &pools);
    let mut ledger = Ledger::read(world, &roster, &pools, now);
    pools.giving().for_each(|source| ledger.pin(source));
    let search = Search::default();
    let mut round =
        Round { pools: &pools, reserved: &reserved, taken: &world.taken, ledger, search };
    round.adopt(&roster);
    let outcomes: Vec<_> = roster
        .all()
        .map(|member| match member.standing {
            Standing::Served => round.turn(member),
            Standing::Contested | Standing::Leaving | Standing::Foreign => Outcome::default(),
        })
        .collect();
    let ledger = round.ledger;
    let publisher = Publisher { pools: &pools, ledger: &ledger, mirror: world.settings.mirror };
    let changes = roster.all().zip(&outcomes);
    let changes = changes.filter_map(|(member, outcome)| publisher.change(member, outcome));
    let (gains, others): (Vec<_>, Vec<_>) = changes.partition(|(gains, _)| *gains);
    Allocation {
        services: gains.into_iter().chain(others).map(|(_, change)| change).collect(),
        pools: report::reports(&pools, &ledger, &reserved, &roster, &outcomes),
        protected: protected(&pools, &ledger),
        wake_at: ledger.next_rest(),
        routers: ledger.into_routers(),
    }
}

/// What only the owner of a claim may use: the ranges of all pools, and what is held beyond them.
fn protected(pools: &Pools<'_>, ledger: &Ledger<'_>) -> Vec<IpNet> {
    let ranges = pools.sources().flat_map(|source| source.pool.addresses.iter().copied());
    let beyond = ledger
        .entries()
        .filter(|(_, entry)| entry.source.is_none() && !matches!(entry.state, State::Resting(_)));
    report::networks(ranges.chain(beyond.map(|(address, _)| AddressRange::from(address))))
}
