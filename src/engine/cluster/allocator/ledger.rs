//! Addresses and who has them: the claims of the world, minus the holders that are gone, plus what
//! this round gives and takes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::ours::{Member, Roster, Standing};
use super::pools::{Pools, Source, rested_at};
use super::sharing::{Clash, Shares};
use crate::engine::cluster::decision::RouterClaims;
use crate::engine::cluster::placement;
use crate::engine::cluster::world::{Claim, Holder, Release, ServiceKey, Timestamp, Uid, World};
use crate::model::Family;

/// Addresses that one router can hold: as many as an advert lists in one Ethernet frame and count
/// octet (RFC 9568 §5.2.5; an IPv6 advert lists a link-local address besides).
#[must_use]
pub const fn router_capacity(family: Family) -> usize {
    match family {
        Family::Ipv4 => 255,
        Family::Ipv6 => 88,
    }
}

/// What has become of an address.
#[derive(Clone, Debug)]
pub(super) enum State<'w> {
    /// These Services have it; never empty.
    Held(Vec<Member<'w>>),
    /// Nobody has it, and it rests.
    Resting(Release),
}

/// An address that somebody has or had.
#[derive(Clone, Debug)]
pub(super) struct Entry<'w> {
    /// The router that it lives in until it is free.
    pub(super) home: Arc<str>,
    /// The pool that it lies in now.
    pub(super) source: Option<Source<'w>>,
    /// What the world shows of it.
    pub(super) shown: Option<&'w Claim>,
    pub(super) state: State<'w>,
}

impl<'w> Entry<'w> {
    /// Who has it, the first holder first.
    pub(super) fn holders(&self) -> &[Member<'w>] {
        match &self.state {
            State::Held(holders) => holders,
            State::Resting(_) => &[],
        }
    }

    /// Whether the world shows that this Service has it: only then it is published.
    pub(super) fn is_shown_for(&self, uid: &Uid) -> bool {
        matches!(self.shown, Some(Claim::Held(holders)) if holders.iter().any(|h| h.uid == *uid))
    }

    /// When it may be given to anybody, while it rests.
    pub(super) fn rested_at(&self) -> Option<Timestamp> {
        match &self.state {
            State::Resting(release) => {
                Some(rested_at(release.at, self.source.map(|source| source.pool)))
            }
            State::Held(_) => None,
        }
    }
}

/// A router that has or had claims, or will have.
#[derive(Debug)]
struct Home {
    pool: Arc<str>,
    family: Family,
    /// Its claims, those at rest counted.
    size: usize,
}

/// All of it.
pub(super) struct Ledger<'w> {
    now: Timestamp,
    unpublished: &'w BTreeSet<(IpAddr, Uid)>,
    entries: BTreeMap<IpAddr, Entry<'w>>,
    homes: BTreeMap<Arc<str>, Home>,
    /// What each Service has, by its rank and family, ascending.
    held: Vec<[Vec<IpAddr>; 2]>,
    /// What Services of this name had and nobody has now.
    former: BTreeMap<ServiceKey, BTreeSet<IpAddr>>,
    pub(super) shares: Shares<'w>,
    /// Who lost an address that it shared, and to whom.
    displaced: BTreeMap<(usize, IpAddr), Clash<'w>>,
    /// What Services that are not ours any more have, by their rank.
    foreign: BTreeMap<usize, Vec<IpAddr>>,
}

const fn slot(family: Family) -> usize {
    match family {
        Family::Ipv4 => 0,
        Family::Ipv6 => 1,
    }
}

impl<'w> Ledger<'w> {
    /// The claims that the world shows, as far as their holders are there and ours.
    pub(super) fn read(
        world: &'w World,
        roster: &Roster<'w>,
        pools: &Pools<'w>,
        now: Timestamp,
    ) -> Self {
        let mut ledger = Self {
            now,
            unpublished: &world.unpublished,
            entries: BTreeMap::new(),
            homes: BTreeMap::new(),
            held: vec![[const { Vec::new() }; 2]; roster.len()],
            former: BTreeMap::new(),
            shares: Shares::default(),
            displaced: BTreeMap::new(),
            foreign: BTreeMap::new(),
        };
        let mut claims = Vec::new();
        for (name, router) in &world.routers {
            let (pool, family) = (Arc::clone(&router.spec.pool), router.spec.family);
            ledger.homes.insert(Arc::clone(name), Home { pool, family, size: 0 });
            let claim = |(address, claim): (&IpAddr, &'w Claim)| {
                (*address, matches!(claim, Claim::Released(_)), name, claim)
            };
            claims.extend(router.spec.claims.iter().map(claim));
        }
        // An address that two routers claim stays where it is held, else in the first one.
        claims.sort_by_key(|(address, is_released, _, _)| (*address, *is_released));
        claims.dedup_by_key(|(address, _, _, _)| *address);
        for (address, _, name, claim) in claims {
            ledger.read_claim(address, name, claim, roster, pools.of(address));
        }
        ledger
    }

