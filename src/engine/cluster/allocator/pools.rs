//! The pools: which may give, in which order, and which one an address belongs to.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::engine::cluster::world::{PoolObject, Service, Timestamp, World};
use crate::model::{AddressRange, Family, Labels, Pool};

/// A pool that can be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'w> {
    pub(super) name: &'w Arc<str>,
    pub(super) pool: &'w Pool,
    /// Its place among all pools; the lower one is asked first.
    pub(super) order: usize,
    /// Whether it gives addresses: nothing is wrong with it.
    pub(super) gives: bool,
}

impl PartialEq for Source<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

/// What is wrong with a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// What it says can't be read.
    Unreadable(String),
    /// It has no addresses.
    Empty,
    /// One of its ranges overlaps this one, which is somebody else's.
    Overlaps { range: AddressRange, other: AddressRange, whose: String },
}

/// A pool as it stands.
#[derive(Debug)]
pub(super) struct Judged<'w> {
    pub(super) name: &'w Arc<str>,
    pub(super) source: Option<Source<'w>>,
    pub(super) fault: Option<Fault>,
}

/// All pools in the order in which they are asked.
pub(super) struct Pools<'w> {
    judged: Vec<Judged<'w>>,
    /// What the pools that give cover, from first to last address, sorted and disjoint.
    giving: Vec<(IpAddr, IpAddr, Source<'w>)>,
    /// Those that do not give.
    idle: Vec<Source<'w>>,
    namespaces: &'w BTreeMap<Arc<str>, Labels>,
}

impl<'w> Pools<'w> {
    pub(super) fn new(world: &'w World) -> Self {
        let mut by_age: Vec<_> = world.pools.iter().collect();
        by_age.sort_by_key(|(_, object)| object.created);
        let mut valid: Vec<(&Arc<str>, &Pool)> = Vec::new();
        let mut judged: Vec<(Judged<'w>, i32)> = Vec::new();
        for (name, object) in by_age {
            let fault = fault_of(object, world, &valid);
            let pool = object.pool.as_ref().ok();
            if let (Some(pool), None) = (pool, &fault) {
                valid.push((name, pool));
            }
            let gives = fault.is_none();
            let source = pool.map(|pool| Source { name, pool, order: 0, gives });
            judged.push((Judged { name, source, fault }, pool.map_or(0, |pool| pool.priority)));
        }
        judged.sort_by_key(|(judged, priority)| (std::cmp::Reverse(*priority), judged.name));
        let mut judged: Vec<_> = judged.into_iter().map(|(judged, _)| judged).collect();
        for (order, judged) in judged.iter_mut().enumerate() {
            if let Some(source) = &mut judged.source {
                source.order = order;
            }
        }
        let sources = || judged.iter().filter_map(|judged| judged.source);
        let giving = disjoint(sources().filter(|source| source.gives));
        let idle = sources().filter(|source| !source.gives).collect();
        Self { judged, giving, idle, namespaces: &world.namespaces }
    }

    /// Every pool, in the order in which they are asked.
    pub(super) fn judged(&self) -> &[Judged<'w>] {
        &self.judged
    }

    /// The pools that give addresses, in the order in which they are asked.
    pub(super) fn giving(&self) -> impl Iterator<Item = Source<'w>> + '_ {
        self.sources().filter(|source| source.gives)
    }

    /// The pools that can be read, in the order in which they are asked.
    pub(super) fn sources(&self) -> impl Iterator<Item = Source<'w>> + '_ {
        self.judged.iter().filter_map(|judged| judged.source)
    }

    pub(super) fn named(&self, name: &str) -> Option<&Judged<'w>> {
        self.judged.iter().find(|judged| &**judged.name == name)
    }

    /// The pool that `address` lies in, one that gives before one that does not.
    pub(super) fn of(&self, address: IpAddr) -> Option<Source<'w>> {
        let after = self.giving.partition_point(|(first, _, _)| *first <= address);
        let nearest = after.checked_sub(1).and_then(|at| self.giving.get(at));
        nearest
            .filter(|(_, last, _)| address <= *last)
            .map(|(_, _, source)| *source)
            .or_else(|| self.idle.iter().copied().find(|source| source.pool.contains(address)))
    }

    /// Whether the pool is for this Service: its labels and those of its namespace are selected.
    pub(super) fn selects(&self, source: Source<'w>, service: &Service) -> bool {
        const NONE: &Labels = &Labels::new();
        let namespace = self.namespaces.get(&service.key.namespace).unwrap_or(NONE);
        source.pool.services.selects(&service.labels) && source.pool.namespaces.selects(namespace)
    }

    /// The pools that a Service may have an address of `family` from, in the order in which they
    /// are asked: the one that it names, or all that are for everybody.
    pub(super) fn for_service<'a>(
        &'a self,
        service: &'a Service,
        family: Family,
    ) -> impl Iterator<Item = Source<'w>> + 'a {
        self.giving().filter(move |source| {
            let named = match &service.pool {
                Some(name) => name == source.name,
                None => source.pool.auto_assign,
            };
            named && source.pool.ranges(family).next().is_some() && self.selects(*source, service)
        })
    }
}

/// What the sources cover, sorted; ranges of one pool that overlap are one.
fn disjoint<'w>(sources: impl Iterator<Item = Source<'w>>) -> Vec<(IpAddr, IpAddr, Source<'w>)> {
    let mut all: Vec<_> = sources
        .flat_map(|source| {
            let ranges = source.pool.addresses.iter();
            ranges.map(move |range| (range.first(), range.last(), source))
        })
        .collect();
    all.sort_by_key(|(first, last, _)| (*first, *last));
    let mut disjoint: Vec<(IpAddr, IpAddr, Source<'w>)> = Vec::with_capacity(all.len());
    for (first, last, source) in all {
        match disjoint.last_mut() {
            // IPv4 sorts before IPv6, so that families never mix here.
            Some((_, end, _)) if first <= *end => *end = last.max(*end),
            _ => disjoint.push((first, last, source)),
        }
    }
    disjoint
}

fn fault_of(object: &PoolObject, world: &World, valid: &[(&Arc<str>, &Pool)]) -> Option<Fault> {
    let pool = match &object.pool {
        Ok(pool) => pool,
        Err(why) => return Some(Fault::Unreadable(why.clone())),
    };
    if pool.addresses.is_empty() {
        return Some(Fault::Empty);
    }
    let overlap = |range: AddressRange, other: AddressRange, whose: String| {
        Some(Fault::Overlaps { range, other, whose })
    };
    for range in pool.addresses.iter().copied() {
        if let Some((other, whose)) = world.taken.iter().find(|(other, _)| range.overlaps(*other)) {
            return overlap(range, *other, whose.clone());
        }
        for (name, older) in valid {
            if let Some(other) = older.addresses.iter().find(|other| range.overlaps(**other)) {
                return overlap(range, *other, format!("pool {name}"));
            }
        }
    }
    None
}

/// When an address that was released `at` may be given to another Service.
pub(super) fn rested_at(at: Timestamp, pool: Option<&Pool>) -> Timestamp {
    let rest = pool.map_or_else(|| Pool::default().reuse_after, |pool| pool.reuse_after);
    let seconds = rest.as_secs() + u64::from(rest.subsec_nanos() > 0);
    Timestamp(at.0.saturating_add(i64::try_from(seconds).unwrap_or(i64::MAX)))
}
