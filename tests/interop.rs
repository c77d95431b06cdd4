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
        pub(crate) mod keepalived;
        pub(crate) mod program;
        pub(crate) mod stage;
        pub(crate) mod witness;
    }
}

use support::foreign::barevip::{BAREVIP, Barevip};
use support::foreign::keepalived::{KEEPALIVED, Keepalived};
use support::foreign::program::Program;
use support::foreign::stage::Stage;

const IPV4: [&str; 1] = ["192.0.2.50"];
/// What barevip lists of its own accord before an address that is not link-local: keepalived
/// wants the same list.
const LINK_LOCAL: &str = "fe80::200:5eff:fe00:233";
const IPV6: [&str; 2] = [LINK_LOCAL, "2001:db8::50"];

const HIGHER: u8 = 200;
const LOWER: u8 = 100;

/// Two programs through everything that moves the role: the lower one starts first, the higher
/// one takes over, leaves, returns, is cut off and heard again; then from the other start order.
fn pair(addresses: &[&str], higher: Box<dyn Program>, lower: Box<dyn Program>) {
    let (high, low) = (higher.name(), lower.name());
    let mut stage = Stage::new(addresses, vec![(higher, HIGHER), (lower, LOWER)]);
    stage.start(low);
    stage.served_by(low);
    stage.start(high);
    stage.served_by(high);
    stage.stop(high);
    stage.served_by(low);
    stage.start(high);
    stage.served_by(high);
    stage.cut(high);
    stage.served_by(low);
    stage.mend(high);
    stage.served_by(high);
    stage.stop(low);
    stage.served_by(high);
    stage.start(low);
    stage.served_by(high);
}

#[test]
fn keepalived_above_barevip_ipv4() {
    pair(&IPV4, Keepalived::boxed(), Barevip::boxed("auto"));
}

#[test]
fn barevip_above_keepalived_ipv4() {
    pair(&IPV4, Barevip::boxed("auto"), Keepalived::boxed());
}

#[test]
fn keepalived_above_barevip_ipv6() {
    pair(&IPV6, Keepalived::boxed(), Barevip::boxed("auto"));
}

#[test]
fn barevip_above_keepalived_ipv6() {
    pair(&IPV6, Barevip::boxed("auto"), Keepalived::boxed());
}
