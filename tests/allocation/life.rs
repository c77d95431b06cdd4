//! Normal life: Services come, change and go; admins and users edit what they may.

use barevip::engine::cluster::world::Uid;

use crate::support::cluster::notation::service;
use crate::support::cluster::scene::{Scene, scene, settled};

const R: &str = "172.16.0.0/28";
const TINY: &str = "172.16.0.0/30";

/// The type changes to ClusterIP, and the API server clears the status as it does.
fn to_cluster_ip(scene: &mut Scene, name: &str) {
    let service = scene.edit(name);
    service.load_balancer = false;
    service.ingress.clear();
}

#[test]
fn row_14_a_change_of_type_frees_the_address_and_the_external_ip() {
    let mut scene = settled(R, "A:.1/.1");
    to_cluster_ip(&mut scene, "A");
    scene.ends("A:–/–");
    assert_eq!(scene.says("A"), "", "our condition went with it");
    scene.rest();
    assert_eq!(scene.free(), 14);
    scene.create("B:–/–");
    scene.ends("A:–/– B:.1/.1");
}

#[test]
fn row_14_also_while_no_controller_ran_and_where_a_write_fails() {
    use crate::support::cluster::api::{Answer, Write};
    let mut scene = settled(R, "A:.1/[x,.1]");
    to_cluster_ip(&mut scene, "A");
    scene.restart();
    scene.api.fail(Write::External("A"), Answer::Code(409), 2);
    scene.ends("A:–/x");
}

#[test]
fn row_15_there_and_back_again_changes_nothing() {
    let mut scene = settled(R, "A:.1/.1");
    to_cluster_ip(&mut scene, "A");
    scene.edit("A").load_balancer = true;
    scene.ends("A:.1/.1");
    assert_eq!(scene.free(), 13);
}

#[test]
fn row_16_a_namesake_gets_the_address_of_the_one_before() {
    let mut scene = settled(R, "A:.1/.1 B:.2/.2 C:.3/.3");
    scene.delete("B");
    let (_, again) = service("B");
    scene.api.world.services.insert(Uid::from("uid-b-again"), again);
    scene.ends("A:.1/.1 B:.2/.2 C:.3/.3");
    assert_eq!(scene.free(), 11);
}

#[test]
fn a_namesake_that_comes_later_gets_it_back_before_anything_lower() {
    let mut scene = settled(R, "A:.1/.1 B:.2/.2");
    scene.delete("B");
    scene.delete("A");
    scene.settle();
    scene.elapse(1);
    scene.create("B:–/–");
    scene.ends("B:.2/.2");
}

#[test]
fn a_service_that_is_being_deleted_keeps_what_it_has_and_gets_nothing() {
    let mut scene = settled(R, "A:.1/.1");
    scene.edit("A").deleting = true;
    scene.create("B:–/–");
    scene.create("C:–/–").deleting = true;
    scene.ends("A:.1/.1 B:.2/.2 C:–/–");
    assert_eq!(scene.api.held_by(&scene.api.uid("A")).len(), 1);
}

#[test]
fn row_28_a_free_address_that_an_admin_writes_is_accepted() {
    let mut scene = settled(R, "A:.1/.1");
    scene.edit("A").ingress[0].ip = Some("172.16.0.5".into());
    scene.ends("A:.5/.5");
    scene.rest();
    assert_eq!(scene.free(), 13);
}

#[test]
fn row_29_an_address_of_another_that_an_admin_writes_is_not() {
    let mut scene = settled(R, "A:.1/.1 B:.5/.5");
    scene.edit("A").ingress[0].ip = Some("172.16.0.5".into());
    scene.ends("A:.1/.1 B:.5/.5");
    assert_eq!(scene.told("A"), ["IngressIPReallocated"]);
    assert_eq!(scene.told("B"), [""; 0]);
    let note = &scene.api.events[0].2;
    assert!(note.contains("default/B has it"), "{note}");
}

