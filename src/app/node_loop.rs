//! The engine's thread: joins [`Node`] with the kernel, and [`NodeHandle`], the way to it.
//!
//! Adverts never wait, so this is a plain thread that nothing else runs on: it never waits for
//! netlink, a log, a lock or the network. What it tells goes into bounded queues, and is dropped
//! and counted where nobody reads.

use std::collections::BTreeMap;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use tokio::sync::{mpsc as async_mpsc, oneshot};

use super::observed::{Events, Lateness, News, Observed, Told};
use crate::engine::node::command::{Command, CommandId, Failure, Packet};
use crate::engine::node::identity::{Health, Identity, Scope};
use crate::engine::node::links::{Instance, LinkId};
use crate::engine::node::node::Node;
use crate::engine::time::Instant;
use crate::io::clock::{self, Moment, SleepWatch};
use crate::io::kernel::netlink::{self, Netlink, Report, Request};
use crate::io::kernel::receive::{Heard, Receiver};
use crate::io::kernel::scheduler;
use crate::io::kernel::send::Sender;
use crate::io::wake::Wake;
use crate::model::{Family, Plan};

/// News that may wait for a reader.
const EVENTS: usize = 1024;
/// How long a status may take to come.
const STATUS_PATIENCE: Duration = Duration::from_secs(1);
/// After a shutdown was asked for, everything is released by then, whatever the engine says.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(10);
/// Until the kernel has shown its links, the plan waits: a missing link is no news then.
const LINKS_PATIENCE: Duration = Duration::from_secs(2);
/// Until a request that found the queue full is answered: time for the queue to empty.
const BUSY_PAUSE: Duration = Duration::from_millis(1);
/// A pass over the sockets that took longer than this is followed by another one before timers
/// fire: an advert that arrived meanwhile comes before the timer that it re-arms.
const LONG_PASS: Duration = Duration::from_micros(200);
const PASSES: usize = 4;
const STACK: usize = 256 << 10;

/// How the engine is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether to ask for real-time priority.
    pub realtime: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { realtime: true }
    }
}

/// What the thread is told.
#[derive(Debug)]
enum Input {
    Kernel(Report),
    Plan(Plan),
    Health(Scope, Health),
    Drain(bool),
    Status(oneshot::Sender<Observed>),
    Shutdown,
}

/// The way into the thread, for any number of askers.
#[derive(Clone, Debug)]
pub struct Remote {
    inputs: mpsc::Sender<Input>,
    wake: Arc<Wake>,
}

impl Remote {
    /// What the node is and sees.
    ///
    /// # Errors
    /// Where the thread does not answer within a second: it has ended, or it hangs.
    pub async fn status(&self) -> anyhow::Result<Observed> {
        let (answer, observed) = oneshot::channel();
        self.send(Input::Status(answer));
        tokio::time::timeout(STATUS_PATIENCE, observed)
            .await
            .context("the engine's thread did not answer within 1 s")?
            .context("the engine's thread has ended")
    }

    /// A new plan, whole.
    pub fn plan(&self, plan: Plan) {
        self.send(Input::Plan(plan));
    }

    /// The health of the node or of one router.
    pub fn health(&self, scope: Scope, health: Health) {
        self.send(Input::Health(scope, health));
    }

    /// Whether to hand everything over and take no part.
    pub fn drain(&self, drain: bool) {
        self.send(Input::Drain(drain));
    }

    /// A planned stop: see [`NodeHandle::finished`].
    pub fn shutdown(&self) {
        self.send(Input::Shutdown);
    }

    /// A thread that has ended needs to be told nothing.
    fn send(&self, input: Input) {
        if self.inputs.send(input).is_ok() {
            self.wake.ring();
        }
    }
}

/// A running engine. Dropping it leaves the thread running; see [`Remote::shutdown`].
#[derive(Debug)]
pub struct NodeHandle {
    remote: Remote,
    events: Option<Events>,
    ended: oneshot::Receiver<anyhow::Result<()>>,
    thread: Option<JoinHandle<()>>,
}

