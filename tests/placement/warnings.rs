//! What a pool's condition says of its networks and of its size.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use barevip::engine::cluster::decision::RouterClaims;
use barevip::engine::cluster::placement::place;
use barevip::engine::cluster::warnings::{OVERFLOW, SEVERAL_NETWORKS};
use barevip::engine::cluster::world::{Claims, World};
use barevip::model::Family;

use crate::{NOW, held, list, pool, report, settle, three, wanted, world};

fn says(world: &World) -> Option<String> {
    let conditions = place(world, wanted([1]), NOW).conditions;
    conditions.get(&("web".into(), SEVERAL_NETWORKS)).map(|condition| condition.message.clone())
}

#[test]
fn ranges_on_several_networks_are_told() {
    let mut world = three();
    pool(&mut world).addresses.push("10.0.0.0/28".parse().unwrap());
    let text = says(&world).unwrap();
    assert!(text.contains("172.16.0.0/28 is on eth0, 10.0.0.0/28 on none of its links"), "{text}");
    for node in ["a", "b", "c"] {
        let own = vec!["10.0.0.200/24".parse().unwrap()];
        report(&mut world, node).links.insert("eth1".into(), own);
    }
    let text = says(&world).unwrap();
    assert!(
        text.contains("10.0.0.0/28 on eth1") && text.contains("spec.announce.interfaces"),
        "{text}"
    );
    // Nobody can serve it.
    settle(&mut world, &wanted([1]));
    assert_eq!(list(&world, 1), Vec::<String>::new());
}

#[test]
fn one_link_with_an_address_in_each_of_the_networks_carries_all() {
    let mut world = three();
    pool(&mut world).addresses.push("10.0.0.0/28".parse().unwrap());
    let own = ["172.16.0.201/24", "10.0.0.200/24"].map(|net| net.parse().unwrap()).to_vec();
    report(&mut world, "b").links.insert("eth0".into(), own);
    assert_eq!(says(&world), None);
    settle(&mut world, &wanted([1]));
    assert_eq!(list(&world, 1), ["b:254"]);
}

#[test]
fn nothing_is_told_of_one_network_nor_where_nobody_has_a_link() {
    assert_eq!(says(&three()), None);
    assert_eq!(says(&world(&[])), None);
    let mut none = three();
    for node in ["a", "b", "c"] {
        report(&mut none, node).links.clear();
    }
    assert_eq!(says(&none), None);
}

/// Routers with so many IPv6 addresses together.
fn six(addresses: u16) -> BTreeMap<std::sync::Arc<str>, RouterClaims> {
    let mut routers = BTreeMap::new();
    for (number, address) in (0..addresses).enumerate() {
        let name = format!("web-v6-{}", number / 88);
        let router = routers.entry(name.into()).or_insert_with(|| RouterClaims {
            pool: "web".into(),
            family: Family::Ipv6,
            claims: Claims::default(),
        });
        let address = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 1, address);
        router.claims.insert(IpAddr::V6(address), held());
    }
    routers
}

#[test]
fn a_node_with_more_addresses_than_its_kernel_likes_is_told() {
    for (nodes, addresses, expected) in [
        (&[("a", "1")][..], 500, false),
        (&[("a", "1")][..], 501, true),
        // Two share them.
        (&[("a", "1"), ("b", "1")][..], 880, false),
        (&[("a", "1"), ("b", "1")][..], 1_056, true),
    ] {
        let mut world = world(nodes);
        settle(&mut world, &six(addresses));
        let conditions = place(&world, six(addresses), NOW).conditions;
        let said = conditions.get(&("web".into(), OVERFLOW));
        assert_eq!(said.is_some(), expected, "{addresses}");
        if let Some(said) = said {
            assert!(said.message.contains("IPv6 addresses on eth0"), "{}", said.message);
        }
    }
}
