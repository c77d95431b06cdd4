//! What the agents say of one router: who is Active for it, and what of it they have taken up.

use std::collections::BTreeSet;

use super::world::{Claim, Guest, RouterObject, Timestamp, World};

/// An agent reports on change and once a minute, give or take a tenth; of claims of Active that
/// are further apart than one such report and a little, the older one is over.
pub(super) const RENEWED_WITHIN: i64 = 90;
/// After so many seconds without a report from anybody who could serve a router, what they were
/// told last counts as done.
pub(super) const GIVEN_UP_AFTER: i64 = 600;
/// After so many seconds nobody waits for a candidate's report any more before others speak.
pub(super) const JOINS_AFTER: i64 = 60;
/// After so many seconds without a report a candidate may be replaced.
pub(super) const REPLACED_AFTER: i64 = 180;

/// When an agent reported last; `None` where there is no agent.
pub(super) fn heard_at(world: &World, node: &str) -> Option<Timestamp> {
    Some(world.nodes.get(node)?.report.as_ref()?.at)
}

/// Whether an agent has reported within so many seconds.
pub(super) fn is_heard(world: &World, node: &str, within: i64, now: Timestamp) -> bool {
    heard_at(world, node).is_some_and(|at| at.0.saturating_add(within) > now.0)
}

/// Who says last that it is Active for a router of this name, whatever object that was.
pub(super) fn incumbent<'a>(world: &'a World, router: &str) -> Option<&'a str> {
    let reports =
        world.nodes.iter().filter_map(|(node, state)| Some((node, state.report.as_ref()?)));
    let claims = reports.filter(|(_, report)| report.active.contains_key(router));
    claims.max_by_key(|(_, report)| report.at).map(|(node, _)| &**node)
}

/// One existing router as the agents see it.
pub(super) struct Standing<'a> {
    world: &'a World,
    object: &'a RouterObject,
    now: Timestamp,
    /// Who says that it is Active for this very object, and the generation that it has taken up.
    actives: Vec<(&'a str, i64)>,
}

impl<'a> Standing<'a> {
    pub(super) fn new(
        world: &'a World,
        name: &str,
        object: &'a RouterObject,
        now: Timestamp,
    ) -> Self {
        let claims: Vec<_> = world
            .nodes
            .iter()
            .filter_map(|(node, state)| {
                let report = state.report.as_ref()?;
                let reign = report.active.get(name)?;
                (reign.uid == object.uid).then_some((&**node, reign.generation, report.at.0))
            })
            .collect();
        let newest = claims.iter().map(|(_, _, at)| *at).max().unwrap_or(0);
        let actives = claims
            .into_iter()
            .filter(|(_, _, at)| at.saturating_add(RENEWED_WITHIN) > newest)
            .map(|(node, generation, _)| (node, generation))
            .collect();
        Self { world, object, now, actives }
    }

    /// Whether anybody serves it.
    pub(super) fn is_served(&self) -> bool {
        !self.actives.is_empty()
    }

    /// Whether `node` serves it.
    pub(super) fn is_served_by(&self, node: &str) -> bool {
        self.actives.iter().any(|(active, _)| *active == node)
    }

    /// Whether `node` serves it as it is stated now.
    pub(super) fn is_taken_up_by(&self, node: &str) -> bool {
        let generation = self.object.generation;
        self.actives.iter().any(|(active, taken_up)| *active == node && *taken_up >= generation)
    }

    /// Whether whoever serves it serves it as it is stated now.
    pub(super) fn is_taken_up(&self) -> bool {
        self.is_served() && self.is_served_as_stated()
    }

    /// Whether nobody serves anything that it states no more.
    pub(super) fn is_settled(&self) -> bool {
        self.is_taken_up() || self.is_given_up()
    }

    /// Whether nobody serves an emptied router any more: who has taken that up has no reason to be
    /// Active, and to report so.
    pub(super) fn is_retired(&self) -> bool {
        self.is_served_as_stated() || self.is_given_up()
    }

    fn is_served_as_stated(&self) -> bool {
        self.actives.iter().all(|(_, taken_up)| *taken_up >= self.object.generation)
    }

    /// Whether nobody who could serve it has reported for very long; also when nobody could.
    fn is_given_up(&self) -> bool {
        self.servers().iter().all(|node| !is_heard(self.world, node, GIVEN_UP_AFTER, self.now))
    }

    /// When the passing of time alone may change what follows from this.
    pub(super) fn wake_at(&self) -> Option<Timestamp> {
        let is_joining = self.object.spec.candidates.iter().any(|candidate| candidate.joining);
        let is_releasing = self.object.spec.is_empty()
            || self.object.spec.elsewhere.values().any(|elsewhere| elsewhere.leaving)
            || self.object.spec.guests.values().any(|guest| *guest == Guest::Leaving)
            || self
                .object
                .spec
                .claims
                .values()
                .any(|claim| matches!(claim, Claim::Released(release) if !release.confirmed));
        let is_unknown = self
            .servers()
            .iter()
            .any(|node| self.world.nodes.get(*node).is_some_and(|n| n.unknown));
        let spans = [
            (is_joining || is_unknown).then_some(JOINS_AFTER),
            Some(REPLACED_AFTER),
            is_releasing.then_some(GIVEN_UP_AFTER),
        ];
        self.servers()
            .into_iter()
            .filter_map(|node| heard_at(self.world, node))
            .flat_map(|at| spans.into_iter().flatten().map(move |span| at.0.saturating_add(span)))
            .filter(|at| *at > self.now.0)
            .min()
            .map(Timestamp)
    }

    /// The candidates, and who serves it though it is none.
    fn servers(&self) -> BTreeSet<&str> {
        let candidates = self.object.spec.candidates.iter().map(|candidate| &*candidate.node);
        candidates.chain(self.actives.iter().map(|(node, _)| *node)).collect()
    }
}
