//! Who may become Active for a router, and in which order.
//!
//! A candidate keeps its rank for as long as its node may announce at all, so that no change
//! elsewhere moves an address. Others enter where ranks are free. One that is not heard or has lost
//! its link keeps its place too unless another node could have it: VRRP alone decides who serves,
//! and a LAN that fails as a whole leaves every list as it is.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ipnet::IpNet;

use super::hash::stable_hash;
use super::standing::{JOINS_AFTER, REPLACED_AFTER, Standing, is_heard};
use super::succession::heading;
use super::world::{Node, Report, Timestamp, World};
use crate::model::{Candidate, Family, Pool, Priority};

/// Nodes of one domain tend to fail together.
const DOMAIN: &str = "topology.kubernetes.io/zone";

/// The nodes that may announce a pool's addresses of one family.
pub(super) struct Site<'a> {
    pub(super) nodes: BTreeMap<&'a str, Seat<'a>>,
    /// How many candidates each domain may have.
    pub(super) limits: BTreeMap<&'a str, usize>,
    /// Nodes that may not announce any more, and are there to hand over.
    pub(super) leaving: BTreeSet<&'a str>,
    /// The pool's ranges of the family.
    ranges: Vec<IpNet>,
    world: &'a World,
}

/// What matters of one of them.
pub(super) struct Seat<'a> {
    pub(super) domain: &'a str,
    pub(super) is_preferred: bool,
    /// The link that can carry every address.
    pub(super) link: Option<&'a str>,
    /// Has reported within [`REPLACED_AFTER`].
    is_heard: bool,
    /// Has reported within [`JOINS_AFTER`].
    is_heard_of_late: bool,
    /// Neither its agent nor its kubelet is heard.
    pub(super) is_lost: bool,
}

impl Seat<'_> {
    pub(super) const fn can_serve(&self) -> bool {
        self.link.is_some() && self.is_heard
    }
}

/// How many routers prefer each node, or ask it to take over.
#[derive(Default)]
pub(super) struct Firsts(BTreeMap<String, usize>);

impl Firsts {
    /// As the world's routers have it.
    pub(super) fn new(world: &World) -> Self {
        let mut firsts = Self::default();
        for object in world.routers.values() {
            firsts.change(None, heading(&object.spec));
        }
        firsts
    }

    pub(super) fn of(&self, node: &str) -> usize {
        self.0.get(node).copied().unwrap_or(0)
    }

    /// A router that preferred `before` prefers `after`.
    pub(super) fn change(&mut self, before: Option<&str>, after: Option<&str>) {
        if before == after {
            return;
        }
        if let Some(count) = before.and_then(|node| self.0.get_mut(node)) {
            *count = count.saturating_sub(1);
        }
        let Some(after) = after else { return };
        match self.0.get_mut(after) {
            Some(count) => *count += 1,
            None => _ = self.0.insert(after.to_owned(), 1),
        }
    }
}

/// The candidate that serves while all are healthy.
pub(super) fn first(candidates: &[Candidate]) -> Option<&str> {
    let first = candidates.iter().max_by_key(|candidate| candidate.priority)?;
    Some(&first.node)
}

