//! Services that share an address: the same key, ports that do not clash, one way to deliver.
//!
//! The holder that is listed first sets the terms. Of an address whose holders do not fit any more
//! it is the later one that goes, whichever of them was edited: the list tells who came first, and
//! nothing tells who was edited.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use super::ours::Member;
use super::pools::Source;
use crate::engine::cluster::world::{Port, Protocol};
use crate::model::{Family, Labels, Sharing};

/// Why a Service can't share an address.
#[derive(Clone, Copy, Debug)]
pub(super) enum Clash<'w> {
    /// It does not ask to share.
    Owned(Member<'w>),
    /// They do not share under one key.
    Key(Member<'w>),
    /// They are of two namespaces, and the pool allows one.
    Namespace(Member<'w>),
    /// Both listen on this port.
    Port(Port, Member<'w>),
    /// One delivers to local pods only, the other anywhere; or to other local pods.
    Delivery(Member<'w>),
}

impl<'w> Clash<'w> {
    /// Whom it clashes with.
    pub(super) const fn with(&self) -> Member<'w> {
        match self {
            Self::Owned(who)
            | Self::Key(who)
            | Self::Namespace(who)
            | Self::Port(_, who)
            | Self::Delivery(who) => *who,
        }
    }
}

impl fmt::Display for Clash<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.with().service.key;
        match self {
            Self::Owned(_) => write!(f, "{key} has it"),
            Self::Key(_) => write!(f, "{key} has it and does not share it under this key"),
            Self::Namespace(_) => {
                write!(f, "{key} has it, and the pool lets only Services of one namespace share")
            }
            Self::Port(port, _) => {
                let protocol = match port.protocol {
                    Protocol::Tcp => "TCP",
                    Protocol::Udp => "UDP",
                    Protocol::Sctp => "SCTP",
                };
                write!(f, "{key} has it and listens on {protocol} port {} too", port.number)
            }
            Self::Delivery(_) => write!(
                f,
                "{key} has it, and sharers need externalTrafficPolicy Cluster, or Local with one selector"
            ),
        }
    }
}

/// The key that a Service shares under.
pub(super) fn key_of<'w>(member: &Member<'w>) -> Option<&'w str> {
    member.service.share.as_deref().filter(|key| !key.is_empty())
}

/// What sharers must have in common, their ports left aside.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Terms<'w> {
    key: &'w str,
    /// None where the pool lets all namespaces share.
    namespace: Option<&'w Arc<str>>,
    /// The local pods that are delivered to.
    pods: Option<&'w Labels>,
}

impl<'w> Terms<'w> {
    fn of(member: &Member<'w>, source: Option<Source<'w>>) -> Option<Self> {
        let service = member.service;
        let any = source.is_some_and(|source| source.pool.sharing == Sharing::AnyNamespace);
        Some(Self {
            key: key_of(member)?,
            namespace: (!any).then_some(&service.key.namespace),
            pods: service.local.then_some(&service.selector),
        })
    }
}

/// The holders of one shareable address.
#[derive(Clone, Debug)]
struct House<'w> {
    street: Option<Street<'w>>,
    first: Member<'w>,
    ports: BTreeMap<Port, Member<'w>>,
}

/// Addresses of one pool and family under the same terms, in the order in which they were taken.
type Street<'w> = (usize, Family, Terms<'w>);

/// All addresses whose first holder shares.
#[derive(Default)]
pub(super) struct Shares<'w> {
    houses: BTreeMap<IpAddr, House<'w>>,
    streets: BTreeMap<Street<'w>, Vec<IpAddr>>,
    /// Before this place of the street no house has all these ports free.
    full_before: BTreeMap<(Street<'w>, &'w BTreeSet<Port>), usize>,
}

impl<'w> Shares<'w> {
    /// Whether `member` may live beside the holder that is listed first and those after it.
    pub(super) fn fits(
        &self,
        address: IpAddr,
        first: Member<'w>,
        source: Option<Source<'w>>,
        member: Member<'w>,
    ) -> Result<(), Clash<'w>> {
        let own = Terms::of(&member, source).ok_or(Clash::Owned(first))?;
        let theirs = Terms::of(&first, source).ok_or(Clash::Key(first))?;
        match () {
            () if theirs.key != own.key => return Err(Clash::Key(first)),
            () if theirs.namespace != own.namespace => return Err(Clash::Namespace(first)),
            () if theirs.pods != own.pods => return Err(Clash::Delivery(first)),
            () => {}
        }
        let Some(house) = self.houses.get(&address) else { return Ok(()) };
        let mut ports = member.service.ports.iter();
        ports
            .find_map(|port| house.ports.get(port).map(|who| (*port, *who)))
            .filter(|(_, who)| *who != member)
            .map_or(Ok(()), |(port, who)| Err(Clash::Port(port, who)))
    }

    /// `member` has moved in.
    pub(super) fn enter(
        &mut self,
        address: IpAddr,
        source: Option<Source<'w>>,
        member: Member<'w>,
    ) {
        let Some(terms) = Terms::of(&member, source) else { return };
        let house = self.houses.entry(address).or_insert_with(|| {
            let street = source.map(|source| (source.order, Family::of(address), terms));
            if let Some(street) = &street {
                self.streets.entry(street.clone()).or_default().push(address);
            }
            House { street, first: member, ports: BTreeMap::new() }
        });
        for port in &member.service.ports {
            house.ports.entry(*port).or_insert(member);
        }
    }

    /// `member` has left; `rest` are those who stay.
    pub(super) fn leave(
        &mut self,
        address: IpAddr,
        source: Option<Source<'w>>,
        rest: &[Member<'w>],
    ) {
        let Some(house) = self.houses.remove(&address) else { return };
        if let Some(street) = house.street.and_then(|street| self.streets.get_mut(&street)) {
            street.retain(|other| *other != address);
        }
        self.full_before.clear();
        for member in rest {
            self.enter(address, source, *member);
        }
    }

    /// The first address of the pool that `member` may share.
    pub(super) fn find(
        &mut self,
        source: Source<'w>,
        family: Family,
        member: Member<'w>,
    ) -> Option<IpAddr> {
        let street = (source.order, family, Terms::of(&member, Some(source))?);
        let addresses = self.streets.get(&street)?;
        let ports = &member.service.ports;
        let has_room = |address: &IpAddr| {
            let house = self.houses.get(address);
            house.is_some_and(|house| !ports.iter().any(|port| house.ports.contains_key(port)))
        };
        let question = (street, ports);
        let start = self.full_before.get(&question).copied().unwrap_or(0);
        let found = addresses.iter().enumerate().skip(start).find(|(_, address)| has_room(address));
        let (place, found) = match found {
            Some((place, address)) => (place, Some(*address)),
            None => (addresses.len(), None),
        };
        self.full_before.insert(question, place);
        found
    }

    /// An address of the pool under this key, whatever the way to deliver.
    pub(super) fn first_of_key(
        &self,
        source: Source<'w>,
        family: Family,
        member: Member<'w>,
    ) -> Option<(IpAddr, Member<'w>)> {
        let own = Terms::of(&member, Some(source))?;
        let (key, namespace) = (own.key, own.namespace);
        let lowest = (source.order, family, Terms { pods: None, ..own });
        let (street, addresses) = self.streets.range(lowest..).find(|(_, all)| !all.is_empty())?;
        let (order, of, terms) = street;
        let is_same =
            (*order, *of, terms.key, terms.namespace) == (source.order, family, key, namespace);
        let address = addresses.first().filter(|_| is_same)?;
        Some((*address, self.houses.get(address)?.first))
    }
}
