//! The plan that an agent holds to, whatever the API server shows, loses or fails to show.
//!
//! * A router that vanishes is not an order to let go: addresses go when an entry is released, the
//!   list of addresses is empty, or the node is no candidate any more. A vanished one is frozen:
//!   for ever while nothing at all is shown (the definition was deleted, a store came up empty),
//!   and for ten minutes once others are shown.
//! * Generations are compared within one uid; another uid is a new statement of the same router.
//!   An older generation than is held, as a restored store shows it, counts once a second list
//!   has shown it too.

use std::collections::BTreeMap;
use std::time::Duration;

use super::time::Instant;
use crate::model::{Plan, VirtualRouter};

/// How long a vanished router is kept once others are shown.
pub const FROZEN_FOR: Duration = Duration::from_secs(600);

/// What an agent holds to.
#[derive(Clone, Debug, Default)]
pub struct HeldPlan {
    routers: BTreeMap<String, Held>,
}

#[derive(Clone, Debug)]
struct Held {
    router: VirtualRouter,
    /// Whether the API server shows it.
    shown: bool,
    /// Others have been shown since then, and this one was not.
    missing_since: Option<Instant>,
    /// A list has shown an older generation.
    doubted: bool,
}

impl HeldPlan {
    /// The plan that the last process had held to.
    #[must_use]
    pub fn remembered(plan: Plan) -> Self {
        let held = |router: VirtualRouter| {
            let name = router.name.clone();
            (name, Held { router, shown: false, missing_since: None, doubted: false })
        };
        Self { routers: plan.into_iter().map(held).collect() }
    }

    /// Everything that the API server shows. What it shows and can't be read counts as shown:
    /// `unreadable` are the names of these.
    pub fn handle_list(&mut self, list: Vec<VirtualRouter>, unreadable: &[&str], now: Instant) {
        for held in self.routers.values_mut() {
            held.shown = unreadable.contains(&held.router.name.as_str());
        }
        for router in list {
            self.take(router, true);
        }
        self.look_for_missing(now);
    }

    /// A router was made or has changed.
    pub fn handle_applied(&mut self, router: VirtualRouter, now: Instant) {
        self.take(router, false);
        self.look_for_missing(now);
    }

    /// A router was deleted.
    pub fn handle_deleted(&mut self, name: &str, now: Instant) {
        if let Some(held) = self.routers.get_mut(name) {
            held.shown = false;
        }
        self.look_for_missing(now);
    }

