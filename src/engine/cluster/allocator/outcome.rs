//! What becomes of a Service's turn: an address, or why there is none.

use std::fmt;
use std::net::IpAddr;

use super::pools::Source;
use super::requests::Refusal;
use crate::model::Family;

/// What became of a Service's turn in one family.
#[derive(Clone, Debug, Default)]
pub(super) enum Share<'w> {
    /// It is to have none.
    #[default]
    Unlisted,
    /// It is to have this one, and no other for long.
    Has(IpAddr),
    /// There is none for it.
    Lacks(Lack<'w>),
}

/// What became of a Service's turn.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome<'w> {
    pub(super) ipv4: Share<'w>,
    pub(super) ipv6: Share<'w>,
    pub(super) refusals: Vec<Refusal<'w>>,
}

impl<'w> Outcome<'w> {
    pub(super) const fn of(&self, family: Family) -> &Share<'w> {
        match family {
            Family::Ipv4 => &self.ipv4,
            Family::Ipv6 => &self.ipv6,
        }
    }

    pub(super) fn set(&mut self, family: Family, share: Share<'w>) {
        match family {
            Family::Ipv4 => self.ipv4 = share,
            Family::Ipv6 => self.ipv6 = share,
        }
    }

    /// The address that it is to have.
    pub(super) const fn has(&self, family: Family) -> Option<IpAddr> {
        match self.of(family) {
            Share::Has(address) => Some(*address),
            Share::Unlisted | Share::Lacks(_) => None,
        }
    }

    /// Why it has none, by family.
    pub(super) fn lacks(&self) -> impl Iterator<Item = (Family, &Lack<'w>)> {
        let both = [(Family::Ipv4, &self.ipv4), (Family::Ipv6, &self.ipv6)];
        both.into_iter().filter_map(|(family, share)| match share {
            Share::Lacks(lack) => Some((family, lack)),
            Share::Unlisted | Share::Has(_) => None,
        })
    }
}

/// Why a Service has no address of a family.
#[derive(Clone, Debug)]
pub(super) enum Lack<'w> {
    /// No pool has addresses of the family for Services that name none.
    NoPool,
    /// It names a pool that is not there.
    NoSuchPool(&'w str),
    /// It names a pool without addresses of the family.
    NotOfPool(&'w str),
    /// It names a pool that gives nothing.
    PoolFaulty(&'w str),
    /// It names a pool whose selectors do not match.
    NotForIt(&'w str),
    /// No pool's selectors match.
    NoneForIt,
    /// These pools have nothing left.
    Full(Vec<Source<'w>>),
    /// It needs both families, and the other one is lacking.
    Other,
}

impl Lack<'_> {
    /// The condition's reason.
    pub(super) const fn reason(&self) -> &'static str {
        match self {
            Self::NoPool | Self::NoSuchPool(_) | Self::NotOfPool(_) => "NoPool",
            Self::PoolFaulty(_) | Self::NotForIt(_) | Self::NoneForIt => "PoolRefused",
            Self::Full(_) | Self::Other => "RangeFull",
        }
    }
}

impl fmt::Display for Lack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPool => f.write_str(
                "no pool gives any to Services that name none; create an IngressPool, or name one in the annotation barevip.io/pool",
            ),
            Self::NoSuchPool(name) => write!(
                f,
                "there is no pool {name}, which the annotation barevip.io/pool names; correct it or create the pool"
            ),
            Self::NotOfPool(name) => write!(
                f,
                "pool {name}, which the annotation barevip.io/pool names, has none; add a range to it"
            ),
            Self::PoolFaulty(name) => write!(
                f,
                "pool {name} gives nothing; its conditions say why (kubectl describe ingresspool {name})"
            ),
            Self::NotForIt(name) => write!(
                f,
                "the selectors of pool {name} do not match the labels of the Service or its namespace"
            ),
            Self::NoneForIt => f.write_str(
                "no pool's selectors match the labels of the Service and its namespace; label them, or name a pool in the annotation barevip.io/pool",
            ),
            Self::Full(sources) => {
                f.write_str(if sources.len() == 1 { "pool " } else { "pools " })?;
                for (at, source) in sources.iter().take(4).enumerate() {
                    let comma = if at == 0 { "" } else { ", " };
                    write!(f, "{comma}{}", source.name)?;
                }
                match sources.len().checked_sub(5) {
                    Some(more) => write!(f, " and {} more have none left", more + 1)?,
                    None if sources.len() == 1 => f.write_str(" has none left")?,
                    None => f.write_str(" have none left")?,
                }
                f.write_str("; the oldest waiting Service gets the next one: add a range, or delete a Service that has one")
            }
            Self::Other => f.write_str("it needs both families (RequireDualStack)"),
        }
    }
}
