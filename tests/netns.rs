//! Daemons on a LAN: real netlink, real sockets, real processes, three machines in network
//! namespaces and a client that asks their address a thousand times a second.
//!
//! Needs root, or a user namespace (`unshare --user --map-root-user`).
#![cfg(test)]

mod support {
    pub(crate) mod netns {
        pub(crate) mod cluster;
        pub(crate) mod daemon;
        pub(crate) mod patience;
    }
    pub(crate) mod scratch;
}

use std::net::IpAddr;
use std::process::Command;
use std::sync::Arc;

use barevip::engine::vrrp::role::Role;
use barevip::io::clock::now;
use barevip::io::lab::lan::{Host, Lan};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressProtocol};
use nix::sys::signal::Signal;

use support::netns::cluster::{
    Cluster, IPV4_MULTICAST, IPV4_UNICAST, IPV6_MULTICAST, IPV6_UNICAST, PRIORITIES, Setting,
};
use support::netns::daemon::{Daemon, addresses, ip};
use support::netns::patience::{unless, until};
use support::scratch::Scratch;

const ALL: [usize; 3] = [0, 1, 2];

/// IFA_PROTO of a daemon's addresses.
const MARK: u8 = 0x62;

/// Each scenario with both families and both ways to send adverts.
macro_rules! in_every_setting {
    ($($scenario:ident)*) => {$(
        mod $scenario {
            #[test]
            fn ipv4_multicast() {
                super::$scenario(super::IPV4_MULTICAST);
            }
            #[test]
            fn ipv4_unicast() {
                super::$scenario(super::IPV4_UNICAST);
            }
            #[test]
            fn ipv6_multicast() {
                super::$scenario(super::IPV6_MULTICAST);
            }
            #[test]
            fn ipv6_unicast() {
                super::$scenario(super::IPV6_UNICAST);
            }
        }
    )*};
}

in_every_setting! {
    the_highest_priority_is_elected
    a_cut_machine_is_replaced_and_after_mending_one_remains
    a_machine_without_carrier_lets_go_and_comes_back_as_backup
    a_stopped_daemon_hands_over_without_a_loss
    a_killed_daemon_is_replaced_and_its_address_removed_by_cleanup
    a_killed_daemons_address_vanishes_by_itself
    a_daemon_that_hung_finds_itself_replaced
    an_address_that_somebody_removes_is_back_without_a_change_of_role
}

fn the_highest_priority_is_elected(setting: Setting) {
    let mut cluster = Cluster::new(setting, "now");
    for daemon in &mut cluster.daemons {
        daemon.start();
    }
    cluster.served_by(0, &ALL);
    for backup in [1, 2] {
        cluster.is(backup, Role::Backup);
        let router = cluster.daemons[backup].router().unwrap();
        let active = router.active.unwrap();
        assert_eq!(active.priority.get(), PRIORITIES[0]);
        assert!(!active.here);
    }
}

fn a_cut_machine_is_replaced_and_after_mending_one_remains(setting: Setting) {
    let cluster = Cluster::serving(setting, "never");
    cluster.lan.cut(cluster.host(0)).unwrap();
    cluster.succeeded(0, &[1, 2]);
    // It does not know better: nobody else is there for it.
    assert_eq!(cluster.look().roles[0], Some(Role::Active));
    cluster.lan.mend(cluster.host(0)).unwrap();
    // Of two that were both Active the higher priority remains, whatever `preempt` says.
    cluster.served_by(0, &ALL);
}

fn a_machine_without_carrier_lets_go_and_comes_back_as_backup(setting: Setting) {
    let cluster = Cluster::serving(setting, "never");
    cluster.lan.unplug(cluster.host(0)).unwrap();
    let successor = cluster.succeeded(0, &ALL);
    cluster.is(0, Role::Initialize);
    let fault = cluster.daemons[0].router().unwrap().fault.unwrap();
    assert!(fault.text.contains("carrier"), "{fault:?}");
    cluster.lan.plug(cluster.host(0)).unwrap();
    cluster.is(0, Role::Backup);
    cluster.while_hearing(0, 10, |seen| seen.roles[0] == Some(Role::Backup) && !seen.holders[0]);
    cluster.served_by(successor, &ALL);
}

