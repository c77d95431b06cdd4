//! Certain addresses that Services ask for.

use barevip::model::{Family, Requests};

use crate::support::cluster::notation::pool;
use crate::support::cluster::scene::{Scene, scene, settled};

const R: &str = "172.16.0.0/28";

fn ask(scene: &mut Scene, name: &str, addresses: &str) {
    scene.edit(name).requested = vec![addresses.to_owned()];
}

#[test]
fn row_38_of_two_requests_the_older_one_is_fulfilled() {
    let mut scene = scene(R, "A:–/– B:–/–");
    ask(&mut scene, "A", "172.16.0.4");
    ask(&mut scene, "B", "172.16.0.4");
    scene.ends("A:.4/.4 B:.1/.1");
    assert_eq!(scene.told("B"), ["IngressIPRequestRefused"]);
    assert!(scene.says("B").contains("172.16.0.4 was asked for and not given: default/A has it"));
}

#[test]
fn row_39_an_edited_request_moves_the_service_if_the_address_is_free() {
    let mut scene = settled(R, "A:.1/.1 B:.2/.2");
    ask(&mut scene, "A", "172.16.0.7");
    scene.ends("A:.7/.7 B:.2/.2");
    assert_eq!(scene.told("A"), ["IngressIPReallocated"]);
    ask(&mut scene, "A", "172.16.0.2");
    scene.ends("A:.7/.7 B:.2/.2");
    assert_eq!(scene.told("A"), ["IngressIPReallocated", "IngressIPRequestRefused"]);
}

#[test]
fn row_39_it_never_has_both_and_its_clients_are_sent_to_no_other() {
    let mut scene = settled(R, "A:.1/.1");
    ask(&mut scene, "A", "172.16.0.7");
    scene.leader.look(&scene.api);
    scene.leader.claim(&mut scene.api);
    let uid = scene.api.uid("A");
    assert_eq!(scene.api.held_by(&uid).len(), 2, "the new one is claimed before the old one goes");
    assert_eq!(scene.shows(), "A:.1/.1");
    scene.leader.publish(&mut scene.api);
    assert_eq!(scene.shows(), "A:.7/.7");
    scene.ends("A:.7/.7");
    assert_eq!(scene.api.held_by(&uid).len(), 1);
}

#[test]
fn a_refusal_stands_until_the_request_is_made_anew() {
    let mut scene = settled(R, "A:.4/.4 B:.5/.5");
    ask(&mut scene, "B", "172.16.0.4");
    scene.ends("A:.4/.4 B:.5/.5");
    scene.delete("A");
    scene.settle();
    scene.rest();
    assert_eq!(scene.shows(), "B:.5/.5", "nobody moves because somebody else went");
    assert!(scene.says("B").contains("remove the request and make it again"));
    ask(&mut scene, "B", "");
    scene.settle();
    ask(&mut scene, "B", "172.16.0.4");
    scene.ends("B:.4/.4");
}

#[test]
fn row_40_what_no_pool_has_is_refused() {
    let mut scene = scene(R, "A:–/–");
    ask(&mut scene, "A", "8.8.8.8");
    scene.ends("A:.1/.1");
    assert_eq!(scene.told("A"), ["IngressIPRequestRefused"]);
    assert!(scene.says("A").contains("8.8.8.8 was asked for and not given: no pool has it"));
}

#[test]
fn every_refusal_names_its_rule() {
    for (asked, rule) in [
        ("web", "that is no address"),
        ("2001:db8::1", "does not list IPv6"),
        ("192.0.2.1", "no pool has it"),
        ("172.16.0.0", "never gives it"),
        ("172.16.0.15", "never gives it"),
        ("172.16.0.10", "never gives it"),
        ("172.16.0.3", "default/P uses it"),
        ("172.16.0.2", "default/A has it"),
        ("172.16.1.1", "pool chooser chooses addresses itself (requests: Nobody)"),
        ("172.16.2.1", "pool faulty gives nothing"),
        ("172.16.3.1", "the selectors of pool others do not match"),
        ("172.16.0.9", "it rests since default/Q had it, until "),
    ] {
        let mut scene = scene(R, "A:.2/.2 P:–/.3 Q:.9/.9");
        scene.settle();
        scene.delete("Q");
        scene.settle();
        scene.elapse(1);
        let lan = scene.api.world.pools.get_mut("lan").unwrap();
        let first = lan.pool.as_mut().unwrap();
        first.avoid.push("172.16.0.10".parse().unwrap());
        first.priority = 1;
        let lan = lan.clone();
        let mut add = |name: &str, ranges: &str, edit: fn(&mut barevip::model::Pool)| {
            let mut other = pool(ranges);
            edit(&mut other);
            let mut object = lan.clone();
            object.pool = Ok(other);
            scene.api.world.pools.insert(name.into(), object);
        };
        add("chooser", "172.16.1.0/24", |pool| pool.requests = Requests::Nobody);
        add("faulty", "172.16.2.0/24", |_| {});
        add("others", "172.16.3.0/24", |pool| {
            pool.services.rules.push(barevip::model::Rule::Exists("theirs".into()));
        });
        scene.api.world.taken.push(("172.16.2.9".parse().unwrap(), "node n1".into()));
        scene.create("Z:–/–").requested = vec![asked.into()];
        scene.settle();
        let said = scene.says("Z");
        assert!(said.starts_with("Allocated: 172.16.0.1 "), "{asked}: {said}");
        assert!(said.contains(rule), "{asked}: {said}");
        assert_eq!(scene.told("Z"), ["IngressIPRequestRefused"], "{asked}");
    }
}

#[test]
fn a_list_gives_the_first_that_is_free_and_both_families() {
    let mut scene = scene("172.16.0.0/28,2001:db8::/120", "A:.4/.4 B:–/–");
    let service = scene.edit("B");
    service.families = vec![Family::Ipv4, Family::Ipv6];
    service.requested = vec!["172.16.0.4, 172.16.0.6".into(), "2001:db8::9".into()];
    scene.ends("A:.4/.4 B:[.6,2001:db8::9]/[.6,2001:db8::9]");
    assert_eq!(scene.api.events, []);
}

#[test]
fn a_request_wins_over_what_an_admin_writes() {
    let mut scene = scene(R, "A:–/–");
    ask(&mut scene, "A", "172.16.0.4");
    scene.settle();
    scene.edit("A").ingress[0].ip = Some("172.16.0.5".into());
    scene.ends("A:.4/.4");
    assert_eq!(scene.told("A"), ["IngressIPReallocated"]);
}