#[test]
fn row_30_a_status_that_an_admin_blanks_is_written_again() {
    let mut scene = settled(R, "A:.1/.1");
    scene.edit("A").ingress.clear();
    scene.ends("A:.1/.1");
    assert_eq!(scene.free(), 13);
}

#[test]
fn row_35_a_change_of_type_leaves_others_external_ips_in_their_order() {
    let mut scene = settled(R, "A:.1/.1");
    to_cluster_ip(&mut scene, "A");
    let doubled = ["10.0.0.24", "172.16.0.1", "10.0.0.25", "172.16.0.1"];
    scene.edit("A").external_ips = doubled.map(str::to_owned).to_vec();
    scene.ends("A:–/[x,y]");
}

#[test]
fn row_36_an_external_ip_of_somebody_else_is_never_given() {
    let mut scene = scene(R, "P:–/.3");
    for name in ('A'..='N').map(String::from) {
        scene.create(&format!("{name}:–/–"));
    }
    scene.settle();
    let shown = scene.shows();
    assert_eq!(shown.matches("/.").count(), 14, "13 and P's own: {shown}");
    assert_eq!(shown.matches(".3/").count(), 0, "{shown}");
    assert_eq!(scene.free(), 0);
    assert!(shown.contains("P:–/.3"), "{shown}");
}

#[test]
fn row_37_an_external_ip_that_somebody_adds_later_is_reported() {
    let mut scene = settled(R, "A:.3/.3");
    scene.create("P:–/.3");
    scene.ends("A:.3/.3 P:–/.3");
    let report = &scene.leader.allocate(&scene.api).pools["lan"];
    let (_, reserved) = report.conditions.iter().find(|(kind, _)| *kind == "Reserved").unwrap();
    assert!(reserved.met);
    assert!(reserved.message.contains("172.16.0.3 by default/P"), "{}", reserved.message);
}

#[test]
fn row_41_an_external_ip_that_a_user_removes_is_put_back() {
    let mut scene = settled(R, "A:.1/.1");
    scene.edit("A").external_ips.clear();
    scene.ends("A:.1/.1");
    assert_eq!(scene.api.writes.len(), 1, "no write of the status: {:?}", scene.api.writes);
}

#[test]
fn row_42_what_a_user_puts_into_external_ips_stays_beside_ours() {
    let mut scene = settled(R, "A:.1/[x,.1]");
    scene.edit("A").external_ips = vec!["10.0.0.26".into()];
    scene.ends("A:.1/[z,.1]");
}

#[test]
fn without_the_mirror_external_ips_are_never_touched() {
    let mut scene = scene(R, "A:–/x B:–/.9");
    scene.api.world.settings.mirror = false;
    scene.ends("A:.1/x B:.2/.9");
    to_cluster_ip(&mut scene, "B");
    scene.ends("A:.1/x B:–/.9");
}

#[test]
fn row_43_a_released_address_rests() {
    let mut scene = settled(R, "A:.1/.1");
    scene.delete("A");
    scene.settle();
    scene.elapse(10);
    assert_eq!(scene.leader.allocate(&scene.api).wake_at.map(|at| at.0), Some(1_000_300));
    scene.create("B:–/–");
    scene.ends("B:.2/.2");
    scene.rest();
    scene.create("C:–/–");
    scene.ends("B:.2/.2 C:.1/.1");
}

#[test]
fn row_43_unless_nothing_else_is_left_then_the_longest_at_rest_goes_first() {
    let mut scene = settled(TINY, "A:.1/.1 B:.2/.2");
    scene.delete("B");
    scene.settle();
    scene.elapse(10);
    scene.delete("A");
    scene.settle();
    scene.create("C:–/–");
    scene.create("D:–/–");
    scene.ends("C:.2/.2 D:–/–");
    scene.elapse(1);
    scene.ends("C:.2/.2 D:.1/.1");
}

#[test]
fn a_claim_that_nobody_heard_of_needs_no_rest() {
    let mut scene = scene(R, "A:–/–");
    scene.leader.look(&scene.api);
    scene.leader.claim(&mut scene.api);
    scene.delete("A");
    scene.create("B:–/–");
    scene.ends("B:.1/.1");
}
