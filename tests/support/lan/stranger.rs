//! A foreign group of machines on our LAN that uses a VRID of ours for its own addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;

use barevip::engine::vrrp::packet::{Advert, Checksum};
use barevip::model::{Family, Interval, Priority, Vrid};

use super::host::AdvertPacket;
use super::time::{Nanos, nanos};
use super::world::{Event, Lan};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Stranger {
    pub(crate) family: Family,
    pub(crate) vrid: Vrid,
    pub(crate) priority: Priority,
    pub(crate) interval: Interval,
    pub(crate) until: Nanos,
}

impl Lan {
    pub(crate) fn stranger_comes(&mut self, stranger: Stranger) {
        self.strangers.push(stranger);
        self.push(0, Event::StrangerSpeaks { index: self.strangers.len() - 1 });
    }

    pub(crate) fn stranger_speaks(&mut self, index: usize) {
        let Stranger { family, vrid, priority, interval, until } = self.strangers[index];
        if self.now >= until {
            return;
        }
        let (source, destination, address): (IpAddr, IpAddr, IpAddr) = match family {
            Family::Ipv4 => (
                Ipv4Addr::new(10, 0, 0, 250).into(),
                Ipv4Addr::new(224, 0, 0, 18).into(),
                Ipv4Addr::new(10, 0, 250, 1).into(),
            ),
            Family::Ipv6 => (
                Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0xfafa).into(),
                Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x12).into(),
                Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0xfafa).into(),
            ),
        };
        let mut addresses = vec![address];
        if family == Family::Ipv6 {
            addresses.insert(0, vrid.link_local().into());
        }
        let advert = Advert { vrid, priority: Some(priority), interval, addresses };
        let message = advert.emit(source, destination, Checksum::Rfc9568);
        let packet = Rc::new(AdvertPacket { source, destination, ttl: 255, message });
        for to in 0..self.hosts.len() {
            let event = Event::Advert { to, packet: Rc::clone(&packet) };
            self.push(self.wire.latency[0], event);
        }
        self.push(nanos(interval.duration()), Event::StrangerSpeaks { index });
    }
}
