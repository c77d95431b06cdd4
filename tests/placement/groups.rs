//! Services of policy Local: routers of their own, and addresses that go from one to another.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use barevip::engine::cluster::decision::{RouterChange, RouterClaims};
use barevip::engine::cluster::placement::{PLACED, place};
use barevip::engine::cluster::world::{
    Claim, Elsewhere, Guest, Holder, Reign, RouterSpec, Service, ServiceKey, Uid, World,
};
use barevip::model::{Family, Labels};
use proptest::prelude::*;

use crate::{NOW, apply, key, label, pool, released, three};

/// A Service of policy Local with these pods, or of policy Cluster.
fn service(name: &str, pods: Option<Labels>) -> Service {
    Service {
        key: ServiceKey { namespace: "default".into(), name: name.into() },
        load_balancer: true,
        families: vec![Family::Ipv4],
        local: pods.is_some(),
        selector: pods.unwrap_or_default(),
        ..Service::default()
    }
}

/// The router, its address and its Service: number 1 has 172.16.0.1 of the Service `s1`.
fn claim(number: u8, claim: Option<Claim>) -> (Arc<str>, RouterClaims) {
    let address = IpAddr::from([172, 16, 0, number]);
    let claims = claim.map(|claim| (address, claim)).into_iter().collect();
    let router = RouterClaims { pool: "web".into(), family: Family::Ipv4, claims };
    (format!("web-v4-{number}").into(), router)
}

fn held(number: u8) -> Claim {
    let uid = Uid::from(format!("s{number}").as_str());
    Claim::Held(vec![Holder { uid, service: key() }])
}

/// The Services of these numbers have their addresses.
fn all_held(numbers: impl IntoIterator<Item = u8>) -> BTreeMap<Arc<str>, RouterClaims> {
    numbers.into_iter().map(|number| claim(number, Some(held(number)))).collect()
}

fn set(world: &mut World, number: u8, service: Service) {
    world.services.insert(format!("s{number}").as_str().into(), service);
}

fn blue() -> Option<Labels> {
    Some(label("app", "blue"))
}

/// What a node that follows this statement binds.
fn binds(spec: &RouterSpec) -> BTreeSet<IpAddr> {
    let own = spec.claims.iter().filter(|(_, claim)| matches!(claim, Claim::Held(_)));
    let own = own.map(|(address, _)| *address).filter(|a| !spec.elsewhere.contains_key(a));
    let guests = spec.guests.iter().filter(|(_, guest)| **guest == Guest::Served);
    own.chain(guests.map(|(address, _)| *address)).collect()
}

/// Agents: what each router's Active has taken up; kept when the object is gone.
#[derive(Default)]
struct Agents(BTreeMap<Arc<str>, (Uid, i64, RouterSpec)>);

impl Agents {
    /// The Active of this router takes up what it states, and reports it.
    fn take_up(&mut self, world: &mut World, name: &Arc<str>) {
        let Some(object) = world.routers.get(name) else {
            self.0.remove(name);
            for node in world.nodes.values_mut() {
                node.report.as_mut().unwrap().active.remove(name);
            }
            return;
        };
        let (uid, generation) = (object.uid.clone(), object.generation);
        let reign = Reign { uid: uid.clone(), generation, vrid: Some(object.spec.vrid) };
        self.0.insert(Arc::clone(name), (uid, generation, object.spec.clone()));
        let active = object.spec.takeover.clone().unwrap_or_else(|| "a".into());
        for (node, state) in &mut world.nodes {
            let all = &mut state.report.as_mut().unwrap().active;
            all.remove(name);
            if *node == active {
                all.insert(Arc::clone(name), reign.clone());
            }
        }
    }

    fn all_take_up(&mut self, world: &mut World) {
        let names: BTreeSet<_> = world.routers.keys().chain(self.0.keys()).cloned().collect();
        for name in names {
            self.take_up(world, &name);
        }
    }

