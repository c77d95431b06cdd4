//! Who may serve which router: what `engine::cluster::placement` writes, round by round, and that
//! nothing moves without need.

#![cfg(test)]

mod placement {
    mod evenness;
    mod groups;
    mod random;
    mod takeover;
    mod vrids;
    mod warnings;
}

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use barevip::engine::cluster::decision::{RouterChange, RouterClaims};
use barevip::engine::cluster::placement::{PLACED, Placement, place};
use barevip::engine::cluster::world::{
    Claim, Holder, Node, PoolObject, Reign, Release, Report, RouterObject, RouterSpec, ServiceKey,
    Settings, Timestamp, Uid, World,
};
use barevip::model::{Announcing, Candidate, Family, Labels, Pool, Rule, Selector, Vrid};

static UIDS: AtomicU64 = AtomicU64::new(0);

const NOW: Timestamp = Timestamp(1_000_000);

fn ago(seconds: i64) -> Timestamp {
    Timestamp(NOW.0 - seconds)
}

fn label(key: &str, value: &str) -> Labels {
    Labels::from([(key.to_owned(), value.to_owned())])
}

fn with_label(key: &str) -> Selector {
    Selector { rules: vec![Rule::Exists(key.to_owned())] }
}

/// A node that has just reported a link on the LAN of every test.
fn node(zone: &str) -> Node {
    let own = ["172.16.0.201/24", "2001:db8::201/64"].map(|net| net.parse().unwrap());
    Node {
        labels: label("topology.kubernetes.io/zone", zone),
        report: Some(Report {
            at: NOW,
            links: BTreeMap::from([("eth0".into(), own.to_vec())]),
            ..Report::default()
        }),
        ..Node::default()
    }
}

/// A pool `web` of 172.16.0.0/28 and 2001:db8::/124, and these nodes with their zones.
fn world(nodes: &[(&str, &str)]) -> World {
    let pool = Pool {
        addresses: ["172.16.0.0/28", "2001:db8::/124"].map(|r| r.parse().unwrap()).to_vec(),
        ..Pool::default()
    };
    let object =
        PoolObject { uid: "pool".into(), generation: 1, created: Timestamp(0), pool: Ok(pool) };
    World {
        pools: BTreeMap::from([("web".into(), object)]),
        nodes: nodes.iter().map(|(name, zone)| ((*name).into(), node(zone))).collect(),
        settings: Settings { cluster: "cluster".into(), ..Settings::default() },
        ..World::default()
    }
}

fn three() -> World {
    world(&[("a", "1"), ("b", "2"), ("c", "3")])
}

fn pool(world: &mut World) -> &mut Pool {
    world.pools.get_mut("web").unwrap().pool.as_mut().unwrap()
}

fn key() -> ServiceKey {
    ServiceKey { namespace: "default".into(), name: "shop".into() }
}

fn held() -> Claim {
    Claim::Held(vec![Holder { uid: "service".into(), service: key() }])
}

fn released(at: Timestamp, confirmed: bool) -> Claim {
    Claim::Released(Release { at, by: key(), confirmed })
}

/// Wants one address in each of these routers, its number the router's.
fn wanted(numbers: impl IntoIterator<Item = u8>) -> BTreeMap<Arc<str>, RouterClaims> {
    let router = |number: u8| wanted_claim(number, held());
    numbers.into_iter().map(router).collect()
}

fn wanted_claim(number: u8, claim: Claim) -> (Arc<str>, RouterClaims) {
    let claims = BTreeMap::from([(IpAddr::from([172, 16, 0, number]), claim)]);
    let router = RouterClaims { pool: "web".into(), family: Family::Ipv4, claims: claims.into() };
    (format!("web-v4-{number}").into(), router)
}

/// Carries out what placement wants, as the API server would.
fn apply(world: &mut World, placement: Placement) {
    world.memory = placement.memory;
    for (name, change) in placement.routers {
        match change {
            RouterChange::Create(spec) => {
                let uid = Uid(format!("uid {}", UIDS.fetch_add(1, Ordering::Relaxed)).into());
                let made = RouterObject { uid, generation: 1, spec, move_to: None };
                assert!(world.routers.insert(name, made).is_none());
            }
            RouterChange::Update { uid, generation, spec, answered } => {
                let object = world.routers.get_mut(&name).unwrap();
                assert_eq!((&object.uid, object.generation), (&uid, generation));
                assert!(object.spec != spec || answered.is_some());
                object.generation += i64::from(object.spec != spec);
                object.spec = spec;
                if answered.is_some() {
                    assert_eq!(object.move_to, answered);
                    object.move_to = None;
                }
            }
            RouterChange::Delete { uid, generation } => {
                let object = world.routers.remove(&name).unwrap();
                assert_eq!((object.uid, object.generation), (uid, generation));
            }
        }
    }
}

