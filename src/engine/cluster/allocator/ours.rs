//! Which Services are ours, and in which order they are heard.

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
    /// The starts of all uids, ascending.
    starts: Vec<u64>,
    /// The ranks in the order of the uids.
    by_uid: Vec<usize>,
}

/// The first eight octets of a uid as a number of the same order: nearly always enough to tell two
/// apart without looking further.
fn start(uid: &Uid) -> u64 {
    match uid.0.as_bytes().first_chunk() {
        Some(octets) => u64::from_be_bytes(*octets),
        None => uid.0.bytes().chain([0; 8]).take(8).fold(0, |n, octet| n << 8 | u64::from(octet)),
    }
}

impl<'w> Roster<'w> {
    pub(super) fn new(world: &'w World) -> Self {
        let services: Vec<_> = world.services.iter().collect();
        let starts = services.iter().map(|(uid, _)| start(uid)).collect();
        let created = services.iter().map(|(_, service)| service.created);
        let mut order: Vec<_> = created.zip(0_usize..).collect();
        order.sort_unstable();
        let mut by_uid = vec![0; order.len()];
        let by_age = order.into_iter().enumerate().filter_map(|(rank, (_, place))| {
            *by_uid.get_mut(place)? = rank;
            let (uid, service) = *services.get(place)?;
            let standing = Standing::of(service, &world.settings);
            Some(Member { rank, uid, service, standing })
        });
        Self { by_age: by_age.collect(), starts, by_uid }
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
        let start = start(uid);
        let first = self.starts.partition_point(|other| *other < start);
        let alike = self.starts.get(first..)?.partition_point(|other| *other == start);
        let alike = self.by_uid.get(first..first + alike)?;
        let member = |rank: &usize| self.by_age.get(*rank).copied();
        let place = alike.partition_point(|rank| member(rank).is_some_and(|m| m.uid < uid));
        member(alike.get(place)?).filter(|member| member.uid == uid)
    }

    pub(super) fn len(&self) -> usize {
        self.by_age.len()
    }
}
