//! Adverts and announcements over real packet and raw sockets, from one network namespace to
//! another.

use std::io::Read as _;
use std::net::IpAddr;
use std::process::Command;
use std::sync::mpsc::channel;

use barevip::engine::node::links::{Instance, LinkId};
use barevip::engine::vrrp::frames::{Announcement, MacAddress, probe};
use barevip::io::clock;
use barevip::io::kernel::netlink::{Netlink, Report, Request};
use barevip::io::kernel::receive::{Heard, Receiver};
use barevip::io::kernel::send::Sender;
use barevip::model::Family;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use socket2::{Domain, Protocol, Socket, Type};

use crate::support::host::{Host, PATIENCE, deadline, output};

const GROUP_V4: &str = "224.0.0.18";
const GROUP_V6: &str = "ff02::12";
const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);
/// The last message of a test: what did not come before it does not come.
const LAST: &[u8] = b"the last one";

/// What was heard, by value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sound {
    Advert { link: LinkId, source: IpAddr, destination: IpAddr, ttl: u8, message: Vec<u8> },
    Neighbour { link: LinkId, announcement: Announcement },
}

/// A machine with its sockets.
struct Node {
    host: Host,
    receiver: Receiver,
    sender: Sender,
    /// Keeps it in the groups.
    _netlink: Netlink,
    link: LinkId,
    link_local: IpAddr,
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

impl Node {
    /// A machine that hears and sends both families on its link `eth0`.
    fn on(host: Host) -> Self {
        let link = host.link("eth0");
        let is_link_local = |address: &serde_json::Value| address["scope"] == "link";
        let link_local = host.addresses("eth0").into_iter().find(is_link_local).unwrap();
        let link_local = ip(link_local["local"].as_str().unwrap());
        let (mut receiver, mut sender) =
            host.run(|| (Receiver::open().unwrap(), Sender::open().unwrap()));
        let (report, reports) = channel();
        let netlink = host.run(move || {
            let outlet = move |said| report.send(said).is_ok();
            Netlink::start(Instance::named(b"sockets"), outlet).unwrap()
        });
        for family in [Family::Ipv4, Family::Ipv6] {
            receiver.listen(link, family).unwrap();
            netlink.request(Request::Join(link, family)).unwrap();
            let door = loop {
                match reports.recv_timeout(PATIENCE).expect("joined") {
                    Report::Joined(_, door) => break door,
                    Report::Links(_) => {}
                    other @ (Report::Done(..) | Report::Trouble(_)) => panic!("{other:?}"),
                }
            };
            sender.open_door(link, door);
        }
        Self { host, receiver, sender, _netlink: netlink, link, link_local }
    }

    /// Two machines with a cable between them.
    fn pair() -> (Self, Self) {
        let (here, there) = Host::pair();
        (Self::on(here), Self::on(there))
    }

    fn says(&mut self, source: IpAddr, destination: &str, message: &[u8]) {
        self.sender.advert(self.link, source, ip(destination), message);
        assert!(self.sender.counts().failed.is_empty(), "{:?}", self.sender.counts());
    }

    fn sends(&mut self, frame: &[u8]) {
        self.sender.frame(self.link, frame);
        assert!(self.sender.counts().failed.is_empty(), "{:?}", self.sender.counts());
    }

