//! Links and addresses over the real netlink, each test in network namespaces of its own.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use barevip::engine::node::command::{AddressChange, CommandId, Failure};
use barevip::engine::node::links::{Instance, Link, LinkAddress, LinkId, LinkSnapshot};
use barevip::engine::time::Instant;
use barevip::io::clock;
use barevip::io::kernel::netlink::{Netlink, Report, Request, cleanup};
use barevip::model::{Family, Vip};

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressProtocol};
use nix::sys::socket;

use crate::support::host::{Host, PATIENCE, deadline, output};

/// The netlink thread of a machine, as the engine sees it.
struct Kernel {
    netlink: Netlink,
    reports: Receiver<Report>,
    links: LinkSnapshot,
    answers: BTreeMap<CommandId, Result<(), Failure>>,
    last_id: u64,
}

fn ours() -> Instance {
    Instance::named(b"test")
}

fn vip(text: &str) -> Vip {
    text.parse().unwrap()
}

impl Kernel {
    fn start(host: &Host) -> Self {
        let (report, reports) = channel();
        let netlink = host.run(move || {
            Netlink::start(ours(), move |said| report.send(said).is_ok()).expect("start netlink")
        });
        let mut kernel = Self {
            netlink,
            reports,
            links: LinkSnapshot::default(),
            answers: BTreeMap::new(),
            last_id: 0,
        };
        kernel.until("the first snapshot", |kernel| !kernel.links.links.is_empty());
        kernel
    }

    /// Takes reports until something holds.
    fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        while !holds(self) {
            match self.reports.recv_timeout(PATIENCE) {
                Ok(report) => self.take(report),
                Err(error) => panic!("{what}: {error}; last seen: {:#?}", self.links),
            }
        }
    }

    fn take(&mut self, report: Report) {
        match report {
            Report::Links(links) => self.links = links,
            Report::Done(id, result) => {
                self.answers.insert(id, result);
            }
            Report::Joined(..) => {}
            Report::Trouble(text) => panic!("{text}"),
        }
    }

    fn ask(&mut self, link: LinkId, vip: Vip, change: AddressChange) -> CommandId {
        self.last_id += 1;
        let id = CommandId(self.last_id);
        while self.netlink.request(Request::Address { id, link, vip, change }) == Err(Failure::Busy)
        {
            let report = self.reports.recv_timeout(PATIENCE).expect("an answer");
            self.take(report);
        }
        id
    }

    fn change(&mut self, link: LinkId, vip: Vip, change: AddressChange) -> Result<(), Failure> {
        let id = self.ask(link, vip, change);
        self.until("an answer", |kernel| kernel.answers.contains_key(&id));
        self.answers.remove(&id).unwrap()
    }

    fn link(&self, id: LinkId) -> Option<&Link> {
        self.links.get(id)
    }

    fn address(&self, id: LinkId, vip: Vip) -> Option<&LinkAddress> {
        self.link(id)?.address(vip.address())
    }
}

fn add(seconds: u64) -> AddressChange {
    AddressChange::Add { lifetime: Duration::from_secs(seconds), not_after: deadline() }
}

fn refresh(seconds: u64) -> AddressChange {
    AddressChange::Refresh { lifetime: Duration::from_secs(seconds), not_after: deadline() }
}

/// A machine with one end of a cable, and the machine at its other end.
fn host_with_cable() -> (Host, Host, LinkId) {
    let (host, other) = Host::pair();
    let link = host.link("eth0");
    (host, other, link)
}