/// Who advertises to a machine that is gone asks for its MAC address now and then only, and the
/// machine that returns must not wait for that: its own patience is shorter.
#[test]
fn a_machine_that_its_peers_gave_up_on_comes_back_as_backup() {
    for setting in [IPV4_UNICAST, IPV6_UNICAST] {
        let cluster = Cluster::serving(setting, "never");
        cluster.lan.unplug(cluster.host(0)).unwrap();
        let successor = cluster.succeeded(0, &ALL);
        give_up_on(cluster.host(0), cluster.host(successor), cluster.vip.is_ipv6());
        cluster.lan.plug(cluster.host(0)).unwrap();
        cluster.is(0, Role::Backup);
        cluster.while_hearing(0, 10, |seen| seen.roles[0] == Some(Role::Backup));
        cluster.served_by(successor, &ALL);
    }
}

fn a_stopped_daemon_hands_over_without_a_loss(setting: Setting) {
    let mut cluster = Cluster::serving(setting, "never");
    let begin = now();
    cluster.daemons[0].stop();
    cluster.succeeded(0, &ALL);
    assert_eq!(cluster.lost(&(begin..now())), 0);
}

const NOTHING: &str = "nothing was left behind\n";

fn a_killed_daemon_is_replaced_and_its_address_removed_by_cleanup(setting: Setting) {
    // On a busy machine the address may have expired before the command looks.
    let had_some = (0..5).any(|_| {
        let mut cluster = Cluster::serving(setting, "never");
        cluster.daemons[0].kill();
        let removed = cluster.daemons[0].cleanup();
        assert!(!cluster.daemons[0].holds(cluster.vip));
        cluster.succeeded(0, &ALL);
        assert_eq!(cluster.daemons[0].cleanup(), NOTHING);
        removed.contains(&format!("removed {}", setting.vip))
    });
    assert!(had_some, "it never found an address to remove");
}

fn a_killed_daemons_address_vanishes_by_itself(setting: Setting) {
    let mut cluster = Cluster::serving(setting, "never");
    cluster.daemons[0].kill();
    cluster.lets_go(0);
    cluster.succeeded(0, &ALL);
}

fn a_daemon_that_hung_finds_itself_replaced(setting: Setting) {
    let mut cluster = Cluster::serving(setting, "never");
    cluster.daemons[0].signal(Signal::SIGSTOP);
    // A daemon that hangs would not answer the question for its role either.
    let active = |node: &usize| cluster.daemons[*node].role() == Some(Role::Active);
    let successor =
        until("another is Active", || [1, 2].into_iter().find(active).ok_or_else(String::new));
    cluster.daemons[0].signal(Signal::SIGCONT);
    cluster.served_by(successor, &ALL);
    cluster.while_hearing(0, 10, |seen| {
        let is_whole = |node: usize| {
            let serves = node == successor;
            seen.holders[node] == serves && (seen.roles[node] == Some(Role::Active)) == serves
        };
        ALL.into_iter().all(is_whole)
    });
}

fn an_address_that_somebody_removes_is_back_without_a_change_of_role(setting: Setting) {
    let cluster = Cluster::serving(setting, "never");
    let transitions = || {
        let routers = cluster.daemons.iter().map(|daemon| daemon.router().unwrap());
        routers.map(|router| router.transitions).collect::<Vec<_>>()
    };
    let before = transitions();
    let lost = || cluster.daemons[0].state().unwrap().counters.addresses_lost;
    for round in 1..=3 {
        ip(cluster.host(0), &format!("addr del {}/{} dev eth0", setting.vip, width(cluster.vip)));
        until("the loss was noticed", || unless(lost() == round, lost));
        cluster.served_by(0, &ALL);
    }
    assert_eq!(transitions(), before);
}

