//! barevip beside other people's VRRP daemons on one LAN: keepalived and FRR's vrrpd, and what
//! Wireshark makes of our packets.
//!
//! Needs root and the Debian packages keepalived, frr, tshark, tcpdump and iproute2.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support {
    pub(crate) mod foreign {
        pub(crate) mod barevip;
        pub(crate) mod frr;
        pub(crate) mod keepalived;
        pub(crate) mod program;
        pub(crate) mod stage;
        pub(crate) mod witness;
    }
}

use support::foreign::barevip::{BAREVIP, Barevip};
use support::foreign::frr::{FRR, Frr};
use support::foreign::keepalived::{KEEPALIVED, Keepalived};
use support::foreign::program::{Program, Setting};
use support::foreign::stage::Stage;

const IPV4: &[&str] = &["192.0.2.50"];
/// RFC 9568 §5.2.9 wants a link-local address first, and barevip lists this one of its own accord
/// where its file has none; it binds it nowhere. keepalived wants exactly the list that it has.
const IPV6: &[&str] = &["2001:db8::50"];
const IPV6_AND_BAREVIPS_OWN: &[&str] = &["fe80::200:5eff:fe00:233", "2001:db8::50"];
/// A link-local address of the operator's choice.
const IPV6_AND_LINK_LOCAL: &[&str] = &["fe80::50", "2001:db8::50"];

const HIGHER: u8 = 200;
const LOWER: u8 = 100;

type Party<'a> = (Box<dyn Program>, &'a [&'a str]);

/// Two programs through everything that moves the role: both start orders, a planned stop and a
/// return, a broken path and its repair.
fn pair(higher: Party<'_>, lower: Party<'_>) {
    let (high, low) = (higher.0.name(), lower.0.name());
    let mut stage = Stage::new(vec![
        (higher.0, Setting::new(HIGHER, higher.1)),
        (lower.0, Setting::new(LOWER, lower.1)),
    ]);
    stage.start(high);
    stage.served_by(high);
    stage.start(low);
    stage.served_by(high);
    let since = barevip::io::clock::now();
    stage.stop(high);
    stage.served_by(low);
    let n = barevip::io::clock::now();
    let r = stage.record();
    eprintln!(
        "{high} -> {low}: lost {} longest {:?}",
        r.lost(&(since..n), n),
        r.longest_gap(&(since..n))
    );
    stage.start(high);
    stage.served_by(high);
    let since = n;
    let n = barevip::io::clock::now();
    let r = stage.record();
    eprintln!(
        "{low} -> {high}: lost {} longest {:?}",
        r.lost(&(since..n), n),
        r.longest_gap(&(since..n))
    );
    stage.cut(high);
    stage.served_by(low);
    stage.mend(high);
    stage.served_by(high);
}

#[test]
fn keepalived_above_barevip_ipv4() {
    pair((Keepalived::boxed(), IPV4), (Barevip::boxed("auto"), IPV4));
}

#[test]
fn barevip_above_keepalived_ipv4() {
    pair((Barevip::boxed("auto"), IPV4), (Keepalived::boxed(), IPV4));
}

#[test]
fn keepalived_above_barevip_ipv6() {
    pair((Keepalived::boxed(), IPV6_AND_BAREVIPS_OWN), (Barevip::boxed("auto"), IPV6));
}

#[test]
fn barevip_above_keepalived_ipv6() {
    let list = IPV6_AND_LINK_LOCAL;
    pair((Barevip::boxed("auto"), list), (Keepalived::boxed(), list));
}

#[test]
fn frr_above_barevip_ipv4() {
    pair((Frr::boxed(true), IPV4), (Barevip::boxed("auto"), IPV4));
}

#[test]
fn barevip_above_frr_ipv4() {
    pair((Barevip::boxed("auto"), IPV4), (Frr::boxed(true), IPV4));
}

#[test]
fn frr_of_rfc9568_above_barevip() {
    pair((Frr::boxed(false), IPV4), (Barevip::boxed("auto"), IPV4));
}

#[test]
fn barevip_above_frr_of_rfc9568() {
    pair((Barevip::boxed("auto"), IPV4), (Frr::boxed(false), IPV4));
}

#[test]
fn frr_above_barevip_ipv6() {
    pair((Frr::boxed(true), IPV6), (Barevip::boxed("auto"), IPV6));
}

#[test]
fn barevip_above_frr_ipv6() {
    pair((Barevip::boxed("auto"), IPV6), (Frr::boxed(true), IPV6));
}
