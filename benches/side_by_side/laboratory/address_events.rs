//! The kernel's news of addresses that were added or refreshed on a node.

use std::os::fd::{AsFd as _, AsRawFd as _};
use std::time::Duration;

use barevip::engine::time::Instant;
use barevip::io::clock;
use barevip::io::lab::lan::Host;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, NetlinkAddr, bind, recv};
use socket2::{Domain, Protocol, Socket, Type};

/// RTNLGRP_IPV4_IFADDR and RTNLGRP_IPV6_IFADDR as bits.
const GROUPS: u32 = 1 << 4 | 1 << 8;

/// A netlink socket that hears of every change of an address.
#[derive(Debug)]
pub(crate) struct AddressEvents(Socket);

impl AddressEvents {
    pub(crate) fn open(host: &Host) -> anyhow::Result<Self> {
        host.namespace().run(|| {
            // Family NETLINK_ROUTE is 0.
            let domain = Domain::from(nix::libc::AF_NETLINK);
            let socket = Socket::new(domain, Type::RAW.cloexec(), Some(Protocol::from(0)))?;
            socket.set_recv_buffer_size(4 << 20)?;
            bind(socket.as_raw_fd(), &NetlinkAddr::new(0, GROUPS))?;
            Ok(Self(socket))
        })
    }

    /// When the next one was read, if there is one within that time.
    pub(crate) fn next(&mut self, within: Duration) -> anyhow::Result<Option<Instant>> {
        let mut ready = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        if poll(&mut ready, PollTimeout::try_from(within)?)? == 0 {
            return Ok(None);
        }
        // What it says does not matter, and what is longer is cut off.
        let mut head = [0; 64];
        recv(self.0.as_raw_fd(), &mut head, MsgFlags::empty())?;
        Ok(Some(clock::now()))
    }
}
