//! Services of policy Local: only a node with one of their pods may serve them, so all Services of
//! one set of pods, a group, are served by a router of their own. The claim stays where it is, in
//! the address's home, and names that router.
//!
//! An address that changes its router is never served by two: the old one shows that it has let go
//! of it, its Active has taken that up, then the new one gets it. Each step is a write to one
//! object which a step that was decided before it can't follow: what has left comes back only by
//! way of its home.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::decision::RouterClaims;
use super::hash::stable_hash;
use super::home::router_capacity;
use super::standing::{GIVEN_UP_AFTER, incumbent, is_heard};
use super::world::{Claim, Elsewhere, Guest, RouterSpec, Service, ServiceKey, Timestamp, World};
use crate::model::Family;

/// The router of the group that a Service of policy Local belongs to.
fn group(pool: &str, family: Family, service: &Service) -> Arc<str> {
    let ServiceKey { namespace, name } = &service.key;
    let pods = service.selector.iter().flat_map(|(key, value)| [key.as_bytes(), value.as_bytes()]);
    let own = service.selector.is_empty().then_some(name.as_bytes());
    let unready: &[u8] = if service.publish_not_ready { b"all" } else { b"ready" };
    let parts: Vec<&[u8]> =
        [namespace.as_bytes(), unready].into_iter().chain(own).chain(pods).collect();
    let hash = stable_hash(&parts) & 0xff_ffff_ffff;
    let family = match family {
        Family::Ipv4 => "v4",
        Family::Ipv6 => "v6",
    };
    format!("{pool}-{family}-g{hash:010x}").into()
}

/// A router of a group that there is none of yet.
pub(super) struct NewGroup {
    pub(super) pool: Arc<str>,
    pub(super) family: Family,
}

/// What the agents say of a home.
#[derive(Clone, Copy)]
pub(super) struct Home {
    /// Whatever it has let go of, its Active has taken up.
    pub(super) is_settled: bool,
    /// Nobody says that it serves what was stated before.
    pub(super) is_current: bool,
}

/// Which router serves which address, and which one should.
pub(super) struct Groups<'a> {
    world: &'a World,
    now: Timestamp,
    /// The group that is to serve an address; an address that is not here is served at home, or by
    /// nobody.
    targets: BTreeMap<IpAddr, Arc<str>>,
    /// The groups that list an address, and as what.
    hosts: BTreeMap<IpAddr, (&'a Arc<str>, Guest)>,
    /// What homes name each group for, and whether it is to serve it.
    named: BTreeMap<&'a str, BTreeMap<IpAddr, bool>>,
    /// Groups that serve something, or will once its home lets it go.
    wanted: BTreeSet<Arc<str>>,
    /// Groups that are wanted and not there.
    pub(super) new: BTreeMap<Arc<str>, NewGroup>,
}

impl<'a> Groups<'a> {
    pub(super) fn new(
        world: &'a World,
        wanted: &BTreeMap<Arc<str>, RouterClaims>,
        now: Timestamp,
    ) -> Self {
        let mut groups = Self {
            world,
            now,
            targets: BTreeMap::new(),
            hosts: BTreeMap::new(),
            named: BTreeMap::new(),
            wanted: BTreeSet::new(),
            new: BTreeMap::new(),
        };
        for (name, router) in wanted {
            let shown = world.routers.get(name).map(|object| &object.spec);
            let can_be_made = world.pools.get(&router.pool).is_some_and(|pool| pool.pool.is_ok());
            for (address, claim) in router.claims.iter() {
                let Claim::Held(holders) = claim else { continue };
                let holder = holders.iter().find_map(|holder| world.services.get(&holder.uid));
                let now = shown.and_then(|spec| spec.elsewhere.get(address));
                let target = match holder.filter(|_| can_be_made) {
                    Some(service) if service.local => group(&router.pool, router.family, service),
                    Some(_) => continue,
                    None => match now {
                        Some(elsewhere) => Arc::clone(&elsewhere.router),
                        None => continue,
                    },
                };
                if !world.routers.contains_key(&target) {
                    let (pool, family) = (Arc::clone(&router.pool), router.family);
                    groups.new.insert(Arc::clone(&target), NewGroup { pool, family });
                }
                groups.wanted.insert(Arc::clone(&target));
                groups.targets.insert(*address, target);
            }
        }
        for (name, object) in &world.routers {
            for (address, guest) in &object.spec.guests {
                groups.hosts.insert(*address, (name, *guest));
            }
            let is_wanted = wanted.contains_key(name);
            for (address, elsewhere) in &object.spec.elsewhere {
                if elsewhere.leaving {
                    continue;
                }
                let serves = !is_wanted || groups.targets.get(address) == Some(&elsewhere.router);
                groups.named.entry(&elsewhere.router).or_default().insert(*address, serves);
                // It is made though nobody needs it, so that it can say that it serves nothing: one
                // whose creation is late would serve it.
                let target = &elsewhere.router;
                if !serves && !world.routers.contains_key(target) && !groups.is_served(target) {
                    let (pool, family) = (Arc::clone(&object.spec.pool), object.spec.family);
                    groups.new.insert(Arc::clone(target), NewGroup { pool, family });
                }
            }
        }
        groups
    }