#[test]
fn an_address_is_bound_with_mark_and_lifetime_refreshed_and_removed() {
    let (host, _other, link) = host_with_cable();
    let mut kernel = Kernel::start(&host);
    for (text, local) in [("192.0.2.50", "192.0.2.50"), ("2001:db8::50", "2001:db8::50")] {
        let vip = vip(text);
        let shown = || {
            let addresses = host.addresses("eth0");
            addresses.into_iter().find(|a| a["local"] == local)
        };
        assert_eq!(kernel.change(link, vip, add(10)), Ok(()));
        let bound = shown().expect("bound");
        assert_eq!(bound["prefixlen"], vip.family().host_prefix_len());
        assert_eq!(bound["scope"], "global");
        assert_eq!(bound["metric"], ours().0);
        assert_eq!(protocol(&host, vip), Some(AddressProtocol::Other(0x62)));
        assert_eq!(bound["preferred_life_time"], 0);
        assert_eq!(bound["deprecated"], true);
        assert_eq!(bound["noprefixroute"], true);
        assert_eq!(bound["nodad"].as_bool(), (vip.family() == Family::Ipv6).then_some(true));
        assert!(bound["broadcast"].is_null());
        assert!((8..=10).contains(&bound["valid_life_time"].as_u64().unwrap()), "{bound}");

        kernel.until("the address in a snapshot", |k| k.address(link, vip).is_some());
        let seen = *kernel.address(link, vip).unwrap();
        assert_eq!(seen.instance, Some(ours()));
        assert!(seen.usable);

        assert_eq!(kernel.change(link, vip, refresh(100)), Ok(()));
        let refreshed = shown().expect("still bound");
        assert!(refreshed["valid_life_time"].as_u64().unwrap() > 90, "{refreshed}");
        assert_eq!(refreshed["metric"], ours().0);

        assert_eq!(kernel.change(link, vip, AddressChange::Remove), Ok(()));
        assert_eq!(shown(), None);
        kernel.until("no address in a snapshot", |k| k.address(link, vip).is_none());
        assert_eq!(kernel.change(link, vip, AddressChange::Remove), Ok(()), "it is gone already");
    }
}

/// IFA_PROTO of an address, which this `ip` does not know, by an independent decoder.
fn protocol(host: &Host, vip: Vip) -> Option<AddressProtocol> {
    host.run(move || {
        let socket = socket::socket(
            socket::AddressFamily::Netlink,
            socket::SockType::Raw,
            socket::SockFlag::SOCK_CLOEXEC,
            socket::SockProtocol::NetlinkRoute,
        );
        let socket = socket.unwrap();
        let mut dump = NetlinkMessage::from(RouteNetlinkMessage::GetAddress(Default::default()));
        dump.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        dump.finalize();
        let mut bytes = vec![0; 1 << 16];
        dump.serialize(&mut bytes[..dump.buffer_len()]);
        let none = socket::MsgFlags::empty();
        socket::send(socket.as_raw_fd(), &bytes[..dump.buffer_len()], none).unwrap();
        loop {
            let length = socket::recv(socket.as_raw_fd(), &mut bytes, none).unwrap();
            let mut rest = &bytes[..length];
            while !rest.is_empty() {
                let message = NetlinkMessage::deserialize(rest).unwrap();
                rest = &rest[message.header.length as usize..];
                let NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewAddress(address)) =
                    message.payload
                else {
                    panic!("the address is not there: {message:?}");
                };
                if !address.attributes.contains(&AddressAttribute::Address(vip.address())) {
                    continue;
                }
                return address.attributes.iter().find_map(|attribute| {
                    let AddressAttribute::Protocol(protocol) = attribute else { return None };
                    Some(*protocol)
                });
            }
        }
    })
}

#[test]
fn a_prefix_length_of_the_file_is_bound_without_a_route() {
    let (host, _other, link) = host_with_cable();
    let mut kernel = Kernel::start(&host);
    assert_eq!(kernel.change(link, vip("198.51.100.7/24"), add(10)), Ok(()));
    let bound = host.addresses("eth0").into_iter().find(|a| a["local"] == "198.51.100.7").unwrap();
    assert_eq!(bound["prefixlen"], 24);
    let routes = host.run(|| output(Command::new("ip").args(["route", "show", "table", "main"])));
    assert!(!String::from_utf8(routes).unwrap().contains("198.51.100.0"));
}

#[test]
fn an_administrators_address_is_neither_taken_over_nor_refreshed_nor_removed() {
    let (host, _other, link) = host_with_cable();
    for text in ["192.0.2.50/32", "2001:db8::50/128"] {
        host.ip(&format!("address add {text} dev eth0"));
    }
    host.settle("eth0");
    let mut kernel = Kernel::start(&host);
    let before = host.addresses("eth0");
    for text in ["192.0.2.50", "2001:db8::50"] {
        let vip = vip(text);
        assert_eq!(kernel.change(link, vip, add(10)), Err(Failure::Exists));
        let refused = kernel.change(link, vip, refresh(10)).unwrap_err();
        assert!(matches!(refused, Failure::Refused(_)), "{refused}");
        let refused = kernel.change(link, vip, AddressChange::Remove).unwrap_err();
        assert!(matches!(refused, Failure::Refused(_)), "{refused}");
    }
    assert_eq!(host.addresses("eth0"), before);
}

