//! barevip beside other people's VRRP daemons on one LAN, keepalived and FRR's vrrpd, and what
//! Wireshark's dissectors make of its packets.
//!
//! Needs root and the Debian packages keepalived, frr, iproute2, tcpdump and tshark.
#![cfg(test)]

mod support {
    pub(crate) mod foreign {
        pub(crate) mod barevip;
        pub(crate) mod frr;
        pub(crate) mod keepalived;
        pub(crate) mod program;
        pub(crate) mod stage;
        pub(crate) mod wireshark;
        pub(crate) mod witness;
    }
    pub(crate) mod scratch;
}

use std::process::Command;

use barevip::io::clock::now;
use barevip::io::lab::lan::{Host, LINK};

use support::foreign::barevip::{BAREVIP, Barevip, router_status};
use support::foreign::frr::{FRR, Frr};
use support::foreign::keepalived::{KEEPALIVED, Keepalived};
use support::foreign::program::{Program, Setting};
use support::foreign::stage::{Stage, wait_until};
use support::foreign::wireshark::{Capture, ChecksumForm};

const IPV4: &[&str] = &["192.0.2.50"];
const MORE_IPV4: &[&str] = &["192.0.2.51", "192.0.2.50"];
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
    stage.stop(high);
    stage.served_by(low);
    stage.start(high);
    stage.served_by(high);
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
    pair((Frr::boxed(), IPV4), (Barevip::boxed("auto"), IPV4));
}

#[test]
fn barevip_above_frr_ipv4() {
    pair((Barevip::boxed("auto"), IPV4), (Frr::boxed(), IPV4));
}

#[test]
fn frr_above_barevip_ipv6() {
    pair((Frr::boxed(), IPV6), (Barevip::boxed("auto"), IPV6));
}

#[test]
fn barevip_above_frr_ipv6() {
    pair((Barevip::boxed("auto"), IPV6), (Frr::boxed(), IPV6));
}

/// FRR announces IPv6 addresses before its first advert leaves. Whoever answers that keeps clients
/// that it is about to give away, and they ask in vain until they doubt it themselves: some four
/// hundred times.
#[test]
fn clients_that_frr_calls_are_not_called_back() {
    let mut stage = Stage::new(vec![
        (Frr::boxed(), Setting::new(HIGHER, IPV6)),
        (Barevip::boxed("auto"), Setting::new(LOWER, IPV6)),
    ]);
    stage.start(BAREVIP);
    stage.served_by(BAREVIP);
    let since = now();
    stage.start(FRR);
    stage.served_by(FRR);
    let lost = stage.lost(since);
    assert!(lost <= 40, "{lost} questions were lost");
}

/// The forms of checksum that the operator insists on, where the peer has the same.
#[test]
fn a_fixed_form_of_checksum_is_what_its_peers_accept() {
    for (checksum, peer) in
        [("pseudo-header", Keepalived::boxed()), ("pseudo-header", Frr::boxed())]
    {
        let peer_name = peer.name();
        let mut stage = Stage::new(vec![
            (Barevip::boxed(checksum), Setting::new(HIGHER, IPV4)),
            (peer, Setting::new(LOWER, IPV4)),
        ]);
        stage.start(BAREVIP);
        stage.served_by(BAREVIP);
        stage.start(peer_name);
        stage.served_by(BAREVIP);
        stage.stop(BAREVIP);
        stage.served_by(peer_name);
    }
}

#[test]
fn three_makes_on_one_lan() {
    let mut stage = Stage::new(vec![
        (Frr::boxed(), Setting::new(200, IPV4)),
        (Barevip::boxed("auto"), Setting::new(150, IPV4)),
        (Keepalived::boxed(), Setting::new(100, IPV4)),
    ]);
    for name in [BAREVIP, KEEPALIVED, FRR] {
        stage.start(name);
    }
    stage.served_by(FRR);
    stage.cut(FRR);
    stage.served_by(BAREVIP);
    stage.kill(BAREVIP);
    stage.served_by(KEEPALIVED);
    stage.start(BAREVIP);
    stage.served_by(BAREVIP);
    stage.mend(FRR);
    stage.served_by(FRR);
    stage.stop(FRR);
    stage.served_by(BAREVIP);
}

/// What an operator meets who moves the machines one by one, with no change of the priorities.
#[test]
fn machines_are_moved_one_by_one_from_barevip_to_keepalived_and_back() {
    for list in [IPV4, IPV6_AND_LINK_LOCAL] {
        let mut stage = Stage::new(vec![
            (Barevip::boxed("auto"), Setting::new(HIGHER, list)),
            (Keepalived::boxed(), Setting::new(LOWER, list)),
        ]);
        stage.start(BAREVIP);
        stage.served_by(BAREVIP);
        stage.start(KEEPALIVED);
        stage.served_by(BAREVIP);
        stage.stop(BAREVIP);
        stage.served_by(KEEPALIVED);
        stage.start(BAREVIP);
        stage.served_by(BAREVIP);
    }
}

