//! Who is asked to take over, until when, and what follows.

use std::collections::BTreeMap;

use barevip::engine::cluster::decision::RouterChange;
use barevip::engine::cluster::placement::place;
use barevip::engine::cluster::world::{Timestamp, World};

use crate::{
    NOW, all_report, apply, list, many, names, report, says_active, settle, settle_at, spec, three,
    wanted, wanted_claim, world,
};

fn later(seconds: i64) -> Timestamp {
    Timestamp(NOW.0 + seconds)
}

fn takeover(world: &World) -> Option<&str> {
    spec(world, 1).takeover.as_deref()
}

fn candidate(world: &World, rank: usize) -> String {
    spec(world, 1).candidates[rank].node.clone()
}

/// Router 1 is served by its first candidate, as it is stated.
fn served(mut world: World) -> World {
    settle(&mut world, &wanted([1]));
    for _ in 0..2 {
        let first = candidate(&world, 0);
        says_active(&mut world, &first, 1, 0);
        settle(&mut world, &wanted([1]));
    }
    assert_eq!(takeover(&world), None);
    world
}

fn drain(world: &mut World, node: &str) {
    world.nodes.get_mut(node).unwrap().drained = true;
}

#[test]
fn whoever_is_drained_serves_until_another_one_does() {
    let mut world = served(three());
    let [first, second, third] = [0, 1, 2].map(|rank| candidate(&world, rank));
    drain(&mut world, &first);
    settle(&mut world, &wanted([1]));
    assert_eq!(list(&world, 1).len(), 3);
    let heir = takeover(&world).unwrap().to_owned();
    assert!(heir == second || heir == third);
    // One that has not taken up the request says nothing.
    says_active(&mut world, &heir, 1, 1);
    settle(&mut world, &wanted([1]));
    assert_eq!(takeover(&world), Some(&*heir));

    says_active(&mut world, &heir, 1, 0);
    settle(&mut world, &wanted([1]));
    let other = if heir == second { &third } else { &second };
    let order: Vec<_> = spec(&world, 1).candidates.iter().map(|c| &c.node).collect();
    assert_eq!(order, [&heir, other]);
    assert_eq!(list(&world, 1)[0], format!("{heir}:254"));
    assert_eq!(takeover(&world), None);
}

#[test]
fn whoever_is_drained_but_serves_nothing_goes_at_once() {
    let mut world = served(three());
    let last = candidate(&world, 2);
    drain(&mut world, &last);
    settle(&mut world, &wanted([1]));
    assert_eq!((names(spec(&world, 1)).contains(&*last), takeover(&world)), (false, None));
}

#[test]
fn nobody_is_drained_where_nobody_could_take_over() {
    let mut world = served(world(&[("a", "1")]));
    drain(&mut world, "a");
    settle(&mut world, &wanted([1]));
    assert_eq!((list(&world, 1), takeover(&world)), (vec!["a:254".to_owned()], None));
    // A newcomer joins first.
    world.nodes.insert("b".into(), crate::node("2"));
    settle(&mut world, &wanted([1]));
    assert_eq!((list(&world, 1), takeover(&world)), (vec!["a:254".into(), "b:230+".into()], None));
    says_active(&mut world, "a", 1, 0);
    settle(&mut world, &wanted([1]));
    assert_eq!(takeover(&world), Some("b"));
    says_active(&mut world, "b", 1, 0);
    settle(&mut world, &wanted([1]));
    assert_eq!(list(&world, 1), ["b:254"]);
}

#[test]
fn drained_routers_go_to_those_that_have_fewest() {
    let mut world = many(4, 4);
    settle(&mut world, &wanted(0..=11));
    let mine: Vec<u8> = (0..=11).filter(|n| spec(&world, *n).candidates[0].node == "n00").collect();
    for number in 0..=11 {
        let first = spec(&world, number).candidates[0].node.clone();
        says_active(&mut world, &first, number, 0);
    }
    settle(&mut world, &wanted(0..=11));
    drain(&mut world, "n00");
    settle(&mut world, &wanted(0..=11));
    let heirs: std::collections::BTreeSet<_> =
        mine.iter().map(|number| spec(&world, *number).takeover.clone().unwrap()).collect();
    assert_eq!((mine.len(), heirs.len()), (3, 3));
}

#[test]
fn an_active_that_does_not_take_up_a_statement_is_relieved_after_45_seconds() {
    let mut world = served(three());
    let before = list(&world, 1);
    let [first, second, third] = [0, 1, 2].map(|rank| candidate(&world, rank));
    says_active(&mut world, &first, 1, 1);
    settle(&mut world, &wanted([1]));
    assert_eq!(place(&world, wanted([1]), NOW).wake_at, Some(later(45)));
    all_report(&mut world, later(44));
    settle_at(&mut world, &wanted([1]), later(44));
    assert_eq!(takeover(&world), None);
    for _ in 0..2 {
        settle_at(&mut world, &wanted([1]), later(45));
    }
    let heir = takeover(&world).unwrap().to_owned();
    assert!(heir == second || heir == third);
    assert_eq!(list(&world, 1), before);

    // That one fails: after a minute the other one is asked.
    all_report(&mut world, later(104));
    settle_at(&mut world, &wanted([1]), later(104));
    assert_eq!(takeover(&world), Some(&*heir));
    settle_at(&mut world, &wanted([1]), later(105));
    let other = if heir == second { third } else { second };
    assert_eq!(takeover(&world), Some(&*other));

    // It takes over, and changes places with the first.
    says_active(&mut world, &other, 1, 0);
    report(&mut world, &first).active.clear();
    settle_at(&mut world, &wanted([1]), later(106));
    assert_eq!(takeover(&world), None);
    assert_eq!(list(&world, 1)[0], format!("{other}:254"));
    let rank = before.iter().position(|text| text.starts_with(&*other)).unwrap();
    assert_eq!(candidate(&world, rank), first);
    // It is behind now until it reports the new statement, and is not relieved for it at once.
    settle_at(&mut world, &wanted([1]), later(150));
    assert_eq!(takeover(&world), None);
}