    /// Who binds each address; nobody binds what another one does.
    #[track_caller]
    fn bound(&self) -> BTreeMap<IpAddr, Arc<str>> {
        let mut bound = BTreeMap::new();
        for (name, (_, _, spec)) in &self.0 {
            for address in binds(spec) {
                let other = bound.insert(address, Arc::clone(name));
                assert!(other.is_none(), "{address} is bound by {name} and {other:?}");
            }
        }
        bound
    }
}

/// Rounds until nothing is to be written, the agents following; how many there were.
#[track_caller]
fn run(world: &mut World, agents: &mut Agents, wanted: &BTreeMap<Arc<str>, RouterClaims>) -> usize {
    for round in 0..20 {
        let placement = place(world, wanted.clone(), NOW);
        let is_quiet = placement.routers.is_empty();
        apply(world, placement);
        agents.all_take_up(world);
        agents.bound();
        if is_quiet && round > 0 {
            return round;
        }
    }
    panic!("still writing: {:?}", place(world, wanted.clone(), NOW).routers);
}

fn address(number: u8) -> IpAddr {
    IpAddr::from([172, 16, 0, number])
}

fn elsewhere(world: &World, number: u8) -> Option<Elsewhere> {
    let home = &world.routers[&*format!("web-v4-{number}")].spec;
    home.elsewhere.get(&address(number)).cloned()
}

#[test]
fn local_services_of_the_same_pods_share_a_router() {
    let mut world = three();
    set(&mut world, 1, service("one", blue()));
    set(&mut world, 2, service("two", blue()));
    set(&mut world, 3, service("three", Some(label("app", "red"))));
    set(&mut world, 4, service("four", Some(Labels::new())));
    set(&mut world, 5, service("five", Some(Labels::new())));
    let unready = Service { publish_not_ready: true, ..service("six", blue()) };
    set(&mut world, 6, unready);
    let mut other = service("seven", blue());
    other.key.namespace = "other".into();
    set(&mut world, 7, other);
    set(&mut world, 8, service("eight", None));
    let mut agents = Agents::default();
    run(&mut world, &mut agents, &all_held(1..=8));
    let bound = agents.bound();
    assert_eq!(bound[&address(1)], bound[&address(2)]);
    let routers: BTreeSet<_> = bound.values().cloned().collect();
    assert_eq!((bound.len(), routers.len()), (8, 7));
    assert_eq!(&*bound[&address(8)], "web-v4-8");
    for number in 1..=7 {
        let at = elsewhere(&world, number).unwrap();
        assert_eq!((&at.router, at.leaving), (&bound[&address(number)], false));
        let group = &world.routers[&at.router].spec;
        assert_eq!((&*group.pool, group.claims.len(), group.candidates.len()), ("web", 0, 3));
    }
    let vrids: BTreeSet<_> = world.routers.values().map(|object| object.spec.vrid).collect();
    assert_eq!(vrids.len(), world.routers.len());
}

#[test]
fn a_new_local_service_is_never_served_at_home_and_its_group_is_asked_for_at_once() {
    let mut world = three();
    set(&mut world, 1, service("one", blue()));
    let first = place(&world, all_held([1]), NOW);
    apply(&mut world, first);
    let at = elsewhere(&world, 1).unwrap();
    assert!(!at.leaving && world.routers.contains_key(&at.router));
    assert_eq!(world.routers["web-v4-1"].spec.takeover, None);
    let second = place(&world, all_held([1]), NOW);
    apply(&mut world, second);
    let group = &world.routers[&at.router].spec;
    assert_eq!(group.guests, BTreeMap::from([(address(1), Guest::Served)]));
    assert_eq!(group.takeover.as_deref(), Some(&*group.candidates[0].node));
}

