//! What a node asks of the world. The io layer carries it out and decides nothing.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::event::Event;
use super::links::LinkId;
use crate::engine::time::Instant;
use crate::model::{Family, Vip};

/// Names a netlink command in [`super::node::Node::handle_done`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CommandId(pub u64);

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Send a packet now. There is no answer: a lost packet heals by the next one.
    Send {
        /// The link it leaves on.
        link: LinkId,
        /// The packet.
        packet: Packet,
    },
    /// Add, refresh or remove an address. Answered by `handle_done`.
    Address {
        /// Names the command in the answer.
        id: CommandId,
        /// The link.
        link: LinkId,
        /// The address.
        vip: Vip,
        /// What to do with it.
        change: AddressChange,
    },
    /// Hear adverts and announcements of this family on a link.
    Listen {
        /// The link.
        link: LinkId,
        /// The family.
        family: Family,
    },
    /// Hear them no longer.
    Ignore {
        /// The link.
        link: LinkId,
        /// The family.
        family: Family,
    },
    /// Tell an operator.
    Note(Event),
}

/// A change of one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AddressChange {
    /// Add it exclusively, with our mark and this lifetime. An address that is there already is a
    /// [`Failure::Exists`], whoever put it there.
    Add {
        /// After this long without a refresh the kernel removes it (whole seconds, and up to a
        /// second later).
        lifetime: Duration,
        /// Dropped, and answered with [`Failure::TooLate`], if not carried out by then.
        not_after: Instant,
    },
    /// Extend the lifetime of an address that the last snapshot showed with our mark.
    Refresh {
        /// As for `Add`.
        lifetime: Duration,
        /// As for `Add`: a late refresh would bring back an address that is gone.
        not_after: Instant,
    },
    /// Remove it. One that is gone already is a success.
    Remove,
}

/// A packet to send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Packet {
    /// A VRRP message: protocol 112, TTL or hop limit 255.
    Advert {
        /// The explicit source.
        source: IpAddr,
        /// The group or one peer.
        destination: IpAddr,
        /// The VRRP message, checksum included.
        message: Vec<u8>,
    },
    /// A whole Ethernet frame: gratuitous ARP, unsolicited NA, or a probe.
    Frame(Vec<u8>),
}

/// Why a netlink command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Failure {
    /// The address is there already.
    #[error("the address is there already")]
    Exists,
    /// The command's time was over.
    #[error("the command came too late and was dropped")]
    TooLate,
    /// The queue was full.
    #[error("too many commands are waiting")]
    Busy,
    /// The kernel refused; its own words.
    #[error("{0}")]
    Refused(String),
}