/// Places until nothing is left to be done: one round must do.
#[track_caller]
fn settle(world: &mut World, wanted: &BTreeMap<Arc<str>, RouterClaims>) {
    settle_at(world, wanted, NOW);
}

#[track_caller]
fn settle_at(world: &mut World, wanted: &BTreeMap<Arc<str>, RouterClaims>, now: Timestamp) {
    let placement = place(world, wanted.clone(), now);
    apply(world, placement);
    assert_eq!(place(world, wanted.clone(), now).routers, BTreeMap::new());
}

/// All nodes have just reported.
fn all_report(world: &mut World, now: Timestamp) {
    for node in world.nodes.values_mut() {
        node.report.as_mut().unwrap().at = now;
    }
}

fn spec(world: &World, number: u8) -> &RouterSpec {
    &world.routers[&*format!("web-v4-{number}")].spec
}

fn names(spec: &RouterSpec) -> BTreeSet<&str> {
    spec.candidates.iter().map(|candidate| candidate.node.as_str()).collect()
}

/// `node:priority`, with `+` where it is joining.
fn list(world: &World, number: u8) -> Vec<String> {
    let text = |candidate: &Candidate| {
        let joining = if candidate.joining { "+" } else { "" };
        format!("{}:{}{joining}", candidate.node, candidate.priority)
    };
    spec(world, number).candidates.iter().map(text).collect()
}

fn report<'a>(world: &'a mut World, node: &str) -> &'a mut Report {
    world.nodes.get_mut(node).unwrap().report.as_mut().unwrap()
}

/// `node` says that it is Active for the router as it was `behind` generations ago.
fn says_active(world: &mut World, node: &str, number: u8, behind: i64) {
    let name: Arc<str> = format!("web-v4-{number}").into();
    let object = &world.routers[&name];
    let reign = Reign {
        uid: object.uid.clone(),
        generation: object.generation - behind,
        vrid: Some(object.spec.vrid),
    };
    report(world, node).active.insert(name, reign);
}

#[test]
fn a_new_router_has_all_candidates_and_asks_the_first_to_take_over() {
    let mut world = three();
    settle(&mut world, &wanted([1]));
    let priorities: Vec<u8> = spec(&world, 1).candidates.iter().map(|c| c.priority.get()).collect();
    assert_eq!(priorities, [254, 230, 206]);
    assert!(spec(&world, 1).candidates.iter().all(|c| !c.joining));
    let first = spec(&world, 1).candidates[0].node.clone();
    assert_eq!(spec(&world, 1).takeover.as_deref(), Some(&*first));

    // The request stands until it serves what the object states.
    says_active(&mut world, &first, 1, 1);
    settle(&mut world, &wanted([1]));
    assert!(spec(&world, 1).takeover.is_some());
    says_active(&mut world, &first, 1, 0);
    settle(&mut world, &wanted([1]));
    assert_eq!(spec(&world, 1).takeover, None);
}

#[test]
fn no_eligible_node_is_legal() {
    let mut world = world(&[]);
    settle(&mut world, &wanted([1]));
    assert_eq!(spec(&world, 1).candidates, []);
    assert_eq!(spec(&world, 1).takeover, None);
    world.nodes.insert("a".into(), node("1"));
    settle(&mut world, &wanted([1]));
    assert_eq!(list(&world, 1), ["a:254"]);
}