    /// Everything heard up to `LAST`, which the other one says now, on IPv4.
    fn hears(&mut self, other: &mut Self) -> Vec<Sound> {
        let n = if other.host.addresses("eth0").iter().any(|a| a["local"] == "192.0.2.11") {
            11
        } else {
            12
        };
        other.says(ip(&format!("192.0.2.{n}")), GROUP_V4, LAST);
        let deadline = deadline();
        let mut sounds = Vec::new();
        loop {
            self.receiver.drain(|heard| sounds.push(Sound::from(heard)));
            // The sockets are read one after another: once the last one is there, all is.
            let is_last = |s: &Sound| matches!(s, Sound::Advert { message, .. } if message == LAST);
            if sounds.iter().any(is_last) {
                self.receiver.drain(|heard| sounds.push(Sound::from(heard)));
                sounds.retain(|sound| !is_last(sound));
                return sounds;
            }
            let left = deadline.since(clock::now());
            assert!(!left.is_zero(), "heard {sounds:?} and not the last one");
            let mut poll = self.receiver.readable().map(|fd| PollFd::new(fd, PollFlags::POLLIN));
            ppoll(&mut poll, Some(TimeSpec::from_duration(left)), None).unwrap();
        }
    }
}

impl From<Heard<'_>> for Sound {
    fn from(heard: Heard<'_>) -> Self {
        match heard {
            Heard::Advert { link, source, destination, ttl, message, received_at } => {
                assert!(received_at <= clock::now());
                let message = message.to_vec();
                Self::Advert { link, source, destination, ttl, message }
            }
            Heard::Neighbour { link, announcement, .. } => Self::Neighbour { link, announcement },
        }
    }
}

fn advert(link: LinkId, source: IpAddr, destination: &str, message: &[u8]) -> Sound {
    let (destination, message) = (ip(destination), message.to_vec());
    Sound::Advert { link, source, destination, ttl: 255, message }
}

#[test]
fn adverts_are_heard_with_their_source_on_the_group_and_unicast() {
    let (mut here, mut there) = Node::pair();
    let (v4, v6) = (ip("192.0.2.11"), here.link_local);
    let said = [
        (v4, GROUP_V4, &b"group 4"[..]),
        (v4, "192.0.2.12", b"unicast 4"),
        (v6, GROUP_V6, b"group 6"),
        (v6, &there.link_local.to_string(), b"unicast 6"),
    ];
    for (source, destination, message) in said {
        here.says(source, destination, message);
    }
    let expected = said.map(|(from, to, message)| advert(there.link, from, to, message));
    assert_eq!(there.hears(&mut here), expected);
    assert_eq!(here.sender.counts().sent, 5);
    assert_eq!(there.receiver.overflowed(), 0);
}

#[test]
fn a_packet_is_as_old_as_the_kernel_says_and_not_as_we_are_slow() {
    let (mut here, mut there) = Node::pair();
    let deadline = deadline();
    loop {
        let before = clock::now();
        here.says(ip("192.0.2.11"), GROUP_V4, LAST);
        let mut poll = there.receiver.readable().map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        ppoll(&mut poll, Some(TimeSpec::from_duration(PATIENCE)), None).unwrap();
        let arrived = clock::now();
        let mut stamps = Vec::new();
        there.receiver.drain(|heard| match heard {
            Heard::Advert { received_at, .. } | Heard::Neighbour { received_at, .. } => {
                stamps.push(received_at);
            }
        });
        assert_eq!(stamps.len(), 1);
        let at = stamps[0];
        if before <= at && at <= arrived {
            return;
        }
        // The kernel begins to stamp a moment after the first socket asked for it; until then it
        // stamps what is read.
        assert!(clock::now() < deadline, "{before}, {at}, {arrived}");
    }
}

#[test]
fn the_source_is_the_one_that_was_asked_for_also_where_it_is_not_the_first() {
    let (mut here, mut there) = Node::pair();
    here.host.ip("address add 192.0.2.99/24 dev eth0");
    here.says(ip("192.0.2.99"), GROUP_V4, b"a");
    assert_eq!(there.hears(&mut here), [advert(there.link, ip("192.0.2.99"), GROUP_V4, b"a")]);
}

