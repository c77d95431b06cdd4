//! The lasting problems of one virtual router: each is told when it begins and when it is over.

use std::collections::BTreeMap;

use super::event::{EventKind, Problem};
use super::machine::Machine;
use crate::engine::time::Instant;

/// Problems kept at a time: whoever sends adverts from a thousand addresses fills no memory and no
/// log.
const KEPT: usize = 32;

/// What is wrong now.
#[derive(Debug)]
pub(super) struct Problems {
    router: String,
    known: BTreeMap<Problem, Trouble>,
}

#[derive(Clone, Copy, Debug)]
struct Trouble {
    since: Instant,
    /// Over by then unless it is raised again; `None`: until it is cleared.
    until: Option<Instant>,
}

impl Problems {
    /// None yet, of the router of this name.
    pub(super) const fn new(router: String) -> Self {
        Self { router, known: BTreeMap::new() }
    }

    /// A problem is there, for certain until `until`.
    pub(super) fn raise(
        &mut self,
        problem: Problem,
        until: Option<Instant>,
        machine: &mut Machine,
        now: Instant,
    ) {
        if let Some(trouble) = self.known.get_mut(&problem) {
            trouble.until = until;
            return;
        }
        if self.known.len() >= KEPT {
            return;
        }
        machine.note(Some(&self.router), EventKind::Began(problem.clone()));
        self.known.insert(problem, Trouble { since: now, until });
    }

    /// Those that `is_over` names are over.
    pub(super) fn clear(&mut self, machine: &mut Machine, is_over: impl Fn(&Problem) -> bool) {
        self.remove(machine, |problem, _| is_over(problem));
    }

    /// Those whose time has passed are over.
    pub(super) fn expire(&mut self, machine: &mut Machine, now: Instant) {
        if self.poll_timeout().is_some_and(|at| at <= now) {
            self.remove(machine, |_, trouble| trouble.until.is_some_and(|at| at <= now));
        }
    }

    fn remove(&mut self, machine: &mut Machine, is_over: impl Fn(&Problem, &Trouble) -> bool) {
        self.known.retain(|problem, trouble| {
            let over = is_over(problem, trouble);
            if over {
                machine.note(Some(&self.router), EventKind::Ended(problem.clone()));
            }
            !over
        });
    }

    /// When [`Self::expire`] has something to do.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.known.values().filter_map(|trouble| trouble.until).min()
    }

    /// For the status.
    pub(super) fn list(&self) -> Vec<(Problem, Instant)> {
        self.known.iter().map(|(problem, trouble)| (problem.clone(), trouble.since)).collect()
    }
}
