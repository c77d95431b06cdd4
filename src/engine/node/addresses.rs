//! Wanted addresses against seen ones: what is missing is added, what is ours and not wanted is
//! removed, what is wanted and ours is refreshed before its lifetime ends. Nothing foreign is
//! ever touched.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use super::announcements::Key;
use super::command::{AddressChange, Command, CommandId, Failure};
use super::links::{Instance, LinkSnapshot};
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
    /// Wanted, seen as ours, and told to the node.
    bound: BTreeSet<Key>,
    pending: BTreeMap<CommandId, Pending>,
    busy: BTreeSet<Key>,
    retries: BTreeMap<Key, Retry>,
    /// Moved behind the link's own addresses, and when.
    reordered: BTreeMap<Key, Instant>,
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
    period: Duration,
}

impl Refresh {
    /// Four periods, in the kernel's whole seconds.
    fn lifetime(&self) -> Duration {
        Duration::from_secs((self.period * 4).as_millis().div_ceil(1000).try_into().unwrap_or(2))
    }
}

impl Addresses {
    pub(super) fn new(instance: Instance) -> Self {
        Self {
            instance,
            wanted: BTreeMap::new(),
            seen: BTreeMap::new(),
            bound: BTreeSet::new(),
            pending: BTreeMap::new(),
            busy: BTreeSet::new(),
            retries: BTreeMap::new(),
            reordered: BTreeMap::new(),
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
        let Some(Pending { key, vip, change }) = self.pending.remove(&id) else {
            return;
        };
        self.dirty.insert(key);
        if matches!(change, AddressChange::Refresh { .. }) {
            // One that failed shows in the next snapshot.
            self.refresh.under_way = self.refresh.under_way.saturating_sub(1);
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
        let waiting: Vec<Key> = self.retries.keys().copied().collect();
        self.dirty.extend(waiting);
        for key in std::mem::take(&mut self.dirty) {
            if self.busy.contains(&key) {
                continue;
            }
            let Some((vip, change)) = self.compare(key, now) else {
                self.retries.remove(&key);
                continue;
            };
            if self.retries.get(&key).is_some_and(|retry| retry.at > now) {
                continue;
            }
            if self.pending.len() >= WINDOW {
                self.dirty.insert(key);
            } else {
                self.busy.insert(key);
                self.issue(key, vip, change, commands);
            }
        }
        self.refresh(now, commands);
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
                let reorder = seen.misplaced
                    && self.reordered.get(&key).is_none_or(|at| now.since(*at) > REORDER_PAUSE);
                if reorder || seen.prefix_len != want.vip.prefix_len() {
                    self.reordered.insert(key, now);
                    self.bound.remove(&key);
                    return Some((vip_of(key.1, seen.prefix_len)?, AddressChange::Remove));
                }
                if self.bound.insert(key) {
                    self.refresh.next_round.get_or_insert(now + self.refresh.period);
                    self.notices.push_back(Notice::Bound(key));
                }
                None
            }
            (Some(want), None) => {
                if self.bound.remove(&key) {
                    self.notices.push_back(Notice::Lost(key, want.vip));
                }
                let lifetime = self.refresh.lifetime();
                let not_after = now + want.patience;
                Some((want.vip, AddressChange::Add { lifetime, not_after }))
            }
        }
    }

    /// Starts a round when it is due, and goes on with the one under way.
    fn refresh(&mut self, now: Instant, commands: &mut VecDeque<Command>) {
        if self.refresh.round.is_none() && self.refresh.next_round.is_some_and(|at| at <= now) {
            self.refresh.next_round = None;
            if !self.bound.is_empty() {
                self.refresh.round = Some((now, self.bound.iter().copied().collect()));
            }
        }
        let Some((started, mut queue)) = self.refresh.round.take() else {
            return;
        };
        while self.pending.len() < WINDOW
            && let Some(key) = queue.pop_front()
        {
            let Some(want) = self.wanted.get(&key).filter(|_| self.bound.contains(&key)) else {
                continue;
            };
            let change = AddressChange::Refresh {
                lifetime: self.refresh.lifetime(),
                not_after: now + self.refresh.period.min(want.patience),
            };
            let vip = want.vip;
            self.refresh.under_way += 1;
            self.issue(key, vip, change, commands);
        }
        if queue.is_empty() && self.refresh.under_way == 0 {
            // One round may have met a stall or a busy kernel: it takes two to slow down.
            let took = now.since(started);
            let cost = took.min(std::mem::replace(&mut self.refresh.took, took));
            let granted = std::mem::replace(&mut self.refresh.period, PERIOD.max(cost * DUTY));
            // The lifetimes of this round are those of the old period.
            let next = started + granted.min(self.refresh.period);
            self.refresh.next_round = Some(next.max(now));
        } else {
            self.refresh.round = Some((started, queue));
        }
    }

    fn issue(
        &mut self,
        key: Key,
        vip: Vip,
        change: AddressChange,
        commands: &mut VecDeque<Command>,
    ) {
        self.last_id += 1;
        let id = CommandId(self.last_id);
        self.pending.insert(id, Pending { key, vip, change });
        commands.push_back(Command::Address { id, link: key.0, vip, change });
    }

    /// Says [`Notice::Bound`] once more of an address that is bound already.
    pub(super) fn tell_again(&mut self, key: Key) {
        if self.bound.remove(&key) {
            self.dirty.insert(key);
        }
    }

    /// What happened that the node has to know.
    pub(super) fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// When [`Self::reconcile`] has something to do although nothing changed.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let retry = self
            .retries
            .iter()
            .filter(|(key, _)| !self.busy.contains(key) && self.pending.len() < WINDOW)
            .map(|(_, retry)| retry.at)
            .min();
        let round = self.refresh.next_round.filter(|_| self.refresh.round.is_none());
        [retry, round].into_iter().flatten().min()
    }

    /// Whether a wanted address is there and ours.
    pub(super) fn is_bound(&self, key: Key) -> bool {
        self.bound.contains(&key)
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
