//! What the client hears of the daemons: adverts and announcements, with the kernel's times.

use std::net::IpAddr;
use std::time::Duration;

use barevip::engine::node::links::LinkId;
use barevip::engine::time::Instant;
use barevip::engine::vrrp::packet::Advert;
use barevip::io::clock;
use barevip::io::kernel::receive::{Heard, Receiver};
use barevip::io::lab::lan::{Host, LINK};
use barevip::model::Family;
use nix::net::if_::if_nametoindex;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Packet sockets on the client's link.
#[derive(Debug)]
pub(crate) struct Wire(Receiver);

/// Something heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sighting {
    /// When the kernel received it.
    pub(crate) at: Instant,
    pub(crate) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A node says that it is Active.
    Active(IpAddr),
    /// A node says that it leaves.
    Leaving(IpAddr),
    /// Somebody says that it has this address.
    Announced(IpAddr),
}

impl Wire {
    /// Listens from now on.
    pub(crate) fn open(client: &Host, family: Family) -> anyhow::Result<Self> {
        client.namespace().run(|| {
            let mut receiver = Receiver::open()?;
            receiver.listen(LinkId(if_nametoindex(LINK)?), family)?;
            Ok(Self(receiver))
        })
    }

    /// Everything heard since the last call.
    pub(crate) fn heard(&mut self) -> Vec<Sighting> {
        let mut sightings = Vec::new();
        self.0.drain(|heard| sightings.extend(understand(&heard)));
        sightings
    }

    /// Listens until something is heard that `wanted` knows, or for `within`.
    pub(crate) fn listen<T>(
        &mut self,
        within: Duration,
        mut wanted: impl FnMut(Sighting) -> Option<T>,
    ) -> anyhow::Result<Option<T>> {
        let deadline = clock::now() + within;
        loop {
            let found = self.heard().into_iter().find_map(&mut wanted);
            let left = deadline.since(clock::now());
            if found.is_some() || left.is_zero() {
                return Ok(found);
            }
            let mut sockets =
                self.0.readable().map(|socket| PollFd::new(socket, PollFlags::POLLIN));
            // Rounded up, so that the last wait is none of zero.
            poll(&mut sockets, PollTimeout::try_from(left + Duration::from_millis(1))?)?;
        }
    }
}

fn understand(heard: &Heard<'_>) -> Option<Sighting> {
    match *heard {
        Heard::Advert { source, destination, ttl, message, received_at, .. } => {
            let (advert, _) = Advert::parse(source, destination, ttl, message).ok()?;
            let what = if advert.priority.is_some() {
                What::Active(source)
            } else {
                What::Leaving(source)
            };
            Some(Sighting { at: received_at, what })
        }
        Heard::Neighbour { announcement, received_at, .. } => {
            Some(Sighting { at: received_at, what: What::Announced(announcement.address) })
        }
    }
}
