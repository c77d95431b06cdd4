//! Several pools: which one gives, which one does not, and what becomes of those that change.

use barevip::engine::cluster::world::{PoolObject, Timestamp};
use barevip::model::{Family, Pinned, Pool, Rule};

use crate::support::cluster::notation::pool;
use crate::support::cluster::scene::{Scene, scene, settled};

const R: &str = "172.16.0.0/28";

/// Adds a pool that is younger than those before.
fn add(scene: &mut Scene, name: &str, ranges: &str, edit: impl FnOnce(&mut Pool)) {
    let mut pool = pool(ranges);
    edit(&mut pool);
    let created = Timestamp(10 + i64::try_from(scene.api.world.pools.len()).unwrap());
    let object = PoolObject { uid: name.into(), generation: 1, created, pool: Ok(pool) };
    scene.api.world.pools.insert(name.into(), object);
}

fn lan(scene: &mut Scene) -> &mut Pool {
    scene.api.world.pools.get_mut("lan").unwrap().pool.as_mut().unwrap()
}

fn condition(scene: &Scene, pool: &str, kind: &str) -> (bool, String) {
    let report = &scene.leader.allocate(&scene.api).pools[pool];
    let (_, said) = report.conditions.iter().find(|(of, _)| *of == kind).unwrap();
    (said.met, said.message.clone())
}

#[test]
fn pools_are_asked_by_priority_then_by_name() {
    let mut scene = scene(R, "A:–/–");
    add(&mut scene, "b", "172.16.1.1", |pool| pool.priority = 5);
    add(&mut scene, "a", "172.16.1.2", |pool| pool.priority = 5);
    for name in ["B", "C", "D"] {
        scene.create(&format!("{name}:–/–"));
    }
    scene.api.world.settings.mirror = false;
    scene.settle();
    let says = ["A", "B", "C", "D"].map(|name| scene.says(name));
    assert_eq!(
        says,
        [
            "Allocated: 172.16.1.2 from pool a.",
            "Allocated: 172.16.1.1 from pool b.",
            "Allocated: 172.16.0.1 from pool lan.",
            "Allocated: 172.16.0.2 from pool lan.",
        ]
    );
}

#[test]
fn selectors_and_the_annotation_choose_the_pool() {
    let mut scene = scene(R, "A:–/– B:–/– C:–/– D:–/–");
    lan(&mut scene).services.rules.push(Rule::Exists("public".into()));
    add(&mut scene, "named", "172.16.1.0/24", |pool| pool.auto_assign = false);
    add(&mut scene, "team", "172.16.2.0/24", |pool| {
        pool.auto_assign = false;
        pool.namespaces.rules.push(Rule::Exists("team".into()));
    });
    scene.edit("A").labels.insert("public".into(), "yes".into());
    scene.edit("B").pool = Some("named".into());
    scene.edit("C").pool = Some("team".into());
    scene.settle();
    let start = |name: &str| scene.says(name).chars().take(45).collect::<String>();
    assert_eq!(start("A"), "Allocated: 172.16.0.1 from pool lan.");
    assert_eq!(start("B"), "Allocated: 172.16.1.1 from pool named.");
    assert_eq!(start("C"), "PoolRefused: No IPv4 address: the selectors o");
    assert_eq!(start("D"), "PoolRefused: No IPv4 address: no pool's selec");
    scene.api.world.namespaces.get_mut("default").unwrap().insert("team".into(), "x".into());
    scene.settle();
    assert_eq!(scene.says("C"), "Allocated: 172.16.2.1 from pool team.");
    scene.create("E:–/–").pool = Some("nowhere".into());
    scene.settle();
    assert!(scene.says("E").starts_with("NoPool: No IPv4 address: there is no pool nowhere"));
}

#[test]
fn asking_for_an_address_is_naming_its_pool() {
    let mut scene = scene(R, "A:–/–");
    add(&mut scene, "named", "172.16.1.0/24", |pool| pool.auto_assign = false);
    scene.edit("A").requested = vec!["172.16.1.9".into()];
    scene.settle();
    assert_eq!(scene.says("A"), "Allocated: 172.16.1.9 from pool named.");
}

#[test]
fn the_younger_of_two_overlapping_pools_gives_nothing() {
    let mut scene = settled(R, "A:.1/.1");
    add(&mut scene, "a", "172.16.0.8-172.16.0.20", |pool| pool.priority = 9);
    scene.create("B:–/–");
    scene.ends("A:.1/.1 B:.2/.2");
    assert!(condition(&scene, "lan", "Ready").0);
    assert!(!condition(&scene, "a", "Ready").0);
    assert_eq!(
        condition(&scene, "a", "Overlaps"),
        (true, format!("172.16.0.8-172.16.0.20 overlaps {R} of pool lan; take one of them out."))
    );
}

