//! Wanted addresses against seen ones: what is missing is added, what is ours and not wanted is
//! removed, what is wanted and ours is refreshed before its lifetime ends. Nothing foreign is
//! ever touched.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use super::command::{AddressChange, Command, CommandId, Failure};
use super::links::{Instance, Key, LinkSnapshot};
use crate::engine::time::Instant;
use crate::model::Vip;

/// What is wanted of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The address with its length.
    pub(super) vip: Vip,
    /// Bound and refreshed; else left as it is, to be decided soon.
    pub(super) bind: bool,
    /// An addition that takes longer than this may meet another owner.
    pub(super) patience: Duration,
}

/// What the node has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// A wanted address is there now.
    Bound(Key),
    /// A bound address was removed by somebody else.
    Lost(Key, Vip),
    /// The lifetime of a bound address ended before it was refreshed.
    Expired(Key, Vip),
    /// A wanted address is there, and not ours.
    InUse(Key),
    /// A wanted address can't be added.
    Failing(Key, String),
}

/// Netlink commands under way at a time: enough to keep the kernel busy, few enough that what is
/// urgent never waits behind a long queue.
const WINDOW: usize = 32;
/// Refresh period and lifetime for few addresses, without a fence of the packet filter.
const PERIOD: Duration = Duration::from_millis(500);
/// A round of refreshes may take this share of the period (a twentieth).
const DUTY: u32 = 20;
/// Additions that may fail in a row before the address counts as failing.
const FAILURES: u32 = 4;
/// Time between moves of an address behind the link's own ones.
const REORDER_PAUSE: Duration = Duration::from_secs(10);

/// All addresses of one machine.
#[derive(Debug)]
pub(super) struct Addresses {
    instance: Instance,
    wanted: BTreeMap<Key, Wanted>,
    /// The last snapshot, with our own successes since.
    seen: BTreeMap<Key, Seen>,
    /// Wanted, seen as ours, and told to the node; and until when it lives at least.
    bound: BTreeMap<Key, Instant>,
    pending: BTreeMap<CommandId, Pending>,
    busy: BTreeSet<Key>,
    retries: BTreeMap<Key, Retry>,
    /// Moved behind the link's own addresses, and when.
    reordered: BTreeMap<Key, Instant>,
    /// Added by us and not yet found bound: its lifetime is whole, and lasts until then at least.
    fresh: BTreeMap<Key, Instant>,
    /// What has to be compared later.
    waiting: BTreeMap<Key, Instant>,
    /// What has to be compared.
    dirty: BTreeSet<Key>,
    refresh: Refresh,
    last_id: u64,
    notices: VecDeque<Notice>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    prefix_len: u8,
    ours: bool,
    /// An IPv4 address of ours that stands before the link's first own one.
    misplaced: bool,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    key: Key,
    vip: Vip,
    change: AddressChange,
    since: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Retry {
    failures: u32,
    at: Instant,
}

#[derive(Debug)]
struct Refresh {
    next_round: Option<Instant>,
    /// The round under way: since when, and what is left of it.
    round: Option<(Instant, VecDeque<Key>)>,
    under_way: usize,
    /// How long the last round took.
    took: Duration,
    /// A quarter of the lifetime that is given now.
    period: Duration,
}

impl Refresh {
    /// Four periods, in the kernel's whole seconds.
    fn lifetime(&self) -> Duration {
        Duration::from_secs((self.period * 4).as_millis().div_ceil(1000).try_into().unwrap_or(2))
    }

    /// A round is over. Lifetimes given in it are four of its periods, and those given just
    /// before, too late to be part of it, no less than two: all of them live through the next
    /// one. One round may have met a stall or a busy kernel, so it takes two to slow down, and
    /// the period doubles at most.
    fn finish(&mut self, started: Instant, now: Instant) {
        let took = now.since(started);
        let cost = took.min(std::mem::replace(&mut self.took, took));
        let given = self.period;
        self.period = PERIOD.max(cost * DUTY).min(given * 2);
        self.next_round = Some((started + given.min(self.period)).max(now));
    }
}

impl Addresses {
    pub(super) fn new(instance: Instance) -> Self {
        Self {
            instance,
            wanted: BTreeMap::new(),
            seen: BTreeMap::new(),
            bound: BTreeMap::new(),
            pending: BTreeMap::new(),
            busy: BTreeSet::new(),
            retries: BTreeMap::new(),
            reordered: BTreeMap::new(),
            fresh: BTreeMap::new(),
            waiting: BTreeMap::new(),
            dirty: BTreeSet::new(),
            refresh: Refresh {
                next_round: None,
                round: None,
                under_way: 0,
                took: Duration::ZERO,
                period: PERIOD,
            },
            last_id: 0,
            notices: VecDeque::new(),
        }
    }

