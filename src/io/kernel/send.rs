//! Sending adverts and frames: one raw socket for each family and one packet socket, for all
//! links. Each packet names its link and its source, so that a link which has just lost its own
//! address never lends a virtual one to an advert.
//!
//! A packet that can't be sent is counted and forgotten: the next one heals it.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::sockopt::SndBufForce;
use nix::sys::socket::{
    ControlMessage, LinkAddr, MsgFlags, SockaddrIn, SockaddrIn6, sendmsg, sendto, setsockopt,
};
use socket2::{Domain, Protocol, Socket, Type};

use super::filter;
use crate::engine::node::links::LinkId;

/// VRRP's protocol number.
const VRRP: i32 = 112;
/// TTL and hop limit (RFC 9568 §5.1.1.3, §5.1.2.3): what a router has touched is refused.
const TTL: u32 = 255;
/// DSCP CS6, network control, as the TOS octet or traffic class.
const NETWORK_CONTROL: u32 = 0xc0;
/// Room for a burst of announcements of thousands of addresses.
const QUEUE: usize = 4 << 20;

/// All that this process sends to the LAN.
#[derive(Debug)]
pub struct Sender {
    ipv4: Socket,
    ipv6: Socket,
    frames: Socket,
    /// How the kernel names the links that frames leave on.
    doors: BTreeMap<LinkId, LinkAddr>,
    counts: SendCounts,
}

/// What became of the packets since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SendCounts {
    /// Packets handed to the kernel.
    pub sent: u64,
    /// Packets that it refused, by its own words.
    pub failed: BTreeMap<&'static str, u64>,
}

impl Sender {
    /// Opens the sockets.
    ///
    /// # Errors
    /// The kernel's, `EPERM` above all: CAP_NET_RAW is missing.
    pub fn open() -> io::Result<Self> {
        Ok(Self {
            ipv4: ipv4()?,
            ipv6: ipv6()?,
            frames: mute(Domain::PACKET, None)?,
            doors: BTreeMap::new(),
            counts: SendCounts::default(),
        })
    }

    /// Frames can leave on this link from now on.
    pub fn open_door(&mut self, link: LinkId, address: LinkAddr) {
        self.doors.insert(link, address);
    }

    /// The link is no longer used.
    pub fn close_door(&mut self, link: LinkId) {
        self.doors.remove(&link);
    }

    /// Sends a VRRP message from `source`, which must be an address of this machine; says whether
    /// it left.
    pub fn advert(
        &mut self,
        link: LinkId,
        source: IpAddr,
        destination: IpAddr,
        message: &[u8],
    ) -> bool {
        let result = match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let from = libc::in_pktinfo {
                    ipi_ifindex: link.0.cast_signed(),
                    ipi_spec_dst: libc::in_addr { s_addr: u32::from(source).to_be() },
                    ipi_addr: libc::in_addr { s_addr: 0 },
                };
                sendmsg(
                    self.ipv4.as_raw_fd(),
                    &[IoSlice::new(message)],
                    &[ControlMessage::Ipv4PacketInfo(&from)],
                    MsgFlags::MSG_DONTWAIT,
                    Some(&SockaddrIn::from(SocketAddrV4::new(destination, 0))),
                )
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let from = libc::in6_pktinfo {
                    ipi6_ifindex: link.0,
                    ipi6_addr: libc::in6_addr { s6_addr: source.octets() },
                };
                sendmsg(
                    self.ipv6.as_raw_fd(),
                    &[IoSlice::new(message)],
                    &[ControlMessage::Ipv6PacketInfo(&from)],
                    MsgFlags::MSG_DONTWAIT,
                    Some(&SockaddrIn6::from(SocketAddrV6::new(destination, 0, 0, link.0))),
                )
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => {
                Err(Errno::EAFNOSUPPORT)
            }
        };
        self.count(result);
        result.is_ok()
    }

    /// Sends a whole Ethernet frame.
    pub fn frame(&mut self, link: LinkId, frame: &[u8]) {
        let result = match self.doors.get(&link) {
            Some(door) => sendto(self.frames.as_raw_fd(), frame, door, MsgFlags::MSG_DONTWAIT),
            None => Err(Errno::ENODEV),
        };
        self.count(result);
    }

    /// What became of the packets since the start.
    #[must_use]
    pub const fn counts(&self) -> &SendCounts {
        &self.counts
    }

    fn count(&mut self, result: nix::Result<usize>) {
        match result {
            Ok(_) => self.counts.sent += 1,
            Err(error) => *self.counts.failed.entry(error.desc()).or_default() += 1,
        }
    }
}

fn ipv4() -> io::Result<Socket> {
    let socket = mute(Domain::IPV4, Some(Protocol::from(VRRP)))?;
    socket.set_ttl_v4(TTL)?;
    socket.set_multicast_ttl_v4(TTL)?;
    socket.set_multicast_loop_v4(false)?;
    socket.set_tos_v4(NETWORK_CONTROL)?;
    Ok(socket)
}

fn ipv6() -> io::Result<Socket> {
    let socket = mute(Domain::IPV6, Some(Protocol::from(VRRP)))?;
    socket.set_unicast_hops_v6(TTL)?;
    socket.set_multicast_hops_v6(TTL)?;
    socket.set_multicast_loop_v6(false)?;
    socket.set_tclass_v6(NETWORK_CONTROL)?;
    Ok(socket)
}

/// A raw socket that sends and receives nothing: raw sockets get a copy of every packet of their
/// protocol, which nobody would read.
fn mute(domain: Domain, protocol: Option<Protocol>) -> io::Result<Socket> {
    let socket = Socket::new(domain, Type::RAW.nonblocking().cloexec(), protocol)?;
    socket.attach_filter(&filter::nothing())?;
    match setsockopt(&socket, SndBufForce, &QUEUE) {
        Ok(()) => {}
        Err(Errno::EPERM) => socket.set_send_buffer_size(QUEUE)?,
        Err(error) => return Err(error.into()),
    }
    Ok(socket)
}
