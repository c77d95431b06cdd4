//! Links and addresses: a thread that may wait for the kernel's locks, so that the engine's
//! thread never does.
//!
//! It keeps a picture of all links and addresses up to date from events, hands it over whole when
//! it has changed, and carries out requests one at a time, in order. What a request changed is in
//! the picture before the request is answered: a snapshot that comes after an answer always shows
//! the effect.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressMessage, AddressProtocol, AddressScope, CacheInfo,
};
use netlink_packet_route::link::{LinkAttribute, LinkExtentMask, LinkMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::LinkAddr;

use super::group::Membership;
use super::picture::{Change, Held, MARK, Picture};
use super::route_socket::{RouteSocket, wait};
use crate::engine::node::command::{AddressChange, CommandId, Failure};
use crate::engine::node::links::{Instance, LinkId, LinkSnapshot};
use crate::engine::time::Instant;
use crate::io::clock;
use crate::io::wake::Wake;
use crate::model::{Family, Vip};

/// Requests that may wait. The engine has a few dozen under way at a time.
const QUEUE: usize = 256;
/// Snapshots come no closer together than this, whatever happens to the links.
const PAUSE: Duration = Duration::from_millis(5);
/// Even the kernel's events are not trusted for ever.
const REDUMP: Duration = Duration::from_secs(54);
const REDUMP_SPREAD: Duration = Duration::from_secs(12);
/// Until a failed dump, or a failed membership, is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// The kernel serves an accepted address within this, or never.
const SETTLED: Duration = Duration::from_millis(250);
/// Between two looks whether it does.
const SETTLE_PAUSE: Duration = Duration::from_millis(1);
const STACK: usize = 512 << 10;
/// RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR and RTNLGRP_IPV6_IFADDR as bits.
const GROUPS: u32 = 1 | 1 << 4 | 1 << 8;

/// What this thread is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Change an address. Answered by [`Report::Done`].
    Address {
        /// Names it in the answer.
        id: CommandId,
        /// The link.
        link: LinkId,
        /// The address.
        vip: Vip,
        /// What to do with it.
        change: AddressChange,
    },
    /// Join the family's VRRP group on a link and stay in it. Answered by [`Report::Joined`].
    Join(LinkId, Family),
    /// Leave it.
    Leave(LinkId, Family),
}

/// What this thread has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// The links and addresses have changed.
    Links(LinkSnapshot),
    /// An address request is done with.
    Done(CommandId, Result<(), Failure>),
    /// The group was joined; the address is how frames leave on that link.
    Joined(LinkId, LinkAddr),
    /// Something an operator should know. This thread writes no log, as that could make it wait.
    Trouble(String),
}

/// Takes the reports. It returns `false` for [`Report::Links`] where the last one was not read
/// yet: then a newer one is offered soon.
pub trait Outlet: FnMut(Report) -> bool + Send + 'static {}
impl<F: FnMut(Report) -> bool + Send + 'static> Outlet for F {}

/// The way to the thread. It ends when this is dropped.
#[derive(Debug)]
pub struct Netlink {
    requests: Option<SyncSender<Request>>,
    wake: Arc<Wake>,
    thread: Option<JoinHandle<()>>,
}

impl Netlink {
    /// Starts the thread in this thread's network namespace. The first report is a snapshot.
    ///
    /// # Errors
    /// The kernel's, where it gives no sockets or no thread.
    pub fn start(instance: Instance, report: impl Outlet) -> io::Result<Self> {
        let (requests, inbox) = sync_channel(QUEUE);
        let wake = Arc::new(Wake::new()?);
        let worker = Worker {
            instance,
            // Subscribed before the first dump, so nothing falls between the two.
            events: RouteSocket::open(GROUPS)?,
            kernel: Kernel::open()?,
            picture: Picture::default(),
            memberships: BTreeMap::new(),
            settling: Vec::new(),
            inbox,
            wake: Arc::clone(&wake),
            report,
            shown: None,
            dirty: false,
            blind: false,
            next_snapshot: Instant::ZERO,
            next_dump: Instant::ZERO,
            next_join: None,
        };
        let thread = thread::Builder::new()
            .name("barevip-netlink".to_owned())
            .stack_size(STACK)
            .spawn(move || worker.run())?;
        Ok(Self { requests: Some(requests), wake, thread: Some(thread) })
    }

    /// Asks for something, without waiting.
    ///
    /// # Errors
    /// [`Failure::Busy`]: the queue is full. [`Failure::Refused`]: the thread has ended.
    pub fn request(&self, request: Request) -> Result<(), Failure> {
        let sent = self.requests.as_ref().map(|to| to.try_send(request));
        match sent {
            Some(Ok(())) => {
                self.wake.ring();
                Ok(())
            }
            Some(Err(TrySendError::Full(_))) => Err(Failure::Busy),
            Some(Err(TrySendError::Disconnected(_))) | None => {
                Err(Failure::Refused("the netlink thread has ended".to_owned()))
            }
        }
    }
}

