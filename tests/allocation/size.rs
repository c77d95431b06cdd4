//! Ten thousand Services: all served, and nothing to do once they are. Prints how long a round
//! takes (`cargo test --test allocator ten_thousand -- --nocapture`).

use barevip::engine::cluster::allocator::allocate;
use barevip::engine::cluster::world::Timestamp;
use barevip::io::clock;
use barevip::model::{Family, Pool};

use crate::support::cluster::controller::Controller;
use crate::support::cluster::notation::service;
use crate::support::cluster::scene::{Scene, scene};

/// Services whose uids and ages are as good as random.
fn many(count: i64) -> Scene {
    let mut scene = scene("10.0.0.0/16", "");
    scene.api.world.settings.mirror = false;
    for at in 0..count {
        let (_, mut made) = service(&format!("S{at:05}"));
        made.created = Timestamp(at * 7_919 % count);
        let uid = format!("{:08x}-{at:012}", at * 2_654_435_761 % 4_294_967_296);
        scene.api.world.services.insert(uid.as_str().into(), made);
    }
    scene
}

fn lan(scene: &mut Scene) -> &mut Pool {
    scene.api.world.pools.get_mut("lan").unwrap().pool.as_mut().unwrap()
}

/// Prints the shortest of five rounds.
fn time(what: &str, controller: &Controller) {
    let round = || {
        let before = clock::now();
        let allocation = allocate(&controller.world, Timestamp(1_000_000));
        let took = clock::now().since(before);
        drop(allocation);
        took
    };
    let shortest = (0..5).map(|_| round()).min().unwrap();
    println!("10 000 Services, {what}: {shortest:?}");
}

#[test]
fn ten_thousand_services_are_served_and_then_left_alone() {
    let mut scene = many(10_000);
    lan(&mut scene).routers = 64;
    let mut leader = Controller::default();
    leader.look(&scene.api);
    time("none with an address", &leader);
    leader.claim(&mut scene.api);
    time("all to be published", &leader);
    leader.publish(&mut scene.api);
    leader.look(&scene.api);
    time("nothing to do", &leader);
    assert_eq!(scene.settle(), 0);
    assert_eq!(scene.free(), 64 * 255 - 10_000);
}

#[test]
fn ten_thousand_services_of_one_key_and_port_take_no_longer() {
    let mut scene = many(10_000);
    lan(&mut scene).routers = 64;
    for service in scene.api.world.services.values_mut() {
        service.share = Some("web".into());
    }
    let mut leader = Controller::default();
    leader.look(&scene.api);
    time("one key and port, none with an address", &leader);
    leader.claim(&mut scene.api);
    leader.publish(&mut scene.api);
    leader.look(&scene.api);
    time("one key and port, nothing to do", &leader);
    assert_eq!(scene.settle(), 0);
}

#[test]
fn ten_thousand_services_that_wait_for_a_full_pool_take_no_longer() {
    let mut scene = many(10_000);
    lan(&mut scene).addresses = vec!["2001:db8::/64".parse().unwrap()];
    for service in scene.api.world.services.values_mut() {
        service.families = vec![Family::Ipv6];
    }
    let mut leader = Controller::default();
    leader.look(&scene.api);
    leader.claim(&mut scene.api);
    leader.publish(&mut scene.api);
    leader.look(&scene.api);
    time("9 296 of them waiting", &leader);
    assert_eq!(scene.settle(), 0);
}
