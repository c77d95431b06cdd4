//! What holds for every world, whatever Services, statuses and claims it begins with.

use std::collections::BTreeMap;
use std::net::IpAddr;

use barevip::engine::cluster::allocator::allocate;
use barevip::engine::cluster::world::{
    Claim, Claims, Holder, Manner, Port, Protocol, Release, RouterObject, RouterSpec, Service,
    ServiceKey, Timestamp, Uid, World,
};
use barevip::model::range::number;
use barevip::model::{Family, Vrid};
use proptest::prelude::*;

use crate::support::cluster::notation::{service, show, world};
use crate::support::cluster::scene::Scene;

/// Addresses of the pool; what is written at random may lie a little outside.
const RANGE: &str = "172.16.0.0/28";

fn address() -> impl Strategy<Value = IpAddr> {
    (0..20_u8).prop_map(|last| IpAddr::from([172, 16, 0, last]))
}

/// A Service of this place in the order of age.
fn any_service(at: usize) -> impl Strategy<Value = (Uid, Service)> {
    let shown = proptest::collection::vec(address(), 0..3);
    let asked = proptest::option::weighted(0.3, address());
    let external = proptest::option::weighted(0.2, address());
    let share = proptest::option::weighted(0.3, (0..2_u8, 80..83_u16));
    let kind = (prop::bool::weighted(0.9), prop::bool::weighted(0.1), prop::bool::weighted(0.1));
    (shown, asked, external, share, kind, 0..3_i64).prop_map(
        move |(shown, asked, external, share, (lb, deleting, foreign), created)| {
            let name = char::from(b'A' + u8::try_from(at).unwrap()).to_string();
            let (uid, mut made) = service(&name);
            made.created = Timestamp(created);
            made.load_balancer = lb;
            made.deleting = deleting;
            made.class = foreign.then(|| "example.com/other".into());
            made.requested = asked.iter().map(ToString::to_string).collect();
            made.external_ips = external.iter().map(ToString::to_string).collect();
            if lb {
                made.ingress = shown.iter().map(ingress).collect();
            }
            if let Some((key, number)) = share {
                made.share = Some(format!("key-{key}").as_str().into());
                made.ports = [Port { protocol: Protocol::Tcp, number }].into();
            }
            (uid, made)
        },
    )
}

fn ingress(address: &IpAddr) -> barevip::engine::cluster::world::Ingress {
    barevip::engine::cluster::world::Ingress { ip: Some(address.to_string()), hostname: None }
}

/// A claim of Services that may be there or not.
fn any_claim() -> impl Strategy<Value = Claim> {
    let named = |at: u8| {
        let name = char::from(b'A' + at).to_string();
        let key = ServiceKey { namespace: "default".into(), name: name.as_str().into() };
        (Uid::from(format!("uid-{}", name.to_lowercase()).as_str()), key)
    };
    let holder = (0..20_u8).prop_map(named).prop_map(|(uid, service)| Holder { uid, service });
    let held = proptest::collection::btree_map(any::<u8>(), holder, 1..3);
    let released = (0..20_u8, 999_000..1_000_000_i64, any::<bool>());
    prop_oneof![
        2 => held.prop_map(|holders| Claim::Held(holders.into_values().collect())),
        1 => released.prop_map(move |(at, since, confirmed)| {
            Claim::Released(Release { at: Timestamp(since), by: named(at).1, confirmed })
        }),
    ]
}

/// A world that anything may have happened to.
fn any_world() -> impl Strategy<Value = World> {
    let services: Vec<_> = (0..16).map(any_service).collect();
    let count = 0..16_usize;
    let claims = proptest::collection::btree_map(address(), any_claim(), 0..12);
    (services, count, claims, any::<bool>()).prop_map(|(services, count, claims, mirror)| {
        let mut made = world(RANGE, "");
        made.settings.mirror = mirror;
        made.services = services.into_iter().take(count).collect();
        for (address, claim) in claims {
            let home = format!("lan-v4-{}", number(address) % 8);
            let router = made.routers.entry(home.as_str().into()).or_insert_with(|| RouterObject {
                uid: home.as_str().into(),
                generation: 1,
                move_to: None,
                spec: RouterSpec {
                    pool: "lan".into(),
                    family: Family::Ipv4,
                    vrid: Vrid::try_from(100).unwrap(),
                    claims: Claims::default(),
                    elsewhere: BTreeMap::new(),
                    guests: BTreeMap::new(),
                    candidates: Vec::new(),
                    takeover: None,
                    manner: Manner::default(),
                },
            });
            router.spec.claims.insert(address, claim);
        }
        made
    })
}