#[test]
fn an_address_leaves_one_router_before_it_enters_the_next_one() {
    let mut world = three();
    let mut agents = Agents::default();
    set(&mut world, 1, service("one", None));
    run(&mut world, &mut agents, &all_held([1]));
    assert_eq!(&*agents.bound()[&address(1)], "web-v4-1");

    // Out of its home: without the Active's word nothing goes on.
    set(&mut world, 1, service("one", blue()));
    for _ in 0..3 {
        let placement = place(&world, all_held([1]), NOW);
        apply(&mut world, placement);
    }
    let at = elsewhere(&world, 1).unwrap();
    assert!(at.leaving);
    assert_eq!(world.routers[&at.router].spec.guests, BTreeMap::new());
    run(&mut world, &mut agents, &all_held([1]));
    let at = Elsewhere { leaving: false, ..at };
    assert_eq!(agents.bound()[&address(1)], at.router);

    // To another group: the old one lets go first, and goes when nobody needs it any more.
    set(&mut world, 1, service("one", Some(label("app", "red"))));
    for _ in 0..3 {
        let placement = place(&world, all_held([1]), NOW);
        apply(&mut world, placement);
    }
    assert_eq!(elsewhere(&world, 1), Some(at.clone()));
    assert_eq!(world.routers[&at.router].spec.guests[&address(1)], Guest::Leaving);
    run(&mut world, &mut agents, &all_held([1]));
    let red = elsewhere(&world, 1).unwrap().router;
    assert_ne!(red, at.router);
    assert_eq!(agents.bound()[&address(1)], red);
    assert!(!world.routers.contains_key(&at.router));

    // And home again.
    set(&mut world, 1, service("one", None));
    run(&mut world, &mut agents, &all_held([1]));
    assert_eq!(&*agents.bound()[&address(1)], "web-v4-1");
    assert_eq!(world.routers.len(), 1);
}

#[test]
fn a_release_is_confirmed_by_the_group_that_served_the_address() {
    let mut world = three();
    let mut agents = Agents::default();
    set(&mut world, 1, service("one", blue()));
    run(&mut world, &mut agents, &all_held([1]));
    let group = elsewhere(&world, 1).unwrap().router;
    let wanted = BTreeMap::from([claim(1, Some(released(NOW, false)))]);
    for _ in 0..4 {
        let placement = place(&world, wanted.clone(), NOW);
        apply(&mut world, placement);
        agents.take_up(&mut world, &"web-v4-1".into());
    }
    let home = |world: &World| world.routers["web-v4-1"].spec.claims[&address(1)].clone();
    assert_eq!(home(&world), released(NOW, false));
    run(&mut world, &mut agents, &wanted);
    assert_eq!(home(&world), released(NOW, true));
    assert_eq!(elsewhere(&world, 1), None);
    assert!(!world.routers.contains_key(&group));
}

#[test]
fn without_a_vrid_for_its_group_a_service_is_served_as_before() {
    let mut world = three();
    let mut agents = Agents::default();
    pool(&mut world).vrids = 200..=201;
    set(&mut world, 1, service("one", None));
    set(&mut world, 2, service("two", None));
    run(&mut world, &mut agents, &all_held([1, 2]));
    set(&mut world, 1, service("one", blue()));
    let placement = place(&world, all_held([1, 2]), NOW);
    assert_eq!(placement.routers, BTreeMap::new());
    assert!(!placement.conditions[&("web".into(), PLACED)].met);
    // Once there is one it moves.
    pool(&mut world).vrids = 200..=202;
    run(&mut world, &mut agents, &all_held([1, 2]));
    assert_eq!(agents.bound()[&address(1)], elsewhere(&world, 1).unwrap().router);
    // Others were not touched.
    assert_eq!(&*agents.bound()[&address(2)], "web-v4-2");
}

#[test]
fn a_group_that_vanished_is_waited_for_while_somebody_serves_it() {
    let mut world = three();
    let mut agents = Agents::default();
    set(&mut world, 1, service("one", blue()));
    run(&mut world, &mut agents, &all_held([1]));
    let group = elsewhere(&world, 1).unwrap().router;
    world.routers.remove(&group);
    set(&mut world, 1, service("one", None));
    let placement = place(&world, all_held([1]), NOW);
    apply(&mut world, placement);
    assert_eq!(elsewhere(&world, 1).unwrap().router, group);
    // It is the frozen agent that has to let go.
    agents.take_up(&mut world, &group);
    run(&mut world, &mut agents, &all_held([1]));
    assert_eq!(&*agents.bound()[&address(1)], "web-v4-1");
}

