//! Writes that fail, conflict or come late, and two controllers that both believe to lead.

use barevip::engine::cluster::world::{Ingress, Timestamp};

use crate::support::cluster::api::{Answer, Write};
use crate::support::cluster::controller::Controller;
use crate::support::cluster::scene::{Scene, scene, settled};

const R: &str = "172.16.0.0/28";
const TINY: &str = "172.16.0.0/30";

#[test]
fn nothing_is_published_before_the_world_shows_its_claim() {
    let mut scene = scene(R, "A:–/–");
    scene.leader.look(&scene.api);
    scene.leader.publish(&mut scene.api);
    assert_eq!(scene.shows(), "A:–/–", "nothing is claimed yet");
    scene.api.fail(Write::Claim, Answer::Code(409), 1);
    scene.leader.claim(&mut scene.api);
    scene.leader.publish(&mut scene.api);
    assert_eq!(scene.shows(), "A:–/–", "the claim was refused");
    scene.ends("A:.1/.1");
}

#[test]
fn what_is_being_claimed_for_a_service_goes_to_no_other() {
    let mut scene = scene(R, "B:–/–");
    scene.leader.look(&scene.api);
    let sent = scene.leader.send_claims(&scene.api);
    // It is heard before B.
    scene.create("A:–/–");
    scene.leader.look(&scene.api);
    let beside = scene.leader.allocate(&scene.api).routers;
    assert_eq!(scene.leader.publish(&mut scene.api), 0, "nothing is claimed yet");
    for (router, first) in &sent {
        let second = &beside[router].claims;
        for (address, claim) in first.claims.iter() {
            assert_eq!(second.get(address), Some(claim));
        }
        scene.api.put_claims(router, None, first).unwrap();
    }
    scene.leader.world.under_way.clear();
    scene.ends("A:.2/.2 B:.1/.1");
}

#[test]
fn what_is_being_released_is_released_once() {
    let mut scene = settled(R, "A:.1/.1 B:.2/.2");
    scene.delete("A");
    scene.leader.look(&scene.api);
    let sent = scene.leader.send_claims(&scene.api);
    scene.api.now = Timestamp(scene.api.now.0 + 5);
    assert_eq!(scene.leader.allocate(&scene.api).routers, sent, "with the same time");
}

#[test]
fn a_claim_that_could_not_be_written_is_decided_anew() {
    let mut scene = scene(R, "B:–/–");
    scene.leader.look(&scene.api);
    scene.leader.send_claims(&scene.api);
    scene.create("A:–/–");
    scene.leader.world.under_way.clear();
    scene.ends("A:.1/.1 B:.2/.2");
}

/// Claims, with the world as it was when the leader looked last.
fn claim_and_publish(scene: &mut Scene) {
    scene.leader.claim(&mut scene.api);
    scene.leader.publish(&mut scene.api);
}

#[test]
fn row_07_a_conflict_with_a_users_edit_leaks_nothing() {
    let mut scene = scene(R, "A:–/–");
    scene.leader.look(&scene.api);
    scene.edit("A").labels.insert("edited".into(), "yes".into());
    claim_and_publish(&mut scene);
    assert_eq!(scene.shows(), "A:–/–", "refused: the version has passed");
    scene.ends("A:.1/.1");
    assert_eq!(scene.free(), 13);
}

#[test]
fn row_08_a_status_write_to_a_service_that_is_gone_leaks_nothing() {
    let mut scene = scene(R, "A:–/–");
    scene.api.fail(Write::Status("A"), Answer::Code(404), 1);
    scene.leader.round(&mut scene.api);
    scene.delete("A");
    scene.settle();
    assert_eq!((scene.free(), scene.api.claims().len()), (14, 0));
}

#[test]
fn row_09_a_server_that_fails_twice_costs_no_address() {
    let mut scene = scene(R, "A:–/–");
    scene.api.fail(Write::Status("A"), Answer::Code(500), 2);
    scene.ends("A:.1/.1");
    assert_eq!(scene.free(), 13);
}

#[test]
fn answers_that_are_lost_cost_no_address() {
    for write in [Write::Claim, Write::Status("A"), Write::External("A")] {
        let mut scene = scene(R, "A:–/–");
        scene.api.fail(write, Answer::Lost, 1);
        scene.ends("A:.1/.1");
        assert_eq!(scene.free(), 13, "{write:?}");
    }
}

#[test]
fn row_10_a_conflict_on_external_ips_is_repaired() {
    let mut scene = scene(R, "A:–/–");
    scene.api.fail(Write::External("A"), Answer::Code(409), 1);
    scene.leader.round(&mut scene.api);
    assert_eq!(scene.shows(), "A:.1/–");
    scene.ends("A:.1/.1");
    assert_eq!(scene.free(), 13);
}

#[test]
fn row_11_denied_external_ips_leave_the_status_alone() {
    let mut scene = scene(R, "A:–/–");
    scene.api.fail(Write::External("A"), Answer::Code(403), 5);
    for _ in 0..4 {
        scene.leader.round(&mut scene.api);
        assert_eq!(scene.shows(), "A:.1/–");
    }
    let again = scene.leader.allocate(&scene.api).services;
    assert_eq!(again.len(), 1);
    assert_eq!((&again[0].ingress, &again[0].condition), (&None, &None));
    assert!(again[0].external_ips.is_some(), "asked for again: how often is the caller's matter");
    assert_eq!(scene.free(), 13);
}