#[test]
fn an_active_that_has_caught_up_in_time_stays() {
    let mut world = served(three());
    let first = candidate(&world, 0);
    says_active(&mut world, &first, 1, 1);
    settle(&mut world, &wanted([1]));
    says_active(&mut world, &first, 1, 0);
    settle_at(&mut world, &wanted([1]), later(40));
    says_active(&mut world, &first, 1, 1);
    all_report(&mut world, later(50));
    settle_at(&mut world, &wanted([1]), later(50));
    settle_at(&mut world, &wanted([1]), later(94));
    assert_eq!(takeover(&world), None);
}

#[test]
fn a_request_that_nobody_answers_is_withdrawn_after_a_minute() {
    let mut world = three();
    for _ in 0..2 {
        settle(&mut world, &wanted([1]));
        assert!(takeover(&world).is_some());
    }
    all_report(&mut world, later(59));
    settle_at(&mut world, &wanted([1]), later(59));
    assert!(takeover(&world).is_some());
    settle_at(&mut world, &wanted([1]), later(60));
    assert_eq!(takeover(&world), None);
}

#[test]
fn a_router_that_begins_to_serve_again_asks_its_first_candidate() {
    let mut world = served(three());
    let first = candidate(&world, 0);
    let (name, mut empty) = wanted_claim(1, crate::held());
    empty.claims.clear();
    let nothing = BTreeMap::from([(name, empty)]);
    settle(&mut world, &nothing);
    report(&mut world, &first).active.clear();
    // It is not yet retired when a Service comes.
    settle(&mut world, &wanted([1]));
    assert_eq!(takeover(&world), Some(&*first));
}

/// Somebody wishes that router 1 is served by `node`.
fn wish(world: &mut World, node: &str) {
    world.routers.get_mut("web-v4-1").unwrap().move_to = Some(node.into());
}

fn is_wished(world: &World) -> bool {
    world.routers["web-v4-1"].move_to.is_some()
}

#[test]
fn a_router_moves_where_somebody_wishes() {
    let mut world = served(three());
    let [first, second, third] = [0, 1, 2].map(|rank| candidate(&world, rank));
    wish(&mut world, &third);
    settle(&mut world, &wanted([1]));
    assert_eq!((takeover(&world), is_wished(&world)), (Some(&*third), true));
    says_active(&mut world, &third, 1, 0);
    let placement = place(&world, wanted([1]), NOW);
    let RouterChange::Update { answered, .. } = &placement.routers["web-v4-1"] else { panic!() };
    assert_eq!(answered.as_deref(), Some(&*third));
    settle(&mut world, &wanted([1]));
    assert_eq!((takeover(&world), is_wished(&world)), (None, false));
    assert_eq!(
        list(&world, 1),
        [format!("{third}:254"), format!("{second}:230"), format!("{first}:206")]
    );
}

#[test]
fn a_wish_that_is_fulfilled_already_or_can_not_be_goes() {
    let mut there = served(three());
    let first = candidate(&there, 0);
    for node in [&*first, "nobody"] {
        wish(&mut there, node);
        let before = there.routers["web-v4-1"].spec.clone();
        settle(&mut there, &wanted([1]));
        assert!(!is_wished(&there));
        assert_eq!(there.routers["web-v4-1"].spec, before);
    }
    // One that can't serve, one that does not answer.
    let mut world = served(three());
    let second = candidate(&world, 1);
    wish(&mut world, &second);
    settle(&mut world, &wanted([1]));
    report(&mut world, &second).links.clear();
    settle(&mut world, &wanted([1]));
    assert_eq!((takeover(&world), is_wished(&world)), (None, false));

    let mut world = served(three());
    wish(&mut world, &second);
    for _ in 0..2 {
        settle(&mut world, &wanted([1]));
        assert!(is_wished(&world));
        // The one that serves has taken up all, so there is no reason to relieve it.
        let first = candidate(&world, 0);
        says_active(&mut world, &first, 1, 0);
    }
    all_report(&mut world, later(60));
    let placement = place(&world, wanted([1]), later(60));
    apply(&mut world, placement);
    assert_eq!((takeover(&world), is_wished(&world)), (None, false));
}

#[test]
fn a_node_that_is_no_candidate_enters_before_it_takes_over() {
    let mut world = served(many(12, 4));
    let [first, last] = [0, 8].map(|rank| candidate(&world, rank));
    let outside = world.nodes.keys().find(|node| !names(spec(&world, 1)).contains(&***node));
    let outside = outside.unwrap().to_string();
    wish(&mut world, &outside);
    settle(&mut world, &wanted([1]));
    assert_eq!((takeover(&world), is_wished(&world)), (None, true));
    assert!(names(spec(&world, 1)).contains(&*outside));
    assert!(
        !list(&world, 1).iter().any(|text| text.starts_with(&*last))
            || last != candidate(&world, 8)
    );
    says_active(&mut world, &first, 1, 0);
    settle(&mut world, &wanted([1]));
    assert_eq!(takeover(&world), Some(&*outside));
    says_active(&mut world, &outside, 1, 0);
    settle(&mut world, &wanted([1]));
    assert_eq!((candidate(&world, 0), is_wished(&world)), (outside, false));
}