impl NodeHandle {
    /// Starts the engine with this plan, in this thread's network namespace.
    ///
    /// # Errors
    /// Where this instance runs already, or the kernel refuses what is needed (CAP_NET_RAW,
    /// CAP_NET_ADMIN).
    pub fn start(identity: Identity, plan: Plan, options: Options) -> anyhow::Result<Self> {
        let lock = lock(identity.instance)?;
        let rights = "it needs root, or the capabilities CAP_NET_RAW and CAP_NET_ADMIN";
        let receiver = Receiver::open().with_context(|| {
            format!("can't open the sockets that adverts are heard on; {rights}")
        })?;
        let sender = Sender::open()
            .with_context(|| format!("can't open the sockets that adverts leave on; {rights}"))?;
        let lock = first_to_close(lock)?;
        let wake = Arc::new(Wake::new().context("can't make an eventfd")?);
        let (inputs, inbox) = mpsc::channel();
        let remote = Remote { inputs, wake: Arc::clone(&wake) };
        let links_unread = Arc::new(AtomicBool::new(false));
        let netlink =
            Netlink::start(identity.instance, outlet(remote.clone(), Arc::clone(&links_unread)))
                .context("can't talk to the kernel about links and addresses (netlink)")?;
        let (events, told) = async_mpsc::channel(EVENTS);
        let (end, ended) = oneshot::channel();
        let started = clock::now();
        let engine = Engine {
            instance: identity.instance,
            node: Node::new(identity, seed(started)),
            receiver,
            sender,
            netlink,
            inbox,
            wake,
            links_unread,
            events,
            sleep: SleepWatch::start(),
            first_plan: Some((plan, started + LINKS_PATIENCE)),
            busy: Vec::new(),
            unsent: Vec::new(),
            listening: BTreeMap::new(),
            lateness: Lateness::default(),
            untold: 0,
            realtime: Ok(()),
            shutdown_by: None,
        };
        let thread = thread::Builder::new()
            .name("barevip-engine".to_owned())
            .stack_size(STACK)
            .spawn(move || {
                let result = engine.run(options);
                drop(lock);
                // Nobody may be waiting.
                end.send(result).ok();
            })
            .context("can't start the engine's thread")?;
        Ok(Self { remote, events: Some(told), ended, thread: Some(thread) })
    }

    /// The way into the thread, for other tasks.
    #[must_use]
    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// As [`Remote::status`].
    ///
    /// # Errors
    /// As there.
    pub async fn status(&self) -> anyhow::Result<Observed> {
        self.remote.status().await
    }

    /// As [`Remote::shutdown`].
    pub fn shutdown(&self) {
        self.remote.shutdown();
    }

    /// The node's news. There is one reader: a second call gets a stream that has ended.
    pub fn events(&mut self) -> Events {
        self.events.take().unwrap_or_else(|| async_mpsc::channel(1).1)
    }

    /// Waits for the end of the thread: after [`Remote::shutdown`] everything was handed over and
    /// no address of this instance is left.
    ///
    /// # Errors
    /// Where the thread panicked, or addresses could not be removed.
    pub async fn finished(&mut self) -> anyhow::Result<()> {
        let ended = (&mut self.ended).await;
        let panicked = self.thread.take().is_some_and(|thread| thread.join().is_err());
        match ended {
            Ok(result) if !panicked => result,
            Ok(_) | Err(_) => Err(anyhow!("the engine's thread ended by a panic; see above")),
        }
    }
}

/// One process for each instance and network namespace: both would think the other's addresses
/// theirs. The kernel frees an abstract socket name when its process ends, however it ends.
pub(super) fn lock(instance: Instance) -> anyhow::Result<UnixDatagram> {
    let name = format!("barevip-{:08x}", instance.0);
    let address = SocketAddr::from_abstract_name(&name).context("can't name the lock")?;
    UnixDatagram::bind_addr(&address).map_err(|error| {
        if error.kind() == io::ErrorKind::AddrInUse {
            anyhow!(
                "this barevip runs already in this network namespace (lock @{name}); stop it first, `ss -xlp` names its process"
            )
        } else {
            anyhow::Error::new(error).context(format!("can't take the lock @{name}"))
        }
    })
}

/// The lock under a higher number than any packet socket's. A dying process closes its files from
/// the highest number down, and each packet socket takes the kernel 10 ms or more
/// (`packet_release` waits for all processors): `barevip cleanup` need not wait for those.
fn first_to_close(lock: UnixDatagram) -> anyhow::Result<UnixDatagram> {
    lock.try_clone().context("can't keep the lock")
}

/// Takes the netlink thread's reports; of unread snapshots at most one waits.
fn outlet(remote: Remote, links_unread: Arc<AtomicBool>) -> impl netlink::Outlet {
    move |report| {
        let is_links = matches!(report, Report::Links(_));
        if is_links && links_unread.swap(true, Ordering::AcqRel) {
            return false;
        }
        remote.send(Input::Kernel(report));
        true
    }
}

