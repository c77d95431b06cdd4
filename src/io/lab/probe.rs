//! Who answers for an address, asked a thousand times a second: a responder on each node that
//! answers with the node's name, and a client that writes down every answer.
//!
//! A question is a datagram of its number, an answer the same number and the node's name, sent
//! from the address that was asked.

use std::io::{self, IoSlice, IoSliceMut, PipeReader, PipeWriter};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context as _;
use nix::libc::{in_pktinfo, in6_pktinfo};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll, ppoll};
use nix::sys::prctl;
use nix::sys::socket::sockopt::{Ipv4PacketInfo, Ipv6RecvPacketInfo};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt,
};
use nix::sys::time::TimeSpec;
use socket2::{Domain, Socket, Type};

use super::lan::Host;
use super::record::{Answer, Record};
use crate::engine::time::Instant;
use crate::io::clock::now;

/// The UDP port that responders listen on: echo, RFC 862.
pub const PORT: u16 = 7;

/// Longest datagram: a number and a name.
const MAX_DATAGRAM: usize = 256;

/// Answers every question that reaches a host, whatever address was asked and for as long as the
/// host has it. It stops when dropped.
#[derive(Debug)]
pub struct Responder {
    thread: Stopped,
}

impl Responder {
    /// Starts answering in the name of `host`.
    ///
    /// # Errors
    /// Where the port cannot be bound.
    pub fn start(host: &Host) -> anyhow::Result<Self> {
        let sockets = host
            .namespace()
            .run(|| {
                let ipv4 = listen(Ipv4Addr::UNSPECIFIED.into())?;
                setsockopt(&ipv4, Ipv4PacketInfo, &true)?;
                let ipv6 = listen(Ipv6Addr::UNSPECIFIED.into())?;
                setsockopt(&ipv6, Ipv6RecvPacketInfo, &true)?;
                Ok([ipv4, ipv6])
            })
            .with_context(|| format!("cannot listen on UDP port {PORT}"))?;
        let name = host.name().to_owned();
        let thread = Stopped::start(format!("{name} answers"), move |stop| {
            answer_until_stopped(&sockets, &name, stop)
        })?;
        Ok(Self { thread })
    }

    /// Stops and says what went wrong in the meantime.
    ///
    /// # Errors
    /// Those of the sockets, but not those of a single answer: an address may go while it is asked.
    pub fn stop(self) -> anyhow::Result<()> {
        self.thread.stop()
    }
}

