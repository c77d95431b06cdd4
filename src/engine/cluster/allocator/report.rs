//! What each pool's status says.

use std::collections::BTreeMap;
use std::sync::Arc;

use ipnet::IpNet;

use super::ledger::{Entry, Ledger, State};
use super::ours::{Member, Roster};
use super::outcome::{Lack, Outcome};
use super::pools::{Fault, Judged, Pools, Source};
use super::reserved::Reserved;
use crate::engine::cluster::decision::PoolReport;
use crate::engine::cluster::home::router_capacity;
use crate::engine::cluster::world::{Condition, Timestamp};
use crate::model::range::number;
use crate::model::{AddressRange, Family, Pool};

/// Counts of one pool, and of one family of it.
#[derive(Clone, Copy, Default)]
struct Count {
    used: u64,
    resting: u64,
    /// Addresses that could be given if they were not held, at rest or in use.
    occupied: u128,
}

/// What every pool's status is to say.
pub(super) fn reports<'w>(
    pools: &Pools<'w>,
    ledger: &Ledger<'w>,
    reserved: &Reserved<'w>,
    roster: &Roster<'w>,
    outcomes: &[Outcome<'w>],
) -> BTreeMap<Arc<str>, PoolReport> {
    let mut counts: BTreeMap<(usize, Family), Count> = BTreeMap::new();
    for (address, entry) in ledger.entries() {
        let Some(source) = entry.source else { continue };
        let count = counts.entry((source.order, Family::of(address))).or_default();
        match &entry.state {
            State::Held(_) => count.used += 1,
            State::Resting(_) => count.resting += 1,
            State::Pinned => {}
        }
        count.occupied += u128::from(source.pool.may_give(address));
    }
    let mut strangers: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for (address, users) in reserved.iter() {
        let Some(source) = pools.of(address) else { continue };
        let entry = ledger.entry(address);
        if entry.is_none() && source.pool.may_give(address) {
            counts.entry((source.order, Family::of(address))).or_default().occupied += 1;
        }
        let holders = entry.map_or(&[][..], Entry::holders);
        let theirs = users.iter().filter(|user| !holders.contains(user));
        let told = theirs.map(|user| format!("{address} by {}", user.service.key));
        strangers.entry(source.order).or_default().extend(told);
    }
    let waiting = waiting(roster, outcomes);
    let report = |(order, judged): (usize, &Judged<'w>)| {
        let mut report = PoolReport::default();
        let mut exhausted = Vec::new();
        if let Some(source) = judged.source {
            report.networks = networks(source.pool.addresses.iter().copied());
            for family in [Family::Ipv4, Family::Ipv6] {
                let count = counts.get(&(order, family)).copied().unwrap_or_default();
                let total = total(source.pool, family);
                let free = total.saturating_sub(count.occupied);
                if free == 0 && source.pool.ranges(family).next().is_some() {
                    exhausted.push(family);
                }
                report.total = report.total.saturating_add(total);
                report.free = report.free.saturating_add(free);
                report.used += count.used;
                report.resting += count.resting;
            }
        }
        if let Some((waiting, since)) = waiting.get(&order) {
            report.waiting = *waiting;
            report.waiting_since = Some(*since);
        }
        let strangers = strangers.get(&order).map_or(&[][..], Vec::as_slice);
        report.conditions = conditions(judged, &exhausted, strangers);
        report.conditions.extend(judged.source.and_then(|source| pinned(source, ledger)));
        (Arc::clone(judged.name), report)
    };
    pools.judged().iter().enumerate().map(report).collect()
}

/// Services that wait for one of the pool's addresses, and the creation of the oldest.
fn waiting<'w>(roster: &Roster<'w>, outcomes: &[Outcome<'w>]) -> BTreeMap<usize, (u64, Timestamp)> {
    let mut waiting = BTreeMap::new();
    let mut count = |member: Member<'w>, source: &Source<'w>| {
        let row = waiting.entry(source.order).or_insert((0, member.service.created));
        row.0 += 1;
    };
    for (member, outcome) in roster.all().zip(outcomes) {
        let mut seen: Vec<usize> = Vec::new();
        for (_, lack) in outcome.lacks() {
            let Lack::Full(sources) = lack else { continue };
            for source in sources {
                if !seen.contains(&source.order) {
                    seen.push(source.order);
                    count(member, source);
                }
            }
        }
    }
    waiting
}

