//! Another machine announces an address that an Active router holds (network.md 2, AR-6).

use std::net::IpAddr;

use barevip::engine::node::event::{EventKind, Problem};
use barevip::engine::vrrp::frames::MacAddress;
use barevip::engine::vrrp::role::Role;

use crate::support::lan::host::Input;
use crate::support::lan::plans::Setup;
use crate::support::lan::scene::Scene;
use crate::support::lan::time::{MS, Nanos, SECOND};

const INTERVAL: u64 = 200;

/// keepalived and FRR advertise from here.
const STRANGER: [u8; 4] = [10, 0, 0, 250];

fn claim(scene: &mut Scene, address: IpAddr) {
    scene.lan.tell(0, Input::Neighbour(address, MacAddress([2, 0, 0, 0, 0, 0xfa])));
    scene.run_for(0);
}

/// FRR announces IPv6 addresses an interval before its first advert gets out. Whoever answered
/// the announcement would keep the clients, and then yield.
#[test]
fn a_claim_is_not_answered_before_its_maker_could_advertise() {
    let mut scene = Scene::at_rest(Setup::default());
    let (now, vip) = (scene.now(), scene.vip(0, 0));
    claim(&mut scene, vip);
    scene.run(INTERVAL);
    scene.inject(0, STRANGER, 255, vip);
    assert_eq!(scene.role(0, 0), Role::Backup);
    scene.run(INTERVAL);
    assert_eq!(scene.announcements(now, 0, vip), [] as [Nanos; 0], "{}", scene.trace());
}

/// keepalived advertises, is told at once that it is the lower one, and announces all the same:
/// clients believe it until the answer to that.
#[test]
fn a_claim_after_a_losing_advert_is_answered_in_two_intervals() {
    let mut scene = Scene::at_rest(Setup::default());
    let (now, vip) = (scene.now(), scene.vip(0, 0));
    scene.inject(0, STRANGER, 100, vip);
    scene.run(1);
    claim(&mut scene, vip);
    scene.run(2 * INTERVAL);
    let told = scene.announcements(now, 0, vip);
    assert_eq!(told, [now, now + MS + 2 * INTERVAL * MS], "{}", scene.trace());
}

#[test]
fn claims_without_end_are_answered_once_a_second() {
    let mut scene = Scene::at_rest(Setup::default());
    let (now, vip) = (scene.now(), scene.vip(0, 0));
    for _ in 0..1_000 {
        claim(&mut scene, vip);
        scene.run(10);
    }
    let told = scene.announcements(now, 0, vip);
    assert!(told.windows(2).all(|pair| pair[1] - pair[0] >= SECOND), "{told:?}");
    assert!(told.len() >= 7, "{told:?}");
    assert_eq!(scene.role(0, 0), Role::Active);
    let claim = |kind: &EventKind| matches!(kind, EventKind::Began(Problem::ForeignClaim { .. }));
    assert_eq!(scene.notes(now, 0, claim), 1, "it is told once");
}
