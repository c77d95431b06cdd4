//! The lasting problems of one virtual router: each is told when it begins and when it is over.

use std::collections::BTreeMap;

use super::event::{EventKind, Problem};
use super::machine::Machine;
use crate::engine::time::Instant;

/// Problems kept at a time: whoever sends adverts from a thousand addresses fills no memory and no
/// log.
const KEPT: usize = 32;

/// What is wrong now.
#[derive(Debug, Default)]
pub(super) struct Problems(BTreeMap<Problem, Trouble>);

#[derive(Clone, Copy, Debug)]
struct Trouble {
    since: Instant,
    /// Over by then unless it is raised again; `None`: until it is cleared.
    until: Option<Instant>,
}

impl Problems {
    /// A problem is there, for certain until `until`.
    pub(super) fn raise(
        &mut self,
        router: &str,
        problem: Problem,
        until: Option<Instant>,
        machine: &mut Machine,
        now: Instant,
    ) {
        if let Some(trouble) = self.0.get_mut(&problem) {
            trouble.until = until;
            return;
        }
        if self.0.len() >= KEPT {
            return;
        }
        machine.note(Some(router), EventKind::Began(problem.clone()));
        self.0.insert(problem, Trouble { since: now, until });
    }

    /// Those that `is_over` names are over.
    pub(super) fn clear(
        &mut self,
        router: &str,
        machine: &mut Machine,
        is_over: impl Fn(&Problem) -> bool,
    ) {
        self.remove(router, machine, |problem, _| is_over(problem));
    }

    /// Those whose time has passed are over.
    pub(super) fn expire(&mut self, router: &str, machine: &mut Machine, now: Instant) {
        if self.poll_timeout().is_some_and(|at| at <= now) {
            self.remove(router, machine, |_, trouble| trouble.until.is_some_and(|at| at <= now));
        }
    }

    fn remove(
        &mut self,
        router: &str,
        machine: &mut Machine,
        is_over: impl Fn(&Problem, &Trouble) -> bool,
    ) {
        self.0.retain(|problem, trouble| {
            let over = is_over(problem, trouble);
            if over {
                machine.note(Some(router), EventKind::Ended(problem.clone()));
            }
            !over
        });
    }

    /// When [`Self::expire`] has something to do.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.0.values().filter_map(|trouble| trouble.until).min()
    }

    /// For the status.
    pub(super) fn list(&self) -> Vec<(Problem, Instant)> {
        self.0.iter().map(|(problem, trouble)| (problem.clone(), trouble.since)).collect()
    }
}
