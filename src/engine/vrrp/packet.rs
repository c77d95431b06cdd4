//! The VRRP version 3 message as bytes (RFC 9568 §5): [`Advert::parse`] checks all of §7.1 and
//! only a valid message comes out; [`Advert::emit`] writes what we send.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::model::{Family, Interval, Priority, Vrid};

/// An advertisement, valid by construction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advert {
    /// The virtual router.
    pub vrid: Vrid,
    /// The sender's priority; `None` is 0 on the wire: the Active router is leaving.
    pub priority: Option<Priority>,
    /// The sender's interval.
    pub interval: Interval,
    /// The addresses it lists, in its order, one at least.
    pub addresses: Vec<IpAddr>,
}

/// Which of the two checksum forms of version 3 over IPv4 a message carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Checksum {
    /// Over the message alone (RFC 9568 §5.2.8). IPv6 never has this form.
    Rfc9568,
    /// With the pseudo-header. IPv6 always has this form.
    PseudoHeader,
}

/// Why a received message was refused; it then touches no timer and no state.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, thiserror::Error,
)]
pub enum Refusal {
    /// Placeholder.
    #[error("not implemented")]
    Todo,
}

impl Advert {
    /// Reads a VRRP message that arrived from `source` for `destination` with this TTL or hop
    /// limit.
    ///
    /// # Errors
    /// The first rule of RFC 9568 §7.1 that it breaks.
    pub fn parse(
        source: IpAddr,
        destination: IpAddr,
        ttl: u8,
        message: &[u8],
    ) -> Result<(Self, Checksum), Refusal> {
        let _ = (source, destination, ttl, message);
        Err(Refusal::Todo)
    }

    /// Writes the message, with the checksum for these addresses. `form` is used for IPv4 alone.
    #[must_use]
    pub fn emit(&self, source: IpAddr, destination: IpAddr, form: Checksum) -> Vec<u8> {
        let _ = (source, destination, form);
        Vec::new()
    }

    /// How many addresses of a family one advert can list on a link of this MTU without being
    /// fragmented: at most 255 of IPv4; of IPv6 one fewer than fits, as keepalived accepts.
    #[must_use]
    pub fn capacity(family: Family, mtu: u32) -> usize {
        let _ = (family, mtu);
        0
    }
}
