//! The laboratory itself: what the demonstration and the other tests trust has to hold.
#![cfg(test)]

use std::process::Command;
use std::thread::yield_now;
use std::time::Duration;

use barevip::engine::time::Instant;
use barevip::io::clock::now;
use barevip::io::lab::lan::{Host, Lan};
use barevip::io::lab::namespace::Namespace;
use barevip::io::lab::probe::{Probe, Responder};
use barevip::io::lab::record::Record;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

const VIPS: [&str; 2] = ["192.0.2.50", "2001:db8::50"];
const DEADLINE: Duration = Duration::from_secs(20);

#[test]
fn answers_name_the_node_that_holds_the_address() {
    let (lan, _responders) = lan_of_two();
    for vip in VIPS {
        let probe = ask(&lan, vip);
        for node in lan.nodes() {
            bind(&lan, node, vip);
            wait(&probe, |record| answers_come_from(record, node));
            unbind(node, vip);
        }
    }
}

#[test]
fn a_cut_node_keeps_its_carrier_and_is_silent_until_mended() {
    let (lan, _responders) = lan_of_two();
    let node = &lan.nodes()[0];
    for vip in VIPS {
        bind(&lan, node, vip);
        let probe = ask(&lan, vip);
        wait(&probe, |record| answers_come_from(record, node));
        lan.cut(node).unwrap();
        let since = now();
        wait(&probe, |record| record.lost(&(since..now()), now()) > 10);
        assert!(carrier(node));
        lan.mend(node).unwrap();
        let since = now();
        wait(&probe, |record| record.last_answer().is_some_and(|answer| answer.at > since));
    }
}

#[test]
fn an_unplugged_node_has_no_carrier() {
    let (lan, _responders) = lan_of_two();
    let node = &lan.nodes()[0];
    let probe = ask(&lan, "192.0.2.11");
    lan.unplug(node).unwrap();
    wait(&probe, |_| !carrier(node));
    lan.plug(node).unwrap();
    wait(&probe, |record| carrier(node) && answers_come_from(record, node));
}

#[test]
fn filtered_multicast_leaves_ipv4_alone_and_blinds_ipv6() {
    let (lan, _responders) = lan_of_two();
    let node = &lan.nodes()[0];
    lan.flood_multicast(node, false).unwrap();
    let ipv4 = ask(&lan, "192.0.2.11");
    let ipv6 = ask(&lan, "2001:db8::11");
    wait(&ipv6, |record| record.lost(&(Instant::ZERO..now()), now()) > 10);
    assert_eq!(ipv6.record().last_answer(), None);
    wait(&ipv4, |record| answers_come_from(record, node));
}

#[test]
fn a_namespace_dies_with_its_processes() {
    let namespace = Namespace::new("alone").unwrap();
    let mut sleeper = Command::new("sleep");
    sleeper.arg("1000");
    let process = namespace.spawn(sleeper).unwrap();
    let proc = std::path::PathBuf::from(format!("/proc/{}", process.id()));
    assert!(proc.exists());
    drop(process);
    assert!(!proc.exists());
}

fn lan_of_two() -> (Lan, Vec<Responder>) {
    let lan = Lan::new(&["one", "two"]).unwrap();
    let responders = lan.nodes().iter().map(|node| Responder::start(node).unwrap()).collect();
    (lan, responders)
}

fn ask(lan: &Lan, address: &str) -> Probe {
    Probe::start(lan.client(), address.parse().unwrap(), Duration::from_millis(1)).unwrap()
}

#[track_caller]
fn wait(probe: &Probe, done: impl Fn(&Record) -> bool) {
    let limit = now() + DEADLINE;
    while !done(&probe.record()) {
        assert!(now() < limit, "last seen: {:?}", probe.record().last_answer());
        yield_now();
    }
}

fn answers_come_from(record: &Record, node: &Host) -> bool {
    record.last_answer().is_some_and(|answer| record.name(answer.node) == node.name())
}

fn carrier(node: &Host) -> bool {
    let flags = || Ok(getifaddrs()?.find(|link| link.interface_name == "eth0").unwrap().flags);
    node.namespace().run(flags).unwrap().contains(InterfaceFlags::IFF_RUNNING)
}

fn bind(lan: &Lan, node: &Host, vip: &str) {
    let nodad: &[&str] = if vip.contains(':') { &["nodad"] } else { &[] };
    ip(node, &[&["addr", "add", vip, "dev", "eth0"], nodad].concat());
    // What an owner announces, so that the client asks the right one.
    ip(lan.client(), &["neigh", "flush", "dev", "eth0"]);
}

fn unbind(node: &Host, vip: &str) {
    let width = if vip.contains(':') { 128 } else { 32 };
    ip(node, &["addr", "del", &format!("{vip}/{width}"), "dev", "eth0"]);
}

fn ip(node: &Host, arguments: &[&str]) {
    let mut command = Command::new("ip");
    command.args(arguments);
    node.namespace().output(command).unwrap();
}
