//! An API server in memory: it holds what is true, and refuses writes whose precondition has
//! passed, or that a test told it to refuse.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use barevip::engine::cluster::decision::{Notice, RouterClaims};
use barevip::engine::cluster::world::{
    Claim, Condition, Ingress, Manner, Release, RouterObject, RouterSpec, Service, Timestamp, Uid,
    World,
};
use barevip::model::Vrid;

/// Which write is to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    /// The claims of any router.
    Claim,
    /// The status of the Service of this name.
    Status(&'static str),
    /// The externalIPs of the Service of this name.
    External(&'static str),
}

/// What the API server answers instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Not done, with this code.
    Code(u16),
    /// Done, but the answer is lost.
    Lost,
}

/// What is true.
pub(crate) struct Api {
    pub(crate) world: World,
    pub(crate) now: Timestamp,
    /// Events told: name of the Service, reason, note.
    pub(crate) events: Vec<(String, &'static str, String)>,
    /// Writes that changed something.
    pub(crate) writes: Vec<String>,
    faults: Vec<(Write, Answer, u32)>,
    version: u64,
}

impl Api {
    pub(crate) fn new(world: World) -> Self {
        let now = Timestamp(1_000_000);
        Self { world, now, events: Vec::new(), writes: Vec::new(), faults: Vec::new(), version: 0 }
    }

    /// The next writes of this kind are answered so.
    pub(crate) fn fail(&mut self, write: Write, answer: Answer, times: u32) {
        self.faults.push((write, answer, times));
    }

    /// No more faults.
    pub(crate) fn forgive(&mut self) {
        self.faults.clear();
    }

    fn fault(&mut self, write: Write) -> Option<Answer> {
        let fault = self.faults.iter_mut().find(|(of, _, left)| *of == write && *left > 0)?;
        fault.2 -= 1;
        Some(fault.1)
    }

    fn next_version(&mut self) -> Arc<str> {
        self.version += 1;
        self.version.to_string().into()
    }

    /// The Service of this name, to be edited by a user: its version changes.
    pub(crate) fn edit(&mut self, name: &str) -> &mut Service {
        let version = self.next_version();
        let service = self.service_mut(name);
        service.resource_version = version;
        service
    }

    fn service_mut(&mut self, name: &str) -> &mut Service {
        let mut services = self.world.services.values_mut();
        services.find(|service| &*service.key.name == name).expect("a Service of this name")
    }