impl Drop for Netlink {
    /// Waits until what was asked for is done.
    fn drop(&mut self) {
        self.requests = None;
        self.wake.ring();
        if let Some(thread) = self.thread.take() {
            // A panic has ended the process, or its text is on stderr.
            drop(thread.join());
        }
    }
}

/// Removes every address of an instance in this thread's network namespace, and says which.
///
/// # Errors
/// The kernel's; some addresses may be gone then.
pub fn cleanup(instance: Instance) -> io::Result<Vec<(String, IpNet)>> {
    let mut kernel = Kernel::open()?;
    let picture = kernel.dump()?;
    let mut removed = Vec::new();
    for (link, address) in picture.marked(instance) {
        let Ok(net) = IpNet::new(address.address, address.prefix_len) else {
            continue;
        };
        kernel.remove(link, address.address, address.prefix_len)?;
        let name = picture.name(link).unwrap_or_default();
        removed.push((name.to_owned(), net));
    }
    Ok(removed)
}

/// The instances that have an address in this thread's network namespace.
///
/// # Errors
/// The kernel's.
pub fn instances() -> io::Result<BTreeSet<Instance>> {
    Ok(Kernel::open()?.dump()?.instances())
}

/// A group that the engine wants to be a member of.
#[derive(Debug, Default)]
struct Member {
    joined: Option<Membership>,
    /// Trouble is told once.
    failing: bool,
}

/// An address that the kernel has acknowledged and does not yet serve. For IPv6 it puts the
/// address in the list at once, but makes the route to itself later, on a thread of its own:
/// until then it drops what arrives for the address, and an announcement would be too early.
struct Settling {
    id: CommandId,
    link: LinkId,
    vip: Vip,
    /// Other rules may route the address elsewhere for ever.
    give_up: Instant,
}

struct Worker<R> {
    instance: Instance,
    events: RouteSocket,
    kernel: Kernel,
    picture: Picture,
    memberships: BTreeMap<(LinkId, Family), Member>,
    /// IPv6 additions that the kernel has accepted and not yet carried out.
    settling: Vec<Settling>,
    inbox: Receiver<Request>,
    wake: Arc<Wake>,
    report: R,
    /// The last snapshot that was taken.
    shown: Option<LinkSnapshot>,
    dirty: bool,
    /// The last dump failed.
    blind: bool,
    next_snapshot: Instant,
    next_dump: Instant,
    next_join: Option<Instant>,
}

impl<R: Outlet> Worker<R> {
    fn run(mut self) {
        loop {
            self.keep_up();
            self.settle();
            self.show();
            match self.inbox.try_recv() {
                Ok(Request::Address { id, link, vip, change }) => {
                    let result = self.change(link, vip, change);
                    if result.is_ok() && settles(vip, &change) {
                        let give_up = clock::now() + SETTLED;
                        self.settling.push(Settling { id, link, vip, give_up });
                    } else {
                        (self.report)(Report::Done(id, result));
                    }
                }
                Ok(Request::Join(link, family)) => {
                    self.memberships.insert((link, family), Member::default());
                    self.join();
                }
                Ok(Request::Leave(link, family)) => {
                    self.memberships.remove(&(link, family));
                }
                Err(TryRecvError::Empty) => self.wait(),
                Err(TryRecvError::Disconnected) => return,
            }
        }
    }

    /// Brings the picture up to date: from events, or anew where events were lost.
    fn keep_up(&mut self) {
        let now = clock::now();
        let Self { picture, events, dirty, .. } = self;
        let complete = events.events(|message| match Change::read(message) {
            Some(Change::Link(link)) => {
                let (id, name) = (link.id, link.name.clone());
                *dirty |= picture.apply(Change::Link(link));
                *dirty |= picture.set_forwarding(id, forwards_ipv6(&name));
            }
            Some(change) => *dirty |= picture.apply(change),
            None => {}
        });
        if !complete || self.next_dump <= now {
            self.dump(now);
        }
        if self.next_join.is_some_and(|at| at <= now) {
            self.join();
        }
    }

    /// Answers the additions whose addresses are served by now.
    fn settle(&mut self) {
        let Self { settling, kernel, report, .. } = self;
        settling.retain(|Settling { id, vip, give_up, .. }| {
            let settled = kernel.serves(vip.address()) || clock::now() >= *give_up;
            if settled {
                report(Report::Done(*id, Ok(())));
            }
            !settled
        });
    }

