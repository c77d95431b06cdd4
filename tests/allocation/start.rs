//! What a first start, a restart and a lost store find, and what becomes of it.

use barevip::engine::cluster::world::{Timestamp, Uid};

use crate::support::cluster::notation::world;
use crate::support::cluster::scene::{Scene, scene, settled};

const R: &str = "172.16.0.0/28";
const TINY: &str = "172.16.0.0/30";

/// The scene, with the uids of A and B in this order: lists come in the order of the uids.
fn in_order(services: &str, uids: [&str; 2]) -> Scene {
    let mut world = world(R, services);
    for (old, new) in ["uid-a", "uid-b"].into_iter().zip(uids) {
        let service = world.services.remove(&Uid::from(old)).unwrap();
        world.services.insert(new.into(), service);
    }
    Scene::of(world)
}

#[test]
fn row_01_the_oldest_keeps_a_doubled_address_whatever_the_order_of_the_list() {
    for uids in [["1", "2"], ["2", "1"]] {
        let mut scene = in_order("A:.1/.1 B:.1/.1", uids);
        scene.ends("A:.1/.1 B:.2/.2");
        assert_eq!(scene.told("A"), [""; 0]);
        assert_eq!(scene.told("B"), ["IngressIPReallocated"]);
    }
}

#[test]
fn row_02_of_two_of_one_age_the_lower_uid_keeps_it() {
    for (uids, end) in [(["1", "2"], "A:.1/.1 B:.2/.2"), (["2", "1"], "A:.2/.2 B:.1/.1")] {
        let mut scene = in_order("A:.1/.1 B:.1/.1", uids);
        for service in scene.api.world.services.values_mut() {
            service.created = Timestamp(7);
        }
        scene.ends(end);
    }
}

#[test]
fn row_03_what_is_shown_is_claimed_before_anything_is_given() {
    scene(R, "A:–/– B:.1/.1").ends("A:.2/.2 B:.1/.1");
}

#[test]
fn row_04_a_status_wins_over_anothers_external_ip() {
    scene(R, "A:.1/– B:–/.1").ends("A:.1/.1 B:.2/.2");
}

#[test]
fn row_05_what_came_in_during_the_start_is_decided_with_the_rest() {
    let mut scene = scene(R, "A:.1/.1 B:–/–");
    scene.edit("A").labels.insert("edited".into(), "yes".into());
    scene.create("C:–/–");
    scene.ends("A:.1/.1 B:.2/.2 C:.3/.3");
    assert_eq!(scene.api.events, []);
}

#[test]
fn row_06_a_service_gone_before_its_turn_leaves_nothing() {
    let mut scene = scene(R, "A:–/–");
    scene.leader.look(&scene.api);
    scene.delete("A");
    scene.leader.claim(&mut scene.api);
    scene.leader.publish(&mut scene.api);
    scene.settle();
    assert_eq!((scene.free(), scene.api.claims().len()), (14, 0));
    assert_eq!(scene.api.events, []);
}

#[test]
fn row_12_a_crash_between_status_and_external_ips_is_finished_with_the_same_address() {
    let mut scene = scene(R, "A:–/–");
    scene.leader.look(&scene.api);
    scene.leader.claim(&mut scene.api);
    let changes = scene.leader.allocate(&scene.api).services;
    assert!(scene.leader.write_status(&mut scene.api, &changes[0]));
    assert_eq!(scene.shows(), "A:.1/–");
    scene.restart();
    scene.ends("A:.1/.1");
}

#[test]
fn row_17_a_delete_that_no_controller_saw_frees_the_address() {
    let mut scene = settled(R, "A:.1/.1");
    scene.delete("A");
    scene.restart();
    scene.settle();
    scene.rest();
    assert_eq!(scene.free(), 14);
}

#[test]
fn row_18_a_delete_seen_only_by_a_new_list_frees_the_address() {
    let mut scene = settled(R, "A:.1/.1 B:.2/.2");
    scene.delete("A");
    scene.ends("B:.2/.2");
    scene.rest();
    assert_eq!(scene.free(), 13);
}

#[test]
fn row_23_a_doubled_address_of_a_full_range_leaves_the_younger_one_waiting() {
    let mut scene = scene(TINY, "A:.1/.1 B:.1/.1 C:.2/.2");
    scene.ends("A:.1/.1 B:–/– C:.2/.2");
    assert_eq!(scene.told("B"), ["IngressIPRangeFull"]);
}

#[test]
fn row_31_a_service_of_another_class_is_left_to_the_other_controller() {
    let mut scene = settled(R, "A:.1/.1");
    let service = scene.edit("A");
    service.class = Some("example.com/other".into());
    service.ingress[0].ip = Some("10.9.9.9".into());
    scene.ends("A:10.9.9.9/–");
    assert_eq!(scene.says("A"), "");
    scene.rest();
    assert_eq!(scene.free(), 14);
}

#[test]
fn row_32_an_address_outside_an_edited_range_stays_until_a_move_is_asked_for() {
    let mut scene = settled("10.9.9.0/28", "A:10.9.9.9/[x,10.9.9.9]");
    scene.api.world.pools.clone_from(&world(R, "").pools);
    scene.restart();
    scene.ends("A:10.9.9.9/[x,10.9.9.9]");
    assert_eq!(scene.says("A"), "PoolGone: 10.9.9.9, kept although no pool has it any more.");
    let allocation = scene.leader.allocate(&scene.api);
    let protected: Vec<_> = allocation.protected.iter().map(ToString::to_string).collect();
    assert_eq!(protected, ["10.9.9.9/32", "172.16.0.0/28"]);

    scene.edit("A").requested = vec!["172.16.0.5".into()];
    scene.ends("A:.5/[x,.5]");
    assert_eq!(scene.told("A"), ["IngressIPReallocated"]);
}

#[test]
fn row_33_a_hostname_of_another_controller_is_not_touched() {
    let mut scene = scene(R, "A:host=lb.example.com/–");
    scene.edit("A").class = Some("example.com/other".into());
    scene.ends("A:host=lb.example.com/–");
    assert_eq!(scene.api.writes, [""; 0]);
}

#[test]
fn row_34_what_is_no_address_is_replaced() {
    let mut scene = scene(R, "A:foo/–");
    scene.ends("A:.1/.1");
    assert_eq!(scene.told("A"), ["IngressIPReallocated"]);
}

#[test]
fn entries_of_others_stay_in_the_status() {
    scene(R, "A:[host=lb.example.com,10.9.9.9]/–").ends("A:[.1,host=lb.example.com,10.9.9.9]/.1");
}

#[test]
fn a_new_leader_writes_nothing_where_all_is_right() {
    let mut scene = settled(R, "A:.1/[x,.1] B:.2/.2");
    scene.restart();
    assert_eq!(scene.settle(), 0);
    assert_eq!(scene.api.writes, [""; 0]);
}

#[test]
fn a_lost_store_is_written_anew_from_the_statuses() {
    let mut scene = settled(R, "A:.2/.2 B:.1/.1 C:.9/.9");
    scene.api.world.routers.clear();
    scene.create("D:–/–");
    scene.restart();
    scene.ends("A:.2/.2 B:.1/.1 C:.9/.9 D:.3/.3");
}