#[test]
fn who_can_not_or_may_not_serve_is_no_candidate() {
    type Change = fn(&mut World);
    let changes: [(&str, Change); 8] = [
        ("drained", |w| w.nodes.get_mut("b").unwrap().drained = true),
        ("out of service", |w| w.nodes.get_mut("b").unwrap().out_of_service = true),
        ("no agent", |w| w.nodes.get_mut("b").unwrap().report = None),
        ("long silent", |w| report(w, "b").at = ago(180)),
        ("no link", |w| report(w, "b").links.clear()),
        ("another subnet", |w| {
            report(w, "b").links =
                BTreeMap::from([("eth0".into(), vec!["10.0.0.1/8".parse().unwrap()])]);
        }),
        ("subnet narrower than the pool", |w| {
            let own = "172.16.0.1/29".parse().unwrap();
            report(w, "b").links = BTreeMap::from([("eth0".into(), vec![own])]);
        }),
        ("not selected", |w| {
            pool(w).announcing.nodes = with_label("edge");
            for name in ["a", "c"] {
                w.nodes.get_mut(name).unwrap().labels.insert("edge".into(), String::new());
            }
        }),
    ];
    for (what, change) in changes {
        let mut world = three();
        change(&mut world);
        settle(&mut world, &wanted([1]));
        let nodes = names(spec(&world, 1));
        assert_eq!(nodes, BTreeSet::from(["a", "c"]), "{what}");
    }
}

#[test]
fn a_named_interface_needs_only_an_address_of_the_family() {
    let mut world = three();
    pool(&mut world).announcing =
        Announcing { interfaces: vec!["bond0".to_owned()], ..Announcing::default() };
    let own = |net: &str| vec![net.parse().unwrap()];
    report(&mut world, "a").links.insert("bond0".into(), own("10.9.9.9/24"));
    report(&mut world, "b").links.insert("bond0".into(), own("2001:db8:9::9/64"));
    settle(&mut world, &wanted([1]));
    assert_eq!(list(&world, 1), ["a:254"]);
}

#[test]
fn preferred_nodes_get_the_first_ranks() {
    let mut world = three();
    pool(&mut world).announcing.preferred = Some(with_label("fast"));
    for name in ["a", "c"] {
        world.nodes.get_mut(name).unwrap().labels.insert("fast".into(), String::new());
    }
    settle(&mut world, &wanted(1..=14));
    for number in 1..=14 {
        assert_eq!(spec(&world, number).candidates[2].node, "b");
    }
}

#[test]
fn a_newcomer_joins_silently_at_the_lowest_free_rank() {
    let mut world = three();
    settle(&mut world, &wanted([1]));
    let before = list(&world, 1);
    let [first, second] = [0, 1].map(|rank| spec(&world, 1).candidates[rank].node.clone());
    says_active(&mut world, &first, 1, 0);
    world.nodes.remove(&*second);
    settle(&mut world, &wanted([1]));
    assert_eq!(list(&world, 1), [before[0].clone(), before[2].clone()]);

    world.nodes.insert("d".into(), node("1"));
    settle(&mut world, &wanted([1]));
    assert_eq!(list(&world, 1), [before[0].clone(), "d:230+".to_owned(), before[2].clone()]);

    // The Active has taken up a statement that lists it.
    says_active(&mut world, &first, 1, 0);
    settle(&mut world, &wanted([1]));
    assert_eq!(list(&world, 1), [before[0].clone(), "d:230".to_owned(), before[2].clone()]);
}

#[test]
fn a_newcomer_speaks_when_no_other_candidate_is_heard() {
    let mut world = world(&[("a", "1")]);
    settle(&mut world, &wanted([1]));
    says_active(&mut world, "a", 1, 0);
    world.nodes.insert("d".into(), node("1"));
    settle(&mut world, &wanted([1]));
    report(&mut world, "a").at = ago(59);
    settle(&mut world, &wanted([1]));
    assert_eq!(list(&world, 1), ["a:254", "d:230+"]);
    assert_eq!(place(&world, wanted([1]), NOW).wake_at, Some(Timestamp(NOW.0 + 1)));
    report(&mut world, "a").at = ago(60);
    settle(&mut world, &wanted([1]));
    assert_eq!(list(&world, 1), ["a:254", "d:230"]);
}

#[test]
fn a_lan_that_fails_as_a_whole_changes_no_list() {
    for fail in [
        (|world, node| report(world, node).at = ago(100_000)) as fn(&mut World, &str),
        |world, node| report(world, node).links.clear(),
    ] {
        let mut world = three();
        settle(&mut world, &wanted(1..=5));
        // Nobody is asked to take over any more.
        for number in 1..=5 {
            let first = spec(&world, number).candidates[0].node.clone();
            says_active(&mut world, &first, number, 0);
        }
        settle(&mut world, &wanted(1..=5));
        let before = world.routers.clone();
        for node in ["a", "b", "c"] {
            fail(&mut world, node);
        }
        settle(&mut world, &wanted(1..=5));
        assert_eq!(world.routers, before);
    }
}