/// Addresses of one family that the pool could give, if its routers have room for them.
fn total(pool: &Pool, family: Family) -> u128 {
    let usable = |range: AddressRange| {
        let (first, last) = range.usable();
        (number(first), number(last))
    };
    let ranges = union(pool.ranges(family).map(usable).collect());
    let whole = |range: &AddressRange| (number(range.first()), number(range.last()));
    let avoided = pool.avoid.iter().filter(|range| range.family() == family).map(whole);
    let pinned = pool.pinned.iter().map(|pinned| pinned.address);
    let pinned = pinned.filter(|address| Family::of(*address) == family).map(number);
    let excluded = union(avoided.chain(pinned.map(|number| (number, number))).collect());
    let size = |(first, last): (u128, u128)| (last - first).saturating_add(1);
    let all = ranges.iter().copied().map(size).fold(0, u128::saturating_add);
    let without = ranges.iter().flat_map(|(first, last)| {
        let clip = move |(from, to): &(u128, u128)| (*from.max(first), *to.min(last));
        excluded.iter().map(clip).filter(|(from, to)| from <= to)
    });
    let without = without.map(size).fold(0, u128::saturating_add);
    let room = u128::from(pool.routers.max(1)) * router_capacity(family) as u128;
    all.saturating_sub(without).min(room)
}

/// The same numbers in disjoint stretches.
fn union(mut stretches: Vec<(u128, u128)>) -> Vec<(u128, u128)> {
    stretches.sort_unstable();
    let mut disjoint: Vec<(u128, u128)> = Vec::with_capacity(stretches.len());
    for (first, last) in stretches {
        match disjoint.last_mut() {
            Some((_, end)) if first <= *end => *end = last.max(*end),
            _ => disjoint.push((first, last)),
        }
    }
    disjoint
}

/// The fewest networks that cover these ranges, sorted.
pub(super) fn networks(ranges: impl Iterator<Item = AddressRange>) -> Vec<IpNet> {
    let mut networks = IpNet::aggregate(&ranges.flat_map(AddressRange::networks).collect());
    networks.sort_unstable();
    networks
}

/// Whether all is announced that the pool pins; nothing where it pins nothing.
fn pinned(source: Source<'_>, ledger: &Ledger<'_>) -> Option<(&'static str, Condition)> {
    let missing = source.pool.pinned.iter().filter_map(|pinned| {
        let address = pinned.address;
        if !source.pool.contains(address) {
            return Some(format!("{address} is in none of its ranges, add one"));
        }
        match ledger.entry(address).map(|entry| &entry.state) {
            Some(State::Pinned) => None,
            Some(State::Held(holders)) => holders.first().map(|first| {
                format!("{} has {address} and keeps it until deleted", first.service.key)
            }),
            Some(State::Resting(_)) => Some(format!("{address} waits until the pool is Ready")),
            None if source.gives => Some(format!("the virtual router of {address} is full")),
            None => Some(format!("{address} waits until the pool is Ready")),
        }
    });
    let missing: Vec<_> = missing.take(10).collect();
    let (met, reason) = match missing.is_empty() {
        true => (true, "AllClaimed"),
        false => (false, "NotPinned"),
    };
    let message = missing.join("; ");
    (!source.pool.pinned.is_empty())
        .then(|| ("Pinned", Condition { met, reason: reason.to_owned(), message }))
}

fn conditions(
    judged: &Judged<'_>,
    exhausted: &[Family],
    strangers: &[String],
) -> Vec<(&'static str, Condition)> {
    let says =
        |met, reason: &str, message: String| Condition { met, reason: reason.to_owned(), message };
    let ready = match &judged.fault {
        None => says(true, "Ready", "It gives addresses.".to_owned()),
        Some(Fault::Unreadable(why)) => says(false, "Invalid", why.clone()),
        Some(Fault::Empty) => {
            says(false, "Empty", "It has no addresses; list ranges in spec.addresses.".to_owned())
        }
        Some(Fault::Overlaps { .. }) => says(
            false,
            "Overlaps",
            "Nothing is given while a range overlaps another one; see Overlaps.".to_owned(),
        ),
    };
    let overlaps = match &judged.fault {
        Some(Fault::Overlaps { range, other, whose }) => says(
            true,
            "Overlaps",
            format!("{range} overlaps {other} of {whose}; take one of them out."),
        ),
        _ => says(false, "Disjoint", String::new()),
    };
    let exhaustion = match exhausted {
        [] => says(false, "AddressesFree", String::new()),
        families => {
            let names: Vec<_> = families.iter().map(ToString::to_string).collect();
            let names = names.join(" and no ");
            says(
                true,
                "NoneFree",
                format!(
                    "No {names} address is free; add a range, or delete a Service that has one."
                ),
            )
        }
    };
    let reserved = match strangers {
        [] => says(false, "NoneReserved", String::new()),
        [..] => {
            let shown: Vec<_> = strangers.iter().take(10).map(String::as_str).collect();
            let more = match strangers.len().saturating_sub(shown.len()) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            says(
                true,
                "UsedByOthers",
                format!(
                    "Used without having been given (spec.externalIPs or status): {}{more}.",
                    shown.join(", ")
                ),
            )
        }
    };
    vec![
        ("Ready", ready),
        ("Overlaps", overlaps),
        ("Exhausted", exhaustion),
        ("Reserved", reserved),
    ]
}