fn listen(address: IpAddr) -> anyhow::Result<UdpSocket> {
    let address = SocketAddr::new(address, PORT);
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

fn answer_until_stopped(
    sockets: &[UdpSocket; 2],
    name: &str,
    stop: &PipeReader,
) -> anyhow::Result<()> {
    let [ipv4, ipv6] = sockets;
    loop {
        let mut ready = [stop.as_fd(), ipv4.as_fd(), ipv6.as_fd()]
            .map(|descriptor| PollFd::new(descriptor, PollFlags::POLLIN));
        poll(&mut ready, PollTimeout::NONE)?;
        let [stopped, ..] = ready.map(|polled| polled.any().unwrap_or_default());
        if stopped {
            return Ok(());
        }
        for socket in sockets {
            while answer_one(socket, name)? {}
        }
    }
}

/// Answers the next question, from the address that was asked; `false` if there is none.
fn answer_one(socket: &UdpSocket, name: &str) -> anyhow::Result<bool> {
    let mut datagram = [0; MAX_DATAGRAM];
    let mut control = nix::cmsg_space!(in6_pktinfo);
    let mut buffer = [IoSliceMut::new(&mut datagram)];
    let received = match recvmsg::<SockaddrStorage>(
        socket.as_raw_fd(),
        &mut buffer,
        Some(&mut control),
        MsgFlags::empty(),
    ) {
        Ok(received) => received,
        Err(nix::errno::Errno::EAGAIN) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let asker = received.address;
    let asked = received.cmsgs()?.next();
    let question = received.bytes;
    let Some(number) = datagram.get(..question.min(size_of::<u32>())) else {
        return Ok(true);
    };
    let answer = [IoSlice::new(number), IoSlice::new(name.as_bytes())];
    let send = |from: ControlMessage<'_>| {
        sendmsg(socket.as_raw_fd(), &answer, &[from], MsgFlags::empty(), asker.as_ref())
    };
    // An answer may fail, for example because the address is gone by now: to the client it is
    // lost, and the next one may be fine.
    match asked {
        Some(ControlMessageOwned::Ipv4PacketInfo(info)) => {
            send(ControlMessage::Ipv4PacketInfo(&in_pktinfo {
                ipi_ifindex: info.ipi_ifindex,
                ipi_spec_dst: info.ipi_addr,
                ipi_addr: info.ipi_addr,
            }))
            .ok();
        }
        Some(ControlMessageOwned::Ipv6PacketInfo(info)) => {
            send(ControlMessage::Ipv6PacketInfo(&info)).ok();
        }
        _ => {}
    }
    Ok(true)
}

/// A client that asks one address at a fixed pace, until it is dropped.
#[derive(Debug)]
pub struct Probe {
    record: Arc<Mutex<Record>>,
    thread: Stopped,
}

impl Probe {
    /// Starts asking `address` from `host`, one question each `period`.
    ///
    /// # Errors
    /// Where no socket can be opened.
    pub fn start(host: &Host, address: IpAddr, period: Duration) -> anyhow::Result<Self> {
        let socket = host
            .namespace()
            .run(|| {
                let socket = UdpSocket::bind(match address {
                    IpAddr::V4(_) => SocketAddr::from((host.ipv4(), 0)),
                    IpAddr::V6(_) => SocketAddr::from((host.ipv6(), 0)),
                })?;
                // Only answers from the address that was asked reach a connected socket.
                socket.connect((address, PORT))?;
                socket.set_nonblocking(true)?;
                Ok(socket)
            })
            .with_context(|| format!("cannot ask {address} on UDP port {PORT}"))?;
        let record = Arc::new(Mutex::new(Record::default()));
        let writing = Arc::clone(&record);
        let thread = Stopped::start(format!("asks {address}"), move |stop| {
            // The default slack of 50 µs would be a twentieth of the period; without the
            // permission the pace is a little rougher.
            prctl::set_timerslack(1).ok();
            ask_until_stopped(&socket, period, &writing, stop)
        })?;
        Ok(Self { record, thread })
    }

    /// What is known so far.
    #[must_use]
    pub fn record(&self) -> Record {
        lock(&self.record).clone()
    }

    /// Looks at what is known so far without copying it; the client waits meanwhile.
    pub fn look<T>(&self, look: impl FnOnce(&Record) -> T) -> T {
        look(&lock(&self.record))
    }

    /// Stops asking; what is on its way is not waited for.
    ///
    /// # Errors
    /// What went wrong while asking, which no lost answer is.
    pub fn stop(self) -> anyhow::Result<Record> {
        self.thread.stop()?;
        Ok(lock(&self.record).clone())
    }
}

fn ask_until_stopped(
    socket: &UdpSocket,
    period: Duration,
    record: &Mutex<Record>,
    stop: &PipeReader,
) -> anyhow::Result<()> {
    let mut due = now();
    loop {
        let at = now();
        if at >= due {
            ask(socket, &mut lock(record), at);
            // From the due time, not from now: late questions do not shift later ones.
            due = due + period;
            continue;
        }
        let mut ready = [stop.as_fd(), socket.as_fd()]
            .map(|descriptor| PollFd::new(descriptor, PollFlags::POLLIN));
        ppoll(&mut ready, Some(TimeSpec::from_duration(due.since(at))), None)?;
        let [stopped, answered] = ready.map(|polled| polled.any().unwrap_or_default());
        if stopped {
            return Ok(());
        }
        if answered {
            take_answers(socket, record)?;
        }
    }
}

/// A question that cannot be sent, for example because nobody is at the address, is lost.
fn ask(socket: &UdpSocket, record: &mut Record, at: Instant) {
    let number = record.asked(at);
    socket.send(&number.to_be_bytes()).ok();
}

fn take_answers(socket: &UdpSocket, record: &Mutex<Record>) -> anyhow::Result<()> {
    let mut datagram = [0; MAX_DATAGRAM];
    loop {
        let length = match socket.recv(&mut datagram) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            // What an ICMP error says about an earlier question: that one is lost.
            Err(_) => continue,
        };
        let at = now();
        let Some((number, name)) =
            datagram.get(..length).and_then(|answer| answer.split_first_chunk())
        else {
            continue;
        };
        let mut record = lock(record);
        let node = record.node(&String::from_utf8_lossy(name));
        record.answered(u32::from_be_bytes(*number), Answer { at, node });
    }
}

/// A record is whole between any two calls, so a poisoned lock says nothing about it.
fn lock(record: &Mutex<Record>) -> std::sync::MutexGuard<'_, Record> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread that ends when the value that stands for it goes.
#[derive(Debug)]
struct Stopped {
    /// Its far end hangs up when this one is dropped.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Stopped {
    fn start(
        name: String,
        work: impl FnOnce(&PipeReader) -> anyhow::Result<()> + Send + 'static,
    ) -> anyhow::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let thread = thread::Builder::new().name(name).spawn(move || work(&reader))?;
        Ok(Self { stop: Some(writer), thread: Some(thread) })
    }

    fn stop(mut self) -> anyhow::Result<()> {
        self.end()
    }

    fn end(&mut self) -> anyhow::Result<()> {
        self.stop = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.end().ok();
    }
}