impl<'a> Site<'a> {
    /// The nodes that `pool` selects and nobody has taken out.
    pub(super) fn new(world: &'a World, pool: &Pool, family: Family, now: Timestamp) -> Self {
        let ranges: Vec<IpNet> = pool.ranges(family).flat_map(|range| range.networks()).collect();
        let may_announce = |node: &Node| {
            !node.drained && !node.out_of_service && pool.announcing.nodes.selects(&node.labels)
        };
        let heard_of_late = |name: &str| is_heard(world, name, JOINS_AFTER, now);
        let seat = |name: &str, node: &'a Node| Seat {
            domain: node.labels.get(DOMAIN).map_or("", String::as_str),
            // A pool that states no preference prefers nobody.
            is_preferred: pool
                .announcing
                .preferred
                .as_ref()
                .is_some_and(|all| all.selects(&node.labels)),
            link: node.report.as_ref().and_then(|report| link(report, pool, &ranges, family)),
            is_heard: is_heard(world, name, REPLACED_AFTER, now),
            is_heard_of_late: heard_of_late(name),
            is_lost: node.unknown && !heard_of_late(name),
        };
        let nodes: BTreeMap<_, _> = world
            .nodes
            .iter()
            .filter(|(_, node)| may_announce(node))
            .map(|(name, node)| (&**name, seat(name, node)))
            .collect();
        let leaving = world.nodes.iter().filter(|(name, node)| {
            let is_there = !node.out_of_service && is_heard(world, name, REPLACED_AFTER, now);
            is_there && !may_announce(node)
        });
        let leaving = leaving.map(|(name, _)| &**name).collect();
        Self { limits: limits(nodes.values()), nodes, leaving, ranges, world }
    }

    /// How the ranges lie on several networks, where no node has a link for all of them but one for
    /// some.
    pub(super) fn several_networks(&self, family: Family) -> Option<String> {
        if self.nodes.values().any(|seat| seat.link.is_some()) {
            return None;
        }
        self.nodes.keys().find_map(|node| {
            let report = self.world.nodes.get(*node)?.report.as_ref()?;
            let link_of = |range: &IpNet| {
                let mut links = report.links.iter();
                let found = links.find(|(_, own)| own.iter().any(|own| own.contains(range)));
                found.map(|(name, _)| &**name)
            };
            let (carried, link) = self.ranges.iter().find_map(|r| Some((r, link_of(r)?)))?;
            let other = self.ranges.iter().find(|range| link_of(range) != Some(link))?;
            let place = link_of(other).map_or_else(|| "on none of its links".to_owned(), |l| format!("on {l}"));
            Some(format!(
                "The {family} ranges lie on several networks: on node {node} {carried} is on {link}, {other} {place}. One link must carry all of them: make a pool of each network, or name the link in spec.announce.interfaces."
            ))
        })
    }

    /// The candidates of a router that is made now; whoever announces it already comes first.
    pub(super) fn choose(
        &self,
        router: &str,
        incumbent: Option<&str>,
        firsts: &Firsts,
    ) -> Vec<Candidate> {
        let mut table =
            Table { site: self, router, seated: BTreeMap::new(), all_lost: false, firsts };
        let can_serve = |node: &&str| self.nodes.get(*node).is_some_and(Seat::can_serve);
        if let Some(incumbent) = incumbent.filter(can_serve) {
            table.seat(0, incumbent, false);
        }
        while let Some((rank, node)) = table.next_free() {
            table.seat(rank, node, false);
        }
        table.leave()
    }

    /// The candidates of one that exists.
    pub(super) fn keep(
        &self,
        router: &str,
        listed: &[Candidate],
        standing: &Standing<'_>,
        stays: impl Fn(&str) -> bool,
        firsts: &Firsts,
    ) -> Vec<Candidate> {
        let stays = |candidate: &&Candidate| {
            let node = &*candidate.node;
            self.nodes.contains_key(node) || self.leaving.contains(node) && stays(node)
        };
        let mut kept: Vec<Candidate> = listed.iter().filter(stays).cloned().collect();
        if standing.is_taken_up() || !self.is_any_old_one_heard(&kept) {
            kept.iter_mut().for_each(|candidate| candidate.joining = false);
        }
        let joining = standing.is_served() && self.is_any_old_one_heard(&kept);
        let is_lost = |c: &Candidate| self.nodes.get(&*c.node).is_some_and(|seat| seat.is_lost);
        // All together: a rack has lost its power, and nobody is left to wait for.
        let all_lost = kept.iter().all(is_lost);
        let mut table = Table { site: self, router, seated: by_rank(kept), all_lost, firsts };
        while let Some((rank, node)) = table
            .next_free()
            .or_else(|| table.next_at_tail(|node| !all_lost && standing.is_served_by(node)))
        {
            table.seat(rank, node, joining);
        }
        table.leave()
    }

    /// Whether a candidate that speaks already could be serving.
    fn is_any_old_one_heard(&self, candidates: &[Candidate]) -> bool {
        candidates.iter().filter(|candidate| !candidate.joining).any(|candidate| {
            let seat = self.nodes.get(&*candidate.node);
            seat.is_some_and(|seat| seat.link.is_some() && seat.is_heard_of_late)
                || self.leaving.contains(&*candidate.node)
        })
    }
}

/// Two candidates change places.
pub(super) fn swap(candidates: &mut [Candidate], one: &str, other: &str) {
    let priority_of = |node| candidates.iter().find(|c| c.node == node).map(|c| c.priority);
    let (Some(first), Some(second)) = (priority_of(one), priority_of(other)) else { return };
    for candidate in candidates.iter_mut() {
        match &*candidate.node {
            node if node == one => candidate.priority = second,
            node if node == other => candidate.priority = first,
            _ => {}
        }
    }
    candidates.sort_by_key(|candidate| Reverse(candidate.priority));
}

/// A link of a node that can carry all of these ranges: one of those that the pool names, else one
/// with own addresses in the subnets of all of them.
fn link<'a>(report: &'a Report, pool: &Pool, ranges: &[IpNet], family: Family) -> Option<&'a str> {
    let named = &pool.announcing.interfaces;
    let carries = |(name, own): &(&'a Arc<str>, &'a Vec<IpNet>)| {
        let is_of_family = |net: &&IpNet| Family::of(net.addr()) == family;
        if named.is_empty() {
            ranges.iter().all(|range| own.iter().any(|own| own.contains(range)))
        } else {
            named.iter().any(|named| **named == ***name) && own.iter().any(|net| is_of_family(&net))
        }
    };
    report.links.iter().find(carries).map(|(name, _)| &**name)
}

