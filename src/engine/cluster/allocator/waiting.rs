//! Each Service's turn: what it keeps, what it is given, and why it is given nothing.

use std::net::IpAddr;

use super::ledger::Ledger;
use super::ours::{Member, Roster};
use super::outcome::{Lack, Outcome, Share};
use super::pools::{Pools, Source};
use super::requests::{Refusal, Rules, Why, asked, opening};
use super::reserved::Reserved;
use super::search::Search;
use super::sharing::key_of;
use crate::model::{AddressRange, Family};

/// One round: every Service has its turn, the oldest first.
pub(super) struct Round<'a, 'w> {
    pub(super) pools: &'a Pools<'w>,
    pub(super) reserved: &'a Reserved<'w>,
    pub(super) taken: &'w [(AddressRange, String)],
    pub(super) ledger: Ledger<'w>,
    pub(super) search: Search,
}

impl<'w> Round<'_, 'w> {
    const fn rules(&self) -> Rules<'_, 'w> {
        Rules { pools: self.pools, reserved: self.reserved, ledger: &self.ledger }
    }

    /// Claims what statuses show without a claim: all of a lost store, or what an admin wrote.
    pub(super) fn adopt(&mut self, roster: &Roster<'w>) {
        for member in roster.served() {
            for family in member.families() {
                let held = self.ledger.held(member, family);
                if held.iter().any(|address| member.publishes(*address)) {
                    continue;
                }
                let is_incumbent = held.is_empty();
                let is_asked = |address: &IpAddr| asked(&member).any(|a| a == Ok(*address));
                if held.iter().any(is_asked) {
                    continue;
                }
                let of_family = member.published().filter(|a| Family::of(*a) == family);
                let mut may_have = of_family.filter_map(|address| {
                    let source = self.pools.of(address)?;
                    let fits = match is_incumbent {
                        true => self.may_keep(member, address, source),
                        false => self.may_move(member, address, source),
                    };
                    fits.then_some((address, source))
                });
                if let Some((address, source)) = may_have.next() {
                    self.ledger.claim(member, address, source);
                }
            }
        }
    }

    /// Whether a Service without a claim keeps the address that its status shows.
    fn may_keep(&self, member: Member<'w>, address: IpAddr, source: Source<'w>) -> bool {
        let is_usable = |range: &AddressRange| {
            let (first, last) = range.usable();
            range.contains(address) && first <= address && address <= last
        };
        source.pool.addresses.iter().any(is_usable)
            && !source.pool.pins(address)
            && !self.taken.iter().any(|(range, _)| range.contains(address))
            && self.rules().unclaimed_for(member, address, source).is_ok()
    }

    /// Whether a Service that has another address may move to the one that an admin wrote.
    fn may_move(&self, member: Member<'w>, address: IpAddr, source: Source<'w>) -> bool {
        source.gives && self.rules().free_for(member, address, source).is_ok()
    }

    /// One Service's turn.
    pub(super) fn turn(&mut self, member: Member<'w>) -> Outcome<'w> {
        let mut outcome = Outcome::default();
        let mut given: Vec<(IpAddr, Source<'w>)> = Vec::new();
        for family in member.families() {
            let share = self.share(member, family, &mut outcome.refusals, &mut given);
            outcome.set(family, share);
        }
        if !member.service.requested.is_empty() {
            refuse_unusable(member, &mut outcome.refusals);
        }
        let is_published = |address: &IpAddr| member.publishes(*address);
        let publishes_any =
            || member.families().any(|f| self.ledger.held(member, f).iter().any(is_published));
        if member.needs_both() && outcome.lacks().next().is_some() && !publishes_any() {
            for family in member.families() {
                if outcome.has(family).is_some() {
                    outcome.set(family, Share::Lacks(Lack::Other));
                }
            }
        } else {
            for (address, source) in given {
                self.ledger.claim(member, address, source);
            }
        }
        self.let_go(member, &outcome);
        outcome
    }

    fn share(
        &mut self,
        member: Member<'w>,
        family: Family,
        refusals: &mut Vec<Refusal<'w>>,
        given: &mut Vec<(IpAddr, Source<'w>)>,
    ) -> Share<'w> {
        let kept = self.kept(member, family);
        let wished = self.wished(member, family, kept, refusals);
        match (wished, kept) {
            (Some(wished), _) => {
                given.push(wished);
                Share::Has(wished.0)
            }
            (None, Some(kept)) => Share::Has(kept),
            (None, None) => match self.choose(member, family) {
                Ok(chosen) => {
                    given.push(chosen);
                    Share::Has(chosen.0)
                }
                Err(lack) => Share::Lacks(lack),
            },
        }
    }

    /// What it has and keeps: of several what it asked for, what its status shows, the lowest.
    fn kept(&self, member: Member<'w>, family: Family) -> Option<IpAddr> {
        match self.ledger.held(member, family) {
            [] => None,
            [only] => Some(*only),
            several => several.iter().copied().min_by_key(|address| {
                let is_asked = asked(&member).any(|asked| asked == Ok(*address));
                (!is_asked, !member.publishes(*address), *address)
            }),
        }
    }

    /// The first address that it asks for and may have; nothing if it has one of them.
    fn wished(
        &self,
        member: Member<'w>,
        family: Family,
        kept: Option<IpAddr>,
        refusals: &mut Vec<Refusal<'w>>,
    ) -> Option<(IpAddr, Source<'w>)> {
        let of_family = |asked: Result<IpAddr, _>| asked.ok().filter(|a| Family::of(*a) == family);
        if asked(&member).filter_map(of_family).any(|asked| Some(asked) == kept) {
            return None;
        }
        let before = refusals.len();
        for address in asked(&member).filter_map(of_family) {
            let granted = match self.rules().asked_for(member, address) {
                // A refusal stands until the request is made anew: nobody moves because somebody
                // else went.
                Ok(_) if kept.is_some() && was_refused(member, address) => Err(Why::Late),
                other => other,
            };
            match granted {
                Ok(source) => {
                    refusals.truncate(before);
                    return Some((address, source));
                }
                Err(why) => refusals.push(Refusal { asked: address.to_string(), why }),
            }
        }
        None
    }

    /// An address for a Service that has none.
    fn choose(
        &mut self,
        member: Member<'w>,
        family: Family,
    ) -> Result<(IpAddr, Source<'w>), Lack<'w>> {
        let sources: Vec<_> = self.pools.for_service(member.service, family).collect();
        if sources.is_empty() {
            return Err(self.why_none(member, family));
        }
        if key_of(&member).is_some() {
            for source in &sources {
                if let Some(address) = self.ledger.shares.find(*source, family, member) {
                    return Ok((address, *source));
                }
            }
        }
        let former = self.ledger.former(&member.service.key);
        if let Some(own) = self.first_free(member, family, &sources, former) {
            return Ok(own);
        }
        for source in &sources {
            let free = self.search.lowest_free(*source, family, &self.ledger, self.reserved);
            if let Some(address) = free {
                return Ok((address, *source));
            }
        }
        if let Some(own) = self.first_free(member, family, &sources, member.external()) {
            return Ok(own);
        }
        for source in &sources {
            let search = &mut self.search;
            let rested =
                search.longest_at_rest(*source, member, family, &self.ledger, self.reserved);
            if let Some(address) = rested {
                return Ok((address, *source));
            }
        }
        Err(Lack::Full(sources))
    }

    /// The first of `addresses` that the Service may have of these pools.
    fn first_free(
        &self,
        member: Member<'w>,
        family: Family,
        sources: &[Source<'w>],
        mut addresses: impl Iterator<Item = IpAddr>,
    ) -> Option<(IpAddr, Source<'w>)> {
        addresses.find_map(|address| {
            let source = self.pools.of(address).filter(|source| sources.contains(source))?;
            let is_free = self.rules().free_for(member, address, source).is_ok();
            (is_free && Family::of(address) == family).then_some((address, source))
        })
    }

    fn why_none(&self, member: Member<'w>, family: Family) -> Lack<'w> {
        let has_family = |source: &Source<'_>| source.pool.ranges(family).next().is_some();
        let Some(name) = member.service.pool.as_deref() else {
            let mut open = self.pools.giving().filter(|s| s.pool.auto_assign && has_family(s));
            return if open.next().is_some() { Lack::NoneForIt } else { Lack::NoPool };
        };
        match self.pools.named(name) {
            None => Lack::NoSuchPool(name),
            Some(judged) if judged.fault.is_some() => Lack::PoolFaulty(name),
            Some(judged) if judged.source.is_none_or(|source| has_family(&source)) => {
                Lack::NotForIt(name)
            }
            Some(_) => Lack::NotOfPool(name),
        }
    }

    /// Releases what it has and is not to have, once nobody is sent there any more.
    fn let_go(&mut self, member: Member<'w>, outcome: &Outcome<'w>) {
        for family in [Family::Ipv4, Family::Ipv6] {
            let wanted = outcome.has(family);
            let held = self.ledger.held(member, family);
            if held.iter().all(|address| Some(*address) == wanted) {
                continue;
            }
            let is_shown = wanted.is_none_or(|wanted| {
                self.ledger.entry(wanted).is_some_and(|entry| entry.is_shown_for(member))
            });
            let goes = |a: &IpAddr| is_shown && Some(*a) != wanted && !member.publishes(*a);
            let gone: Vec<_> = held.iter().copied().filter(goes).collect();
            for address in gone {
                self.ledger.release(member, address);
            }
        }
    }
}

/// Whether the Service's condition says already that this address was not given.
fn was_refused(member: Member<'_>, address: IpAddr) -> bool {
    let condition = member.service.condition.as_ref();
    condition.is_some_and(|said| said.message.contains(&opening(&address.to_string())))
}

/// Requests that no pool could fulfil: unreadable ones, and those of a family that it has not.
fn refuse_unusable<'w>(member: Member<'w>, refusals: &mut Vec<Refusal<'w>>) {
    for asked in asked(&member) {
        let (asked, why) = match asked {
            Err(text) => {
                let start: String = text.chars().take(60).collect();
                (format!("{start:?}"), Why::NoAddress)
            }
            Ok(address) if !member.families().any(|family| family == Family::of(address)) => {
                (address.to_string(), Why::NoFamily(Family::of(address)))
            }
            Ok(_) => continue,
        };
        refusals.push(Refusal { asked, why });
    }
}