/// Two machines that start together differ in the nanosecond.
fn seed(started: Instant) -> u64 {
    let nanos = u64::try_from(started.since_origin().as_nanos()).unwrap_or_default();
    nanos ^ u64::from(std::process::id()) << 40
}

struct Engine {
    instance: Instance,
    node: Node,
    receiver: Receiver,
    sender: Sender,
    netlink: Netlink,
    inbox: mpsc::Receiver<Input>,
    wake: Arc<Wake>,
    links_unread: Arc<AtomicBool>,
    events: async_mpsc::Sender<Told>,
    sleep: SleepWatch,
    /// The plan that waits for the first snapshot, and until when.
    first_plan: Option<(Plan, Instant)>,
    /// Requests that found the queue full, to be answered when we come round.
    busy: Vec<(CommandId, Failure)>,
    /// The same of joining and leaving groups, which the engine does not ask for twice.
    unsent: Vec<Request>,
    /// Families heard by link: a link's door stays open as long as there is one.
    listening: BTreeMap<LinkId, Vec<Family>>,
    lateness: Lateness,
    untold: u64,
    realtime: Result<(), String>,
    shutdown_by: Option<Instant>,
}

impl Engine {
    fn run(mut self, options: Options) -> anyhow::Result<()> {
        self.prepare(options);
        loop {
            if let Some(gap) = self.sleep.slept() {
                self.node.handle_suspend(gap, clock::now());
            }
            self.hear();
            if self.read_inbox() {
                self.hear();
            }
            self.fire_timers();
            self.carry_out();
            if self.is_over() {
                break;
            }
            self.wait();
        }
        let Self { instance, netlink, .. } = self;
        // First what was asked for, then what is left: nothing, unless time was up.
        drop(netlink);
        let left = netlink::cleanup(instance).context("can't remove this instance's addresses")?;
        if !left.is_empty() {
            tracing::warn!(
                "{} address(es) were still bound at the end and were removed",
                left.len()
            );
        }
        Ok(())
    }

    fn prepare(&mut self, options: Options) {
        if let Err(error) = scheduler::sharpen_timers() {
            self.tell(News::Trouble(format!("timers may be 50 µs late: {error}")));
        }
        if !options.realtime {
            self.realtime = Err("not asked for".to_owned());
        } else if let Err(reason) = scheduler::run_first() {
            self.tell(News::Trouble(format!(
                "no real-time priority ({reason}); on an overloaded machine adverts may be late"
            )));
            self.realtime = Err(reason);
        }
    }

    /// A log could make us wait, so it is written by whoever reads this.
    fn tell(&mut self, news: News) {
        let at = Moment::read().wall();
        if self.events.try_send(Told { at, news }).is_err() {
            self.untold += 1;
        }
    }

    fn is_over(&self) -> bool {
        self.shutdown_by.is_some_and(|by| self.node.is_finished() || by <= clock::now())
    }

    /// Hands over all that has arrived on the wire. When this returns, everything that arrived
    /// until a moment ago was heard.
    fn hear(&mut self) {
        for _ in 0..PASSES {
            let started = clock::now();
            let node = &mut self.node;
            self.receiver.drain(|heard| match heard {
                Heard::Advert { link, source, destination, ttl, message, received_at } => {
                    node.handle_advert(link, source, destination, ttl, message, received_at)
                }
                Heard::Neighbour { link, announcement, .. } => {
                    let (address, mac) = (announcement.address, announcement.mac);
                    node.handle_neighbour(link, address, mac, started);
                }
            });
            if clock::now().since(started) < LONG_PASS {
                return;
            }
        }
    }