fn number_of(node: &str) -> usize {
    node.strip_prefix('n').unwrap().parse().unwrap()
}

/// Nodes `n00`, `n01` … spread over zones.
fn many(nodes: usize, zones: usize) -> World {
    let names: Vec<(String, String)> =
        (0..nodes).map(|n| (format!("n{n:02}"), format!("{}", n % zones))).collect();
    let names: Vec<(&str, &str)> = names.iter().map(|(n, z)| (n.as_str(), z.as_str())).collect();
    world(&names)
}

#[test]
fn of_many_nodes_a_silent_candidate_is_replaced_unless_it_serves() {
    let mut world = many(12, 4);
    settle(&mut world, &wanted([1]));
    let before = spec(&world, 1).candidates.clone();
    assert_eq!(before.len(), 9);
    let [active, silent] = [0, 4].map(|rank| before[rank].node.clone());
    says_active(&mut world, &active, 1, 0);
    settle(&mut world, &wanted([1]));
    for node in [&active, &silent] {
        report(&mut world, node).at = ago(179);
    }
    settle(&mut world, &wanted([1]));
    assert_eq!(spec(&world, 1).candidates, before);

    for node in [&active, &silent] {
        report(&mut world, node).at = ago(180);
    }
    settle(&mut world, &wanted([1]));
    // Those behind it have moved up; whoever is new enters at the tail, silently.
    let after = &spec(&world, 1).candidates;
    let nodes = |all: &[Candidate]| all.iter().map(|c| c.node.clone()).collect::<Vec<_>>();
    let mut expected = nodes(&before);
    expected.remove(4);
    assert_eq!(nodes(&after[..8]), expected);
    assert!(!nodes(&before).contains(&after[8].node));
    for (old, new) in before.iter().zip(after) {
        assert_eq!(old.priority, new.priority);
        assert_eq!(new.joining, new.node == after[8].node);
    }
}

#[test]
fn a_lost_rack_is_replaced_at_once() {
    let mut world = many(18, 1);
    settle(&mut world, &wanted([1]));
    let rack: Vec<String> = spec(&world, 1).candidates.iter().map(|c| c.node.clone()).collect();
    says_active(&mut world, &rack[0], 1, 0);
    settle(&mut world, &wanted([1]));
    let lose = |world: &mut World, nodes: &[String], silent: i64| {
        for node in nodes {
            report(world, node).at = ago(silent);
            world.nodes.get_mut(&**node).unwrap().unknown = true;
        }
    };
    // One that is heard, by its agent or by its kubelet, is one to wait for.
    let before = world.routers.clone();
    lose(&mut world, &rack[1..], 100);
    settle(&mut world, &wanted([1]));
    lose(&mut world, &rack[..1], 59);
    settle(&mut world, &wanted([1]));
    let next = place(&world, wanted([1]), NOW);
    assert_eq!(next.wake_at, Some(Timestamp(NOW.0 + 1)));
    lose(&mut world, &rack, 60);
    world.nodes.get_mut(&*rack[8]).unwrap().unknown = false;
    settle(&mut world, &wanted([1]));
    assert_eq!(world.routers, before);

    lose(&mut world, &rack, 60);
    // Nor do others of that rack come instead, though three minutes are not over.
    for node in ["n16", "n17"] {
        if !rack.contains(&node.to_owned()) {
            lose(&mut world, &[node.to_owned()], 60);
        }
    }
    settle(&mut world, &wanted([1]));
    let heard = world.nodes.iter().filter(|(_, state)| !state.unknown);
    let heard: BTreeSet<&str> = heard.map(|(node, _)| &**node).collect();
    let after = names(spec(&world, 1));
    assert!(after.is_superset(&heard), "{after:?} {heard:?}");
    let newcomers = spec(&world, 1).candidates.iter().filter(|c| heard.contains(&*c.node));
    assert!(newcomers.into_iter().all(|candidate| !candidate.joining));
}