    /// Whether somebody serves a router of this name, also one that has vanished.
    fn is_served(&self, router: &str) -> bool {
        incumbent(self.world, router)
            .is_some_and(|node| is_heard(self.world, node, GIVEN_UP_AFTER, self.now))
    }

    /// What a group says when it is made: what it has left. A creation has no precondition, and a
    /// late one must not serve what has moved on.
    pub(super) fn first_guests(&self, group: &str) -> BTreeMap<IpAddr, Guest> {
        let named = self.named.get(group).into_iter().flatten();
        named.filter(|(_, serves)| !**serves).map(|(address, _)| (*address, Guest::Left)).collect()
    }

    /// Whether a group has something to serve, now or soon.
    pub(super) fn is_wanted(&self, group: &str) -> bool {
        self.wanted.contains(group)
    }

    /// Leaves everything as it is for addresses of groups that can't be made.
    pub(super) fn give_up(&mut self, impossible: &BTreeSet<Arc<str>>) {
        let Self { world, targets, .. } = self;
        let shown = |address: &IpAddr| {
            let mut specs = world.routers.values().map(|object| &object.spec);
            let home = specs.find(|spec| spec.claims.contains_key(address))?;
            Some(home.elsewhere.get(address).map(|elsewhere| Arc::clone(&elsewhere.router)))
        };
        let addresses: Vec<IpAddr> = targets
            .iter()
            .filter(|(_, target)| impossible.contains(*target))
            .map(|(address, _)| *address)
            .collect();
        for address in addresses {
            match shown(&address) {
                Some(Some(router)) => _ = targets.insert(address, router),
                Some(None) => _ = targets.remove(&address),
                // Nobody has served it yet: it waits for its group.
                None => {}
            }
        }
    }

    /// Which of these claims other routers than their home serve.
    pub(super) fn elsewhere(
        &self,
        shown: Option<&RouterSpec>,
        claims: &BTreeMap<IpAddr, Claim>,
        home: Home,
    ) -> BTreeMap<IpAddr, Elsewhere> {
        let next = |(address, claim): (&IpAddr, &Claim)| {
            Some((*address, self.next(*address, claim, shown, home)?))
        };
        claims.iter().filter_map(next).collect()
    }

    fn next(
        &self,
        address: IpAddr,
        claim: &Claim,
        shown: Option<&RouterSpec>,
        home: Home,
    ) -> Option<Elsewhere> {
        let target = self.targets.get(&address);
        let to = |leaving| target.map(|router| Elsewhere { router: Arc::clone(router), leaving });
        let shown = shown.and_then(|spec| Some((spec.claims.get(&address)?, spec)));
        let now = match shown {
            Some((_, spec)) => spec.elsewhere.get(&address).cloned(),
            // A claim that was dropped before it was published may be served still.
            None => match self.hosts.get(&address) {
                Some((router, Guest::Served | Guest::Leaving)) => {
                    Some(Elsewhere { router: Arc::clone(router), leaving: false })
                }
                Some((_, Guest::Left)) | None => return to(!home.is_current),
            },
        };
        let Some(now) = now else {
            let is_served = !matches!(shown, Some((Claim::Released(r), _)) if r.confirmed);
            return to(is_served);
        };
        if now.leaving {
            return to(!home.is_settled);
        }
        let is_held = matches!(claim, Claim::Held(_));
        if is_held && target == Some(&now.router) {
            // It wants back what it has left: through the home, so that no write of then is late.
            let leaving = matches!(self.hosts.get(&address), Some((_, Guest::Left)));
            return to(leaving);
        }
        let is_over = is_held || matches!(shown, Some((Claim::Released(_), _)));
        if is_over && self.has_left(&now.router, address) { to(false) } else { Some(now) }
    }

    /// Whether a group serves an address no more, and will not.
    pub(super) fn has_left(&self, group: &str, address: IpAddr) -> bool {
        let object = self.world.routers.get(group);
        object.is_some_and(|object| object.spec.guests.get(&address) == Some(&Guest::Left))
    }

    /// What a group is to serve. `settled`: whatever it has let go of, its Active has taken up.
    pub(super) fn guests(
        &self,
        group: &str,
        family: Family,
        shown: &BTreeMap<IpAddr, Guest>,
        settled: bool,
    ) -> BTreeMap<IpAddr, Guest> {
        let none = BTreeMap::new();
        let named = self.named.get(group).unwrap_or(&none);
        let leaves = |guest: Guest| match guest {
            Guest::Leaving if settled => Guest::Left,
            Guest::Served | Guest::Leaving => Guest::Leaving,
            Guest::Left => Guest::Left,
        };
        let mut guests = BTreeMap::new();
        for (address, guest) in shown {
            let next = match named.get(address) {
                Some(_) if *guest == Guest::Left => Guest::Left,
                Some(true) => Guest::Served,
                Some(false) => leaves(*guest),
                None if leaves(*guest) == Guest::Left => continue,
                None => leaves(*guest),
            };
            guests.insert(*address, next);
        }
        for (address, serves) in named {
            let room = guests.len() < router_capacity(family);
            if !guests.contains_key(address) && (room || !serves) {
                guests.insert(*address, if *serves { Guest::Served } else { Guest::Left });
            }
        }
        guests
    }
}