    fn dump(&mut self, now: Instant) {
        match self.kernel.dump() {
            Ok(picture) => {
                self.picture = picture;
                self.dirty = true;
                self.blind = false;
                self.next_dump = now + REDUMP + spread(now);
                self.join();
            }
            Err(error) => {
                if !std::mem::replace(&mut self.blind, true) {
                    (self.report)(Report::Trouble(format!(
                        "can't read the links and addresses: {error}; tried again every second"
                    )));
                }
                self.next_dump = now + RETRY;
            }
        }
    }

    /// Hands over a snapshot if there is something new and the last one is long enough ago.
    fn show(&mut self) {
        let shows = |settling: &Settling| self.picture.holds(settling.link, settling.vip).is_some();
        if !self.dirty || clock::now() < self.next_snapshot || self.settling.iter().any(shows) {
            return;
        }
        let snapshot = self.picture.snapshot();
        if self.shown.as_ref() == Some(&snapshot) {
            self.dirty = false;
            return;
        }
        if (self.report)(Report::Links(snapshot.clone())) {
            self.shown = Some(snapshot);
            self.dirty = false;
        }
        self.next_snapshot = clock::now() + PAUSE;
    }

    /// Until there is an event or a request, or something is due.
    fn wait(&mut self) {
        let due = [Some(self.next_dump), self.next_join, self.dirty.then_some(self.next_snapshot)];
        let settled = (!self.settling.is_empty()).then(|| clock::now() + SETTLE_PAUSE);
        let left =
            due.into_iter().chain([settled]).flatten().min().map(|at| at.since(clock::now()));
        wait(&[self.events.readable(), self.wake.readable()], left);
        self.wake.hush();
    }

    fn change(&mut self, link: LinkId, vip: Vip, change: AddressChange) -> Result<(), Failure> {
        let is_ours =
            self.picture.holds(link, vip).map(|held| held.instance == Some(self.instance));
        match change {
            AddressChange::Add { lifetime, not_after } => {
                in_time(not_after)?;
                let flags = NLM_F_CREATE | NLM_F_EXCL;
                let added = self.kernel.put(link, vip, self.instance, lifetime, flags);
                if added == Err(Errno::EEXIST) {
                    // Whoever has it: it is seen as it stands, not as events told it.
                    self.next_dump = Instant::ZERO;
                    return Err(Failure::Exists);
                }
                added.map_err(refused)?;
                if !settles(vip, &change) {
                    let held = Held::ours(vip, self.instance);
                    self.dirty |= self.picture.apply(Change::Address(link, held));
                }
            }
            AddressChange::Refresh { lifetime, not_after } => {
                if is_ours != Some(true) {
                    return Err(Failure::Refused(
                        "the address is not there with our mark any more".to_owned(),
                    ));
                }
                in_time(not_after)?;
                self.kernel
                    .put(link, vip, self.instance, lifetime, NLM_F_REPLACE)
                    .map_err(refused)?;
            }
            AddressChange::Remove => {
                if is_ours == Some(false) {
                    return Err(Failure::Refused("the address is not marked as ours".to_owned()));
                }
                self.kernel.remove(link, vip.address(), vip.prefix_len()).map_err(refused)?;
                let gone = Held::ours(vip, self.instance).address;
                self.dirty |= self.picture.apply(Change::AddressGone(link, gone));
            }
        }
        Ok(())
    }

    /// Joins what was not joined yet, and again what the kernel may have forgotten.
    fn join(&mut self) {
        self.next_join = None;
        for ((link, family), member) in &mut self.memberships {
            let joined = match &member.joined {
                Some(joined) => joined.renew(),
                None => join(*link, *family).map(|(joined, door)| {
                    member.joined = Some(joined);
                    (self.report)(Report::Joined(*link, door));
                }),
            };
            // A link that has vanished is left to the engine, which sees that itself.
            let Some(name) = self.picture.name(*link) else {
                continue;
            };
            let was_failing = std::mem::replace(&mut member.failing, joined.is_err());
            if let Err(error) = joined {
                self.next_join = Some(clock::now() + RETRY);
                if !was_failing {
                    (self.report)(Report::Trouble(format!(
                        "can't join the {family} VRRP group on {name}: {error}; tried again every second"
                    )));
                }
            }
        }
    }
}

fn join(link: LinkId, family: Family) -> io::Result<(Membership, LinkAddr)> {
    Ok((Membership::join(link, family)?, door(link)?))
}

/// The link's address as packet sockets take it. There is no other way to come by one safely.
fn door(link: LinkId) -> io::Result<LinkAddr> {
    getifaddrs()?
        .filter_map(|interface| interface.address?.as_link_addr().copied())
        .find(|address| u32::try_from(address.ifindex()) == Ok(link.0))
        .ok_or_else(|| Errno::ENODEV.into())
}