    pub(crate) fn service(&self, name: &str) -> &Service {
        self.find(name).unwrap_or_else(|| panic!("no Service {name}"))
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Service> {
        self.world.services.values().find(|service| &*service.key.name == name)
    }

    pub(crate) fn uid(&self, name: &str) -> Uid {
        let mut services = self.world.services.iter();
        let of_name = services.find(|(_, service)| &*service.key.name == name);
        of_name.map(|(uid, _)| uid.clone()).unwrap_or_else(|| panic!("no Service {name}"))
    }

    pub(crate) fn delete(&mut self, name: &str) {
        let uid = self.uid(name);
        self.world.services.remove(&uid);
    }

    /// Writes a router's claims, decided from this uid and generation.
    pub(crate) fn put_claims(
        &mut self,
        name: &Arc<str>,
        seen: Option<(Uid, i64)>,
        wanted: &RouterClaims,
    ) -> Result<RouterObject, u16> {
        let fault = self.fault(Write::Claim);
        if let Some(Answer::Code(code)) = fault {
            return Err(code);
        }
        let present = self.world.routers.get(name).map(|r| (r.uid.clone(), r.generation));
        if present != seen {
            return Err(if present.is_none() { 404 } else { 409 });
        }
        let (uid, generation) = present.unwrap_or_else(|| (Uid(Arc::clone(name)), 0));
        let object =
            RouterObject { uid, generation: generation + 1, move_to: None, spec: spec(wanted) };
        self.writes.push(format!("{name} {:?}", wanted.claims));
        self.world.routers.insert(Arc::clone(name), object.clone());
        if fault.is_some() { Err(500) } else { Ok(object) }
    }

    /// Writes a Service's status, decided from this version.
    pub(crate) fn patch_status(
        &mut self,
        uid: &Uid,
        seen: &str,
        ingress: Option<&Vec<Ingress>>,
        condition: Option<&Option<Condition>>,
    ) -> Result<Service, u16> {
        self.write_service(uid, seen, Write::Status, |service| {
            if let Some(ingress) = ingress {
                service.ingress.clone_from(ingress);
            }
            if let Some(condition) = condition {
                service.condition.clone_from(condition);
            }
        })
    }

    /// Writes a Service's externalIPs, decided from this version.
    pub(crate) fn patch_external(
        &mut self,
        uid: &Uid,
        seen: &str,
        external_ips: &[String],
    ) -> Result<Service, u16> {
        self.write_service(uid, seen, Write::External, |service| {
            service.external_ips = external_ips.to_vec();
        })
    }

    fn write_service(
        &mut self,
        uid: &Uid,
        seen: &str,
        write: fn(&'static str) -> Write,
        change: impl FnOnce(&mut Service),
    ) -> Result<Service, u16> {
        let Some(present) = self.world.services.get(uid) else { return Err(404) };
        let name = present.key.name.to_string();
        let is_current = &*present.resource_version == seen;
        let named = self.faults.iter().map(|(of, ..)| *of).find(|of| match of {
            Write::Status(of) => *of == name && write("") == Write::Status(""),
            Write::External(of) => *of == name && write("") == Write::External(""),
            Write::Claim => false,
        });
        let fault = named.and_then(|named| self.fault(named));
        if let Some(Answer::Code(code)) = fault {
            return Err(code);
        }
        if !is_current {
            return Err(409);
        }
        let version = self.next_version();
        let service = self.world.services.get_mut(uid).unwrap();
        service.resource_version = version;
        change(service);
        let service = service.clone();
        self.writes.push(format!("{name} {:?} {:?}", service.ingress, service.external_ips));
        if fault.is_some() { Err(500) } else { Ok(service) }
    }

    pub(crate) fn tell(&mut self, uid: &Uid, notices: &[Notice]) {
        let name = self.world.services.get(uid).map_or("?", |service| &*service.key.name);
        let told = notices.iter().map(|n| (name.to_owned(), n.reason, n.note.clone()));
        self.events.extend(told.collect::<Vec<_>>());
    }

    /// Reasons of the events told about a Service.
    pub(crate) fn told(&self, name: &str) -> Vec<&'static str> {
        self.events.iter().filter(|(of, ..)| of == name).map(|(_, reason, _)| *reason).collect()
    }

    /// No node serves released addresses any more: placement's part.
    pub(crate) fn confirm(&mut self) {
        for router in self.world.routers.values_mut() {
            let mut is_changed = false;
            for claim in router.spec.claims.values_mut() {
                if let Claim::Released(Release { confirmed, .. }) = claim {
                    is_changed |= !*confirmed;
                    *confirmed = true;
                }
            }
            router.generation += i64::from(is_changed);
        }
    }

    /// Every claim, by address.
    pub(crate) fn claims(&self) -> BTreeMap<IpAddr, &Claim> {
        let routers = self.world.routers.values();
        routers
            .flat_map(|r| r.spec.claims.iter().map(|(address, claim)| (*address, claim)))
            .collect()
    }

    /// Addresses that every Service has by the claims.
    pub(crate) fn held(&self) -> BTreeMap<&Uid, BTreeSet<IpAddr>> {
        let mut held: BTreeMap<&Uid, BTreeSet<IpAddr>> = BTreeMap::new();
        for (address, claim) in self.claims() {
            let Claim::Held(holders) = claim else { continue };
            for holder in holders {
                held.entry(&holder.uid).or_default().insert(address);
            }
        }
        held
    }

    /// Addresses that this Service has by the claims.
    pub(crate) fn held_by(&self, uid: &Uid) -> Vec<IpAddr> {
        self.held().get(uid).into_iter().flatten().copied().collect()
    }
}

/// A router of these claims, with placement's part left open.
pub(crate) fn spec(wanted: &RouterClaims) -> RouterSpec {
    RouterSpec {
        pool: Arc::clone(&wanted.pool),
        family: wanted.family,
        vrid: Vrid::try_from(100).unwrap(),
        claims: wanted.claims.clone(),
        elsewhere: BTreeMap::new(),
        guests: BTreeMap::new(),
        candidates: Vec::new(),
        takeover: None,
        manner: Manner::default(),
    }
}
