//! Who is asked to take over: by priority 255, as a handover, until it says that it serves what the
//! router states. Then it and the preferred candidate change places.
//!
//! It is asked for where somebody wishes so (`barevip.io/move-to`), where the node that serves is
//! drained or selected no more, where it does not take up what the router states, and where a
//! router begins to serve: its first Service need not wait for a down interval.

use std::sync::Arc;

use super::candidates::{Firsts, Site, first, swap};
use super::evenness::Way;
use super::placement::{Architect, Plan};
use super::standing::Standing;
use super::world::RouterSpec;
use crate::model::Candidate;

/// An Active that has not taken up a statement after so many seconds is relieved.
const TAKEN_UP_WITHIN: i64 = 45;
/// After so many seconds nobody waits for the one that was asked any more.
const ASKED_FOR: i64 = 60;

/// The node that is to serve a router: the one that is asked to take over, else the preferred one.
pub(super) fn heading(spec: &RouterSpec) -> Option<&str> {
    spec.takeover.as_deref().or_else(|| first(&spec.candidates))
}

/// What people ask of a router.
enum Wish<'a> {
    /// Ask this candidate.
    Ask(&'a str),
    /// It enters in this one's place first.
    Enter { instead_of: &'a str },
    /// It has entered, and joins.
    Wait,
    /// It is done, or can't be.
    Answer,
}

impl<'a> Architect<'a> {
    /// Ends a takeover that is done; whether one was.
    pub(super) fn conclude(&mut self, name: &str, plan: &mut Plan<'a>) -> bool {
        let is_done = |node: &mut Arc<str>| plan.standing.is_taken_up_by(node);
        let Some(node) = plan.spec.takeover.take_if(is_done) else { return false };
        self.memory.asked.remove(name);
        let candidates = &mut plan.spec.candidates;
        if let Some(first) = first(candidates).map(ToOwned::to_owned) {
            swap(candidates, &first, &node);
        }
        true
    }

    /// Asks somebody to take over, where there is a reason to.
    pub(super) fn ask(&mut self, name: &'a Arc<str>, plan: &mut Plan<'a>) {
        let is_stuck = self.is_stuck(name, &plan.standing);
        let firsts = std::mem::take(&mut self.firsts);
        let now = self.now;
        let mut asked = self.memory.asked.get(name).cloned();
        let mut wake = None;
        if let Some(site) = self.site(&plan.spec.pool, plan.spec.family) {
            // The time counts from when the object shows the request: a write may have failed.
            if let Some(node) = plan.spec.takeover.take() {
                let (_, since) =
                    asked.take_if(|(other, _)| *other == node).unwrap_or((Arc::clone(&node), now));
                let ends = since.after(ASKED_FOR);
                asked = Some((Arc::clone(&node), since));
                if site.can_take_over(&plan.spec.candidates, &node) && now < ends {
                    plan.spec.takeover = Some(node);
                    wake = Some(ends);
                }
            }
            if plan.spec.takeover.is_none() {
                let failed = asked.as_ref().map(|(node, _)| &**node);
                let heir = match plan.object.move_to.as_deref() {
                    Some(wish) => site.grant(wish, plan, failed),
                    None => None,
                };
                let heir = heir.or_else(|| site.heir(plan, is_stuck, failed, &firsts));
                plan.spec.takeover = heir.map(Into::into);
            }
        } else {
            let candidates = &plan.spec.candidates;
            let is_listed = |node: &str| candidates.iter().any(|c| c.node == node);
            plan.spec.takeover = plan.spec.takeover.take().filter(|node| is_listed(node));
        }
        self.firsts = firsts;
        // Whoever has failed is remembered while there is a reason to ask.
        let is_over = plan.spec.takeover.is_none() && !is_stuck && plan.standing.is_taken_up();
        match asked.filter(|_| !is_over) {
            Some(asked) => self.memory.asked.insert(Arc::clone(name), asked),
            None => self.memory.asked.remove(name),
        };
        if let Some(at) = wake {
            self.wake(at);
        }
        if plan.answered.is_some() {
            self.memory.wished.insert(Arc::clone(name));
        }
    }

    /// Whether the Active has not taken up what is stated for too long.
    fn is_stuck(&mut self, name: &Arc<str>, standing: &Standing<'_>) -> bool {
        if !standing.is_served() || standing.is_taken_up() {
            self.memory.behind_since.remove(name);
            return false;
        }
        let since = *self.memory.behind_since.entry(Arc::clone(name)).or_insert(self.now);
        let due = since.after(TAKEN_UP_WITHIN);
        if due > self.now {
            self.wake(due);
        }
        due <= self.now
    }
}

impl<'a> Site<'a> {
    /// Whether a candidate could serve at once.
    fn can_take_over(&self, candidates: &[Candidate], node: &str) -> bool {
        let is_listed = candidates.iter().any(|c| c.node == node && !c.joining);
        is_listed && self.nodes.get(node).is_some_and(|seat| seat.can_serve() && !seat.is_lost)
    }

    /// Does what somebody wishes, as far as it can be done now; who is to be asked for it.
    fn grant(&self, wish: &'a str, plan: &mut Plan<'a>, failed: Option<&str>) -> Option<&'a str> {
        match self.wish(wish, plan, failed) {
            Wish::Ask(node) => return Some(node),
            Wish::Wait => {}
            Wish::Answer => plan.answered.clone_from(&plan.object.move_to),
            Wish::Enter { instead_of } => {
                let joining = plan.standing.is_served();
                let candidates = &mut plan.spec.candidates;
                if let Some(candidate) = candidates.iter_mut().find(|c| c.node == instead_of) {
                    wish.clone_into(&mut candidate.node);
                    candidate.joining = joining;
                }
            }
        }
        None
    }

    fn wish(&self, wish: &'a str, plan: &Plan<'a>, failed: Option<&str>) -> Wish<'a> {
        let candidates = &plan.spec.candidates;
        let is_first = first(candidates) == Some(wish);
        if is_first && plan.standing.is_served_by(wish) || failed == Some(wish) {
            return Wish::Answer;
        }
        if self.can_take_over(candidates, wish) {
            return Wish::Ask(wish);
        }
        if !self.nodes.get(wish).is_some_and(|seat| seat.can_serve() && !seat.is_lost) {
            return Wish::Answer;
        }
        match self.way(wish, candidates, &plan.standing) {
            Some(Way::Enter { instead_of }) => Wish::Enter { instead_of },
            Some(Way::Wait | Way::Swap) => Wish::Wait,
            None => Wish::Answer,
        }
    }

    /// Who is to relieve the node that serves, or to begin; `None` without a reason.
    fn heir(
        &self,
        plan: &Plan<'_>,
        is_stuck: bool,
        failed: Option<&str>,
        firsts: &Firsts,
    ) -> Option<&'a str> {
        let candidates = &plan.spec.candidates;
        let able = candidates.iter().filter(|c| self.can_take_over(candidates, &c.node));
        let able = able.filter_map(|c| self.nodes.get_key_value(&*c.node));
        let serves = |node: &str| plan.standing.is_served_by(node);
        let is_leaving = candidates.iter().any(|c| self.leaving.contains(&*c.node));
        if is_leaving || is_stuck {
            return able
                .filter(|(node, _)| !serves(node))
                .min_by_key(|(node, seat)| {
                    (failed == Some(**node), !seat.is_preferred, firsts.of(node))
                })
                .map(|(node, _)| *node);
        }
        let begins = !plan.object.spec.serves() && plan.spec.serves() && !plan.standing.is_served();
        able.filter(|_| begins).map(|(node, _)| *node).next()
    }
}