/// Whether a router advertisement of this link would say so: the R flag of announcements.
fn forwards_ipv6(name: &str) -> bool {
    // Where IPv6 is turned off there is no such file, and no such flag either.
    std::fs::read(format!("/proc/sys/net/ipv6/conf/{name}/forwarding"))
        .is_ok_and(|value| !value.starts_with(b"0"))
}

/// Whether a change goes on after the kernel's acknowledgement: see [`Settling`].
fn settles(vip: Vip, change: &AddressChange) -> bool {
    vip.family() == Family::Ipv6 && matches!(change, AddressChange::Add { .. })
}

fn in_time(not_after: Instant) -> Result<(), Failure> {
    if clock::now() > not_after { Err(Failure::TooLate) } else { Ok(()) }
}

fn refused(error: Errno) -> Failure {
    Failure::Refused(error.desc().to_owned())
}

/// Machines that started together do not dump together.
fn spread(now: Instant) -> Duration {
    let nanos = u64::from(now.since_origin().subsec_nanos());
    REDUMP_SPREAD * u32::try_from(nanos % 1000).unwrap_or_default() / 1000
}

/// The requests that this program makes of the kernel.
struct Kernel {
    socket: RouteSocket,
}

impl Kernel {
    fn open() -> io::Result<Self> {
        Ok(Self { socket: RouteSocket::open(0)? })
    }

    /// All links and addresses as they are.
    fn dump(&mut self) -> Result<Picture, Errno> {
        let mut links = LinkMessage::default();
        let mask = LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]);
        links.attributes.push(mask);
        let links = RouteNetlinkMessage::GetLink(links);
        let links = self.socket.dump(&links, Change::read)?;
        let addresses = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        let addresses = self.socket.dump(&addresses, Change::read)?;
        let mut picture = Picture::default();
        for change in links.into_iter().chain(addresses) {
            picture.append(change);
        }
        let names: Vec<(LinkId, bool)> =
            picture.names().map(|(id, name)| (id, forwards_ipv6(name))).collect();
        for (id, forwards) in names {
            picture.set_forwarding(id, forwards);
        }
        Ok(picture)
    }

    /// Adds or refreshes an address: marked, finite, without a route, without a label, and for
    /// IPv6 without duplicate address detection (the election was it).
    fn put(
        &mut self,
        link: LinkId,
        vip: Vip,
        instance: Instance,
        lifetime: Duration,
        flags: u16,
    ) -> Result<(), Errno> {
        let mut message = message(link, vip.address(), vip.prefix_len());
        let mut address_flags = AddressFlags::Noprefixroute;
        if vip.family() == Family::Ipv6 {
            address_flags |= AddressFlags::Nodad;
        }
        let mut lifetimes = CacheInfo::default();
        lifetimes.ifa_valid = u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX).max(1);
        lifetimes.ifa_preferred = 0;
        message.attributes.extend([
            AddressAttribute::Flags(address_flags),
            AddressAttribute::CacheInfo(lifetimes),
            AddressAttribute::RoutePriority(instance.0),
            AddressAttribute::Protocol(AddressProtocol::Other(MARK)),
        ]);
        let message = RouteNetlinkMessage::NewAddress(message);
        self.socket.request(message, flags)
    }

    /// Whether packets to this address of ours stay here.
    fn serves(&mut self, address: IpAddr) -> bool {
        let mut message = RouteMessage::default();
        let (family, destination) = match address {
            IpAddr::V4(v4) => (AddressFamily::Inet, RouteAddress::Inet(v4)),
            IpAddr::V6(v6) => (AddressFamily::Inet6, RouteAddress::Inet6(v6)),
        };
        message.header.address_family = family;
        message.header.destination_prefix_length = Family::of(address).host_prefix_len();
        message.attributes.push(RouteAttribute::Destination(destination));
        let mut is_local = false;
        let asked = self.socket.ask(RouteNetlinkMessage::GetRoute(message), |(_, answer)| {
            is_local |=
                RouteHeader::parse(answer).is_ok_and(|route| route.kind == RouteType::Local);
        });
        asked.is_ok() && is_local
    }

    /// Removes an address; one that is gone is a success.
    fn remove(&mut self, link: LinkId, address: IpAddr, prefix_len: u8) -> Result<(), Errno> {
        let message = RouteNetlinkMessage::DelAddress(message(link, address, prefix_len));
        match self.socket.request(message, 0) {
            Err(Errno::EADDRNOTAVAIL | Errno::ENODEV | Errno::ENXIO | Errno::ENOENT) => Ok(()),
            other => other,
        }
    }
}

fn message(link: LinkId, address: IpAddr, prefix_len: u8) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    };
    message.header.prefix_len = prefix_len;
    message.header.scope = AddressScope::Universe;
    message.header.index = link.0;
    message
        .attributes
        .extend([AddressAttribute::Local(address), AddressAttribute::Address(address)]);
    message
}
