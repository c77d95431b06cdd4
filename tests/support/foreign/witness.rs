//! What a machine that serves nothing hears of VRRP, on plain raw sockets of its own.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use barevip::engine::time::Instant;
use barevip::engine::vrrp::packet::{Advert, Checksum, Refusal};
use barevip::io::clock::now;
use barevip::io::lab::lan::{Host, LINK};
use barevip::model::Priority;
use nix::errno::Errno;
use nix::sys::socket::{SockaddrStorage, recvfrom};
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};

const VRRP: i32 = 112;
const GROUP_V4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 18);
const GROUP_V6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x12);

/// Listens for as long as it lives.
pub(crate) struct Witness {
    heard: Arc<Mutex<Heard>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Heard {
    /// When, from whom, and with which priority (0: it leaves).
    adverts: Vec<(Instant, IpAddr, u8)>,
    /// What breaks a rule of RFC 9568 §7.1, and which one.
    refused: Vec<String>,
}

impl Witness {
    pub(crate) fn start(host: &Host) -> Self {
        let heard = Arc::new(Mutex::new(Heard::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let sockets = host.namespace().run(|| {
            let link = nix::net::if_::if_nametoindex(LINK)?;
            let v4 = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(VRRP)))?;
            v4.join_multicast_v4_n(&GROUP_V4, &InterfaceIndexOrAddress::Index(link))?;
            let v6 = Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::from(VRRP)))?;
            v6.join_multicast_v6(&GROUP_V6, link)?;
            Ok([v4, v6])
        });
        let threads = sockets
            .expect("raw sockets")
            .into_iter()
            .map(|socket| {
                let (heard, stop) = (Arc::clone(&heard), Arc::clone(&stop));
                std::thread::spawn(move || listen(&socket, &heard, &stop))
            })
            .collect();
        Self { heard, stop, threads }
    }

    /// Whose adverts were heard since then, in order, each with its priority.
    pub(crate) fn since(&self, since: Instant) -> Vec<(IpAddr, u8)> {
        let heard = self.heard.lock().unwrap();
        let first = heard.adverts.partition_point(|(at, ..)| *at < since);
        heard.adverts[first..].iter().map(|(_, source, priority)| (*source, *priority)).collect()
    }

    /// What was no valid advert.
    pub(crate) fn refused(&self) -> Vec<String> {
        self.heard.lock().unwrap().refused.clone()
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().ok();
        }
    }
}

fn listen(socket: &Socket, heard: &Mutex<Heard>, stop: &AtomicBool) {
    // So often it looks whether it is to stop.
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut buffer = [0; 2048];
    while !stop.load(Ordering::Relaxed) {
        match recvfrom::<SockaddrStorage>(socket.as_raw_fd(), &mut buffer) {
            Ok((length, sender)) => {
                let (source, result) = read(&buffer[..length], &sender.unwrap());
                let mut heard = heard.lock().unwrap();
                match result {
                    Ok((Advert { priority, .. }, _)) => {
                        let priority = priority.map_or(0, Priority::get);
                        heard.adverts.push((now(), source, priority));
                    }
                    Err(refusal) => heard.refused.push(format!("{source}: {refusal}")),
                }
            }
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(error) => panic!("the witness is deaf: {error}"),
        }
    }
}

/// An IPv4 socket shows the header, an IPv6 one does not.
fn read(packet: &[u8], sender: &SockaddrStorage) -> (IpAddr, Result<(Advert, Checksum), Refusal>) {
    match sender.as_sockaddr_in6() {
        Some(sender) => {
            let source = sender.ip().into();
            (source, Advert::parse(source, GROUP_V6.into(), 255, packet))
        }
        None => {
            let address = |at: usize| {
                IpAddr::from(<[u8; 4]>::try_from(&packet[at..at + 4]).expect("four octets"))
            };
            let message = &packet[usize::from(packet[0] & 0x0f) * 4..];
            (address(12), Advert::parse(address(12), address(16), packet[8], message))
        }
    }
}
