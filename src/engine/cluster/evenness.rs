//! Routers that are spread evenly: where nodes have come or gone, one router after the other gets
//! another preferred node, until no node is preferred by two more than another one. Each step is
//! one write of one router, in which two candidates change their priorities. VRRP does the rest.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::candidates::{Firsts, Site, first, swap};
use super::hash::stable_hash;
use super::placement::{Architect, Plan};
use super::standing::Standing;
use crate::model::Candidate;

/// For so many seconds an unevenness is left alone: nodes that restart come back.
const EVENED_AFTER: i64 = 60;
/// Seconds between two such writes.
const EVENED_EVERY: i64 = 10;

/// How a router comes to be preferred by a node that has fewer; the best way last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way<'a> {
    /// It takes the place of this candidate at the tail, to change places with the first later.
    Enter { instead_of: &'a str },
    /// It is about to join: there is nothing to be done but to wait.
    Wait,
    /// It changes places with the first.
    Swap,
}

/// A router that one node is to have instead of another.
#[derive(Clone, Copy, Debug)]
struct Step<'a> {
    from: &'a str,
    to: &'a str,
    way: Way<'a>,
    /// By how much the two differ; without bound where the pool prefers only the new one.
    gain: usize,
}

impl<'a> Architect<'a> {
    /// Takes the next step towards evenness, if it is time for one.
    pub(super) fn even_out(&mut self, plans: &mut BTreeMap<&'a str, Plan<'a>>) {
        let Some((router, step)) = self.next_step(plans) else {
            self.memory.uneven_since = None;
            return;
        };
        let since = *self.memory.uneven_since.get_or_insert(self.now);
        let pause = self.memory.evened_at.map(|at| at.after(EVENED_EVERY));
        let due = since.after(EVENED_AFTER).max(pause.unwrap_or_default());
        if due > self.now {
            return self.wake(due);
        }
        let Some(plan) = plans.get_mut(router) else { return };
        let candidates = &mut plan.spec.candidates;
        match step.way {
            Way::Wait => return,
            Way::Swap => swap(candidates, step.from, step.to),
            Way::Enter { instead_of } => {
                let newcomer = candidates.iter_mut().find(|c| c.node == instead_of);
                if let Some(candidate) = newcomer {
                    step.to.clone_into(&mut candidate.node);
                    candidate.joining = plan.standing.is_served();
                }
            }
        }
        self.memory.evened_at = Some(self.now);
        self.wake(self.now.after(EVENED_EVERY));
    }

    /// The step that evens out most, the simplest of equal ones, and its router.
    fn next_step(&mut self, plans: &BTreeMap<&'a str, Plan<'a>>) -> Option<(&'a str, Step<'a>)> {
        let mut best = None;
        for (router, plan) in plans.iter().filter(|(_, plan)| plan.may_be_evened()) {
            let firsts = std::mem::take(&mut self.firsts);
            let candidates = &plan.spec.candidates;
            let site = self.site(&plan.spec.pool, plan.spec.family);
            let step = site.and_then(|s| s.step(router, candidates, &plan.standing, &firsts));
            self.firsts = firsts;
            let Some(step) = step else { continue };
            let hash = stable_hash(&[router.as_bytes(), step.to.as_bytes()]);
            let is_wished = self.memory.wished.contains(*router);
            let rank = (step.gain, !is_wished, step.way, Reverse(hash));
            if best.as_ref().is_none_or(|(other, _)| *other < rank) {
                best = Some((rank, (*router, step)));
            }
        }
        best.map(|(_, step)| step)
    }
}

impl<'a> Site<'a> {
    /// How this router's first candidate could give it to a node that is preferred less often.
    fn step(
        &self,
        router: &str,
        candidates: &[Candidate],
        standing: &Standing<'_>,
        firsts: &Firsts,
    ) -> Option<Step<'a>> {
        let (from, giver) = self.nodes.get_key_value(first(candidates)?)?;
        let given = firsts.of(from);
        let steps = self.nodes.iter().filter_map(|(to, taker)| {
            let gain = match (giver.is_preferred, taker.is_preferred) {
                (true, false) => 0,
                (false, true) => usize::MAX,
                _ => given.saturating_sub(firsts.of(to)),
            };
            let is_better = gain >= 2 && giver.can_serve() && taker.can_serve() && from != to;
            let way = || self.way(to, candidates, standing);
            Some(Step { from, to, way: is_better.then(way)??, gain })
        });
        steps.max_by_key(|step| {
            let hash = stable_hash(&[router.as_bytes(), step.to.as_bytes()]);
            (step.gain, Reverse(firsts.of(step.to)), step.way, Reverse(hash))
        })
    }

    /// How `to` could become a router's first candidate; `None` where its domain has no room.
    pub(super) fn way(
        &self,
        to: &str,
        candidates: &[Candidate],
        standing: &Standing<'_>,
    ) -> Option<Way<'a>> {
        if let Some(taker) = candidates.iter().find(|candidate| candidate.node == to) {
            return Some(if taker.joining { Way::Wait } else { Way::Swap });
        }
        let domain = |node: &str| self.nodes.get(node).map(|seat| seat.domain);
        let own = domain(to)?;
        let neighbours = candidates.iter().filter(|c| domain(&c.node) == Some(own)).count();
        let has_room = self.limits.get(own).is_none_or(|limit| neighbours < *limit);
        let leaves = candidates.iter().skip(1).rev().find(|candidate| {
            let is_neighbour = domain(&candidate.node) == Some(own);
            (has_room || is_neighbour) && !standing.is_served_by(&candidate.node)
        })?;
        let (instead_of, _) = self.nodes.get_key_value(&*leaves.node)?;
        Some(Way::Enter { instead_of })
    }
}