/// A machine that is alone serves what it finds of a predecessor; the rest of that goes.
#[test]
fn what_a_killed_predecessor_left_is_adopted_if_it_is_in_the_plan_and_else_removed() {
    for (vip, other) in [("192.0.2.50", "192.0.2.51"), ("2001:db8::50", "2001:db8::51")] {
        let (lan, scratch) = (Arc::new(Lan::new(&["alone"]).unwrap()), Scratch::new());
        let mut daemon = Daemon::new(&lan, 0, &scratch, "barevip", &plan(50, &[vip]));
        for address in [vip, other] {
            leave_behind(&daemon, address);
        }
        daemon.start();
        serves(&daemon, &[vip]);
        // It was left behind for ever; what is served has an end.
        until("one is adopted and the other one removed", || {
            let found = ip(daemon.host(), "-oneline addr show dev eth0");
            let adopted = found.lines().find(|line| line.contains(vip)).unwrap_or_default();
            let good = !adopted.contains("valid_lft forever") && !found.contains(other);
            unless(good, || found)
        });
    }
}

/// A Backup does not hold what it finds.
#[test]
fn what_a_killed_predecessor_left_is_removed_where_another_machine_serves() {
    for setting in [IPV4_MULTICAST, IPV6_MULTICAST] {
        let mut cluster = Cluster::serving(setting, "never");
        cluster.daemons[2].kill();
        leave_behind(&cluster.daemons[2], setting.vip);
        cluster.daemons[2].start();
        cluster.served_by(0, &ALL);
    }
}

#[test]
fn an_address_of_the_administrator_stays_as_it_is() {
    for vip in ["192.0.2.50", "2001:db8::50"] {
        let (lan, scratch) = (Arc::new(Lan::new(&["alone"]).unwrap()), Scratch::new());
        let mut daemon = Daemon::new(&lan, 0, &scratch, "barevip", &plan(50, &[vip]));
        let width = width(vip.parse().unwrap());
        ip(daemon.host(), &format!("addr add {vip}/{width} dev eth0 nodad"));
        let shown = || ip(daemon.host(), "-oneline addr show dev eth0");
        let before = shown();
        daemon.start();
        until("the problem is reported", || {
            let problems = daemon.router().map(|router| router.problems).unwrap_or_default();
            let is_it = problems.iter().any(|problem| problem.text.contains(vip));
            unless(is_it, || problems)
        });
        assert_eq!(ip(daemon.host(), "-oneline addr show dev eth0"), before);
        daemon.stop();
        daemon.cleanup();
        assert_eq!(ip(daemon.host(), "-oneline addr show dev eth0"), before);
    }
}

#[test]
fn two_daemons_on_one_machine_leave_each_other_alone() {
    let (lan, scratch) = (Arc::new(Lan::new(&["alone"]).unwrap()), Scratch::new());
    let mut one = Daemon::new(&lan, 0, &scratch, "one", &plan(50, &["192.0.2.50"]));
    let mut other = Daemon::new(&lan, 0, &scratch, "other", &plan(51, &["192.0.2.51"]));
    one.start();
    other.start();
    serves(&one, &["192.0.2.50"]);
    serves(&other, &["192.0.2.51"]);
    one.stop();
    assert_eq!(one.cleanup(), "nothing was left behind\n");
    assert!(!one.holds("192.0.2.50".parse().unwrap()));
    assert!(other.holds("192.0.2.51".parse().unwrap()));
    assert_eq!(other.role(), Some(Role::Active));
    one.start();
    serves(&one, &["192.0.2.50"]);
    other.kill();
    other.cleanup();
    assert!(one.holds("192.0.2.50".parse().unwrap()));
    assert!(!other.holds("192.0.2.51".parse().unwrap()));
}

/// 1000 IPv4 and 500 IPv6 addresses, bound here, moved there, and gone.
#[test]
fn many_addresses_move_whole() {
    let ipv4 = (0..1000).map(|n| format!("10.50.{}.{}", n / 250, n % 250 + 1)).collect();
    let ipv6 = (1..=500).map(|n| format!("2001:db8:50::{n:x}")).collect();
    for vips in [ipv4, ipv6] {
        let vips: Vec<String> = vips;
        let vips: Vec<&str> = vips.iter().map(String::as_str).collect();
        let (lan, scratch) = (Arc::new(Lan::new(&["one", "two"]).unwrap()), Scratch::new());
        let [mut one, mut two] =
            [0, 1].map(|node| Daemon::new(&lan, node, &scratch, "barevip", &plan(50, &vips)));
        one.start();
        serves(&one, &vips);
        two.start();
        until("node two is backup", || unless(two.role() == Some(Role::Backup), || two.role()));
        one.stop();
        serves(&two, &vips);
        two.stop();
        for host in lan.nodes() {
            assert_eq!(addresses(host).len(), own_addresses(host));
        }
    }
}

