//! Packets on their way: what a machine sends as bytes, and what arrives where.

use std::net::IpAddr;
use std::rc::Rc;

use barevip::engine::vrrp::frames::{Announcement, Datagram};
use barevip::model::Family;

use super::happened::What;
use super::host::{AdvertPacket, Input};
use super::time::US;
use super::wire::Path;
use super::world::{Event, Lan};

const ETHERNET_HEADER: usize = 14;
const NEIGHBOUR_SOLICITATION: u8 = 135;

impl Lan {
    pub(crate) fn send_advert(&mut self, from: usize, packet: AdvertPacket) {
        let (vrid, priority) = (packet.message[1], packet.message[2]);
        let to = packet.destination;
        self.log(from, || What::Advert { vrid, priority, to });
        self.judge_advert(from, &packet);
        let machine = &self.hosts[from];
        if !machine.kernel.is_running() || machine.kernel.held(packet.source).is_none() {
            return;
        }
        let packet = Rc::new(packet);
        self.spread_advert(from, &packet);
        if self.junk > 0 {
            let broken = Rc::new(self.broken_copy(&packet));
            self.spread_advert(from, &broken);
        }
    }

    fn spread_advert(&mut self, from: usize, packet: &Rc<AdvertPacket>) {
        let path = if packet.destination.is_multicast() { Path::Multicast } else { Path::Unicast };
        for to in 0..self.hosts.len() {
            let is_for = match path {
                Path::Multicast => to != from,
                Path::Unicast => self.hosts[to].addresses.contains(&packet.destination),
            };
            if is_for {
                let arrivals = self.wire.arrivals(path, from, to, self.now, &mut self.random);
                for at in arrivals.into_iter().flatten() {
                    self.push(at - self.now, Event::Advert { to, packet: Rc::clone(packet) });
                }
            }
        }
    }

    /// What a strict receiver refuses: one thing is wrong with it.
    fn broken_copy(&mut self, packet: &AdvertPacket) -> AdvertPacket {
        let mut message = packet.message.clone();
        let mut ttl = 255;
        match self.random.below(6) {
            0 => ttl = 254,
            1 => message[0] = 0x41,
            2 => message[3] = 0,
            3 => message[6] ^= 1,
            4 => message.truncate(message.len() - 1),
            // A wrong VRID that nobody has, with a checksum that is wrong too.
            _ => message[1] = 1,
        }
        AdvertPacket { source: packet.source, destination: packet.destination, ttl, message }
    }

    pub(crate) fn advert_arrives(&mut self, to: usize, packet: Rc<AdvertPacket>) {
        if self.hosts[to].hears(Family::of(packet.source)) {
            let received_at = self.hosts[to].clock(self.now);
            let input = Input::Advert(packet, received_at);
            self.is_heard(to, input);
        }
    }

    pub(crate) fn log_heard(&mut self, host: usize, input: &Input) {
        match input {
            Input::Advert(packet, _) => self.log(host, || What::Heard {
                vrid: packet.message[1],
                priority: packet.message[2],
                from: packet.source,
            }),
            Input::Neighbour(address, mac) => {
                self.log(host, || What::HeardAnnouncement(*address, usize::from(mac.0[5]) - 1));
            }
            _ => {}
        }
    }

    /// An ARP or ND frame: an announcement, or a probe.
    pub(crate) fn send_frame(&mut self, from: usize, frame: &[u8]) {
        let packet = &frame[ETHERNET_HEADER..];
        match frame[12..ETHERNET_HEADER] {
            [0x08, 0x06] => match Announcement::from_arp(packet) {
                Some(announcement) => self.announce(from, announcement),
                None => {
                    let target: [u8; 4] = packet[24..28].try_into().unwrap();
                    self.probe(from, target.into());
                }
            },
            [0x86, 0xdd] => {
                let datagram = Datagram::parse(packet).unwrap();
                match Announcement::from_neighbour_advertisement(&datagram) {
                    Some(announcement) => self.announce(from, announcement),
                    None => {
                        assert_eq!(datagram.payload[0], NEIGHBOUR_SOLICITATION, "{frame:02x?}");
                        let target: [u8; 16] = datagram.payload[8..24].try_into().unwrap();
                        self.probe(from, target.into());
                    }
                }
            }
            _ => self.fail(from, || format!("a frame that nobody knows: {frame:02x?}")),
        }
    }

    fn announce(&mut self, from: usize, Announcement { address, mac }: Announcement) {
        self.log(from, || What::Announced(address));
        self.judge_announcement(from, address, mac);
        if !self.hosts[from].kernel.is_running() {
            return;
        }
        for to in (0..self.hosts.len()).filter(|to| *to != from) {
            let arrivals =
                self.wire.arrivals(Path::Multicast, from, to, self.now, &mut self.random);
            for at in arrivals.into_iter().flatten() {
                self.push(at - self.now, Event::Announcement { to, from, address });
            }
        }
        self.clients_are_told(from, address);
    }

    /// Who holds the address answers the asker.
    fn probe(&mut self, asker: usize, address: IpAddr) {
        for holder in (0..self.hosts.len()).filter(|holder| *holder != asker) {
            if self.hosts[holder].serves(address) && self.hosts[asker].kernel.is_running() {
                let arrivals = self.wire.arrivals(
                    Path::Multicast,
                    holder,
                    asker,
                    self.now + 50 * US,
                    &mut self.random,
                );
                if let Some(at) = arrivals[0] {
                    let event = Event::Announcement { to: asker, from: holder, address };
                    self.push(at - self.now, event);
                }
            }
        }
    }

    pub(crate) fn announcement_arrives(&mut self, to: usize, from: usize, address: IpAddr) {
        if self.hosts[from].addresses.contains(&address) {
            self.wire.learn(to, from);
        }
        if self.hosts[to].hears(Family::of(address)) {
            let input = Input::Neighbour(address, self.hosts[from].kernel.mac);
            self.is_heard(to, input);
        }
    }

    /// A machine that stalls hears later, and is judged then.
    fn is_heard(&mut self, to: usize, input: Input) {
        if !self.hosts[to].is_stalled() {
            self.log_heard(to, &input);
            self.judge_heard(to, &input);
        }
        self.tell(to, input);
    }
}