#[test]
fn adverts_leave_as_the_rfc_has_them() {
    let (mut here, mut there) = Node::pair();
    let every_frame = Some(Protocol::from(i32::from(3_u16.to_be())));
    let mut tap =
        there.host.run(move || Socket::new(Domain::PACKET, Type::RAW, every_frame).unwrap());
    here.says(ip("192.0.2.11"), GROUP_V4, b"over IPv4");
    here.says(here.link_local, GROUP_V6, b"over IPv6");
    assert_eq!(there.hears(&mut here).len(), 2);
    tap.set_nonblocking(true).unwrap();
    let mut frame = [0; 2048];
    let mut seen = Vec::new();
    while let Ok(length) = tap.read(&mut frame) {
        match &frame[..length] {
            [1, 0, 0x5e, 0, 0, 18, _, _, _, _, _, _, 8, 0, packet @ ..] if packet[9] == 112 => {
                assert_eq!((packet[1], packet[8]), (0xc0, 255), "DSCP CS6, TTL 255");
                assert_eq!(packet[6] & 0x3f, 0, "not fragmented");
                seen.push(packet[20..].to_vec());
            }
            [0x33, 0x33, 0, 0, 0, 18, _, _, _, _, _, _, 0x86, 0xdd, packet @ ..]
                if packet[6] == 112 =>
            {
                assert_eq!((packet[0], packet[1] & 0xf0, packet[7]), (0x6c, 0, 255));
                seen.push(packet[40..].to_vec());
            }
            _ => {}
        }
    }
    assert_eq!(seen, [&b"over IPv4"[..], b"over IPv6", LAST]);
}

#[test]
fn what_leaves_is_not_heard_by_its_sender() {
    let (mut here, mut there) = Node::pair();
    let vrrp = Some(Protocol::from(112));
    let mut raw = here.host.run(move || Socket::new(Domain::IPV4, Type::RAW, vrrp).unwrap());
    here.says(ip("192.0.2.11"), GROUP_V4, b"a");
    here.says(here.link_local, GROUP_V6, b"b");
    here.sends(&Announcement { address: ip("192.0.2.50"), mac: MAC }.frame(false));
    assert_eq!(there.hears(&mut here).len(), 3);
    // A member of the group, but no copy was looped back to it.
    raw.set_nonblocking(true).unwrap();
    assert!(raw.read(&mut [0; 64]).is_err());
    assert_eq!(here.hears(&mut there), []);
}

#[test]
fn a_host_firewall_and_a_reverse_path_filter_make_nobody_deaf() {
    let (mut here, mut there) = Node::pair();
    let rules =
        "table inet deaf { chain input { type filter hook input priority 0; policy drop; }; }";
    there.host.run(move || output(Command::new("nft").arg(rules)));
    there.host.run(|| {
        std::fs::write("/proc/sys/net/ipv4/conf/all/rp_filter", "1").unwrap();
    });
    there.host.ip("link add elsewhere type veth peer name nowhere");
    there.host.ip("link set elsewhere up");
    there.host.ip("link set nowhere up");
    there.host.ip("route add 192.0.2.11/32 dev elsewhere");
    let (v4, v6) = (ip("192.0.2.11"), here.link_local);
    here.says(v4, GROUP_V4, b"a");
    here.says(v6, GROUP_V6, b"b");
    let expected = [advert(there.link, v4, GROUP_V4, b"a"), advert(there.link, v6, GROUP_V6, b"b")];
    assert_eq!(there.hears(&mut here), expected);
}

#[test]
fn announcements_are_heard_and_the_lans_everyday_questions_are_not() {
    let (mut here, mut there) = Node::pair();
    let link = there.link;
    let announced =
        ["192.0.2.50", "2001:db8::50"].map(|a| Announcement { address: ip(a), mac: MAC });
    for announcement in announced {
        here.sends(&announcement.frame(true));
    }
    let mut arp = announced[0].frame(false);
    let target = arp.len().min(42);
    // The same question about somebody else, and then as an answer.
    arp[target - 4..target].copy_from_slice(&[192, 0, 2, 77]);
    here.sends(&arp);
    here.sends(&probe(ip("192.0.2.50"), MAC));
    here.sends(&probe(ip("2001:db8::50"), MAC));
    let heard = |announcement| Sound::Neighbour { link, announcement };
    let mut expected = announced.map(heard);
    expected.reverse();
    assert_eq!(there.hears(&mut here), expected);
    arp[21] = 2;
    here.sends(&arp);
    assert_eq!(there.hears(&mut here), [heard(announced[0])]);
}

