//! Addresses and who has them: the claims of the world, minus the holders that are gone, plus what
//! this round gives and takes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::few::Few;
use super::ours::{Member, Roster, Standing};
use super::pools::{Pools, Source, rested_at};
use super::sharing::{Clash, Shares};
use crate::engine::cluster::decision::RouterClaims;
use crate::engine::cluster::home::{home, router_capacity};
use crate::engine::cluster::world::{
    Claim, Claims, Holder, Release, ServiceKey, Timestamp, Uid, World,
};
use crate::model::Family;

/// What has become of an address.
#[derive(Clone, Debug)]
pub(super) enum State<'w> {
    /// These Services have it; never empty.
    Held(Few<Member<'w>>),
    /// Nobody has it, and it rests.
    Resting(Release),
    /// Its pool pins it: announced, and never given.
    Pinned,
}

/// An address that somebody has or had.
#[derive(Clone, Debug)]
pub(super) struct Entry<'w> {
    /// The router that it lives in until it is free, by its place among the homes.
    home: usize,
    /// The pool that it lies in now.
    pub(super) source: Option<Source<'w>>,
    /// What the world shows of it.
    shown: Option<&'w Claim>,
    /// Whether that is what it is to be.
    is_as_shown: bool,
    pub(super) state: State<'w>,
}

impl<'w> Entry<'w> {
    /// Who has it, the first holder first.
    pub(super) fn holders(&self) -> &[Member<'w>] {
        match &self.state {
            State::Held(holders) => holders,
            State::Resting(_) | State::Pinned => &[],
        }
    }

    /// Whether the world shows that this Service has it: only then it is published.
    pub(super) fn is_shown_for(&self, member: Member<'w>) -> bool {
        match self.shown {
            Some(Claim::Held(_)) if self.is_as_shown => self.holders().contains(&member),
            Some(Claim::Held(holders)) => holders.iter().any(|holder| holder.uid == *member.uid),
            Some(Claim::Released(_) | Claim::Pinned) | None => false,
        }
    }

    /// What the world is to show of it.
    fn claim(&self) -> Claim {
        match &self.state {
            State::Resting(release) => Claim::Released(release.clone()),
            State::Held(members) => Claim::Held(members.iter().map(holder).collect()),
            State::Pinned => Claim::Pinned,
        }
    }

    /// When it may be given to anybody, while it rests.
    pub(super) fn rested_at(&self) -> Option<Timestamp> {
        match &self.state {
            State::Resting(release) => {
                Some(rested_at(release.at, self.source.map(|source| source.pool)))
            }
            State::Held(_) | State::Pinned => None,
        }
    }
}

/// A router that has or had claims, or will have.
#[derive(Debug)]
struct Home<'w> {
    pool: Arc<str>,
    family: Family,
    /// Its claims, those at rest counted.
    size: usize,
    /// What the world shows of them.
    shown: Option<&'w Claims>,
    /// Whether they may be others than those.
    is_changed: bool,
    /// Whether it is known what its pool says: it can be read, or is gone.
    is_readable: bool,
}

/// A claim as a round finds it.
#[derive(Clone, Copy)]
struct Read<'w> {
    /// What is written, or being written.
    claim: &'w Claim,
    /// What the world shows.
    shown: Option<&'w Claim>,
}

