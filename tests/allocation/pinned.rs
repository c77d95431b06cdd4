//! Addresses that a pool pins: announced for no Service, and never given to one.

use std::net::IpAddr;

use barevip::engine::cluster::world::Claim;
use barevip::model::{Pinned, Pool};

use crate::support::cluster::scene::{Scene, scene, settled};

const R: &str = "172.16.0.0/29";

fn lan(scene: &mut Scene) -> &mut Pool {
    scene.api.world.pools.get_mut("lan").unwrap().pool.as_mut().unwrap()
}

fn address(last: u8) -> IpAddr {
    IpAddr::from([172, 16, 0, last])
}

fn pin(scene: &mut Scene, last: u8) {
    lan(scene).pinned.push(Pinned { address: address(last) });
}

fn claim(scene: &Scene, last: u8) -> Option<Claim> {
    scene.api.claims().get(&address(last)).map(|claim| (*claim).clone())
}

fn condition(scene: &Scene) -> (bool, String) {
    let report = &scene.leader.allocate(&scene.api).pools["lan"];
    let (_, said) = report.conditions.iter().find(|(of, _)| *of == "Pinned").unwrap();
    (said.met, said.message.clone())
}

#[test]
fn a_pinned_address_is_claimed_and_given_to_nobody() {
    let mut scene = scene(R, "A:–/–");
    pin(&mut scene, 1);
    scene.ends("A:.2/.2");
    assert_eq!(claim(&scene, 1), Some(Claim::Pinned));
    assert_eq!(condition(&scene), (true, String::new()));
    assert_eq!(scene.free(), 4);
    scene.restart();
    assert_eq!(scene.settle(), 0);
}

#[test]
fn after_a_lost_store_the_pin_comes_before_a_status_that_shows_its_address() {
    let mut scene = scene(R, "A:.1/–");
    pin(&mut scene, 1);
    scene.ends("A:.2/.2");
    assert_eq!(claim(&scene, 1), Some(Claim::Pinned));
}

#[test]
fn an_address_that_is_pinned_no_more_rests_before_a_service_gets_it() {
    let mut scene = settled(R, "");
    pin(&mut scene, 1);
    scene.settle();
    lan(&mut scene).pinned.clear();
    scene.create("A:–/–");
    scene.ends("A:.2/.2");
    let Some(Claim::Released(release)) = claim(&scene, 1) else { panic!("it rests") };
    assert_eq!((release.by.to_string().as_str(), release.confirmed), ("IngressPool/lan", false));
    scene.rest();
    assert_eq!(claim(&scene, 1), None);
    scene.create("B:–/–");
    scene.ends("A:.2/.2 B:.1/.1");
}

#[test]
fn a_service_keeps_an_address_that_is_pinned_later_and_the_pool_says_so() {
    let mut scene = settled(R, "A:.1/.1");
    pin(&mut scene, 1);
    scene.ends("A:.1/.1");
    let (met, message) = condition(&scene);
    assert!(!met && message == "default/A has 172.16.0.1 and keeps it until deleted", "{message}");
    scene.delete("A");
    scene.settle();
    assert_eq!(claim(&scene, 1), Some(Claim::Pinned));
    assert!(condition(&scene).0);
}

#[test]
fn a_pin_outside_the_ranges_is_told_and_not_claimed() {
    let mut scene = settled(R, "");
    pin(&mut scene, 99);
    scene.settle();
    assert_eq!(claim(&scene, 99), None);
    let (met, message) = condition(&scene);
    assert!(!met && message == "172.16.0.99 is in none of its ranges, add one", "{message}");
}

#[test]
fn a_pool_that_cannot_be_read_keeps_its_pins_and_one_that_is_gone_releases_them() {
    let mut scene = settled(R, "");
    pin(&mut scene, 1);
    scene.settle();
    let readable = scene.api.world.pools["lan"].clone();
    scene.api.world.pools.get_mut("lan").unwrap().pool = Err("spec.pinned: nonsense".to_owned());
    scene.settle();
    assert_eq!(claim(&scene, 1), Some(Claim::Pinned));
    scene.api.world.pools.insert("lan".into(), readable);
    scene.settle();
    assert_eq!(claim(&scene, 1), Some(Claim::Pinned));
    scene.api.world.pools.clear();
    scene.settle();
    assert!(matches!(claim(&scene, 1), Some(Claim::Released(_))));
}