#[test]
fn a_clean_stop_leaves_nothing_behind() {
    for setting in [IPV4_MULTICAST, IPV6_MULTICAST, IPV4_UNICAST, IPV6_UNICAST] {
        let mut cluster = Cluster::new(setting, "never");
        let before = traces(cluster.host(0));
        cluster.daemons[0].start();
        cluster.served_by(0, &[0]);
        assert_ne!(traces(cluster.host(0)), before);
        cluster.daemons[0].stop();
        assert_eq!(traces(cluster.host(0)), before);
    }
}

/// Whatever a daemon might change on a machine: addresses, memberships, rules, routes, links,
/// and the settings of links.
fn traces(host: &Host) -> String {
    let mut nft = Command::new("nft");
    nft.args(["list", "ruleset"]);
    let mut settings = Command::new("sysctl");
    settings.args(["-a", "--pattern", r"^net\.ipv[46]\.conf\.eth0\."]);
    [
        ip(host, "-oneline addr show"),
        ip(host, "-oneline maddr show"),
        ip(host, "route show table all"),
        ip(host, "-6 route show table all"),
        ip(host, "link show"),
        host.namespace().output(nft).unwrap(),
        host.namespace().output(settings).unwrap(),
    ]
    .join("\n")
}

/// `host` has just asked in vain for the MAC address of `gone`, and does so again in a minute.
fn give_up_on(gone: &Host, host: &Host, is_ipv6: bool) {
    let (family, address): (_, IpAddr) =
        if is_ipv6 { ("ipv6", gone.link_local().into()) } else { ("ipv4", gone.ipv4().into()) };
    let patience = format!("/proc/sys/net/{family}/neigh/eth0/retrans_time_ms");
    host.namespace().run(|| Ok(std::fs::write(patience, "60000")?)).unwrap();
    ip(host, &format!("neigh flush dev eth0 to {address} nud all"));
    until("the machine that is gone is asked for", || {
        let shown = ip(host, &format!("neigh show dev eth0 to {address}"));
        unless(shown.contains("INCOMPLETE"), || shown)
    });
}

/// A router that lists these addresses, the only one with its VRID on the machine.
fn plan(vrid: u8, vips: &[&str]) -> String {
    format!(
        "[[virtual_router]]\nvrid = {vrid}\ninterface = \"eth0\"\naddresses = {vips:?}\n\
         interval = \"100ms\"\n"
    )
}

/// An address with the mark of a daemon that is no more, and without an end.
fn leave_behind(daemon: &Daemon, address: &str) {
    let address: IpAddr = address.parse().unwrap();
    let mark = daemon.instance().0;
    let add = async |netlink: &rtnetlink::Handle| {
        let index = nix::net::if_::if_nametoindex("eth0")?;
        let mut request = netlink.address().add(index, address, width(address));
        request.message_mut().attributes.extend([
            AddressAttribute::Flags(AddressFlags::Nodad | AddressFlags::Noprefixroute),
            AddressAttribute::RoutePriority(mark),
            AddressAttribute::Protocol(AddressProtocol::Other(MARK)),
        ]);
        Ok(request.execute().await?)
    };
    daemon.host().namespace().netlink(add).unwrap();
}

/// Waits until a daemon serves exactly these addresses.
#[track_caller]
fn serves(daemon: &Daemon, vips: &[&str]) {
    let mut wanted: Vec<IpAddr> = vips.iter().map(|vip| vip.parse().unwrap()).collect();
    wanted.sort();
    until("all addresses are served", || {
        let role = daemon.role();
        let found = addresses(daemon.host());
        let bound = wanted.iter().filter(|vip| found.contains(vip)).count();
        unless(role == Some(Role::Active) && bound == wanted.len(), || (role, bound, wanted.len()))
    });
}

/// 127.0.0.1, ::1, and those of eth0: one IPv4, a link-local and a global IPv6 one.
fn own_addresses(_host: &Host) -> usize {
    5
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv6() { 128 } else { 32 }
}