#[test]
fn no_domain_has_more_than_half_where_others_can_fill_the_ranks() {
    for (zones, expected) in [(1, vec![9]), (2, vec![4, 4]), (3, vec![3, 3, 3])] {
        let mut world = many(24, zones);
        settle(&mut world, &wanted(1..=14));
        for number in 1..=14 {
            let mut counts = vec![0; zones];
            for candidate in &spec(&world, number).candidates {
                let node = number_of(&candidate.node);
                counts[node % zones] += 1;
            }
            assert_eq!(counts, expected);
        }
    }
    // Three nodes elsewhere: each of them, and no rank stays empty.
    let mut world = many(20, 1);
    for name in ["x", "y", "z"] {
        world.nodes.insert(name.into(), node("elsewhere"));
    }
    settle(&mut world, &wanted([1]));
    let nodes = names(spec(&world, 1));
    assert!(nodes.len() == 9 && nodes.is_superset(&BTreeSet::from(["x", "y", "z"])));
}

#[test]
fn a_node_of_any_number_of_nodes_is_first_as_often_as_another() {
    for nodes in 1..=16 {
        let mut world = many(nodes, 3);
        // In two steps: the second half is placed around the first.
        for last in [5, 14] {
            settle(&mut world, &wanted(1..=last));
            let mut firsts = vec![0; nodes];
            for number in 1..=last {
                let node = number_of(&spec(&world, number).candidates[0].node);
                firsts[node] += 1;
            }
            let (fewest, most) = (firsts.iter().min().unwrap(), firsts.iter().max().unwrap());
            assert!(most - fewest <= 1, "{firsts:?}");
        }
    }
}

#[test]
fn what_concerns_other_routers_or_nodes_moves_nothing() {
    let mut world = many(12, 3);
    settle(&mut world, &wanted(1..=5));
    let before = world.routers.clone();
    world.nodes.insert("stranger".into(), Node::default());
    let listed =
        |world: &World, node: &str| (1..=5).any(|number| names(spec(world, number)).contains(node));
    let names: Vec<Arc<str>> = world.nodes.keys().cloned().collect();
    for name in names {
        world.nodes.get_mut(&name).unwrap().labels.insert("team".into(), "blue".into());
        if !listed(&world, &name) {
            world.nodes.get_mut(&name).unwrap().drained = true;
        }
    }
    settle(&mut world, &wanted(1..=14));
    for (name, object) in before {
        assert_eq!(world.routers[&name], object);
    }
}

#[test]
fn vrids_are_hashed_unique_and_never_a_strangers() {
    let mut world = three();
    pool(&mut world).vrids = 10..=13;
    let foreign = Vrid::try_from(11).unwrap();
    report(&mut world, "b").foreign.insert((Family::Ipv4, foreign));
    // IPv6 has VRIDs of its own.
    let six: IpAddr = "2001:db8::1".parse().unwrap();
    let claims = BTreeMap::from([(six, held())]);
    let mut all = wanted(1..=4);
    let six = RouterClaims { pool: "web".into(), family: Family::Ipv6, claims: claims.into() };
    all.insert("web-v6-1".into(), six);

    let placement = place(&world, all.clone(), NOW);
    let condition = &placement.conditions[&("web".into(), PLACED)];
    assert!(!condition.met);
    assert!(condition.message.contains("10-13") && condition.message.contains("IPv4"));
    settle(&mut world, &all);
    let vrids: BTreeSet<u8> = (1..=3).map(|number| spec(&world, number).vrid.get()).collect();
    assert_eq!(vrids, BTreeSet::from([10, 12, 13]));
    assert!(!world.routers.contains_key("web-v4-4"));
    assert!(world.routers.contains_key("web-v6-1"));

    // A stranger on a VRID that is in use moves nothing here.
    let own = (Family::Ipv4, spec(&world, 1).vrid);
    report(&mut world, "a").foreign.insert(own);
    settle(&mut world, &all);
    assert_eq!(spec(&world, 1).vrid, own.1);
}

/// A router that `a` serves, whose address was released a minute ago: the object says so already,
/// and `a` has taken up what was `behind` generations before.
fn releasing(behind: i64) -> World {
    let mut world = world(&[("a", "1")]);
    settle(&mut world, &wanted([1]));
    world.nodes.extend(three().nodes);
    settle(&mut world, &wanted([1]));
    says_active(&mut world, "a", 1, 0);
    settle(&mut world, &wanted([1]));
    settle(&mut world, &BTreeMap::from([wanted_claim(1, released(ago(60), false))]));
    says_active(&mut world, "a", 1, behind);
    world
}