#[test]
fn row_13_a_repair_at_run_time_takes_one_address_and_tells_once() {
    let mut scene = settled(R, "A:.1/.1");
    scene.create("B:.1/.1");
    scene.leader.look(&scene.api);
    scene.edit("B").labels.insert("edited".into(), "yes".into());
    claim_and_publish(&mut scene);
    scene.ends("A:.1/.1 B:.2/.2");
    assert_eq!(scene.told("B"), ["IngressIPReallocated"]);
    assert_eq!(scene.free(), 12);
}

#[test]
fn row_24_two_controllers_on_a_full_range_do_not_swap_for_ever() {
    let mut scene = scene(TINY, "A:–/– B:–/– C:–/–");
    scene.settle_with(&mut Controller::default());
    assert_eq!(scene.shows(), "A:.1/.1 B:.2/.2 C:–/–");
    assert_eq!(scene.told("C"), ["IngressIPRangeFull"]);
}

#[test]
fn row_25_two_addresses_given_to_one_service_at_once_end_as_one() {
    let mut scene = scene(R, "A:–/–");
    let mut other = Controller::default();
    scene.leader.look(&scene.api);
    // The other one's watch is behind: it still sees .1 in somebody's externalIPs.
    scene.create("P:–/.1");
    other.look(&scene.api);
    scene.delete("P");
    scene.leader.claim(&mut scene.api);
    other.claim(&mut scene.api);
    assert_eq!(scene.api.held_by(&scene.api.uid("A")).len(), 2);
    other.publish(&mut scene.api);
    scene.leader.publish(&mut scene.api);
    scene.settle_with(&mut other);
    assert_eq!(scene.shows(), "A:.2/.2", "the first status stands");
    scene.rest();
    assert_eq!(scene.free(), 13);
}

#[test]
fn row_26_one_address_given_to_two_services_at_once_is_claimed_by_one() {
    for is_old_first in [true, false] {
        let mut scene = scene(R, "A:–/– B:–/–");
        let (mut old, mut new) = (Controller::default(), Controller::default());
        old.look(&scene.api);
        new.look(&scene.api);
        old.world.services.remove(&scene.api.uid("B"));
        new.world.services.remove(&scene.api.uid("A"));
        let order = if is_old_first { [&mut old, &mut new] } else { [&mut new, &mut old] };
        for controller in order {
            controller.claim(&mut scene.api);
        }
        old.publish(&mut scene.api);
        new.publish(&mut scene.api);
        scene.leader = old;
        scene.settle_with(&mut new);
        // The claim decides, whichever came first.
        let end = if is_old_first { "A:.1/.1 B:.2/.2" } else { "A:.2/.2 B:.1/.1" };
        assert_eq!(scene.shows(), end);
        assert_eq!(scene.free(), 12);
    }
}

#[test]
fn row_27_what_a_paused_leader_writes_late_is_refused() {
    let mut scene = settled(R, "A:.1/.1");
    let mut paused = Controller::default();
    // It is about to claim .2 for B, and has decided on A's status.
    scene.create("B:–/–");
    scene.edit("A").ingress.clear();
    paused.look(&scene.api);
    // Meanwhile A goes, a new leader gives .2 to C (B asks for another) and all rests.
    scene.delete("A");
    scene.edit("B").requested = vec!["172.16.0.9".into()];
    scene.create("C:–/–").requested = vec!["172.16.0.2".into()];
    scene.settle();
    scene.rest();
    let (before, writes) = (scene.shows(), scene.api.writes.len());
    paused.claim(&mut scene.api);
    paused.publish(&mut scene.api);
    assert_eq!(scene.api.writes.len(), writes, "nothing of it was accepted");
    scene.ends(&before);
}

#[test]
fn row_45_an_old_version_seen_after_the_write_allocates_nothing() {
    let mut scene = scene(R, "A:–/–");
    let (uid, old) = (scene.api.uid("A"), scene.api.service("A").clone());
    scene.settle();
    scene.leader.look(&scene.api);
    scene.leader.world.services.insert(uid.clone(), old);
    claim_and_publish(&mut scene);
    assert_eq!(scene.api.held_by(&uid).len(), 1);
    scene.ends("A:.1/.1");
    assert_eq!(scene.free(), 13);
}

#[test]
fn a_contested_status_is_left_alone_and_its_claim_stays() {
    let mut scene = settled(R, "A:.1/.1");
    let service = scene.edit("A");
    service.contested = true;
    service.ingress = vec![Ingress { ip: Some("10.9.9.9".into()), hostname: None }];
    scene.create("B:–/–");
    scene.ends("A:10.9.9.9/.1 B:.2/.2");
    assert_eq!(scene.api.held_by(&scene.api.uid("A")).len(), 1);
    assert!(scene.says("A").starts_with("Contested: "));
}