#[test]
fn a_foreign_deletion_is_seen() {
    let (host, _other, link) = host_with_cable();
    let mut kernel = Kernel::start(&host);
    for text in ["192.0.2.50/32", "2001:db8::50/128"] {
        let vip = vip(text);
        kernel.change(link, vip, add(60)).unwrap();
        kernel.until("the address", |k| k.address(link, vip).is_some());
        host.ip(&format!("address del {text} dev eth0"));
        kernel.until("no address", |k| k.address(link, vip).is_none());
        // A refresh that was under way must not bring it back.
        assert!(kernel.change(link, vip, refresh(60)).is_err());
        assert!(host.addresses("eth0").iter().all(|a| a["local"] != vip.address().to_string()));
    }
}

#[test]
fn a_late_command_is_dropped() {
    let (host, _other, link) = host_with_cable();
    let mut kernel = Kernel::start(&host);
    let (there, absent) = (vip("192.0.2.50"), vip("192.0.2.51"));
    kernel.change(link, there, add(10)).unwrap();
    let (lifetime, not_after) = (Duration::from_secs(100), Instant::ZERO);
    let late = AddressChange::Refresh { lifetime, not_after };
    assert_eq!(kernel.change(link, there, late), Err(Failure::TooLate));
    let late = AddressChange::Add { lifetime, not_after };
    assert_eq!(kernel.change(link, absent, late), Err(Failure::TooLate));
    let addresses = host.addresses("eth0");
    assert!(addresses.iter().all(|a| a["local"] != "192.0.2.51"));
    let there = addresses.iter().find(|a| a["local"] == "192.0.2.50").unwrap();
    assert!(there["valid_life_time"].as_u64().unwrap() <= 10, "{there}");
}

#[test]
fn a_command_for_a_link_that_is_gone_fails_and_its_removal_succeeds() {
    let (host, _other, _) = host_with_cable();
    let mut kernel = Kernel::start(&host);
    let nowhere = LinkId(4711);
    let failure = kernel.change(nowhere, vip("192.0.2.50"), add(10)).unwrap_err();
    assert!(matches!(failure, Failure::Refused(_)), "{failure}");
    assert_eq!(kernel.change(nowhere, vip("192.0.2.50"), AddressChange::Remove), Ok(()));
}

#[test]
fn a_thousand_ipv4_and_three_hundred_ipv6_addresses_come_and_go() {
    let (host, _other, link) = host_with_cable();
    let mut kernel = Kernel::start(&host);
    let vips: Vec<Vip> = (0..1000)
        .map(|n| vip(&format!("10.7.{}.{}", n / 250, n % 250 + 1)))
        .chain((1..=300).map(|n| vip(&format!("2001:db8:7::{n:x}"))))
        .collect();
    let own = kernel.link(link).unwrap().addresses.clone();
    for change in [add(600), refresh(700), AddressChange::Remove] {
        kernel.answers.clear();
        for &vip in &vips {
            kernel.ask(link, vip, change);
        }
        kernel.until("all answers", |k| k.answers.len() == vips.len());
        assert!(kernel.answers.values().all(Result::is_ok), "{change:?}");
        let is_bound = change != AddressChange::Remove;
        kernel.until("all in a snapshot", |k| {
            let addresses = &k.link(link).unwrap().addresses;
            let marked = addresses.iter().filter(|a| a.instance == Some(ours())).count();
            marked == if is_bound { vips.len() } else { 0 }
        });
    }
    assert_eq!(kernel.link(link).unwrap().addresses, own);
}

/// What a fresh dump shows, to hold a picture made of events against.
fn dumped(host: &Host) -> LinkSnapshot {
    Kernel::start(host).links
}

/// Waits until the picture made of events is the one that a dump makes.
fn agrees_with_a_dump(kernel: &mut Kernel, host: &Host, after: &str) {
    let deadline = deadline();
    let pause = Duration::from_millis(20);
    loop {
        let truth = dumped(host);
        while let Ok(report) = kernel.reports.recv_timeout(pause) {
            kernel.take(report);
        }
        if kernel.links == truth {
            return;
        }
        let seen = &kernel.links;
        assert!(clock::now() < deadline, "after {after}: {seen:#?}\nand not {truth:#?}");
    }
}

