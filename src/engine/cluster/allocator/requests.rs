//! Addresses that a Service asks for: whether it may have them, and why not.

use std::fmt;
use std::net::IpAddr;

use super::ledger::{Ledger, State};
use super::ours::Member;
use super::pools::{Pools, Source};
use super::reserved::Reserved;
use super::sharing::Clash;
use crate::engine::cluster::world::{ServiceKey, Timestamp};
use crate::model::{Family, Requests};

/// Why a Service does not get an address that it asked for.
#[derive(Clone, Debug)]
pub(super) struct Refusal<'w> {
    /// What it asked for, as written.
    pub(super) asked: String,
    pub(super) why: Why<'w>,
}

/// The rule that stands against it.
#[derive(Clone, Debug)]
pub(super) enum Why<'w> {
    NoAddress,
    NoFamily(Family),
    NoPool,
    OtherPool(&'w str, String),
    PoolFaulty(&'w str),
    NotForIt(&'w str),
    NobodyMayAsk(&'w str),
    NeverGiven(&'w str),
    Taken(Clash<'w>),
    Resting(ServiceKey, Option<Timestamp>),
    InUse(ServiceKey),
    RouterFull(&'w str),
    Late,
}

/// How the sentence about a refused request begins: whoever reads it later knows that the request
/// was refused before.
pub(super) fn opening(asked: &str) -> String {
    format!("{asked} was asked for and not given: ")
}

impl fmt::Display for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&opening(&self.asked))?;
        self.why.fmt(f)
    }
}

impl fmt::Display for Why<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAddress => f.write_str("that is no address; write one such as 192.0.2.10"),
            Self::NoFamily(family) => {
                write!(f, "spec.ipFamilies of the Service does not list {family}")
            }
            Self::NoPool => f.write_str("no pool has it; ask for one of a pool's ranges"),
            Self::OtherPool(pool, named) => {
                write!(f, "it is of pool {pool}, and barevip.io/pool names {named}")
            }
            Self::PoolFaulty(pool) => write!(f, "pool {pool} gives nothing, see its conditions"),
            Self::NotForIt(pool) => write!(
                f,
                "the selectors of pool {pool} do not match the labels of the Service or its namespace"
            ),
            Self::NobodyMayAsk(pool) => {
                write!(f, "pool {pool} chooses addresses itself (requests: Nobody)")
            }
            Self::NeverGiven(pool) => write!(
                f,
                "pool {pool} never gives it (a network's edge, or listed under avoid or pinned)"
            ),
            Self::Taken(clash) => clash.fmt(f),
            Self::Resting(by, until) => {
                write!(f, "it rests since {by} had it")?;
                match until {
                    Some(until) => write!(f, ", until {}", Clock(*until)),
                    None => f.write_str(" and a node may still serve it"),
                }
            }
            Self::InUse(by) => write!(f, "{by} uses it (spec.externalIPs or status)"),
            Self::RouterFull(pool) => {
                write!(f, "the virtual router of pool {pool} that it belongs to is full")
            }
            Self::Late => f.write_str(
                "it was not free then; to move there now, remove the request and make it again",
            ),
        }
    }
}

/// A time as people read it, in UTC.
struct Clock(Timestamp);

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.0.rem_euclid(86_400);
        let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        write!(f, "{hour:02}:{minute:02}:{second:02} UTC")
    }
}

/// What a Service asks for, each address on its own; what can't be read as written.
pub(super) fn asked<'w>(member: &Member<'w>) -> impl Iterator<Item = Result<IpAddr, &'w str>> {
    let lists = member.service.requested.iter().flat_map(|list| list.split(','));
    let asked = lists.map(str::trim).filter(|text| !text.is_empty());
    asked.map(|text| text.parse().map_err(|_| text))
}

/// What a request is held against.
#[derive(Clone, Copy)]
pub(super) struct Rules<'a, 'w> {
    pub(super) pools: &'a Pools<'w>,
    pub(super) reserved: &'a Reserved<'w>,
    pub(super) ledger: &'a Ledger<'w>,
}

impl<'w> Rules<'_, 'w> {
    /// The pool that may give `address` to `member` because it asks.
    pub(super) fn asked_for(
        self,
        member: Member<'w>,
        address: IpAddr,
    ) -> Result<Source<'w>, Why<'w>> {
        let source = self.pools.of(address).ok_or(Why::NoPool)?;
        let name: &'w str = source.name;
        match &member.service.pool {
            Some(named) if **named != *name => {
                return Err(Why::OtherPool(name, named.to_string()));
            }
            _ if !source.gives => return Err(Why::PoolFaulty(name)),
            _ if !self.pools.selects(source, member.service) => return Err(Why::NotForIt(name)),
            _ if source.pool.requests == Requests::Nobody => return Err(Why::NobodyMayAsk(name)),
            _ => {}
        }
        self.free_for(member, address, source).map(|()| source)
    }

    /// Whether nobody and nothing keeps `member` from `address`, or it may share it.
    pub(super) fn free_for(
        self,
        member: Member<'w>,
        address: IpAddr,
        source: Source<'w>,
    ) -> Result<(), Why<'w>> {
        if !source.pool.may_give(address) {
            return Err(Why::NeverGiven(source.name));
        }
        self.unclaimed_for(member, address, source)?;
        // Whoever has it may list it in externalIPs, and does in mirror mode.
        let is_held = self.ledger.entry(address).is_some_and(|entry| !entry.holders().is_empty());
        match self.reserved.against(address, member).filter(|_| !is_held) {
            Some(user) => Err(Why::InUse(user.service.key.clone())),
            None => Ok(()),
        }
    }

    /// Whether no claim keeps `member` from `address`.
    pub(super) fn unclaimed_for(
        self,
        member: Member<'w>,
        address: IpAddr,
        source: Source<'w>,
    ) -> Result<(), Why<'w>> {
        let Some(entry) = self.ledger.entry(address) else {
            return match self.ledger.is_home_full(address, source) {
                true => Err(Why::RouterFull(source.name)),
                false => Ok(()),
            };
        };
        match &entry.state {
            State::Held(holders) if holders.contains(&member) => Ok(()),
            State::Held(holders) => {
                let Some(first) = holders.first() else { return Ok(()) };
                let fits = self.ledger.shares.fits(address, *first, entry.source, member);
                fits.map_err(Why::Taken)
            }
            State::Resting(release) if release.by == member.service.key => Ok(()),
            State::Resting(release) => {
                let until = entry.rested_at().filter(|until| *until > self.ledger.now());
                Err(Why::Resting(release.by.clone(), until))
            }
            State::Pinned => Err(Why::NeverGiven(source.name)),
        }
    }
}