    /// Everything that is wanted from now on.
    pub(super) fn want(&mut self, wanted: BTreeMap<Key, Wanted>) {
        let gone = self.wanted.keys().filter(|key| !wanted.contains_key(key));
        let changed = wanted.iter().filter(|(key, want)| self.wanted.get(key) != Some(want));
        self.dirty.extend(gone.chain(changed.map(|(key, _)| key)).copied());
        self.wanted = wanted;
    }

    /// The full picture of the kernel.
    pub(super) fn see(&mut self, snapshot: &LinkSnapshot) {
        let mut seen = BTreeMap::new();
        for link in &snapshot.links {
            let is_own_ipv4 =
                |a: &&super::links::LinkAddress| a.instance.is_none() && a.address.is_ipv4();
            let first_own = link.addresses.iter().position(|a| is_own_ipv4(&a));
            for (place, a) in link.addresses.iter().enumerate() {
                let ours = a.instance == Some(self.instance);
                let misplaced =
                    ours && a.address.is_ipv4() && first_own.is_some_and(|own| place < own);
                let entry = Seen { prefix_len: a.prefix_len, ours, misplaced };
                // The same address twice with two lengths: what is not ours decides.
                let known = seen.entry((link.id, a.address)).or_insert(entry);
                if !ours {
                    *known = entry;
                }
            }
        }
        let gone = self.seen.keys().filter(|key| !seen.contains_key(key));
        let changed = seen.iter().filter(|(key, a)| self.seen.get(key) != Some(a));
        self.dirty.extend(gone.chain(changed.map(|(key, _)| key)).copied());
        self.seen = seen;
    }

    /// The answer to a command.
    pub(super) fn done(&mut self, id: CommandId, result: &Result<(), Failure>, now: Instant) {
        let Some(Pending { key, vip, change, since }) = self.pending.remove(&id) else {
            return;
        };
        self.dirty.insert(key);
        if let AddressChange::Refresh { lifetime, .. } = change {
            self.refresh.under_way = self.refresh.under_way.saturating_sub(1);
            match result {
                Ok(()) => {
                    self.bound.entry(key).and_modify(|until| *until = since + lifetime);
                }
                // It is gone, or no longer what it was: adding it again will tell.
                Err(Failure::Refused(_)) => {
                    self.seen.remove(&key);
                }
                Err(_) => {}
            }
            return;
        }
        self.busy.remove(&key);
        match (change, result) {
            (AddressChange::Remove, Ok(())) => {
                self.seen.remove(&key);
            }
            (_, Ok(())) => {
                let prefix_len = vip.prefix_len();
                self.seen.insert(key, Seen { prefix_len, ours: true, misplaced: false });
            }
            (_, Err(Failure::TooLate)) => {}
            (_, Err(failure)) => self.failed(key, failure, now),
        }
    }

    fn failed(&mut self, key: Key, failure: &Failure, now: Instant) {
        let retry = self.retries.entry(key).or_insert(Retry { failures: 0, at: now });
        if *failure == Failure::Busy {
            retry.at = now + Duration::from_millis(10);
            return;
        }
        retry.failures = retry.failures.saturating_add(1);
        retry.at = now + Duration::from_millis(50) * 2_u32.pow(retry.failures.min(7));
        if retry.failures >= FAILURES && self.wanted.get(&key).is_some_and(|want| want.bind) {
            self.notices.push_back(Notice::Failing(key, failure.to_string()));
        }
    }

    /// Emits the commands that bring what is seen closer to what is wanted.
    pub(super) fn reconcile(&mut self, now: Instant, commands: &mut VecDeque<Command>) {
        self.begin_round(now);
        let due = self.waiting.extract_if(.., |_, at| *at <= now).map(|(key, _)| key);
        self.dirty.extend(due);
        while self.has_room()
            && let Some(key) = self.dirty.pop_first()
        {
            if self.busy.contains(&key) {
                continue;
            }
            self.waiting.remove(&key);
            let Some((vip, change)) = self.compare(key, now) else {
                self.retries.remove(&key);
                continue;
            };
            let not_before = self.not_before(key);
            if not_before > now {
                self.waiting.insert(key, not_before);
            } else {
                self.busy.insert(key);
                self.prepare(key, change, now);
                self.issue(key, vip, change, now, commands);
            }
        }
        // A leftover that was adopted asks for one at once.
        self.begin_round(now);
        self.refresh(now, commands);
    }

    /// When an address may be changed: not at once after a failure, nor to move it again.
    fn not_before(&self, key: Key) -> Instant {
        let retry = self.retries.get(&key).map_or(Instant::ZERO, |retry| retry.at);
        let is_misplaced = self.seen.get(&key).is_some_and(|seen| seen.misplaced);
        let moved = self.reordered.get(&key).filter(|_| is_misplaced && self.is_bound(key));
        moved.map_or(retry, |at| retry.max(*at + REORDER_PAUSE))
    }