/// All of it.
pub(super) struct Ledger<'w> {
    now: Timestamp,
    unpublished: &'w BTreeSet<(IpAddr, Uid)>,
    /// Where each address is among the entries.
    places: BTreeMap<IpAddr, usize>,
    entries: Vec<Entry<'w>>,
    homes: Vec<Home<'w>>,
    /// Where each router is among the homes.
    by_name: BTreeMap<Arc<str>, usize>,
    /// What each Service has, by its rank and family, ascending.
    held: Vec<[Few<IpAddr>; 2]>,
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
    /// The claims that the world shows or that are being written, as far as their holders are
    /// there and ours.
    pub(super) fn read(
        world: &'w World,
        roster: &Roster<'w>,
        pools: &Pools<'w>,
        now: Timestamp,
    ) -> Self {
        let mut ledger = Self {
            now,
            unpublished: &world.unpublished,
            places: BTreeMap::new(),
            entries: Vec::new(),
            homes: Vec::with_capacity(world.routers.len()),
            by_name: BTreeMap::new(),
            held: vec![[const { Few::None }; 2]; roster.len()],
            former: BTreeMap::new(),
            shares: Shares::default(),
            displaced: BTreeMap::new(),
            foreign: BTreeMap::new(),
        };
        let mut claims = Vec::new();
        let known = world.routers.iter().map(|(name, object)| (name, Some(&object.spec)));
        let new = world.under_way.keys().filter(|name| !world.routers.contains_key(*name));
        for (home, (name, shown)) in known.chain(new.map(|name| (name, None))).enumerate() {
            let coming = world.under_way.get(name);
            let Some(spec) = coming.or(shown) else { continue };
            let shown = shown.map(|spec| &spec.claims);
            ledger.by_name.insert(Arc::clone(name), home);
            ledger.homes.push(Home {
                pool: Arc::clone(&spec.pool),
                family: spec.family,
                size: 0,
                shown,
                is_changed: coming.is_some(),
                is_readable: world.pools.get(&spec.pool).is_none_or(|pool| pool.pool.is_ok()),
            });
            let claim = |(address, claim): (&IpAddr, &'w Claim)| {
                let shown = match coming {
                    Some(_) => shown.and_then(|claims| claims.get(address)),
                    None => Some(claim),
                };
                (*address, matches!(claim, Claim::Released(_)), home, Read { claim, shown })
            };
            claims.extend(spec.claims.iter().map(claim));
        }
        // An address that two routers claim stays where it is held, else in the first one.
        claims.sort_by_key(|(address, is_released, _, _)| (*address, *is_released));
        claims.dedup_by(|(address, _, home, _), (before, _, _, _)| {
            let is_double = address == before;
            if is_double && let Some(home) = ledger.homes.get_mut(*home) {
                home.is_changed = true;
            }
            is_double
        });
        ledger.entries.reserve(claims.len());
        let mut places = Vec::with_capacity(claims.len());
        for (address, _, home, claim) in claims {
            match ledger.read_claim(address, home, claim, roster, pools.of(address)) {
                Some(entry) => {
                    places.push((address, ledger.entries.len()));
                    ledger.stay(home, entry.is_as_shown);
                    ledger.entries.push(entry);
                }
                None => ledger.change(home),
            }
        }
        ledger.places = places.into_iter().collect();
        ledger
    }

    /// The home's claims are not those that the world shows.
    fn change(&mut self, home: usize) {
        if let Some(home) = self.homes.get_mut(home) {
            home.is_changed = true;
        }
    }

    /// One of the home's claims stays.
    fn stay(&mut self, home: usize, is_as_shown: bool) {
        if let Some(home) = self.homes.get_mut(home) {
            home.size += 1;
            home.is_changed |= !is_as_shown;
        }
    }

    fn read_claim(
        &mut self,
        address: IpAddr,
        home: usize,
        Read { claim, shown }: Read<'w>,
        roster: &Roster<'w>,
        source: Option<Source<'w>>,
    ) -> Option<Entry<'w>> {
        let (state, is_as_shown) = match claim {
            Claim::Held(all) => {
                let holders = self.read_holders(address, all, roster, source);
                let is_as_shown = holders.len() == all.len();
                match *holders {
                    [] => {
                        let end = self.end_of(address, claim);
                        (end.or_else(|| self.end_of(address, shown?))?, false)
                    }
                    [_, ..] => (State::Held(holders), is_as_shown),
                }
            }
            Claim::Released(release) => {
                let rested = rested_at(release.at, source.map(|source| source.pool)) <= self.now;
                if release.confirmed && rested {
                    return None;
                }
                (State::Resting(release.clone()), true)
            }
            Claim::Pinned if source.is_some_and(|source| source.pool.pins(address)) => {
                (State::Pinned, true)
            }
            Claim::Pinned => {
                let home = self.homes.get(home)?;
                match home.is_readable {
                    true => (State::Resting(unpinned(&home.pool, self.now)), false),
                    false => (State::Pinned, true),
                }
            }
        };
        if let State::Resting(release) = &state {
            self.former.entry(release.by.clone()).or_default().insert(address);
        }
        let is_as_shown = is_as_shown && shown == Some(claim);
        Some(Entry { home, source, shown, is_as_shown, state })
    }

    fn read_holders(
        &mut self,
        address: IpAddr,
        holders: &[Holder],
        roster: &Roster<'w>,
        source: Option<Source<'w>>,
    ) -> Few<Member<'w>> {
        let mut kept = Few::None;
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
            && !held.contains(&address)
        {
            held.push(address);
            held.sort_unstable();
        }
    }

    fn held_mut(&mut self, member: Member<'w>, family: Family) -> Option<&mut Few<IpAddr>> {
        self.held.get_mut(member.rank)?.get_mut(slot(family))
    }

    /// What is left of an address whose last holder goes: a rest, or nothing if clients never
    /// heard of it.
    fn end_of(&self, address: IpAddr, claim: &Claim) -> Option<State<'w>> {
        let holders = match claim {
            Claim::Held(holders) => holders,
            Claim::Released(release) => return Some(State::Resting(release.clone())),
            Claim::Pinned => return None,
        };
        let heard_of = |holder: &Holder| !self.unpublished.contains(&(address, holder.uid.clone()));
        let last = holders.iter().find(|holder| heard_of(holder))?;
        let by = last.service.clone();
        Some(State::Resting(Release { at: self.now, by, confirmed: false }))
    }

    /// Gives `address` to `member`: beside those who have it, or in its home.
    pub(super) fn claim(&mut self, member: Member<'w>, address: IpAddr, source: Source<'w>) {
        let home = if let Some(entry) = self.entry_mut(address) {
            match &mut entry.state {
                State::Held(holders) if holders.contains(&member) => return,
                State::Held(holders) => holders.push(member),
                State::Resting(_) => entry.state = State::Held(Few::One(member)),
                State::Pinned => return,
            }
            entry.is_as_shown = false;
            entry.home
        } else {
            let home = self.home(address, source);
            self.add(address, home, source, State::Held(Few::One(member)));
            home
        };
        self.change(home);
        self.enter(address, Some(source), member);
    }

    fn add(&mut self, address: IpAddr, home: usize, source: Source<'w>, state: State<'w>) {
        let (source, shown, is_as_shown) = (Some(source), None, false);
        self.places.insert(address, self.entries.len());
        self.entries.push(Entry { home, source, shown, is_as_shown, state });
        self.stay(home, false);
    }

    /// Takes the addresses that `source` pins and no Service has; their routers may be full.
    pub(super) fn pin(&mut self, source: Source<'w>) {
        for address in source.pool.pinned.iter().map(|pinned| pinned.address) {
            if !source.pool.contains(address) {
                continue;
            }
            let is_full = self.is_home_full(address, source);
            let home = match self.entry_mut(address) {
                Some(entry) if !matches!(entry.state, State::Resting(_)) => continue,
                Some(entry) => {
                    entry.state = State::Pinned;
                    entry.is_as_shown = false;
                    entry.home
                }
                None if is_full => continue,
                None => {
                    let home = self.home(address, source);
                    self.add(address, home, source, State::Pinned);
                    home
                }
            };
            self.change(home);
        }
    }

    /// Where `address` is to live: a new router if need be.
    fn home(&mut self, address: IpAddr, source: Source<'w>) -> usize {
        let name = home(source.name, source.pool, address);
        *self.by_name.entry(name).or_insert_with(|| {
            self.homes.push(Home {
                pool: Arc::clone(source.name),
                family: Family::of(address),
                size: 0,
                shown: None,
                is_changed: true,
                is_readable: true,
            });
            self.homes.len() - 1
        })
    }

    /// Takes `address` from `member`; with its last holder it begins to rest.
    pub(super) fn release(&mut self, member: Member<'w>, address: IpAddr) {
        if let Some(held) = self.held_mut(member, Family::of(address)) {
            held.retain(|other| *other != address);
        }
        let Some(place) = self.places.get(&address) else { return };
        let Some(entry) = self.entries.get_mut(*place) else { return };
        let State::Held(holders) = &mut entry.state else { return };
        holders.retain(|other| *other != member);
        entry.is_as_shown = false;
        self.shares.leave(address, entry.source, holders);
        let (is_held, shown, home) = (!holders.is_empty(), entry.shown, entry.home);
        self.change(home);
        if is_held {
            return;
        }
        let end = shown.and_then(|claim| self.end_of(address, claim));
        match (end, self.entry_mut(address)) {
            (Some(state), Some(entry)) => entry.state = state,
            _ => {
                self.places.remove(&address);
                if let Some(home) = self.homes.get_mut(home) {
                    home.size = home.size.saturating_sub(1);
                }
            }
        }
    }

    pub(super) fn entry(&self, address: IpAddr) -> Option<&Entry<'w>> {
        self.entries.get(*self.places.get(&address)?)
    }

    fn entry_mut(&mut self, address: IpAddr) -> Option<&mut Entry<'w>> {
        self.entries.get_mut(*self.places.get(&address)?)
    }

    /// All addresses that somebody has or had, ascending.
    pub(super) fn entries(&self) -> impl Iterator<Item = (IpAddr, &Entry<'w>)> {
        let places = self.places.iter();
        places.filter_map(|(address, place)| Some((*address, self.entries.get(*place)?)))
    }

    /// What `member` has of one family, ascending; two while it moves.
    pub(super) fn held(&self, member: Member<'w>, family: Family) -> &[IpAddr] {
        self.held.get(member.rank).and_then(|held| held.get(slot(family))).map_or(&[], |held| held)
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
            matches!(self.entry(*address), Some(Entry { state: State::Resting(_), .. }))
        })
    }

    /// Whether the router that `address` would live in has no room for one more.
    pub(super) fn is_home_full(&self, address: IpAddr, source: Source<'w>) -> bool {
        let name = home(source.name, source.pool, address);
        let home = self.by_name.get(&name).and_then(|home| self.homes.get(*home));
        let size = home.map_or(0, |home| home.size);
        size >= router_capacity(Family::of(address))
    }

    /// The earliest end of a rest that is still to come.
    pub(super) fn next_rest(&self) -> Option<Timestamp> {
        let ends = self.entries().filter_map(|(_, entry)| entry.rested_at());
        ends.filter(|end| *end > self.now).min()
    }

    pub(super) const fn now(&self) -> Timestamp {
        self.now
    }

    /// The claims that every router is to have.
    pub(super) fn into_routers(self) -> BTreeMap<Arc<str>, RouterClaims> {
        let mut changed = vec![BTreeMap::new(); self.homes.len()];
        for (address, entry) in self.entries() {
            let is_changed = |home: &Home<'_>| home.is_changed;
            if self.homes.get(entry.home).is_some_and(is_changed)
                && let Some(claims) = changed.get_mut(entry.home)
            {
                claims.insert(address, entry.claim());
            }
        }
        let claims = |(home, claims): (Home<'_>, BTreeMap<_, _>)| {
            let shown = home.shown.filter(|_| !home.is_changed).cloned();
            let claims = shown.unwrap_or_else(|| claims.into());
            RouterClaims { pool: home.pool, family: home.family, claims }
        };
        let mut routers: Vec<_> =
            self.homes.into_iter().zip(changed).map(claims).map(Some).collect();
        let by_name = self.by_name.into_iter();
        by_name.filter_map(|(name, home)| Some((name, routers.get_mut(home)?.take()?))).collect()
    }
}

/// How an address begins to rest that its pool pins no more. No namespace is called so, so that no
/// Service takes it for its own.
fn unpinned(pool: &Arc<str>, now: Timestamp) -> Release {
    let by = ServiceKey { namespace: "IngressPool".into(), name: Arc::clone(pool) };
    Release { at: now, by, confirmed: false }
}

fn holder(member: &Member<'_>) -> Holder {
    Holder { uid: member.uid.clone(), service: member.service.key.clone() }
}