/// keepalived drops adverts that do not list exactly what it lists itself, so below barevip it
/// takes the addresses too. barevip can only say so.
#[test]
fn keepalived_with_another_list_does_not_yield_and_barevip_says_so() {
    for (ours, theirs) in [(IPV4, MORE_IPV4), (MORE_IPV4, IPV4)] {
        let mut stage = Stage::new(vec![
            (Barevip::boxed("auto"), Setting::new(HIGHER, ours)),
            (Keepalived::boxed(), Setting::new(LOWER, theirs)),
        ]);
        stage.start(BAREVIP);
        stage.served_by(BAREVIP);
        stage.start(KEEPALIVED);
        wait_until(
            || {
                let log = stage.log(KEEPALIVED);
                let since = log.split("Entering MASTER STATE").nth(1).unwrap_or_default();
                since.matches("unexpected ip number count").count() > 20
            },
            || format!("keepalived does not refuse:\n{}", stage.log(KEEPALIVED)),
        );
        assert_eq!(stage.log(KEEPALIVED).matches("Entering BACKUP STATE").count(), 1, "the first");
        let router = router_status(stage.host(BAREVIP), stage.directory(BAREVIP));
        assert_eq!(router["role"], "active");
        let problems = router["problems"].to_string();
        assert!(problems.contains("192.0.2.50 was announced by"), "{router:#}");
    }
}

/// barevip takes any list that has an address in common with its own for the same router.
#[test]
fn barevip_yields_to_keepalived_with_another_list() {
    for (ours, theirs) in [(IPV4, MORE_IPV4), (MORE_IPV4, IPV4)] {
        let mut stage = Stage::new(vec![
            (Keepalived::boxed(), Setting::new(HIGHER, theirs)),
            (Barevip::boxed("auto"), Setting::new(LOWER, ours)),
        ]);
        stage.start(BAREVIP);
        stage.start(KEEPALIVED);
        stage.served_by(KEEPALIVED);
    }
}

/// Both forms of checksum are sound to a tshark that was told which one to expect, and only to
/// that one.
#[test]
fn tshark_has_no_complaint_about_ipv4() {
    use ChecksumForm::{PseudoHeader, Rfc9568};
    for (checksum, form, other) in
        [("rfc9568", Rfc9568, PseudoHeader), ("pseudo-header", PseudoHeader, Rfc9568)]
    {
        let (stage, capture) = one_reign(checksum, form, IPV4);
        let mac = mac(stage.host(BAREVIP));
        let advert = "eth.dst == 01:00:5e:00:00:12 && ip.src == 192.0.2.11
            && ip.dst == 224.0.0.18 && ip.ttl == 255 && ip.checksum.status == 1
            && vrrp.addr_count == 1 && vrrp.ip_addr == 192.0.2.50";
        capture.all(form, "vrrp", &format!("eth.src == {mac} && {advert} && {ADVERT}"));
        capture.all(other, "vrrp", "vrrp.checksum.status == 0 && _ws.expert");
        let announcement = "eth.dst == ff:ff:ff:ff:ff:ff && arp.opcode == 1
            && arp.src.proto_ipv4 == 192.0.2.50 && arp.dst.proto_ipv4 == 192.0.2.50";
        let own = format!("eth.src == {mac} && arp.src.hw_mac == {mac}");
        capture.all(form, "arp.isgratuitous", &format!("{own} && {announcement}"));
    }
}

#[test]
fn tshark_has_no_complaint_about_ipv6() {
    // The only form that IPv6 has.
    let form = ChecksumForm::PseudoHeader;
    let (stage, capture) = one_reign("auto", form, IPV6_AND_LINK_LOCAL);
    let mac = mac(stage.host(BAREVIP));
    let advert = "eth.dst == 33:33:00:00:00:12 && ipv6.src == fe80::11 && ipv6.dst == ff02::12
        && ipv6.hlim == 255 && vrrp.addr_count == 2
        && vrrp.ipv6_addr == fe80::50 && vrrp.ipv6_addr == 2001:db8::50";
    capture.all(form, "vrrp", &format!("eth.src == {mac} && {advert} && {ADVERT}"));
    let announcement = "eth.dst == 33:33:00:00:00:01 && ipv6.hlim == 255
        && icmpv6.checksum.status == 1 && icmpv6.nd.na.flag.s == 0 && icmpv6.nd.na.flag.o == 1";
    let own = format!("eth.src == {mac} && icmpv6.opt.linkaddr == {mac}");
    for address in IPV6_AND_LINK_LOCAL {
        let which = format!("ipv6.dst == ff02::1 && icmpv6.nd.na.target_address == {address}");
        capture.all(form, &which, &format!("{own} && {announcement}"));
    }
}

/// What the adverts of both families have in common.
const ADVERT: &str = "vrrp.version == 3 && vrrp.type == 1 && vrrp.virt_rtr_id == 51
    && (vrrp.prio == 200 || vrrp.prio == 0) && vrrp.reserved_mbz == 0
    && vrrp.short_adver_int == 10 && vrrp.checksum.status == 1";

/// All that a LAN hears of a machine that takes the role and leaves it. tshark complains about
/// nothing of it, however mildly.
fn one_reign(checksum: &'static str, form: ChecksumForm, addresses: &[&str]) -> (Stage, Capture) {
    let mut stage = Stage::new(vec![(Barevip::boxed(checksum), Setting::new(HIGHER, addresses))]);
    let capture = Capture::start(stage.client(), stage.directory(BAREVIP));
    stage.start(BAREVIP);
    stage.served_by(BAREVIP);
    stage.stop(BAREVIP);
    wait_until(
        || !capture.dissect(form, "vrrp.prio == 0").is_empty(),
        || format!("nobody leaves: {}", capture.dissect(form, "vrrp")),
    );
    assert_ne!(capture.dissect(form, "vrrp.prio == 200"), "");
    assert_eq!(capture.dissect(form, "_ws.expert"), "", "tshark complains");
    (stage, capture)
}

fn mac(host: &Host) -> String {
    let mut command = Command::new("ip");
    command.args(["-brief", "link", "show", "dev", LINK]);
    let shown = host.namespace().output(command).unwrap();
    shown.split_whitespace().nth(2).unwrap().to_owned()
}