#[test]
fn the_picture_made_of_events_is_the_one_of_a_dump_order_included() {
    let (host, other, link) = host_with_cable();
    let mut kernel = Kernel::start(&host);
    let steps = [
        // Two more in the subnet of the first (secondary), one that reaches the link alone.
        "address add 192.0.2.12/24 dev eth0",
        "address add 192.0.2.13/24 dev eth0",
        "address add 198.51.100.1/24 dev eth0 scope link",
        "address add 198.51.100.9/32 dev eth0",
        "address add 2001:db8::12/64 dev eth0",
        "address add fe80::1/64 dev eth0",
        "address add 2001:db8::13/64 dev eth0",
        "address del 198.51.100.9/32 dev eth0",
        "address add 192.0.2.99/32 dev eth0",
        "address del 192.0.2.12/24 dev eth0",
        "address add 10.0.0.1 peer 10.0.0.2/32 dev eth0",
        "address change 192.0.2.99/32 dev eth0 valid_lft 100 preferred_lft 0",
        "link set eth0 mtu 1400",
        "link set eth0 address 02:00:00:00:00:07",
        "link set eth0 down",
        "link set eth0 up",
        "link add veth0 type veth peer name veth1",
        "link set veth1 name renamed",
        "link del veth0",
        "link add br0 type bridge",
        "link set eth0 master br0",
        "link set br0 up",
        "address add 192.0.2.77/24 dev br0",
        "link set eth0 nomaster",
        "link del br0",
    ];
    for step in steps {
        host.ip(step);
        agrees_with_a_dump(&mut kernel, &host, step);
    }
    // The first goes, and the next one of its subnet takes its place, or all of them go.
    for promote in ["1", "0"] {
        host.ip("address flush dev eth0");
        host.run(move || {
            let all = "/proc/sys/net/ipv4/conf/eth0/promote_secondaries";
            std::fs::write(all, promote).unwrap();
        });
        for n in [11, 12, 13] {
            host.ip(&format!("address add 192.0.2.{n}/24 dev eth0"));
            host.ip(&format!("address add 198.51.100.{n}/32 dev eth0"));
        }
        host.ip("address del 192.0.2.11/24 dev eth0");
        agrees_with_a_dump(&mut kernel, &host, "the first went");
    }
    // Carrier goes with the other end.
    other.ip("link set eth0 down");
    kernel.until("no carrier", |k| !k.link(link).unwrap().carrier);
    agrees_with_a_dump(&mut kernel, &host, "carrier went");
}

#[test]
fn a_link_is_described_as_the_engine_needs_it() {
    let (host, _other, link) = host_with_cable();
    host.ip("link set eth0 address 02:00:00:00:00:07 mtu 1400");
    host.run(|| std::fs::write("/proc/sys/net/ipv6/conf/eth0/forwarding", "1").unwrap());
    let mut kernel = Kernel::start(&host);
    let seen = kernel.link(link).unwrap();
    assert_eq!((seen.name.as_str(), seen.mtu), ("eth0", 1400));
    assert_eq!(seen.mac.unwrap().to_string(), "02:00:00:00:00:07");
    assert!(seen.up && seen.carrier && seen.forwards_ipv6 && seen.master.is_none());
    let lo = kernel.links.links.iter().find(|l| l.name == "lo").unwrap();
    assert_eq!((lo.mac, lo.up), (None, true));
    // A bridge swallows its ports, a port that leaves is not gone.
    host.ip("link add br0 type bridge");
    let bridge = host.link("br0");
    host.ip("link set eth0 master br0");
    kernel.until("a master", |k| k.link(link).is_some_and(|l| l.master == Some(bridge)));
    host.ip("link set eth0 nomaster");
    kernel.until("no master", |k| k.link(link).is_some_and(|l| l.master.is_none()));
    host.ip("link set eth0 down");
    kernel.until("down", |k| k.link(link).is_some_and(|l| !l.up && !l.carrier));
    host.ip("link del eth0");
    kernel.until("gone", |k| k.link(link).is_none());
}

#[test]
fn an_address_that_waits_for_duplicate_detection_is_not_usable_yet() {
    let (host, other) = (Host::new(), Host::new());
    host.cable("eth0", &other, "eth0");
    let link = host.link("eth0");
    // Long enough to be seen: a thousand probes a second apart.
    host.run(|| {
        std::fs::write("/proc/sys/net/ipv6/conf/eth0/accept_dad", "1").unwrap();
        std::fs::write("/proc/sys/net/ipv6/conf/eth0/dad_transmits", "1000").unwrap();
    });
    host.ip("address add 2001:db8::11/64 dev eth0");
    let kernel = Kernel::start(&host);
    assert!(!kernel.address(link, vip("2001:db8::11")).unwrap().usable);
}

