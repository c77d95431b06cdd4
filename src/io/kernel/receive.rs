//! Hearing adverts and announcements: one packet socket each for IPv4, IPv6 and ARP.
//!
//! Packet sockets hear through host firewalls and reverse path filters, where a raw IP socket is
//! deaf. The sockets are bound to no link, but their filter admits only the links that are
//! listened on: so a link that comes, goes or flaps costs a new filter and nothing that waits
//! for the kernel's locks, and every packet names the link that it arrived on.

use std::collections::BTreeSet;
use std::io::{self, IoSliceMut};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::sockopt::{RcvBufForce, ReceiveTimestampns, RxqOvfl};
use nix::sys::socket::{ControlMessageOwned, LinkAddr, MsgFlags, recvmsg, setsockopt};
use nix::sys::time::TimeSpec;
use socket2::{Domain, Protocol, SockFilter, Socket, Type};

use super::filter;
use crate::engine::node::links::LinkId;
use crate::engine::time::Instant;
use crate::engine::vrrp::frames::{Announcement, Datagram};
use crate::io::clock::Moment;
use crate::model::Family;

/// Room for adverts that arrive while this process does not run. The default holds 93 full ones.
const QUEUE: usize = 4 << 20;
/// Octets of the longest packet that is read whole; VRRP's longest is 4 148 without options.
const LONGEST: usize = 9216;
/// Packets read from one socket in one pass: all that its queue can hold. More than that is a
/// flood, and must not keep us from our own adverts.
const PASS: usize = 8192;
/// VRRP's protocol number, and ICMPv6's.
const VRRP: u8 = 112;
const ICMPV6: u8 = 58;

/// One packet, checked as far as its IP header and the link that it arrived on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard<'a> {
    /// A VRRP message, not checked yet.
    Advert {
        /// Where it arrived.
        link: LinkId,
        /// Who sent it.
        source: IpAddr,
        /// To whom.
        destination: IpAddr,
        /// TTL or hop limit.
        ttl: u8,
        /// The VRRP message.
        message: &'a [u8],
        /// When the kernel received it.
        received_at: Instant,
    },
    /// Somebody states by ARP or NA who holds an address.
    Neighbour {
        /// Where it arrived.
        link: LinkId,
        /// The statement.
        announcement: Announcement,
        /// When the kernel received it.
        received_at: Instant,
    },
}

/// All that is received by this process from the LAN.
#[derive(Debug)]
pub struct Receiver {
    ears: [Ear; 3],
    listening: BTreeSet<(LinkId, Family)>,
    /// What is in the queues now arrived after this.
    drained_at: Instant,
    buffer: Vec<u8>,
    control: Vec<u8>,
}

#[derive(Debug)]
struct Ear {
    kind: Kind,
    socket: Socket,
    /// Packets that its queue had no room for, as the kernel counts them.
    overflowed: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ipv4,
    Ipv6,
    Arp,
}

impl Kind {
    /// As an Ethernet type in network order, the way the kernel wants it.
    fn protocol(self) -> Protocol {
        let ethertype: u16 = match self {
            Self::Ipv4 => 0x0800,
            Self::Ipv6 => 0x86dd,
            Self::Arp => 0x0806,
        };
        Protocol::from(i32::from(ethertype.to_be()))
    }

    const fn family(self) -> Family {
        match self {
            Self::Ipv4 | Self::Arp => Family::Ipv4,
            Self::Ipv6 => Family::Ipv6,
        }
    }

    fn filter(self, links: &[LinkId]) -> Vec<SockFilter> {
        match self {
            Self::Ipv4 => filter::ipv4(links),
            Self::Ipv6 => filter::ipv6(links),
            Self::Arp => filter::arp(links),
        }
    }
}

impl Receiver {
    /// Opens the sockets; nothing is heard until [`Self::listen`].
    ///
    /// # Errors
    /// The kernel's, `EPERM` above all: CAP_NET_RAW is missing.
    pub fn open() -> io::Result<Self> {
        Ok(Self {
            ears: [Ear::open(Kind::Ipv4)?, Ear::open(Kind::Ipv6)?, Ear::open(Kind::Arp)?],
            listening: BTreeSet::new(),
            drained_at: Moment::read().now(),
            buffer: vec![0; LONGEST],
            control: nix::cmsg_space!(TimeSpec, u32),
        })
    }

    /// Hears this family on this link from now on.
    ///
    /// # Errors
    /// The kernel's, where it does not take the filter (no memory).
    pub fn listen(&mut self, link: LinkId, family: Family) -> io::Result<()> {
        self.listening.insert((link, family));
        self.filter(family)
    }

    /// Hears it no longer.
    ///
    /// # Errors
    /// As for [`Self::listen`]; what still arrives is dropped all the same.
    pub fn ignore(&mut self, link: LinkId, family: Family) -> io::Result<()> {
        self.listening.remove(&(link, family));
        self.filter(family)
    }

