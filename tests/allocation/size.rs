//! Ten thousand Services: all served, and nothing to do once they are. How long a round takes, and
//! how that grows, is measured by `cargo bench --bench decide`.

use barevip::engine::cluster::world::Timestamp;
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

#[test]
fn ten_thousand_services_are_served_and_then_left_alone() {
    let mut scene = many(10_000);
    lan(&mut scene).routers = 64;
    let mut leader = Controller::default();
    leader.look(&scene.api);
    leader.claim(&mut scene.api);
    leader.publish(&mut scene.api);
    leader.look(&scene.api);
    assert_eq!(scene.settle(), 0);
    assert_eq!(scene.free(), 64 * 255 - 10_000);
}

#[test]
fn ten_thousand_services_of_one_key_and_port_are_served_and_then_left_alone() {
    let mut scene = many(10_000);
    lan(&mut scene).routers = 64;
    for service in scene.api.world.services.values_mut() {
        service.share = Some("web".into());
    }
    let mut leader = Controller::default();
    leader.look(&scene.api);
    leader.claim(&mut scene.api);
    leader.publish(&mut scene.api);
    leader.look(&scene.api);
    assert_eq!(scene.settle(), 0);
}

#[test]
fn ten_thousand_services_that_wait_for_a_full_pool_are_left_alone() {
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
    assert_eq!(scene.settle(), 0);
}
