//! Services that share an address by key.

use barevip::engine::cluster::world::{Port, Protocol, Service};
use barevip::model::Sharing;

use crate::support::cluster::scene::{Scene, scene};

const R: &str = "172.16.0.0/28";

fn listens(service: &mut Service, number: u16) {
    service.ports = [Port { protocol: Protocol::Tcp, number }].into();
}

/// Services of one key; the ports are 80, 81, … in the order of the names.
fn sharers(services: &str) -> Scene {
    let mut scene = scene(R, services);
    for (service, port) in scene.api.world.services.values_mut().zip(80..) {
        service.share = Some("web".into());
        listens(service, port);
    }
    scene
}

#[test]
fn services_of_one_key_get_one_address() {
    let mut scene = sharers("A:–/– B:–/– C:–/–");
    scene.ends("A:.1/.1 B:.1/.1 C:.1/.1");
    assert_eq!(scene.free(), 13);
    assert_eq!(scene.api.events, []);
}

#[test]
fn a_lost_store_is_rebuilt_with_the_sharers() {
    let mut scene = sharers("A:.4/.4 B:.4/.4 C:–/–");
    scene.ends("A:.4/.4 B:.4/.4 C:.4/.4");
}

#[test]
fn the_address_is_free_when_the_last_sharer_goes() {
    let mut scene = sharers("A:–/– B:–/–");
    scene.settle();
    scene.delete("A");
    scene.ends("B:.1/.1");
    scene.create("C:–/–");
    scene.ends("B:.1/.1 C:.2/.2");
    scene.delete("B");
    scene.settle();
    scene.rest();
    assert_eq!(scene.free(), 13);
}

#[test]
fn who_does_not_fit_gets_an_address_of_his_own_and_is_told() {
    type Edit = fn(&mut Service);
    let cases: [(Edit, &str); 3] = [
        (|service| listens(service, 80), "default/A has it and listens on TCP port 80 too"),
        (|service| service.local = true, "externalTrafficPolicy"),
        (
            |service| {
                service.local = true;
                service.selector.insert("app".into(), "other".into());
            },
            "externalTrafficPolicy",
        ),
    ];
    for (edit, why) in cases {
        let mut scene = sharers("A:–/– B:–/–");
        edit(scene.edit("B"));
        scene.ends("A:.1/.1 B:.2/.2");
        assert_eq!(scene.told("B"), ["IngressIPShareRefused"]);
        assert!(scene.says("B").contains(why), "{}", scene.says("B"));
        assert_eq!(scene.told("A"), [""; 0]);
    }
}

#[test]
fn sharers_of_policy_local_need_one_selector() {
    let mut scene = sharers("A:–/– B:–/– C:–/–");
    for (name, app) in [("A", "web"), ("B", "web"), ("C", "mail")] {
        let service = scene.edit(name);
        service.local = true;
        service.selector.insert("app".into(), app.into());
    }
    scene.ends("A:.1/.1 B:.1/.1 C:.2/.2");
}

#[test]
fn namespaces_share_where_the_pool_says_so() {
    for (sharing, end) in
        [(Sharing::SameNamespace, "A:.1/.1 B:.2/.2"), (Sharing::AnyNamespace, "A:.1/.1 B:.1/.1")]
    {
        let mut scene = sharers("A:–/– B:–/–");
        scene.edit("B").key.namespace = "other".into();
        let lan = scene.api.world.pools.get_mut("lan").unwrap();
        lan.pool.as_mut().unwrap().sharing = sharing;
        scene.ends(end);
        assert_eq!(scene.api.events, []);
    }
}

#[test]
fn an_edit_that_breaks_sharing_moves_the_later_holder() {
    for edited in ["A", "B"] {
        let mut scene = sharers("A:–/– B:–/–");
        scene.settle();
        let port = if edited == "A" { 81 } else { 80 };
        listens(scene.edit(edited), port);
        scene.ends("A:.1/.1 B:.2/.2");
        assert_eq!(scene.told("A"), [""; 0]);
        assert!(scene.told("B").contains(&"IngressIPReallocated"), "{:?}", scene.told("B"));
    }
}

#[test]
fn a_request_for_an_address_of_the_same_key_is_fulfilled() {
    let mut scene = sharers("A:.4/.4 B:–/– C:–/–");
    scene.edit("B").share = Some("mail".into());
    scene.edit("B").requested = vec!["172.16.0.4".into()];
    scene.edit("C").requested = vec!["172.16.0.4".into()];
    scene.ends("A:.4/.4 B:.1/.1 C:.4/.4");
    assert!(scene.says("B").contains("default/A has it and does not share it under this key"));
}

#[test]
fn sharers_that_fit_nowhere_fill_addresses_of_their_own_key() {
    let mut scene = sharers("A:–/– B:–/– C:–/– D:–/–");
    for (name, port) in [("A", 80), ("B", 80), ("C", 81), ("D", 81)] {
        listens(scene.edit(name), port);
    }
    scene.ends("A:.1/.1 B:.2/.2 C:.1/.1 D:.2/.2");
}