    fn filter(&self, family: Family) -> io::Result<()> {
        let links: Vec<LinkId> = self
            .listening
            .iter()
            .filter(|(_, listening)| *listening == family)
            .map(|(link, _)| *link)
            .collect();
        for ear in self.ears.iter().filter(|ear| ear.kind.family() == family) {
            ear.socket.attach_filter(&ear.kind.filter(&links))?;
        }
        Ok(())
    }

    /// Hands over everything that has arrived.
    pub fn drain(&mut self, mut heard: impl FnMut(Heard<'_>)) {
        let moment = Moment::read();
        for ear in &mut self.ears {
            for _ in 0..PASS {
                let Some(arrival) = ear.read(&mut self.buffer, &mut self.control) else {
                    break;
                };
                let Some(link) = arrival.link else { continue };
                if !self.listening.contains(&(link, ear.kind.family())) {
                    continue;
                }
                let received_at = arrival
                    .stamp
                    .map_or(moment.now(), |stamp| moment.received_at(stamp, self.drained_at));
                let bytes = self.buffer.get(..arrival.length).unwrap_or_default();
                if let Some(packet) = understand(ear.kind, link, bytes, received_at) {
                    heard(packet);
                }
            }
        }
        self.drained_at = moment.now();
    }

    /// What to wait for until there is something to drain.
    #[must_use]
    pub fn readable(&self) -> [BorrowedFd<'_>; 3] {
        self.ears.each_ref().map(|ear| ear.socket.as_fd())
    }

    /// Packets lost since the start because a queue was full.
    #[must_use]
    pub fn overflowed(&self) -> u64 {
        self.ears.iter().map(|ear| u64::from(ear.overflowed)).sum()
    }
}

/// What the kernel says of a packet.
struct Arrival {
    length: usize,
    /// `None`: not meant for this machine, or no packet at all.
    link: Option<LinkId>,
    /// Time since 1970.
    stamp: Option<Duration>,
}

impl Ear {
    fn open(kind: Kind) -> io::Result<Self> {
        let socket = Socket::new(
            Domain::PACKET,
            Type::DGRAM.nonblocking().cloexec(),
            Some(kind.protocol()),
        )?;
        // What slipped in before this line is sorted out by `drain`.
        socket.attach_filter(&filter::nothing())?;
        enlarge_queue(&socket)?;
        setsockopt(&socket, ReceiveTimestampns, &true)?;
        setsockopt(&socket, RxqOvfl, &1)?;
        Ok(Self { kind, socket, overflowed: 0 })
    }

    /// The next packet, its bytes in `buffer`; `None` where there is none.
    fn read(&mut self, buffer: &mut [u8], control: &mut [u8]) -> Option<Arrival> {
        let mut into = [IoSliceMut::new(buffer)];
        let flags = MsgFlags::MSG_DONTWAIT;
        let message =
            match recvmsg::<LinkAddr>(self.socket.as_raw_fd(), &mut into, Some(control), flags) {
                Ok(message) => message,
                Err(Errno::EAGAIN) => return None,
                // A signal, or a pending error (the link went down), which reading has cleared.
                Err(_) => {
                    return Some(Arrival { length: 0, link: None, stamp: None });
                }
            };
        let mut stamp = None;
        for control in message.cmsgs().into_iter().flatten() {
            if let ControlMessageOwned::ScmTimestampns(at) = control {
                stamp = Some(Duration::from(at));
            } else if let ControlMessageOwned::RxqOvfl(count) = control {
                self.overflowed = count;
            }
        }
        Some(Arrival {
            length: message.bytes,
            link: message
                .address
                .filter(|from| from.pkttype() < filter::PACKET_OTHERHOST)
                .and_then(|from| u32::try_from(from.ifindex()).ok())
                .map(LinkId),
            stamp,
        })
    }
}

fn understand(kind: Kind, link: LinkId, bytes: &[u8], received_at: Instant) -> Option<Heard<'_>> {
    let neighbour = |announcement| Heard::Neighbour { link, announcement, received_at };
    if kind == Kind::Arp {
        return Announcement::from_arp(bytes).map(neighbour);
    }
    let datagram = Datagram::parse(bytes)?;
    match datagram.protocol {
        VRRP => Some(Heard::Advert {
            link,
            source: datagram.source,
            destination: datagram.destination,
            ttl: datagram.ttl,
            message: datagram.payload,
            received_at,
        }),
        ICMPV6 => Announcement::from_neighbour_advertisement(&datagram).map(neighbour),
        _ => None,
    }
}

/// Beyond the machine's limit where we may (CAP_NET_ADMIN), else as far as it allows.
pub(super) fn enlarge_queue(socket: &Socket) -> io::Result<()> {
    match setsockopt(socket, RcvBufForce, &QUEUE) {
        Ok(()) => Ok(()),
        Err(Errno::EPERM) => socket.set_recv_buffer_size(QUEUE),
        Err(error) => Err(error.into()),
    }
}
