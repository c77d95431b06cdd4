//! Which Services are ours, and in which order they are heard.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::engine::cluster::world::{Ingress, Service, Settings, Uid, World};
use crate::model::Family;

/// The class that a Service names to be ours.
const CLASS: &str = "barevip.io/vip";

/// What a Service may expect of us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Ours: it gets an address, and its status says so.
    Served,
    /// Ours, but another manager keeps replacing what we write: it keeps its claims.
    Contested,
    /// Ours until it is gone: it keeps its claims and gets nothing.
    Leaving,
    /// Not ours, or not any more.
    Foreign,
}

impl Standing {
    fn of(service: &Service, settings: &Settings) -> Self {
        let ours = match service.class.as_deref() {
            Some(class) => class == CLASS,
            None => settings.default_class,
        };
        match () {
            () if !service.load_balancer || !ours => Self::Foreign,
            () if service.deleting => Self::Leaving,
            () if service.contested => Self::Contested,
            () => Self::Served,
        }
    }
}

/// A Service of the world, with its place in the order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member<'w> {
    /// Its place in the order (created, uid): the lower one is heard first.
    pub(super) rank: usize,
    pub(super) uid: &'w Uid,
    pub(super) service: &'w Service,
    pub(super) standing: Standing,
}

impl PartialEq for Member<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl Member<'_> {
    /// The families that it is to have an address of, in its order.
    pub(super) fn families(&self) -> impl Iterator<Item = Family> + '_ {
        let families = &self.service.families;
        let both = [Family::Ipv4, Family::Ipv6].into_iter();
        let first = families.first().copied();
        first.into_iter().chain(both.filter(move |f| first != Some(*f) && families.contains(f)))
    }

    /// Whether it is to have both families or none.
    pub(super) fn needs_both(&self) -> bool {
        self.service.requires_both && self.families().count() == 2
    }

    /// The addresses that its status shows.
    pub(super) fn published(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.service.ingress.iter().filter_map(address_of)
    }

    /// Whether its status shows `address`.
    pub(super) fn publishes(&self, address: IpAddr) -> bool {
        self.published().any(|published| published == address)
    }

    /// The addresses of its `spec.externalIPs`.
    pub(super) fn external(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.service.external_ips.iter().filter_map(|text| text.parse().ok())
    }
}

/// The address of a status entry, where it has one that can be read.
pub(super) fn address_of(ingress: &Ingress) -> Option<IpAddr> {
    ingress.ip.as_deref().and_then(|text| text.parse().ok())
}

/// All Services, by age and by uid.
pub(super) struct Roster<'w> {
    by_age: Vec<Member<'w>>,
    by_uid: BTreeMap<&'w Uid, Member<'w>>,
}

impl<'w> Roster<'w> {
    pub(super) fn new(world: &'w World) -> Self {
        let member = |(uid, service): (&'w Uid, &'w Service)| Member {
            rank: 0,
            uid,
            service,
            standing: Standing::of(service, &world.settings),
        };
        let mut by_age: Vec<_> = world.services.iter().map(member).collect();
        // Stable, and the map was in the order of the uids.
        by_age.sort_by_key(|member| member.service.created);
        for (rank, member) in by_age.iter_mut().enumerate() {
            member.rank = rank;
        }
        let by_uid = by_age.iter().map(|member| (member.uid, *member)).collect();
        Self { by_age, by_uid }
    }

    /// Every Service, the oldest first.
    pub(super) fn all(&self) -> impl Iterator<Item = Member<'w>> + '_ {
        self.by_age.iter().copied()
    }

    /// Those that get addresses, the oldest first.
    pub(super) fn served(&self) -> impl Iterator<Item = Member<'w>> + '_ {
        self.all().filter(|member| member.standing == Standing::Served)
    }

    pub(super) fn find(&self, uid: &Uid) -> Option<Member<'w>> {
        self.by_uid.get(uid).copied()
    }

    pub(super) fn len(&self) -> usize {
        self.by_age.len()
    }
}
