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
    /// The start of each uid, the uid and the rank, ascending.
    by_uid: Vec<(u128, &'w Uid, usize)>,
}

/// The first 16 octets of a uid as a number of the same order: nearly always enough to tell two
/// apart without looking further.
fn start(uid: &Uid) -> u128 {
    let padded = uid.0.bytes().chain(std::iter::repeat(0));
    padded.take(16).fold(0, |number, octet| number << 8 | u128::from(octet))
}

impl<'w> Roster<'w> {
    pub(super) fn new(world: &'w World) -> Self {
        let member = |(uid, service): (&'w Uid, &'w Service)| {
            let standing = Standing::of(service, &world.settings);
            (service.created, Member { rank: 0, uid, service, standing })
        };
        let mut by_age: Vec<_> = world.services.iter().map(member).zip(0_usize..).collect();
        let mut by_uid: Vec<_> = world.services.keys().map(|uid| (start(uid), uid, 0)).collect();
        // Stable, and the map was in the order of the uids.
        by_age.sort_by_key(|((created, _), _)| *created);
        let ranked = by_age.into_iter().enumerate().map(|(rank, ((_, member), place))| {
            if let Some((_, _, slot)) = by_uid.get_mut(place) {
                *slot = rank;
            }
            Member { rank, ..member }
        });
        Self { by_age: ranked.collect(), by_uid }
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
        let number = start(uid);
        let place = self.by_uid.binary_search_by(|(other_number, other, _)| {
            other_number.cmp(&number).then_with(|| (*other).cmp(uid))
        });
        let (_, _, rank) = place.ok().and_then(|place| self.by_uid.get(place))?;
        self.by_age.get(*rank).copied()
    }

    pub(super) fn len(&self) -> usize {
        self.by_age.len()
    }
}
