//! What is advertised under other VRIDs: an address of ours that is among it is not bound until
//! that VRID is silent.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use super::links::{Key, LinkId};
use crate::engine::time::Instant;
use crate::engine::vrrp::packet::Advert;
use crate::model::Vrid;

/// Routers whose lists are kept; more of them at a time are no LAN but an attack.
const LISTINGS: usize = 1024;

/// Claims of other VRIDs on our addresses.
#[derive(Debug, Default)]
pub(super) struct Claims(BTreeMap<Key, Claim>);

/// An advert under another VRID listed an address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub(super) vrid: Vrid,
    pub(super) source: IpAddr,
    pub(super) until: Instant,
    /// Whether another machine announced the address since: it is bound there.
    pub(super) announced: bool,
}

/// What a claim is beside those that were heard before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    New,
    Known,
    /// Of several claimants the lowest VRID counts, and this is another one.
    Outdone,
}

impl Claims {
    /// A VRID that is not ours lists an address.
    pub(super) fn hear(
        &mut self,
        key: Key,
        (vrid, source): (Vrid, IpAddr),
        until: Instant,
        at: Instant,
    ) -> Standing {
        let before = self.0.get(&key);
        if before.is_some_and(|other| other.vrid < vrid && other.until > at) {
            return Standing::Outdone;
        }
        let same = before.filter(|other| other.vrid == vrid);
        let standing = if same.is_some() { Standing::Known } else { Standing::New };
        let announced = same.is_some_and(|other| other.announced);
        self.0.insert(key, Claim { vrid, source, until, announced });
        standing
    }

    /// It lists it no longer; says whether the claim stood.
    pub(super) fn withdraw(&mut self, key: Key, (vrid, source): (Vrid, IpAddr)) -> bool {
        let is_his = |claim: &&Claim| claim.source == source && claim.vrid == vrid;
        let stood = self.0.get(&key).filter(is_his).is_some();
        if stood {
            self.0.remove(&key);
        }
        stood
    }

    /// Another machine announced an address; says whether a claim gains by that.
    pub(super) fn hear_announcement(&mut self, key: Key) -> bool {
        self.0.get_mut(&key).is_some_and(|claim| !std::mem::replace(&mut claim.announced, true))
    }

    pub(super) fn get(&self, key: Key) -> Option<&Claim> {
        self.0.get(&key)
    }

    /// Forgets the claims of those that are silent; says whether there were any.
    pub(super) fn expire(&mut self, now: Instant) -> bool {
        let before = self.0.len();
        self.0.retain(|_, claim| claim.until > now);
        self.0.len() != before
    }

    /// When [`Self::expire`] has something to do.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.0.values().map(|claim| claim.until).min()
    }
}

/// What each router on each link last listed, ours or not: a plan may give us its addresses.
#[derive(Debug, Default)]
pub(super) struct Listings(BTreeMap<(LinkId, Vrid, IpAddr), (Advert, Instant)>);

impl Listings {
    pub(super) fn keep(&mut self, link: LinkId, advert: Advert, source: IpAddr, at: Instant) {
        let key = (link, advert.vrid, source);
        if advert.priority.is_none() {
            self.0.remove(&key);
        } else if let Some(known) = self.0.get_mut(&key) {
            *known = (advert, at);
        } else {
            if self.0.len() >= LISTINGS {
                self.0.retain(|_, (old, heard)| *heard + silence_of(old) > at);
            }
            if self.0.len() < LISTINGS {
                self.0.insert(key, (advert, at));
            }
        }
    }

    /// Those of routers that are not silent, each with its source and when it was heard.
    pub(super) fn standing(
        &self,
        now: Instant,
    ) -> impl Iterator<Item = (LinkId, &Advert, IpAddr, Instant)> {
        self.0
            .iter()
            .filter(move |(_, (advert, at))| *at + silence_of(advert) > now)
            .map(|(&(link, _, source), (advert, at))| (link, advert, source, *at))
    }
}

/// After this long without an advert its addresses are free: any down interval has passed.
pub(super) fn silence_of(advert: &Advert) -> Duration {
    advert.interval.duration() * 4
}