/// How many candidates each domain may have: half of the ranks, or what the others leave. Nodes
/// that are only silent count, so that a domain that comes back finds its ranks.
fn limits<'s, 'a: 's>(nodes: impl Iterator<Item = &'s Seat<'a>>) -> BTreeMap<&'a str, usize> {
    let ranks = usize::from(Priority::RANKS);
    let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
    for seat in nodes.filter(|seat| seat.link.is_some()) {
        *sizes.entry(seat.domain).or_default() += 1;
    }
    let all: usize = sizes.values().sum();
    let limit = |size: usize| (ranks / 2).max(ranks.saturating_sub(all - size));
    sizes.into_iter().map(|(domain, size)| (domain, limit(size))).collect()
}

type Seated = BTreeMap<u8, Candidate>;

/// Candidates by their ranks. One whose priority is of no rank has none: it enters anew.
fn by_rank(candidates: Vec<Candidate>) -> Seated {
    let rank_of =
        |priority| (0..Priority::RANKS).find(|r| Priority::for_rank(*r) == Some(priority));
    candidates
        .into_iter()
        .filter_map(|candidate| Some((rank_of(candidate.priority)?, candidate)))
        .collect()
}

/// One router's ranks while they are given.
struct Table<'t, 'a> {
    site: &'t Site<'a>,
    router: &'t str,
    seated: Seated,
    /// Of those that were listed before nobody is heard, nor their kubelets.
    all_lost: bool,
    firsts: &'t Firsts,
}

impl<'a> Table<'_, 'a> {
    /// The lowest free rank, and who is to have it.
    fn next_free(&self) -> Option<(u8, &'a str)> {
        let rank = (0..Priority::RANKS).find(|rank| !self.seated.contains_key(rank))?;
        Some((rank, self.newcomer(rank)?))
    }

    /// Takes out the last candidate that can't serve and does not, where another node could be
    /// had: those after it move up, and that one enters at the tail. So nobody overtakes anybody.
    fn next_at_tail(&mut self, serves: impl Fn(&str) -> bool) -> Option<(u8, &'a str)> {
        let (rank, _) = self
            .seated
            .iter()
            .rev()
            .find(|(_, candidate)| !self.can_serve(candidate) && !serves(&candidate.node))?;
        let rank = *rank;
        let last = *self.seated.keys().next_back()?;
        let newcomer = self.newcomer(last.max(1))?;
        for candidate in self.seated.split_off(&rank).into_values().skip(1) {
            self.seat_again(candidate);
        }
        Some((last, newcomer))
    }

    /// The node that is to have `rank`: a preferred one, the first rank in turn, the others from
    /// the domain with the fewest; the hash breaks ties.
    fn newcomer(&self, rank: u8) -> Option<&'a str> {
        let listed: BTreeSet<&str> = self.seated.values().map(|c| &*c.node).collect();
        let mut domains: BTreeMap<&str, usize> = BTreeMap::new();
        for candidate in self.seated.values().filter(|candidate| self.can_serve(candidate)) {
            if let Some(seat) = self.site.nodes.get(&*candidate.node) {
                *domains.entry(seat.domain).or_default() += 1;
            }
        }
        let of_domain = |seat: &Seat<'_>| domains.get(seat.domain).copied().unwrap_or(0);
        let limits = &self.site.limits;
        self.site
            .nodes
            .iter()
            .filter(|(_, seat)| seat.can_serve() && !seat.is_lost)
            .filter(|(node, _)| !listed.contains(**node))
            .filter(|(_, seat)| {
                limits.get(seat.domain).is_none_or(|limit| of_domain(seat) < *limit)
            })
            .min_by_key(|(node, seat)| {
                let turns = if rank == 0 { self.firsts.of(node) } else { of_domain(seat) };
                let hash = stable_hash(&[self.router.as_bytes(), node.as_bytes()]);
                (Reverse(seat.is_preferred), turns, hash)
            })
            .map(|(node, _)| *node)
    }

    fn can_serve(&self, candidate: &Candidate) -> bool {
        let seat = self.site.nodes.get(&*candidate.node);
        seat.is_some_and(|seat| seat.can_serve() && !(self.all_lost && seat.is_lost))
    }

    /// At the lowest rank that is free after all others.
    fn seat_again(&mut self, candidate: Candidate) {
        let rank = self.seated.keys().next_back().map_or(0, |last| last + 1);
        self.seat(rank, &candidate.node, candidate.joining);
    }

    fn seat(&mut self, rank: u8, node: &str, joining: bool) {
        if let Some(priority) = Priority::for_rank(rank) {
            self.seated.insert(rank, Candidate { node: node.to_owned(), priority, joining });
        }
    }

    /// The candidates, the first one first.
    fn leave(self) -> Vec<Candidate> {
        self.seated.into_values().collect()
    }
}