#[test]
fn a_pool_that_becomes_wrong_gives_nothing_new_and_takes_nothing() {
    for make_wrong in [
        (|scene| {
            let lan = scene.api.world.pools.get_mut("lan").unwrap();
            lan.pool = Err("spec.addresses[0]: \"web\" is no range".into());
        }) as fn(&mut Scene),
        |scene| scene.api.world.taken.push((R.parse().unwrap(), "pods of node a".into())),
        |scene| lan(scene).addresses.clear(),
        |scene| scene.api.world.pools.clear(),
    ] {
        let mut scene = settled(R, "A:.1/.1");
        make_wrong(&mut scene);
        scene.create("B:–/–");
        scene.ends("A:.1/.1 B:–/–");
        assert_eq!(scene.api.held_by(&scene.api.uid("A")).len(), 1);
        assert!(scene.says("B").starts_with("NoPool: "), "{}", scene.says("B"));
        assert_eq!(scene.told("B"), [""; 0], "no range is full");
    }
}

#[test]
fn an_edited_range_touches_nobody() {
    let mut scene = settled(R, "A:.1/.1 B:.2/.2 C:.3/.3");
    lan(&mut scene).addresses = vec!["172.16.0.3-172.16.0.9".parse().unwrap()];
    scene.create("D:–/–");
    scene.ends("A:.1/.1 B:.2/.2 C:.3/.3 D:.4/.4");
    assert!(scene.says("A").starts_with("PoolGone: 172.16.0.1, kept"));
    // Back again: as it was, and in its old home.
    lan(&mut scene).addresses = vec![R.parse().unwrap()];
    scene.ends("A:.1/.1 B:.2/.2 C:.3/.3 D:.4/.4");
    assert_eq!(scene.says("A"), "Allocated: 172.16.0.1 from pool lan.");
}

#[test]
fn an_address_keeps_its_home_when_its_range_goes_to_another_pool() {
    let mut scene = settled(R, "A:.1/.1");
    scene.api.world.pools.clear();
    add(&mut scene, "other", R, |pool| pool.routers = 3);
    scene.create("B:–/–");
    scene.ends("A:.1/.1 B:.2/.2");
    let homes = scene.api.world.routers.iter();
    let homes: Vec<_> = homes
        .filter(|(_, router)| !router.spec.claims.is_empty())
        .map(|(name, router)| (&**name, &*router.spec.pool))
        .collect();
    assert_eq!(homes, [("lan-v4-1", "lan"), ("other-v4-1", "other")]);
    assert_eq!(scene.says("A"), "Allocated: 172.16.0.1 from pool other.");
}

#[test]
fn avoided_pinned_and_edge_addresses_are_never_given() {
    let mut scene = scene("172.16.0.0/29", "A:–/– B:–/– C:–/– D:–/– E:–/–");
    lan(&mut scene).avoid = vec!["172.16.0.1-172.16.0.2".parse().unwrap()];
    lan(&mut scene).pinned = vec![Pinned { address: "172.16.0.4".parse().unwrap() }];
    scene.ends("A:.3/.3 B:.5/.5 C:.6/.6 D:–/– E:–/–");
    let report = &scene.leader.allocate(&scene.api).pools["lan"];
    assert_eq!((report.total, report.free), (3, 0));
}

#[test]
fn several_ranges_are_filled_in_the_order_stated() {
    scene("172.16.0.9-172.16.0.10,172.16.0.4", "A:–/– B:–/– C:–/– D:–/–")
        .ends("A:.9/.9 B:.10/.10 C:.4/.4 D:–/–");
}

#[test]
fn both_families_and_what_each_policy_means() {
    let both = vec![Family::Ipv4, Family::Ipv6];
    let mut scene = scene("172.16.0.1,2001:db8::1-2001:db8::2", "A:–/– B:–/– C:–/–");
    scene.api.world.settings.mirror = false;
    for name in ["A", "B", "C"] {
        scene.edit(name).families = both.clone();
    }
    scene.edit("B").requires_both = true;
    scene.ends("A:[.1,2001:db8::1]/– B:–/– C:2001:db8::2/–");
    assert!(scene.says("B").starts_with("RangeFull: No IPv4 address: pool lan has none left"));
    assert!(scene.says("C").starts_with("Allocated: 2001:db8::2 from pool lan. No IPv4 address: "));
    lan(&mut scene).addresses.push("172.16.0.8-172.16.0.9".parse().unwrap());
    scene.ends("A:[.1,2001:db8::1]/– B:–/– C:[.8,2001:db8::2]/–");
    // One family less: its address goes.
    scene.edit("A").families = vec![Family::Ipv6];
    scene.ends("A:2001:db8::1/– B:–/– C:[.8,2001:db8::2]/–");
    // Both are there now, after a rest.
    lan(&mut scene).addresses.push("2001:db8::9".parse().unwrap());
    scene.ends("A:2001:db8::1/– B:[.9,2001:db8::9]/– C:[.8,2001:db8::2]/–");
}

#[test]
fn a_full_router_gives_no_more_and_a_huge_range_is_not_walked() {
    let mut scene = scene("2001:db8::/64", "");
    scene.api.world.settings.mirror = false;
    lan(&mut scene).routers = 2;
    for at in 0..178 {
        scene.create(&format!("A{at:03}:–/–")).families = vec![Family::Ipv6];
    }
    scene.settle();
    let sizes: Vec<_> =
        scene.api.world.routers.values().map(|router| router.spec.claims.len()).collect();
    assert_eq!(sizes, [88, 88]);
    assert!(scene.says("A177").starts_with("RangeFull: "));
    let report = &scene.leader.allocate(&scene.api).pools["lan"];
    assert_eq!((report.total, report.free, report.waiting), (176, 0, 2));
}