/// What happens between two rounds.
#[derive(Clone, Copy, Debug)]
enum Turn {
    /// A Service gets policy Cluster, or Local with one of three sets of pods.
    Becomes(u8, u8),
    /// Its address is held, or is released, or was never published.
    Claims(u8, u8),
    /// The Active of the n-th router takes up what it states.
    TakesUp(u8),
    /// The controller decides; its writes are on their way.
    Decides,
    /// The n-th write on its way arrives.
    Arrives(u8),
}

fn any_turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        1 => (0..3_u8, 0..4_u8).prop_map(|(number, kind)| Turn::Becomes(number, kind)),
        1 => (0..3_u8, 0..3_u8).prop_map(|(number, kind)| Turn::Claims(number, kind)),
        3 => (0..8_u8).prop_map(Turn::TakesUp),
        3 => Just(Turn::Decides),
        4 => (0..8_u8).prop_map(Turn::Arrives),
    ]
}

fn set_policy(world: &mut World, number: u8, kind: u8) {
    let pods = ["red", "blue", "green"].get(usize::from(kind)).map(|color| label("app", color));
    set(world, number, service(&format!("s{number}"), pods));
}

/// Whether the API server takes a write.
fn arrive(world: &mut World, name: &Arc<str>, change: RouterChange) {
    let present = world.routers.get(name).map(|object| (object.uid.clone(), object.generation));
    let seen = match &change {
        RouterChange::Create(_) => None,
        RouterChange::Update { uid, generation, .. } | RouterChange::Delete { uid, generation } => {
            Some((uid.clone(), *generation))
        }
    };
    if present == seen {
        let memory = world.memory.clone();
        let routers = BTreeMap::from([(Arc::clone(name), change)]);
        let placement = barevip::engine::cluster::placement::Placement {
            routers,
            memory,
            ..Default::default()
        };
        apply(world, placement);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]
    /// Writes are late and in any order, agents slow, people fickle: no address is ever bound by
    /// two routers, and at the end the right one has it.
    #[test]
    fn no_address_is_served_by_two(turns in prop::collection::vec(any_turn(), 1..80)) {
        let mut world = three();
        let mut agents = Agents::default();
        let mut wanted = all_held(0..3);
        for number in 0..3 {
            set_policy(&mut world, number, 3);
        }
        let mut on_the_way: Vec<(Arc<str>, RouterChange)> = Vec::new();
        for turn in turns {
            match turn {
                Turn::Becomes(number, kind) => set_policy(&mut world, number, kind),
                Turn::Claims(number, kind) => {
                    let (name, router) = match kind {
                        0 => claim(number, Some(held(number))),
                        1 => claim(number, Some(released(NOW, false))),
                        _ => claim(number, None),
                    };
                    wanted.insert(name, router);
                }
                Turn::TakesUp(n) => {
                    let names: Vec<_> = world.routers.keys().chain(agents.0.keys()).cloned().collect();
                    if let Some(name) = names.get(usize::from(n) % names.len().max(1)) {
                        agents.take_up(&mut world, name);
                    }
                }
                Turn::Decides => {
                    let placement = place(&world, wanted.clone(), NOW);
                    world.memory = placement.memory;
                    on_the_way.extend(placement.routers);
                }
                Turn::Arrives(n) if !on_the_way.is_empty() => {
                    let (name, change) = on_the_way.swap_remove(usize::from(n) % on_the_way.len());
                    arrive(&mut world, &name, change);
                }
                Turn::Arrives(_) => {}
            }
            agents.bound();
        }
        run(&mut world, &mut agents, &wanted);
        for number in 0..3_u8 {
            let router = &wanted[&*format!("web-v4-{number}")];
            let is_held = router.claims.values().any(|claim| matches!(claim, Claim::Held(_)));
            let bound = agents.bound();
            let service = &world.services[&format!("s{number}").as_str().into()];
            match bound.get(&address(number)) {
                Some(by) => {
                    let is_home = **by == *format!("web-v4-{number}");
                    prop_assert!(is_held && service.local != is_home);
                }
                None => prop_assert!(!is_held),
            }
        }
    }
}