    fn read_claim(
        &mut self,
        address: IpAddr,
        name: &Arc<str>,
        claim: &'w Claim,
        roster: &Roster<'w>,
        source: Option<Source<'w>>,
    ) {
        let state = match claim {
            Claim::Held(holders) => {
                let holders = self.read_holders(address, holders, roster, source);
                if holders.is_empty() {
                    self.end_of(address, claim)
                } else {
                    Some(State::Held(holders))
                }
            }
            Claim::Released(release) => {
                let rested = rested_at(release.at, source.map(|source| source.pool)) <= self.now;
                (!(release.confirmed && rested)).then(|| State::Resting(release.clone()))
            }
        };
        let Some(state) = state else { return };
        if let State::Resting(release) = &state {
            self.former.entry(release.by.clone()).or_default().insert(address);
        }
        if let Some(home) = self.homes.get_mut(name) {
            home.size += 1;
        }
        let entry = Entry { home: Arc::clone(name), source, shown: Some(claim), state };
        self.entries.insert(address, entry);
    }

    fn read_holders(
        &mut self,
        address: IpAddr,
        holders: &[Holder],
        roster: &Roster<'w>,
        source: Option<Source<'w>>,
    ) -> Vec<Member<'w>> {
        let mut kept: Vec<Member<'w>> = Vec::with_capacity(holders.len());
        for holder in holders {
            let Some(member) = roster.find(&holder.uid) else { continue };
            if member.standing == Standing::Foreign {
                self.foreign.entry(member.rank).or_default().push(address);
                continue;
            }
            if let Some(first) = kept.first() {
                match self.shares.fits(address, *first, source, member) {
                    Ok(()) => {}
                    Err(clash) => {
                        self.displaced.insert((member.rank, address), clash);
                        continue;
                    }
                }
            }
            self.enter(address, source, member);
            kept.push(member);
        }
        kept
    }

    fn enter(&mut self, address: IpAddr, source: Option<Source<'w>>, member: Member<'w>) {
        self.shares.enter(address, source, member);
        if let Some(held) = self.held_mut(member, Family::of(address))
            && let Err(place) = held.binary_search(&address)
        {
            held.insert(place, address);
        }
    }

    fn held_mut(&mut self, member: Member<'w>, family: Family) -> Option<&mut Vec<IpAddr>> {
        self.held.get_mut(member.rank)?.get_mut(slot(family))
    }

    /// What is left of an address whose last holder goes: a rest, or nothing if clients never
    /// heard of it.
    fn end_of(&self, address: IpAddr, shown: &Claim) -> Option<State<'w>> {
        let Claim::Held(holders) = shown else { return None };
        let heard_of = |holder: &Holder| !self.unpublished.contains(&(address, holder.uid.clone()));
        let last = holders.iter().find(|holder| heard_of(holder))?;
        let by = last.service.clone();
        Some(State::Resting(Release { at: self.now, by, confirmed: false }))
    }

    /// Gives `address` to `member`: beside those who have it, or in its home.
    pub(super) fn claim(&mut self, member: Member<'w>, address: IpAddr, source: Source<'w>) {
        if let Some(entry) = self.entries.get_mut(&address) {
            match &mut entry.state {
                State::Held(holders) if holders.contains(&member) => return,
                State::Held(holders) => holders.push(member),
                State::Resting(_) => entry.state = State::Held(vec![member]),
            }
        } else {
            let home = placement::home(source.name, source.pool, address);
            let row = self.homes.entry(Arc::clone(&home)).or_insert_with(|| Home {
                pool: Arc::clone(source.name),
                family: Family::of(address),
                size: 0,
            });
            row.size += 1;
            let state = State::Held(vec![member]);
            self.entries.insert(address, Entry { home, source: Some(source), shown: None, state });
        }
        self.enter(address, Some(source), member);
    }

    /// Takes `address` from `member`; with its last holder it begins to rest.
    pub(super) fn release(&mut self, member: Member<'w>, address: IpAddr) {
        if let Some(held) = self.held_mut(member, Family::of(address)) {
            held.retain(|other| *other != address);
        }
        let Some(entry) = self.entries.get_mut(&address) else { return };
        let State::Held(holders) = &mut entry.state else { return };
        holders.retain(|other| *other != member);
        self.shares.leave(address, entry.source, holders);
        if !holders.is_empty() {
            return;
        }
        let (shown, home) = (entry.shown, Arc::clone(&entry.home));
        let end = shown.and_then(|claim| match claim {
            Claim::Held(_) => self.end_of(address, claim),
            Claim::Released(release) => Some(State::Resting(release.clone())),
        });
        match end {
            Some(state) => {
                if let Some(entry) = self.entries.get_mut(&address) {
                    entry.state = state;
                }
            }
            None => {
                self.entries.remove(&address);
                if let Some(home) = self.homes.get_mut(&home) {
                    home.size = home.size.saturating_sub(1);
                }
            }
        }
    }

    pub(super) fn entry(&self, address: IpAddr) -> Option<&Entry<'w>> {
        self.entries.get(&address)
    }

    /// All addresses that somebody has or had, ascending.
    pub(super) fn entries(&self) -> impl Iterator<Item = (IpAddr, &Entry<'w>)> {
        self.entries.iter().map(|(address, entry)| (*address, entry))
    }

    /// What `member` has of one family, ascending; two while it moves.
    pub(super) fn held(&self, member: Member<'w>, family: Family) -> &[IpAddr] {
        self.held
            .get(member.rank)
            .and_then(|held| held.get(slot(family)))
            .map_or(&[], Vec::as_slice)
    }

    /// With whom `member` can't share `address` any more.
    pub(super) fn displaced(&self, member: Member<'w>, address: IpAddr) -> Option<&Clash<'w>> {
        self.displaced.get(&(member.rank, address))
    }

    /// What the world shows for `member`, which is not ours any more.
    pub(super) fn taken_from(&self, member: Member<'w>) -> &[IpAddr] {
        self.foreign.get(&member.rank).map_or(&[], Vec::as_slice)
    }

    /// Addresses that a Service of this name had and nobody has.
    pub(super) fn former(&self, key: &ServiceKey) -> impl Iterator<Item = IpAddr> + '_ {
        let former = self.former.get(key).into_iter().flatten().copied();
        former.filter(|address| {
            matches!(self.entries.get(address), Some(Entry { state: State::Resting(_), .. }))
        })
    }

    /// Whether the router that `address` would live in has no room for one more.
    pub(super) fn is_home_full(&self, address: IpAddr, source: Source<'w>) -> bool {
        let name = placement::home(source.name, source.pool, address);
        let size = self.homes.get(&name).map_or(0, |home| home.size);
        size >= router_capacity(Family::of(address))
    }

    /// The earliest end of a rest that is still to come.
    pub(super) fn next_rest(&self) -> Option<Timestamp> {
        let ends = self.entries.values().filter_map(Entry::rested_at);
        ends.filter(|end| *end > self.now).min()
    }

    pub(super) const fn now(&self) -> Timestamp {
        self.now
    }

    /// The claims that every router is to have.
    pub(super) fn into_routers(self) -> BTreeMap<Arc<str>, RouterClaims> {
        let empty = |home: Home| RouterClaims {
            pool: home.pool,
            family: home.family,
            claims: BTreeMap::new(),
        };
        let mut routers: BTreeMap<_, _> =
            self.homes.into_iter().map(|(name, home)| (name, empty(home))).collect();
        for (address, entry) in self.entries {
            let claim = match entry.state {
                State::Resting(release) => Claim::Released(release),
                State::Held(members) => Claim::Held(members.iter().map(holder).collect()),
            };
            if let Some(router) = routers.get_mut(&entry.home) {
                router.claims.insert(address, claim);
            }
        }
        routers
    }
}

fn holder(member: &Member<'_>) -> Holder {
    Holder { uid: member.uid.clone(), service: member.service.key.clone() }
}