    /// Whether there was anything.
    fn read_inbox(&mut self) -> bool {
        self.wake.hush();
        let now = clock::now();
        let mut any = !self.busy.is_empty();
        for (id, failure) in std::mem::take(&mut self.busy) {
            self.node.handle_done(id, Err(failure), now);
        }
        for request in std::mem::take(&mut self.unsent) {
            self.request(request);
        }
        loop {
            match self.inbox.try_recv() {
                Ok(input) => self.take(input, now),
                // The netlink thread holds a sender as long as we hold the netlink thread.
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
            any = true;
        }
        if let Some((plan, _)) = self.first_plan.take_if(|(_, by)| *by <= now) {
            self.node.handle_plan(plan, now);
        }
        any
    }

    fn take(&mut self, input: Input, now: Instant) {
        match input {
            Input::Kernel(Report::Links(snapshot)) => {
                self.links_unread.store(false, Ordering::Release);
                self.node.handle_links(snapshot, now);
                if let Some((plan, _)) = self.first_plan.take() {
                    self.node.handle_plan(plan, now);
                }
            }
            Input::Kernel(Report::Done(id, result)) => self.node.handle_done(id, result, now),
            Input::Kernel(Report::Joined(link, door)) => {
                if self.listening.contains_key(&link) {
                    self.sender.open_door(link, door);
                }
            }
            Input::Kernel(Report::Trouble(text)) => self.tell(News::Trouble(text)),
            Input::Plan(plan) => match &mut self.first_plan {
                Some((waiting, _)) => *waiting = plan,
                None => self.node.handle_plan(plan, now),
            },
            Input::Health(scope, health) => self.node.handle_health(scope, health, now),
            Input::Drain(drain) => self.node.handle_drain(drain, now),
            Input::Status(answer) => {
                // Whoever asked may have given up.
                answer.send(self.observed()).ok();
            }
            Input::Shutdown => {
                self.first_plan = None;
                self.shutdown_by.get_or_insert(now + SHUTDOWN_PATIENCE);
                self.node.handle_shutdown(now);
            }
        }
    }

    fn observed(&self) -> Observed {
        Observed {
            status: self.node.status(),
            at: Moment::read(),
            realtime: self.realtime.clone(),
            lateness: self.lateness.clone(),
            sent: self.sender.counts().clone(),
            overflowed: self.receiver.overflowed(),
            untold: self.untold,
        }
    }

    fn fire_timers(&mut self) {
        let now = clock::now();
        if let Some(due) = self.node.poll_timeout().filter(|due| *due <= now) {
            self.lateness.note(now.since(due));
            self.node.handle_timeout(now);
        }
    }

    fn carry_out(&mut self) {
        let mut left: BTreeMap<(LinkId, Family), bool> = BTreeMap::new();
        while let Some(command) = self.node.next_command() {
            match command {
                Command::Send { link, packet } => match packet {
                    Packet::Advert { source, destination, message } => {
                        let sent = self.sender.advert(link, source, destination, &message);
                        *left.entry((link, Family::of(source))).or_default() |= sent;
                    }
                    Packet::Frame(frame) => self.sender.frame(link, &frame),
                },
                Command::Address { id, link, vip, change } => {
                    let request = Request::Address { id, link, vip, change };
                    if let Err(failure) = self.netlink.request(request) {
                        self.busy.push((id, failure));
                    }
                }
                Command::Listen { link, family } => self.listen(link, family),
                Command::Ignore { link, family } => self.ignore(link, family),
                Command::Note(event) => self.tell(News::Event(event)),
            }
        }
        let now = clock::now();
        for ((link, family), _) in left.into_iter().filter(|(_, sent)| !sent) {
            self.node.handle_unsent(link, family, now);
        }
    }

    fn listen(&mut self, link: LinkId, family: Family) {
        self.listening.entry(link).or_default().push(family);
        if let Err(error) = self.receiver.listen(link, family) {
            self.tell(News::Trouble(format!(
                "can't hear {family} adverts on link {}: {error}",
                link.0
            )));
        }
        self.request(Request::Join(link, family));
    }

    fn ignore(&mut self, link: LinkId, family: Family) {
        if let Some(families) = self.listening.get_mut(&link) {
            families.retain(|heard| *heard != family);
            if families.is_empty() {
                self.listening.remove(&link);
                self.sender.close_door(link);
            }
        }
        if let Err(error) = self.receiver.ignore(link, family) {
            self.tell(News::Trouble(format!(
                "can't stop hearing {family} adverts on link {}: {error}",
                link.0
            )));
        }
        self.request(Request::Leave(link, family));
    }

    fn request(&mut self, request: Request) {
        if self.netlink.request(request).is_err() {
            self.unsent.push(request);
        }
    }

    /// Until something arrives or is due.
    fn wait(&self) {
        let busy = !self.busy.is_empty() || !self.unsent.is_empty();
        let due = [
            self.node.poll_timeout(),
            self.first_plan.as_ref().map(|(_, by)| *by),
            self.shutdown_by,
            busy.then(|| clock::now() + BUSY_PAUSE),
        ];
        let [a, b, c] = self.receiver.readable();
        let mut sockets =
            [a, b, c, self.wake.readable()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        let left = due
            .into_iter()
            .flatten()
            .min()
            .map(|due| TimeSpec::from_duration(due.since(clock::now())));
        // A signal ends the wait early, and we look again.
        ppoll(&mut sockets, left, None).ok();
    }
}
