//! What a daemon says of itself, as JSON and as a table.
#![cfg(test)]

use std::time::{Duration, SystemTime};

use barevip::app::status::state::Machine;
use barevip::app::status::{About, State, write_text};
use barevip::engine::node::event::Problem;
use barevip::engine::node::links::LinkFault;
use barevip::engine::node::status::{
    ActiveRouter, AddressStatus, Counters, Failover, NodeStatus, RouterStatus,
};
use barevip::engine::time::Instant;
use barevip::engine::vrrp::role::Role;
use barevip::model::{Family, Interval, Priority, Version};
use insta::assert_snapshot;

/// The daemon runs for four days.
const UPTIME: Duration = Duration::from_secs(4 * 86_400 + 3 * 3600);

fn ago(seconds: u64) -> Instant {
    Instant::after_origin(UPTIME - Duration::from_secs(seconds))
}

fn router(name: &str, vrid: u8, vips: &[&str], role: Role) -> RouterStatus {
    let addresses: Vec<AddressStatus> = vips
        .iter()
        .map(|vip| AddressStatus { vip: vip.parse().unwrap(), bound: role == Role::Active })
        .collect();
    RouterStatus {
        name: name.to_owned(),
        version: Version::default(),
        vrid: vrid.try_into().unwrap(),
        family: addresses.first().map_or(Family::Ipv4, |a| a.vip.family()),
        link: Some("eth0".to_owned()),
        fault: None,
        role,
        since: ago(0),
        priority: Some(Priority::DEFAULT),
        interval: Interval::DEFAULT,
        checksum: None,
        active: None,
        addresses,
        last_failover: None,
        transitions: 1,
        problems: Vec::new(),
    }
}

/// A machine that serves, stands by, and has trouble.
fn node() -> NodeStatus {
    let mut web = router("web", 51, &["192.0.2.200", "192.0.2.201/24"], Role::Active);
    web.since = ago(10_925);
    web.last_failover = Some(Failover { at: ago(10_925), took: Duration::from_micros(612_345) });
    web.active = Some(ActiveRouter {
        address: "192.0.2.2".parse().unwrap(),
        priority: Priority::try_from(150).unwrap(),
        here: true,
    });
    web.priority = Some(Priority::try_from(150).unwrap());
    web.transitions = 3;
    web.addresses.last_mut().unwrap().bound = false;
    let address = "192.0.2.201".parse().unwrap();
    web.problems = vec![
        (Problem::AddressInUse { address }, ago(75)),
        (Problem::StaleActive { source: "192.0.2.9".parse().unwrap() }, ago(600)),
    ];

    let many: Vec<String> = (1..=12).map(|n| format!("2001:db8::{n:x}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut database = router("database-with-a-long-name", 52, &many, Role::Backup);
    database.since = ago(303);
    database.active = Some(ActiveRouter {
        address: "fe80::5054:ff:fe12:3456".parse().unwrap(),
        priority: Priority::OWNER,
        here: false,
    });

    let mut lost = router("lost", 7, &["198.51.100.7"], Role::Initialize);
    lost.link = None;
    lost.priority = None;
    lost.fault = Some(LinkFault::NoCarrier("eth1".to_owned()));

    NodeStatus {
        routers: vec![web, database, lost],
        counters: Counters {
            adverts_sent: 54_625,
            adverts_heard: 1515,
            adverts_heard_multicast: 1500,
            adverts_refused: [("checksum".to_owned(), 2), ("ttl".to_owned(), 1)].into(),
            announcements_sent: 40,
            address_changes: 1234,
            stalls: 1,
            ..Counters::default()
        },
        lifetime: Duration::from_secs(2),
        ..NodeStatus::default()
    }
}

fn state(node: &NodeStatus) -> State {
    let about = About { node: "host-a".to_owned(), config: "/etc/barevip/barevip.toml".into() };
    // 2026-11-30T03:12:44.120Z
    let wall = SystemTime::UNIX_EPOCH + Duration::from_millis(1_796_008_364_120);
    let mut state = State::at(&about, node, Instant::after_origin(UPTIME), wall);
    state.version = "VERSION".to_owned();
    state.machine = Machine {
        realtime_refused: Some("EPERM: Operation not permitted".to_owned()),
        timers_late_max_ms: 1.2,
        packets_sent: 54_665,
        packets_refused: [("Network is down".to_owned(), 3)].into(),
        packets_overflowed: 0,
        events_lost: 0,
    };
    state
}

fn text(state: &State) -> String {
    let mut text = Vec::new();
    write_text(state, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn the_table_is_read_at_3_am() {
    let text = text(&state(&node()));
    assert!(text.is_ascii());
    assert_snapshot!("status-text", text);
}

#[test]
fn the_json_is_for_programs() {
    let json = serde_json::to_string_pretty(&state(&node())).unwrap();
    assert_snapshot!("status-json", json);
}

/// `barevip status` reads what `/state` wrote.
#[test]
fn the_json_reads_back() {
    let state = state(&node());
    let json = serde_json::to_string(&state).unwrap();
    let back: State = serde_json::from_str(&json).unwrap();
    assert_eq!(back, state);
}

#[test]
fn nothing_to_tell_is_told_so() {
    let mut one = router("web", 51, &["192.0.2.200"], Role::Backup);
    one.link = Some("eth0".to_owned());
    let quiet = NodeStatus { routers: vec![one], draining: true, ..NodeStatus::default() };
    assert_snapshot!("status-quiet", text(&state(&quiet)));
}

/// A machine without a battery wakes in 1970: younger than what it tells about.
#[test]
fn a_wall_clock_that_was_never_set_does_no_harm() {
    let about = About { node: "host-a".to_owned(), config: "barevip.toml".into() };
    let now = Instant::after_origin(UPTIME);
    let wall = SystemTime::UNIX_EPOCH + Duration::from_secs(5);
    let state = State::at(&about, &node(), now, wall);
    assert_eq!(state.at, "1970-01-01T00:00:05.000Z");
    let since: Vec<&str> = state.routers.iter().map(|r| r.since.as_str()).collect();
    assert_eq!(since[0], "1970-01-01T00:00:00.000Z");
}
