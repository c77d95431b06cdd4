//! The packets around VRRP as bytes: IP headers of what was heard, and the ARP and neighbour
//! discovery frames that tell the LAN who holds an address.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// A MAC address (EUI-48).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MacAddress(pub [u8; 6]);

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// An IP datagram taken apart as far as VRRP needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Who sent it.
    pub source: IpAddr,
    /// To whom.
    pub destination: IpAddr,
    /// TTL or hop limit.
    pub ttl: u8,
    /// The protocol of the payload: 112 is VRRP, 58 ICMPv6.
    pub protocol: u8,
    /// The payload, cut to the length that the header states (Ethernet pads short frames).
    pub payload: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// Reads an IPv4 or IPv6 datagram. `None` where the header is damaged, the payload is shorter
    /// than stated, or it is a fragment.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let _ = bytes;
        None
    }
}

/// Somebody's statement that an address is at this MAC: ARP sender, or NA target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The address.
    pub address: IpAddr,
    /// Where it is.
    pub mac: MacAddress,
}

impl Announcement {
    /// Reads an ARP packet (without the Ethernet header). A probe states nothing: `None`.
    #[must_use]
    pub fn from_arp(packet: &[u8]) -> Option<Self> {
        let _ = packet;
        None
    }

    /// Reads a neighbour advertisement (an ICMPv6 message in its datagram): hop limit 255 and
    /// a target link-layer address option are needed.
    #[must_use]
    pub fn from_neighbour_advertisement(datagram: &Datagram<'_>) -> Option<Self> {
        let _ = datagram;
        None
    }

    /// The Ethernet frame that tells it to the LAN: a gratuitous ARP request (errata 7947 and
    /// 7949 of RFC 9568), or an unsolicited NA to ff02::1 with S=0 and O=1 and `router` as R.
    #[must_use]
    pub fn frame(&self, router: bool) -> Vec<u8> {
        let _ = router;
        Vec::new()
    }
}

/// The Ethernet frame that asks who holds `address` without claiming it: an ARP probe (RFC 5227
/// §2.1.1), or a neighbour solicitation from the unspecified address (RFC 4862 §5.4.2).
#[must_use]
pub fn probe(address: IpAddr, mac: MacAddress) -> Vec<u8> {
    let _ = (address, mac);
    Vec::new()
}