#[test]
fn only_links_that_are_listened_on_are_heard() {
    let (mut here, mut there) = Node::pair();
    let (v4, v6) = (ip("192.0.2.11"), here.link_local);
    let address = ip("192.0.2.50");
    let say_all = |here: &mut Node| {
        here.says(v4, GROUP_V4, b"a");
        here.says(v6, GROUP_V6, b"a");
        here.sends(&Announcement { address, mac: MAC }.frame(false));
    };
    there.receiver.ignore(there.link, Family::Ipv6).unwrap();
    say_all(&mut here);
    let heard = there.hears(&mut here);
    assert_eq!(heard.len(), 2, "{heard:?}");
    // On another link the same packets are nobody's business.
    there.receiver.ignore(there.link, Family::Ipv4).unwrap();
    let other = LinkId(there.link.0 + 1000);
    there.receiver.listen(other, Family::Ipv4).unwrap();
    say_all(&mut here);
    there.receiver.listen(there.link, Family::Ipv6).unwrap();
    there.receiver.listen(there.link, Family::Ipv4).unwrap();
    assert_eq!(there.hears(&mut here), []);
}

#[test]
fn a_tagged_frame_of_a_vlan_without_a_device_is_not_heard() {
    let (mut here, mut there) = Node::pair();
    let mut header =
        etherparse::Ipv4Header::new(8, 255, 112.into(), [192, 0, 2, 11], [224, 0, 0, 18])
            .expect("short");
    header.header_checksum = header.calc_header_checksum();
    let mut packet = header.to_bytes().to_vec();
    packet.extend([1, 2, 3, 4, 5, 6, 7, 8]);
    let mut frame = vec![1, 0, 0x5e, 0, 0, 18, 2, 0, 0, 0, 0, 9, 8, 0];
    frame.extend(&packet);
    here.sends(&frame);
    let untagged = there.hears(&mut here);
    assert_eq!(untagged, [advert(there.link, ip("192.0.2.11"), GROUP_V4, &packet[20..])]);
    frame.splice(12..12, [0x81, 0, 0, 7]);
    here.sends(&frame);
    assert_eq!(there.hears(&mut here), []);
}

#[test]
fn a_packet_that_cannot_be_sent_is_counted_and_harms_nothing() {
    let (mut here, mut there) = Node::pair();
    let failed = |node: &Node| node.sender.counts().failed.values().sum::<u64>();
    let group = ip(GROUP_V4);
    // Not our address, mixed families, no such link, no door.
    here.sender.advert(here.link, ip("192.0.2.200"), group, b"a");
    here.sender.advert(here.link, here.link_local, group, b"a");
    here.sender.advert(LinkId(4711), ip("192.0.2.11"), group, b"a");
    here.sender.frame(LinkId(4711), b"a");
    assert_eq!(failed(&here), 4, "{:?}", here.sender.counts());
    // Refused by a filter: EPERM.
    let rules =
        "table inet mute { chain output { type filter hook output priority 0; policy drop; }; }";
    here.host.run(move || output(Command::new("nft").arg(rules)));
    here.sender.advert(here.link, ip("192.0.2.11"), group, b"a");
    assert_eq!(failed(&here), 5, "{:?}", here.sender.counts());
    here.host.run(|| output(Command::new("nft").args(["delete", "table", "inet", "mute"])));
    here.host.ip("link set eth0 down");
    here.sender.advert(here.link, ip("192.0.2.11"), group, b"a");
    here.sender.frame(here.link, &probe(ip("192.0.2.50"), MAC));
    assert_eq!(failed(&here), 7, "{:?}", here.sender.counts());
    here.host.ip("link set eth0 up");
    here.sender.advert(here.link, ip("192.0.2.11"), group, b"back");
    let sent = here.sender.counts().sent;
    assert_eq!(sent, 1, "{:?}", here.sender.counts());
    there.receiver.drain(|_| {});
}

#[test]
fn a_queue_holds_two_thousand_full_adverts() {
    let (mut here, mut there) = Node::pair();
    for n in 0..2000_u32 {
        let mut message = vec![0; 1028];
        message[..4].copy_from_slice(&n.to_be_bytes());
        here.says(ip("192.0.2.11"), GROUP_V4, &message);
    }
    assert_eq!(there.hears(&mut here).len(), 2000);
    assert_eq!(there.receiver.overflowed(), 0);
}