    /// What a change means for what is believed.
    fn prepare(&mut self, key: Key, change: AddressChange, now: Instant) {
        match change {
            AddressChange::Add { lifetime, .. } => {
                self.fresh.insert(key, now + lifetime);
            }
            AddressChange::Remove => {
                if self.bound.remove(&key).is_some() {
                    self.reordered.insert(key, now);
                }
            }
            AddressChange::Refresh { .. } => {}
        }
    }

    /// What one address needs, if anything.
    fn compare(&mut self, key: Key, now: Instant) -> Option<(Vip, AddressChange)> {
        let want = self.wanted.get(&key).copied();
        let seen = self.seen.get(&key).copied();
        if !want.is_some_and(|want| want.bind) {
            self.bound.remove(&key);
        }
        match (want, seen) {
            (Some(Wanted { bind: false, .. }), _)
            | (None, None | Some(Seen { ours: false, .. })) => None,
            (None, Some(seen)) => Some((vip_of(key.1, seen.prefix_len)?, AddressChange::Remove)),
            (Some(_), Some(Seen { ours: false, .. })) => {
                self.bound.remove(&key);
                self.notices.push_back(Notice::InUse(key));
                None
            }
            (Some(want), Some(seen)) => {
                if let Entry::Vacant(bound) = self.bound.entry(key) {
                    // A leftover that was adopted may have little of its lifetime left.
                    let fresh = self.fresh.remove(&key);
                    bound.insert(fresh.unwrap_or(now));
                    let due = if fresh.is_some() { now + self.refresh.period } else { now };
                    let next = self.refresh.next_round.get_or_insert(due);
                    *next = (*next).min(due);
                    self.notices.push_back(Notice::Bound(key));
                }
                let is_wrong = seen.misplaced || seen.prefix_len != want.vip.prefix_len();
                is_wrong.then_some((vip_of(key.1, seen.prefix_len)?, AddressChange::Remove))
            }
            (Some(want), None) => {
                if let Some(until) = self.bound.remove(&key) {
                    let notice = if until > now { Notice::Lost } else { Notice::Expired };
                    self.notices.push_back(notice(key, want.vip));
                }
                let lifetime = self.refresh.lifetime();
                let not_after = now + want.patience;
                Some((want.vip, AddressChange::Add { lifetime, not_after }))
            }
        }
    }

    /// Whether an addition or removal may go. Each has half of the window where they meet with a
    /// round of refreshes: thousands of additions take longer than the first of them live, and
    /// an urgent one can't wait for thousands of refreshes.
    fn has_room(&self) -> bool {
        let changes = self.pending.len().saturating_sub(self.refresh.under_way);
        self.pending.len() < WINDOW && (self.refresh.round.is_none() || changes < WINDOW / 2)
    }

    /// Begins a round of refreshes when it is due.
    fn begin_round(&mut self, now: Instant) {
        if self.refresh.round.is_none() && self.refresh.next_round.is_some_and(|at| at <= now) {
            self.refresh.next_round = None;
            if !self.bound.is_empty() {
                self.refresh.round = Some((now, self.bound.keys().copied().collect()));
            }
        }
    }

    /// Goes on with the round under way.
    fn refresh(&mut self, now: Instant, commands: &mut VecDeque<Command>) {
        let Some((started, mut queue)) = self.refresh.round.take() else {
            return;
        };
        while self.pending.len() < WINDOW
            && self.refresh.under_way < WINDOW / 2
            && let Some(key) = queue.pop_front()
        {
            let is_bound = self.is_bound(key);
            let Some(want) = self.wanted.get(&key).filter(|want| want.bind && is_bound) else {
                continue;
            };
            let change = AddressChange::Refresh {
                lifetime: self.refresh.lifetime(),
                not_after: now + self.refresh.period.min(want.patience),
            };
            let vip = want.vip;
            self.refresh.under_way += 1;
            self.issue(key, vip, change, now, commands);
        }
        if queue.is_empty() && self.refresh.under_way == 0 {
            self.refresh.finish(started, now);
        } else {
            self.refresh.round = Some((started, queue));
        }
    }

    fn issue(
        &mut self,
        key: Key,
        vip: Vip,
        change: AddressChange,
        now: Instant,
        commands: &mut VecDeque<Command>,
    ) {
        self.last_id += 1;
        let id = CommandId(self.last_id);
        self.pending.insert(id, Pending { key, vip, change, since: now });
        commands.push_back(Command::Address { id, link: key.0, vip, change });
    }

