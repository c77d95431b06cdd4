//! Membership in the VRRP groups. A packet socket hears whatever reaches the machine; for a
//! switch with IGMP or MLD snooping to send it here, an ordinary socket has to join.
//!
//! Joining and leaving wait for the kernel's locks, so this is not for the engine's thread.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use nix::errno::Errno;
use socket2::{Domain, InterfaceIndexOrAddress, Socket, Type};

use crate::engine::node::links::LinkId;
use crate::model::Family;

/// RFC 9568 §5.1.1.2 and §5.1.2.2.
const GROUP_V4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 18);
const GROUP_V6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x12);

/// One link's membership in one family's group, until it is dropped. It has a socket of its own,
/// as the kernel allows twenty groups a socket.
#[derive(Debug)]
pub(super) struct Membership {
    socket: Socket,
    link: LinkId,
    family: Family,
}

impl Membership {
    /// Joins.
    ///
    /// # Errors
    /// The kernel's: the link is gone, or has the family turned off.
    pub(super) fn join(link: LinkId, family: Family) -> io::Result<Self> {
        let domain = match family {
            Family::Ipv4 => Domain::IPV4,
            Family::Ipv6 => Domain::IPV6,
        };
        // Without a port nothing is ever delivered to it.
        let socket = Socket::new(domain, Type::DGRAM.nonblocking().cloexec(), None)?;
        let membership = Self { socket, link, family };
        membership.renew()?;
        Ok(membership)
    }

    /// Joins again where the kernel forgot: it does when a family is turned off on the link.
    ///
    /// # Errors
    /// As for [`Self::join`].
    pub(super) fn renew(&self) -> io::Result<()> {
        let joined = match self.family {
            Family::Ipv4 => self
                .socket
                .join_multicast_v4_n(&GROUP_V4, &InterfaceIndexOrAddress::Index(self.link.0)),
            Family::Ipv6 => self.socket.join_multicast_v6(&GROUP_V6, self.link.0),
        };
        match joined {
            Err(error) if error.raw_os_error() == Some(Errno::EADDRINUSE as i32) => Ok(()),
            other => other,
        }
    }
}