#[test]
fn events_that_were_lost_are_made_up_for() {
    let (host, _other, _) = host_with_cable();
    let (report, reports) = channel();
    let (go, may_go) = channel::<()>();
    let netlink = host.run(move || {
        let mut is_first = true;
        let hold_up = move |said| {
            report.send(said).ok();
            // While the thread is held up here, nobody reads its events.
            if std::mem::take(&mut is_first) {
                may_go.recv().ok();
            }
            true
        };
        Netlink::start(ours(), hold_up).expect("start netlink")
    });
    let first = reports.recv_timeout(PATIENCE).unwrap();
    assert!(matches!(first, Report::Links(_)));
    let lines = |verb: &str| -> String {
        (1..=250).map(|n| format!("address {verb} 10.7.0.{n}/32 dev eth0\n")).collect()
    };
    let (add, del) = (lines("add"), lines("del"));
    let deadline = deadline();
    // What the queue keeps begins with additions; their removal is lost.
    while host.run(dropped_events) == 0 {
        assert!(clock::now() < deadline, "no event was lost");
        let script = format!("{add}{del}").repeat(10);
        host.run(move || batch(&script));
    }
    host.ip("address add 192.0.2.99/32 dev eth0");
    go.send(()).unwrap();
    let truth = dumped(&host);
    let mut links = LinkSnapshot::default();
    while links != truth {
        match reports.recv_timeout(PATIENCE) {
            Ok(Report::Links(seen)) => links = seen,
            other => panic!("{other:?}"),
        }
    }
    // And nothing that was overtaken comes afterwards.
    drop(netlink);
    assert!(reports.iter().all(|report| report == Report::Links(truth.clone())));
}

/// Runs a script of `ip` in one process.
fn batch(script: &str) {
    let mut ip = Command::new("ip");
    let mut child = ip.args(["-batch", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

/// Events that netlink sockets of this namespace lost, as /proc tells.
fn dropped_events() -> u64 {
    let table = std::fs::read_to_string("/proc/thread-self/net/netlink").unwrap();
    table
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().nth(8)?.parse::<u64>().ok())
        .sum()
}

#[test]
fn cleanup_removes_this_instances_addresses_and_no_others() {
    let (host, _other, link) = host_with_cable();
    let mut kernel = Kernel::start(&host);
    host.ip("address add 192.0.2.60/32 dev eth0 metric 77");
    for text in ["192.0.2.50", "2001:db8::50", "198.51.100.7/24"] {
        kernel.change(link, vip(text), add(60)).unwrap();
    }
    let other = Instance::named(b"other");
    assert_ne!(other, ours());
    assert_eq!(host.run(move || cleanup(other)).unwrap(), []);
    let removed = host.run(|| cleanup(ours())).unwrap();
    let told: Vec<String> = removed.iter().map(|(link, net)| format!("{net} {link}")).collect();
    assert_eq!(told, ["192.0.2.50/32 eth0", "198.51.100.7/24 eth0", "2001:db8::50/128 eth0"]);
    let left: Vec<String> = host
        .addresses("eth0")
        .iter()
        .map(|a| a["local"].as_str().unwrap().to_owned())
        .filter(|a| !a.starts_with("fe80"))
        .collect();
    assert_eq!(left, ["192.0.2.11", "192.0.2.60", "2001:db8::11"]);
}

#[test]
fn a_group_is_joined_and_left() {
    let (host, _other, link) = host_with_cable();
    let kernel = Kernel::start(&host);
    let groups = || {
        host.run(|| {
            let igmp = std::fs::read_to_string("/proc/thread-self/net/igmp").unwrap();
            let mld = std::fs::read_to_string("/proc/thread-self/net/igmp6").unwrap();
            (igmp.contains("120000E0"), mld.contains("ff020000000000000000000000000012"))
        })
    };
    assert_eq!(groups(), (false, false));
    for family in [Family::Ipv4, Family::Ipv6] {
        kernel.netlink.request(Request::Join(link, family)).unwrap();
        loop {
            match kernel.reports.recv_timeout(PATIENCE).expect("joined") {
                Report::Joined(joined, door) => {
                    assert_eq!((joined, door.ifindex()), (link, link.0 as usize));
                    break;
                }
                Report::Links(_) => {}
                other @ (Report::Done(..) | Report::Trouble(_)) => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(groups(), (true, true));
    kernel.netlink.request(Request::Leave(link, Family::Ipv4)).unwrap();
    kernel.netlink.request(Request::Leave(link, Family::Ipv6)).unwrap();
    drop(kernel.netlink);
    // The kernel takes a group off its list a moment after the last socket left it.
    let deadline = deadline();
    while groups() != (false, false) {
        assert!(clock::now() < deadline, "the groups were not left: {:?}", groups());
    }
}