fn is_confirmed(world: &mut World) -> bool {
    settle(world, &BTreeMap::from([wanted_claim(1, released(ago(60), false))]));
    spec(world, 1).claims.values().all(|claim| *claim == released(ago(60), true))
}

#[test]
fn a_release_is_confirmed_by_the_active_that_has_taken_it_up() {
    assert!(is_confirmed(&mut releasing(0)));
    assert!(!is_confirmed(&mut releasing(1)));

    // Of two that say that they serve it, both must have.
    let mut two = releasing(1);
    says_active(&mut two, "b", 1, 0);
    assert!(!is_confirmed(&mut two));
    // The older claim is over when it is not renewed.
    report(&mut two, "a").at = ago(90);
    assert!(is_confirmed(&mut two));

    // A namesake's generation says nothing.
    let mut namesake = releasing(1);
    report(&mut namesake, "a").active.get_mut("web-v4-1").unwrap().uid = "another".into();
    assert!(!is_confirmed(&mut namesake));
}

#[test]
fn a_release_is_confirmed_when_nobody_could_serve_the_address_any_more() {
    let mut silent = releasing(1);
    for node in ["a", "b", "c"] {
        report(&mut silent, node).at = ago(599);
    }
    assert!(!is_confirmed(&mut silent));
    for node in ["a", "b", "c"] {
        report(&mut silent, node).at = ago(600);
    }
    assert!(is_confirmed(&mut silent));

    let mut none = world(&[]);
    settle(&mut none, &wanted([1]));
    let release = BTreeMap::from([wanted_claim(1, released(ago(60), false))]);
    let placement = place(&none, release, NOW);
    apply(&mut none, placement);
    assert!(is_confirmed(&mut none));
}

#[test]
fn a_release_that_the_object_does_not_show_yet_is_not_confirmed() {
    let mut world = three();
    settle(&mut world, &wanted([1]));
    says_active(&mut world, "a", 1, 0);
    let release = BTreeMap::from([wanted_claim(1, released(ago(60), false))]);
    let placement = place(&world, release, NOW);
    apply(&mut world, placement);
    assert_eq!(spec(&world, 1).claims.values().next(), Some(&released(ago(60), false)));
    // Nor is a later release of the same address by an earlier one's confirmation.
    let later = BTreeMap::from([wanted_claim(1, released(ago(5), false))]);
    says_active(&mut world, "a", 1, 0);
    let placement = place(&world, later, NOW);
    apply(&mut world, placement);
    assert_eq!(spec(&world, 1).claims.values().next(), Some(&released(ago(5), false)));
}

#[test]
fn a_router_is_emptied_then_deleted_once_nobody_serves_it() {
    let mut world = three();
    settle(&mut world, &wanted([1]));
    says_active(&mut world, "a", 1, 0);
    let (name, mut router) = wanted_claim(1, held());
    router.claims.clear();
    let nothing = BTreeMap::from([(Arc::clone(&name), router)]);
    settle(&mut world, &nothing);
    assert_eq!((spec(&world, 1).claims.len(), spec(&world, 1).takeover.as_ref()), (0, None));

    // Also when the allocator has forgotten it.
    report(&mut world, "a").active.clear();
    let placement = place(&world, BTreeMap::new(), NOW);
    assert!(matches!(placement.routers[&name], RouterChange::Delete { .. }));
    apply(&mut world, placement);
    assert_eq!(world.routers.len(), 0);
    assert_eq!(place(&world, nothing, NOW).routers, BTreeMap::new());
}

#[test]
fn without_its_pool_a_router_keeps_its_candidates_and_claims() {
    let mut world = three();
    settle(&mut world, &wanted([1]));
    let before = world.routers.clone();
    world.pools.clear();
    settle(&mut world, &wanted([1]));
    assert_eq!(place(&world, BTreeMap::new(), NOW).routers, BTreeMap::new());
    assert_eq!(world.routers, before);
    // And a new one of that pool can't be made.
    assert_eq!(place(&world, wanted([2]), NOW).routers, BTreeMap::new());
}