    /// Says [`Notice::Bound`] once more of an address that is bound already.
    pub(super) fn tell_again(&mut self, key: Key) {
        if self.bound.remove(&key).is_some() {
            self.dirty.insert(key);
        }
    }

    /// What happened that the node has to know.
    pub(super) fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// When [`Self::reconcile`] has something to do although nothing changed.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let waiting = self.waiting.values().min().copied();
        let round = self.refresh.next_round.filter(|_| self.refresh.round.is_none());
        [waiting, round].into_iter().flatten().min()
    }

    /// Whether a wanted address is there and ours.
    pub(super) fn is_bound(&self, key: Key) -> bool {
        self.bound.contains_key(&key)
    }

    /// Whether an address is to be bound.
    pub(super) fn is_wanted(&self, key: Key) -> bool {
        self.wanted.get(&key).is_some_and(|want| want.bind)
    }

    /// Whether a wanted address is on its way to be there.
    pub(super) fn is_adding(&self, key: Key) -> bool {
        let adds = |change: &AddressChange| matches!(change, AddressChange::Add { .. });
        self.busy.contains(&key) && self.pending.values().any(|p| p.key == key && adds(&p.change))
    }

    /// Whether an address of ours is there, wanted or not.
    pub(super) fn is_ours(&self, key: Key) -> bool {
        self.seen.get(&key).is_some_and(|seen| seen.ours)
    }

    /// Whether somebody else's address is there.
    pub(super) fn is_foreign(&self, key: Key) -> bool {
        self.seen.get(&key).is_some_and(|seen| !seen.ours)
    }

    /// Whether nothing of ours is there and nothing is under way.
    pub(super) fn is_clean(&self) -> bool {
        self.pending.is_empty() && self.seen.values().all(|seen| !seen.ours)
    }

    /// The lifetime in force, in whole seconds.
    pub(super) fn lifetime(&self) -> Duration {
        self.refresh.lifetime()
    }
}

fn vip_of(address: IpAddr, prefix_len: u8) -> Option<Vip> {
    ipnet::IpNet::new(address, prefix_len).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::super::links::LinkId;
    use super::*;

    /// What a slow kernel takes for one change.
    const ADDITION: Duration = Duration::from_micros(700);
    const REFRESH: Duration = Duration::from_micros(45);

    /// Carries changes out one after another, and forgets addresses that are not refreshed.
    #[derive(Default)]
    struct Kernel {
        now: Instant,
        expiry: BTreeMap<Key, Instant>,
    }

    impl Kernel {
        fn carry_out(&mut self, key: Key, change: AddressChange) -> Result<(), Failure> {
            let alive = self.expiry.get(&key).is_some_and(|at| *at > self.now);
            match change {
                AddressChange::Add { lifetime, .. } => {
                    assert!(!alive, "{} was added twice", key.1);
                    self.now = self.now + ADDITION;
                    self.expiry.insert(key, self.now + lifetime);
                }
                AddressChange::Refresh { lifetime, not_after } => {
                    assert!(alive, "{} had expired at {}", key.1, self.now);
                    self.now = self.now + REFRESH;
                    if self.now > not_after {
                        return Err(Failure::TooLate);
                    }
                    self.expiry.insert(key, self.now + lifetime);
                }
                AddressChange::Remove => panic!("nothing is to be removed"),
            }
            Ok(())
        }
    }

    /// Adding all takes longer than the first of them live at first, and a round so long that the
    /// period must grow beyond that life.
    #[test]
    fn none_of_four_thousand_addresses_expires_while_the_period_grows() {
        let first = u32::from(Ipv4Addr::new(10, 0, 0, 0));
        let wanted: BTreeMap<Key, Wanted> = (first..first + 4000)
            .map(|address| {
                let address = IpAddr::V4(address.into());
                let vip = vip_of(address, 32).unwrap();
                let patience = Duration::from_secs(1);
                ((LinkId(2), address), Wanted { vip, bind: true, patience })
            })
            .collect();
        let count = wanted.len();
        let mut addresses = Addresses::new(Instance(1));
        addresses.want(wanted);
        let mut kernel = Kernel::default();
        let mut commands = VecDeque::new();
        while kernel.now < Instant::ZERO + Duration::from_secs(20) {
            addresses.reconcile(kernel.now, &mut commands);
            if let Some(Command::Address { id, link, vip, change }) = commands.pop_front() {
                let result = kernel.carry_out((link, vip.address()), change);
                addresses.done(id, &result, kernel.now);
            } else {
                kernel.now = kernel.now.max(addresses.poll_timeout().unwrap());
            }
        }
        assert_eq!(addresses.bound.len(), count);
        assert!(addresses.lifetime() > Duration::from_secs(4), "{:?}", addresses.lifetime());
    }
}
