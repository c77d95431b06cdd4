//! A model of what one machine's kernel does with addresses, as network.md measured it: finite
//! lifetimes that end up to a second late, an exclusive add, and a replace that resurrects.

use std::net::IpAddr;

use barevip::engine::node::command::{AddressChange, Failure};
use barevip::engine::node::links::{Instance, Link, LinkAddress, LinkId, LinkSnapshot};
use barevip::engine::time::Instant;
use barevip::engine::vrrp::frames::MacAddress;
use barevip::model::{Family, Vip};

use super::random::Random;
use super::time::{MS, Nanos};

/// The one link that matters; the loopback is 1.
pub(crate) const LINK: LinkId = LinkId(2);
pub(crate) const INSTANCE: Instance = Instance(0x6261_0001);

#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    pub(crate) mac: MacAddress,
    pub(crate) up: bool,
    pub(crate) carrier: bool,
    /// In the kernel's order.
    pub(crate) addresses: Vec<Held>,
    /// Every add is refused with these words.
    pub(crate) refuses: Option<&'static str>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) address: IpAddr,
    pub(crate) prefix_len: u8,
    pub(crate) mark: Option<Instance>,
    pub(crate) expires: Option<Nanos>,
}

/// What a netlink command did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Nothing,
    Appeared,
    Vanished,
    /// It was there with another mark or none, and is ours or gone now: never to happen.
    TouchedForeign,
}

impl Kernel {
    pub(crate) fn new(mac: MacAddress, own: &[(IpAddr, u8)]) -> Self {
        let addresses = own
            .iter()
            .map(|&(address, prefix_len)| Held { address, prefix_len, mark: None, expires: None })
            .collect();
        Self { mac, up: true, carrier: true, addresses, refuses: None }
    }

    pub(crate) fn held(&self, address: IpAddr) -> Option<&Held> {
        self.addresses.iter().find(|held| held.address == address)
    }

    /// Whether it is there with our mark.
    pub(crate) fn is_ours(&self, address: IpAddr) -> bool {
        self.held(address).is_some_and(|held| held.mark == Some(INSTANCE))
    }

    pub(crate) fn ours(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().filter(|held| held.mark == Some(INSTANCE)).map(|held| held.address)
    }

    /// Whether the link works at all.
    pub(crate) fn is_running(&self) -> bool {
        self.up && self.carrier
    }

    /// Carries out a command; `clock` is the machine's clock at this moment.
    pub(crate) fn change(
        &mut self,
        vip: Vip,
        change: AddressChange,
        now: Nanos,
        clock: Instant,
        random: &mut Random,
    ) -> (Result<(), Failure>, Effect) {
        let address = vip.address();
        let present = self.held(address).map(|held| held.mark == Some(INSTANCE));
        match change {
            AddressChange::Add { not_after, .. } | AddressChange::Refresh { not_after, .. }
                if clock > not_after =>
            {
                (Err(Failure::TooLate), Effect::Nothing)
            }
            AddressChange::Add { .. } if present.is_some() => {
                (Err(Failure::Exists), Effect::Nothing)
            }
            AddressChange::Add { lifetime, .. } => match (self.refuses, self.up) {
                (Some(words), _) => (Err(Failure::Refused(words.to_owned())), Effect::Nothing),
                // IPv4 addresses can be added to a link that is down, IPv6 ones are not kept.
                (None, false) if vip.family() == Family::Ipv6 => {
                    (Err(Failure::Refused("network is down".to_owned())), Effect::Nothing)
                }
                (None, _) => {
                    self.put(vip, now + late_end(lifetime.as_nanos(), random));
                    (Ok(()), Effect::Appeared)
                }
            },
            // NLM_F_REPLACE: steals what is somebody else's, and adds what is absent.
            AddressChange::Refresh { lifetime, .. } => {
                self.put(vip, now + late_end(lifetime.as_nanos(), random));
                let effect = match present {
                    Some(true) => Effect::Nothing,
                    Some(false) => Effect::TouchedForeign,
                    None => Effect::Appeared,
                };
                (Ok(()), effect)
            }
            AddressChange::Remove => {
                self.addresses.retain(|held| held.address != address);
                let effect = match present {
                    Some(true) => Effect::Vanished,
                    Some(false) => Effect::TouchedForeign,
                    None => Effect::Nothing,
                };
                (Ok(()), effect)
            }
        }
    }

    fn put(&mut self, vip: Vip, expires: Nanos) {
        let held = Held {
            address: vip.address(),
            prefix_len: vip.prefix_len(),
            mark: Some(INSTANCE),
            expires: Some(expires),
        };
        match self.addresses.iter_mut().find(|other| other.address == held.address) {
            Some(other) => *other = held,
            None => self.addresses.push(held),
        }
    }

    /// When the next lifetime ends.
    pub(crate) fn next_expiry(&self) -> Option<Nanos> {
        self.addresses.iter().filter_map(|held| held.expires).min()
    }

    /// Removes one address whose lifetime has ended.
    pub(crate) fn expire(&mut self, now: Nanos) -> Option<IpAddr> {
        let index = self.addresses.iter().position(|h| h.expires.is_some_and(|at| at <= now))?;
        Some(self.addresses.remove(index).address)
    }

    /// The machine slept: its jiffies stood still.
    pub(crate) fn shift_lifetimes(&mut self, by: Nanos) {
        for held in &mut self.addresses {
            held.expires = held.expires.map(|at| at + by);
        }
    }

    pub(crate) fn snapshot(&self) -> LinkSnapshot {
        let addresses = self
            .addresses
            .iter()
            .map(|held| LinkAddress {
                address: held.address,
                prefix_len: held.prefix_len,
                instance: held.mark,
                usable: true,
            })
            .collect();
        let link = Link {
            id: LINK,
            name: "eth0".to_owned(),
            mac: Some(self.mac),
            mtu: 1500,
            up: self.up,
            carrier: self.up && self.carrier,
            master: None,
            forwards_ipv6: false,
            addresses,
        };
        LinkSnapshot { links: vec![link] }
    }
}

/// How long an address of this lifetime stays: the kernel rounds its check (network.md 5).
fn late_end(lifetime: u128, random: &mut Random) -> Nanos {
    lifetime as Nanos + random.below(990) * MS
}