    /// Forgets what was missing for long enough.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.routers
            .retain(|_, held| held.missing_since.is_none_or(|since| now < since + FROZEN_FOR));
    }

    /// When [`Self::handle_timeout`] is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.routers.values().filter_map(|held| Some(held.missing_since? + FROZEN_FOR)).min()
    }

    /// What is held to now, by name.
    #[must_use]
    pub fn plan(&self) -> Plan {
        self.routers.values().map(|held| held.router.clone()).collect()
    }

    /// Routers that are held to though they are not shown.
    pub fn frozen(&self) -> impl Iterator<Item = &str> {
        let frozen = self.routers.values().filter(|held| !held.shown);
        frozen.map(|held| held.router.name.as_str())
    }

    fn take(&mut self, router: VirtualRouter, is_listed: bool) {
        let Some(held) = self.routers.get_mut(&router.name) else {
            let fresh =
                Held { router: router.clone(), shown: true, missing_since: None, doubted: false };
            self.routers.insert(router.name, fresh);
            return;
        };
        held.shown = true;
        held.missing_since = None;
        let is_older = router.version.uid == held.router.version.uid
            && router.version.generation < held.router.version.generation;
        if is_older && !(is_listed && held.doubted) {
            held.doubted |= is_listed;
            return;
        }
        held.doubted = false;
        held.router = router;
    }

    fn look_for_missing(&mut self, now: Instant) {
        let shows_any = self.routers.values().any(|held| held.shown);
        for held in self.routers.values_mut() {
            held.missing_since = match held.missing_since {
                _ if held.shown || !shows_any => None,
                Some(since) => Some(since),
                None => Some(now),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        Announce, Candidates, ChecksumForm, Family, Interval, LinkSelector, Preempt, Priority,
        Transport, Version, Vrid,
    };

    const SECOND: Duration = Duration::from_secs(1);

    fn router(name: &str, uid: &str, generation: u64) -> VirtualRouter {
        VirtualRouter {
            name: name.to_owned(),
            version: Version { uid: uid.to_owned(), generation },
            vrid: Vrid::try_from(100).unwrap(),
            family: Family::Ipv4,
            link: LinkSelector::Subnet,
            interval: Interval::DEFAULT,
            preempt: Preempt::default(),
            entries: Vec::new(),
            candidates: Candidates::Open { priority: Priority::DEFAULT },
            takeover: None,
            health_band: true,
            transport: Transport::default(),
            announce: Announce::default(),
            checksum: ChecksumForm::Auto,
        }
    }

    fn at(seconds: u32) -> Instant {
        Instant::ZERO + SECOND * seconds
    }

    fn held(plan: &HeldPlan) -> Vec<(String, String, u64)> {
        let versions = plan.plan().into_iter().map(|router| {
            let Version { uid, generation } = router.version;
            (router.name, uid, generation)
        });
        versions.collect()
    }

    fn version(name: &str, uid: &str, generation: u64) -> (String, String, u64) {
        (name.to_owned(), uid.to_owned(), generation)
    }

    #[test]
    fn what_is_shown_is_held_to() {
        let mut plan = HeldPlan::default();
        plan.handle_list(vec![router("a", "1", 1)], &[], at(0));
        plan.handle_applied(router("b", "2", 1), at(1));
        plan.handle_applied(router("a", "1", 2), at(2));
        assert_eq!(held(&plan), [version("a", "1", 2), version("b", "2", 1)]);
    }

    #[test]
    fn a_store_that_came_up_empty_takes_nothing_away_for_ever() {
        let mut plan = HeldPlan::remembered(vec![router("a", "1", 3), router("b", "2", 1)]);
        plan.handle_list(Vec::new(), &[], at(0));
        plan.handle_deleted("a", at(1));
        plan.handle_timeout(at(1_000_000));
        assert_eq!(held(&plan), [version("a", "1", 3), version("b", "2", 1)]);
        assert_eq!(plan.frozen().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(plan.poll_timeout(), None);
    }

    #[test]
    fn a_router_that_vanished_alone_is_forgotten_after_ten_minutes() {
        let mut plan = HeldPlan::default();
        plan.handle_list(vec![router("a", "1", 1), router("b", "2", 1)], &[], at(0));
        plan.handle_deleted("a", at(10));
        assert_eq!(plan.poll_timeout(), Some(at(610)));
        plan.handle_timeout(at(609));
        assert_eq!(held(&plan).len(), 2, "frozen");
        plan.handle_timeout(at(610));
        assert_eq!(held(&plan), [version("b", "2", 1)]);
    }

    #[test]
    fn a_router_that_comes_back_in_time_is_a_new_statement_of_the_same_one() {
        let mut plan = HeldPlan::default();
        plan.handle_list(vec![router("a", "1", 7), router("b", "2", 1)], &[], at(0));
        plan.handle_deleted("a", at(10));
        plan.handle_applied(router("a", "9", 1), at(20));
        plan.handle_timeout(at(10_000));
        assert_eq!(held(&plan), [version("a", "9", 1), version("b", "2", 1)]);
    }

    #[test]
    fn an_older_generation_counts_when_a_second_list_shows_it() {
        let mut plan = HeldPlan::remembered(vec![router("a", "1", 5)]);
        plan.handle_applied(router("a", "1", 4), at(0));
        plan.handle_list(vec![router("a", "1", 4)], &[], at(1));
        plan.handle_applied(router("a", "1", 4), at(2));
        assert_eq!(held(&plan), [version("a", "1", 5)], "one list is not enough");
        plan.handle_list(vec![router("a", "1", 4)], &[], at(600));
        assert_eq!(held(&plan), [version("a", "1", 4)]);
    }

    #[test]
    fn a_newer_generation_ends_the_doubt() {
        let mut plan = HeldPlan::remembered(vec![router("a", "1", 5)]);
        plan.handle_list(vec![router("a", "1", 4)], &[], at(1));
        plan.handle_applied(router("a", "1", 6), at(2));
        plan.handle_list(vec![router("a", "1", 5)], &[], at(600));
        assert_eq!(held(&plan), [version("a", "1", 6)], "the first list of before the change");
    }

    #[test]
    fn a_router_that_cannot_be_read_is_not_missing() {
        let mut plan = HeldPlan::default();
        plan.handle_list(vec![router("a", "1", 1), router("b", "2", 1)], &[], at(0));
        plan.handle_list(vec![router("b", "2", 1)], &["a"], at(1));
        assert_eq!(plan.poll_timeout(), None);
        assert_eq!(held(&plan).len(), 2);
    }
}