/// What every Service has in the end, by its name.
fn ends(scene: &Scene) -> BTreeMap<String, Vec<IpAddr>> {
    let services = scene.api.world.services.iter();
    services.map(|(uid, service)| (service.key.name.to_string(), scene.api.held_by(uid))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, failure_persistence: None, ..ProptestConfig::default() })]

    /// I1–I4 are checked by `settle`.
    #[test]
    fn every_world_is_unique_complete_and_quiet_within_three_rounds(world in any_world()) {
        let rounds = Scene::of(world).settle();
        prop_assert!(rounds <= 3, "{rounds} rounds");
    }

    #[test]
    fn others_that_come_and_go_move_nobody(
        world in any_world(),
        comes in any_service(20),
        goes in any::<prop::sample::Index>(),
    ) {
        let mut scene = Scene::of(world);
        scene.settle();
        let before = ends(&scene);
        let gone = (!before.is_empty()).then(|| {
            let name = before.keys().nth(goes.index(before.len())).unwrap().clone();
            scene.delete(&name);
            name
        });
        let (uid, mut newcomer) = comes;
        newcomer.created = Timestamp(9);
        newcomer.ingress.clear();
        scene.api.world.services.insert(uid, newcomer);
        scene.settle();
        let after = ends(&scene);
        for (name, had) in before.iter().filter(|(name, had)| {
            Some(*name) != gone.as_ref() && !had.is_empty()
        }) {
            prop_assert_eq!(&after[name], had, "{} moved", name);
        }
    }

    #[test]
    fn the_order_of_the_list_decides_nothing(world in any_world(), shift in 1..16_usize) {
        // Ages that differ: then a uid is but a name.
        let mut world = world;
        for (age, service) in (0..).zip(world.services.values_mut()) {
            service.created = Timestamp(age);
        }
        let uids: Vec<Uid> = world.services.keys().cloned().collect();
        let renamed = |uid: &Uid| match uids.iter().position(|known| known == uid) {
            Some(at) => uids[(at + shift) % uids.len()].clone(),
            None => uid.clone(),
        };
        let mut other = world.clone();
        other.services =
            world.services.iter().map(|(uid, service)| (renamed(uid), service.clone())).collect();
        for router in other.routers.values_mut() {
            for claim in router.spec.claims.values_mut() {
                if let Claim::Held(holders) = claim {
                    holders.iter_mut().for_each(|holder| holder.uid = renamed(&holder.uid));
                }
            }
        }
        let (mut one, mut two) = (Scene::of(world), Scene::of(other));
        one.settle();
        two.settle();
        prop_assert_eq!(one.shows(), two.shows());
    }

    #[test]
    fn deciding_is_a_function(world in any_world()) {
        prop_assert_eq!(allocate(&world, Timestamp(1_000_000)), allocate(&world, Timestamp(1_000_000)));
    }

    #[test]
    fn whoever_waits_or_is_refused_reads_why(world in any_world()) {
        let mut scene = Scene::of(world);
        scene.settle();
        let pools = allocate(&scene.api.world, scene.api.now).pools;
        for (uid, service) in &scene.api.world.services {
            let is_ours = service.load_balancer && !service.deleting && service.class.is_none();
            if !is_ours {
                prop_assert_eq!(&service.condition, &None);
                continue;
            }
            let held = scene.api.held_by(uid);
            let said = service.condition.as_ref().expect("a condition");
            prop_assert_eq!(said.met, !held.is_empty(), "{}", show(service));
            if !said.met {
                prop_assert_eq!(pools["lan"].free, 0);
                prop_assert_eq!(said.reason.as_str(), "RangeFull");
                prop_assert!(said.message.contains("add a range"), "{}", said.message);
            }
            for asked in &service.requested {
                let has = held.iter().any(|address| address.to_string() == *asked);
                let why = format!("{asked} was asked for and not given: ");
                prop_assert!(has || said.message.contains(&why), "{asked}: {}", said.message);
            }
        }
    }
}
