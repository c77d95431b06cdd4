//! A netlink socket of the routing family, used by one thread that may wait.
//!
//! Requests go one after another and each answer is waited for with a deadline: the kernel
//! carries a request out inside the call, so there is nothing to gain from more at a time, and
//! what our own requests changed can be read from the event socket as soon as they return.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkBuffer, NetlinkHeader,
    NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use nix::sys::socket::{MsgFlags, NetlinkAddr, bind, recv, send};
use nix::sys::time::TimeSpec;
use socket2::{Domain, Protocol, Socket, Type};

use super::receive::enlarge_queue;
use crate::io::clock;

/// An answer that is this late was lost.
const PATIENCE: Duration = Duration::from_secs(2);
/// Octets of the longest datagram: the kernel fills at most 32 KiB of a dump.
const LONGEST: usize = 64 << 10;
/// A dump during which something changed may have holes; after so many it is taken as it is.
const DUMPS: usize = 3;
/// NETLINK_ROUTE
const ROUTE: i32 = 0;
/// Message types below this belong to netlink itself.
const ERROR: u16 = 2;
const DONE: u16 = 3;

/// A socket for requests or, bound to groups, for events.
#[derive(Debug)]
pub(super) struct RouteSocket {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

/// One message of the kernel, as its type and what follows the netlink header.
pub(super) type Message<'a> = (u16, &'a [u8]);

impl RouteSocket {
    /// Opens a socket that hears these groups, as bits of `RTNLGRP_*` − 1.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn open(groups: u32) -> io::Result<Self> {
        let socket = Socket::new(
            Domain::from(nix::libc::AF_NETLINK),
            Type::RAW.nonblocking().cloexec(),
            Some(Protocol::from(ROUTE)),
        )?;
        enlarge_queue(&socket)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
        Ok(Self { socket, sequence: 0, buffer: vec![0; LONGEST] })
    }

    /// Carries out one request.
    ///
    /// # Errors
    /// The kernel's; `ETIMEDOUT` where it did not answer.
    pub(super) fn request(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<(), Errno> {
        self.send(message, flags | NLM_F_ACK)?;
        self.answers(|_| {}).map(|_| ())
    }

    /// Asks for one thing.
    ///
    /// # Errors
    /// The kernel's; `ETIMEDOUT` where it did not answer.
    pub(super) fn ask(
        &mut self,
        message: RouteNetlinkMessage,
        answer: impl FnMut(Message<'_>),
    ) -> Result<(), Errno> {
        self.send(message, NLM_F_ACK)?;
        self.answers(answer).map(|_| ())
    }

    /// Everything of one kind, as `read` understands it. A dump that was disturbed by a change is
    /// repeated.
    ///
    /// # Errors
    /// The kernel's; `ETIMEDOUT` where it did not answer.
    pub(super) fn dump<T>(
        &mut self,
        message: &RouteNetlinkMessage,
        read: fn(Message<'_>) -> Option<T>,
    ) -> Result<Vec<T>, Errno> {
        let mut attempt = 1;
        loop {
            let mut found = Vec::new();
            self.send(message.clone(), NLM_F_DUMP)?;
            let disturbed = self.answers(|message| found.extend(read(message)))?;
            if !disturbed || attempt == DUMPS {
                return Ok(found);
            }
            attempt += 1;
        }
    }

    fn send(&mut self, message: RouteNetlinkMessage, flags: u16) -> Result<(), Errno> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        send(self.socket.as_raw_fd(), &bytes, MsgFlags::empty()).map(|_| ())
    }

    /// Reads up to the end of the answer to the last request. Whether something changed while it
    /// was made.
    fn answers(&mut self, mut each: impl FnMut(Message<'_>)) -> Result<bool, Errno> {
        let deadline = clock::now() + PATIENCE;
        let mut disturbed = false;
        loop {
            let length = loop {
                match recv(self.socket.as_raw_fd(), &mut self.buffer, MsgFlags::MSG_DONTWAIT) {
                    Ok(length) => break length,
                    Err(Errno::EINTR) => {}
                    Err(Errno::EAGAIN) => {
                        let left = deadline.since(clock::now());
                        if left.is_zero() {
                            return Err(Errno::ETIMEDOUT);
                        }
                        wait(&[self.socket.as_fd()], Some(left));
                    }
                    Err(error) => return Err(error),
                }
            };
            let datagram = self.buffer.get(..length).unwrap_or_default();
            for message in messages(datagram) {
                if message.sequence_number() != self.sequence {
                    continue; // the late answer to a request that was given up
                }
                disturbed |= message.flags() & NLM_F_DUMP_INTR != 0;
                match message.message_type() {
                    DONE | ERROR => return outcome(message.payload()).map(|()| disturbed),
                    kind => each((kind, message.payload())),
                }
            }
        }
    }

    /// Hands over all events that are waiting. Whether they are complete: where some were lost,
    /// only a dump that starts after this shows what is.
    pub(super) fn events(&mut self, mut each: impl FnMut(Message<'_>)) -> bool {
        let mut complete = true;
        loop {
            match recv(self.socket.as_raw_fd(), &mut self.buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(length) => {
                    let datagram = self.buffer.get(..length).unwrap_or_default();
                    for message in messages(datagram) {
                        each((message.message_type(), message.payload()));
                    }
                }
                Err(Errno::EINTR) => {}
                // The queue was full. It still holds what came before, and that must not be
                // taken for something that comes after the dump.
                Err(Errno::ENOBUFS) => complete = false,
                Err(error) => return complete && error == Errno::EAGAIN,
            }
        }
    }

    /// What to wait for until there are events.
    pub(super) fn readable(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Waits until one of them is readable, at most for this long.
pub(super) fn wait(readable: &[BorrowedFd<'_>], timeout: Option<Duration>) {
    let mut poll: Vec<PollFd<'_>> =
        readable.iter().map(|fd| PollFd::new(*fd, PollFlags::POLLIN)).collect();
    // A signal or an error ends the wait early, and whoever waits looks again.
    nix::poll::ppoll(&mut poll, timeout.map(TimeSpec::from_duration), None).ok();
}

/// The messages of a datagram, each in its aligned place.
fn messages(mut datagram: &[u8]) -> impl Iterator<Item = NetlinkBuffer<&[u8]>> {
    std::iter::from_fn(move || {
        let message = NetlinkBuffer::new_checked(datagram).ok()?;
        let length = usize::try_from(message.length()).ok()?.next_multiple_of(4);
        datagram = datagram.get(length..).unwrap_or_default();
        Some(message)
    })
}

/// The end of a dump and an error message start with the negative errno, 0 for success.
fn outcome(payload: &[u8]) -> Result<(), Errno> {
    match payload.first_chunk().map(|code| i32::from_ne_bytes(*code)) {
        Some(0) => Ok(()),
        Some(code) => Err(Errno::from_raw(code.saturating_neg())),
        None => Err(Errno::EBADMSG),
    }
}
