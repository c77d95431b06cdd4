//! One machine: a model kernel that goes on whatever happens, and in it, while it runs, a process
//! with the real engine.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use barevip::engine::node::command::{AddressChange, Command, CommandId, Failure};
use barevip::engine::node::identity::{Health, Identity, Scope};
use barevip::engine::node::links::LinkSnapshot;
use barevip::engine::node::node::Node;
use barevip::engine::time::Instant;
use barevip::engine::vrrp::frames::MacAddress;
use barevip::model::{Family, Vip, VirtualRouter};

use super::kernel::{INSTANCE, Kernel, LINK};
use super::time::Nanos;

/// Everything that can be told to an engine, so that it can be kept and told again.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    Plan(Vec<VirtualRouter>),
    Links(LinkSnapshot),
    Advert(Rc<AdvertPacket>, Instant),
    Neighbour(IpAddr, MacAddress),
    Health(Scope, Health),
    Drain(bool),
    Done(CommandId, Result<(), Failure>),
    Suspend(Duration),
    Timeout,
    Shutdown,
}

/// An advert on the wire.
#[derive(Debug)]
pub(crate) struct AdvertPacket {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) ttl: u8,
    pub(crate) message: Vec<u8>,
}

impl Input {
    pub(crate) fn tell(self, node: &mut Node, now: Instant) {
        match self {
            Self::Plan(plan) => node.handle_plan(plan, now),
            Self::Links(snapshot) => node.handle_links(snapshot, now),
            Self::Advert(packet, received_at) => node.handle_advert(
                LINK,
                packet.source,
                packet.destination,
                packet.ttl,
                &packet.message,
                received_at,
            ),
            Self::Neighbour(address, mac) => node.handle_neighbour(LINK, address, mac, now),
            Self::Health(scope, health) => node.handle_health(scope, health, now),
            Self::Drain(drain) => node.handle_drain(drain, now),
            Self::Done(id, result) => node.handle_done(id, result, now),
            Self::Suspend(slept) => node.handle_suspend(slept, now),
            Self::Timeout => node.handle_timeout(now),
            Self::Shutdown => node.handle_shutdown(now),
        }
    }

    /// Whether it comes from a socket: these are drained before any timer fires.
    pub(crate) const fn is_packet(&self) -> bool {
        matches!(self, Self::Advert(..) | Self::Neighbour(..))
    }
}

/// What an engine was told and what it asked for, in order.
#[derive(Debug)]
pub(crate) enum Step {
    Told(Input, Instant),
    Asked(Command),
    /// There was nothing more to ask for.
    Drained,
}

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) node: Node,
    /// When the engine is called next without an input.
    pub(crate) wake_at: Option<Nanos>,
    /// What arrived while the process stood still.
    pub(crate) inbox: VecDeque<Input>,
    /// Netlink commands that wait; the first one is under way.
    pub(crate) netlink: VecDeque<Netlink>,
    pub(crate) netlink_armed: bool,
    /// The families it listens to.
    pub(crate) listens: [bool; 2],
    /// A planned stop was asked for.
    pub(crate) stopping: bool,
    /// Engine timeouts in the current virtual millisecond: a busy loop shows here.
    pub(crate) timeouts: (Nanos, u32),
    pub(crate) recording: Option<Vec<Step>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Netlink {
    pub(crate) id: CommandId,
    pub(crate) vip: Vip,
    pub(crate) change: AddressChange,
}

#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) addresses: [IpAddr; 2],
    pub(crate) kernel: Kernel,
    pub(crate) process: Option<Process>,
    /// Counts the processes, so that what was meant for a dead one is recognised.
    pub(crate) epoch: u32,
    /// The machine's clock at the beginning.
    origin: Nanos,
    /// How long its clock stood still since.
    pub(crate) clock_lost: Nanos,
    /// Process stalls in force.
    pub(crate) stalls: u32,
    /// The machine itself stands still: no kernel, no network.
    pub(crate) frozen: u32,
    /// Reasons in force why the link has no carrier, or is down.
    pub(crate) unplugged: u32,
    pub(crate) downed: u32,
    /// Faults in force that hold netlink up, or refuse adds.
    pub(crate) netlink_held: u32,
    pub(crate) refusing: u32,
    pub(crate) drained: bool,
    pub(crate) sick: Vec<Health>,
    /// A picture of the links is on its way.
    pub(crate) picture_due: bool,
    /// When the last picture was taken, and when the last report of netlink's thread arrives.
    pub(crate) pictured: Option<Nanos>,
    pub(crate) reported: Nanos,
}

impl Host {
    pub(crate) fn new(
        name: String,
        mac: MacAddress,
        own: [(IpAddr, u8); 2],
        more: &[(IpAddr, u8)],
        origin: Nanos,
        routers: usize,
    ) -> Self {
        let mut addresses = own.to_vec();
        addresses.extend_from_slice(more);
        Self {
            name,
            addresses: own.map(|(address, _)| address),
            kernel: Kernel::new(mac, &addresses),
            process: None,
            epoch: 0,
            origin,
            clock_lost: 0,
            stalls: 0,
            frozen: 0,
            unplugged: 0,
            downed: 0,
            netlink_held: 0,
            refusing: 0,
            drained: false,
            sick: vec![Health::Healthy; routers],
            picture_due: false,
            pictured: None,
            reported: 0,
        }
    }

    /// This machine's clock.
    pub(crate) fn clock(&self, now: Nanos) -> Instant {
        Instant::after_origin(Duration::from_nanos(self.origin + now - self.clock_lost))
    }

    /// When this machine's clock shows `instant`; now where it has already.
    pub(crate) fn when(&self, instant: Instant, now: Nanos) -> Nanos {
        let ahead = instant.since(self.clock(now));
        now + u64::try_from(ahead.as_nanos()).unwrap_or(u64::MAX / 2)
    }

    /// Starts a process; its first inputs are the caller's.
    pub(crate) fn start(&mut self, seed: u64, record: bool) {
        self.epoch += 1;
        let identity = Identity { node: self.name.clone(), instance: INSTANCE };
        self.process = Some(Process {
            node: Node::new(identity, seed),
            wake_at: None,
            inbox: VecDeque::new(),
            netlink: VecDeque::new(),
            netlink_armed: false,
            listens: [false; 2],
            stopping: false,
            timeouts: (0, 0),
            recording: record.then(Vec::new),
        });
        self.drained = false;
        self.sick.fill(Health::Healthy);
    }

    /// Whether its process runs and is not about to end.
    pub(crate) fn is_running(&self) -> bool {
        self.stalls == 0 && self.frozen == 0 && self.process.as_ref().is_some_and(|p| !p.stopping)
    }

    /// Whether the process stands still, or the machine.
    pub(crate) const fn is_stalled(&self) -> bool {
        self.stalls > 0 || self.frozen > 0
    }

    /// Whether a packet for `address` is answered by this machine's kernel.
    pub(crate) fn serves(&self, address: IpAddr) -> bool {
        self.frozen == 0 && self.kernel.is_running() && self.kernel.held(address).is_some()
    }

    pub(crate) fn hears(&self, family: Family) -> bool {
        self.kernel.is_running()
            && self.frozen == 0
            && self.process.as_ref().is_some_and(|p| p.listens[family as usize])
    }
}

/// The same inputs to a new engine give the same commands.
pub(crate) fn replays(name: &str, seed: u64, steps: &[Step]) -> Result<(), String> {
    let identity = Identity { node: name.to_owned(), instance: INSTANCE };
    let mut node = Node::new(identity, seed);
    for (index, step) in steps.iter().enumerate() {
        let asked = match step {
            Step::Told(input, now) => {
                input.clone().tell(&mut node, *now);
                continue;
            }
            Step::Asked(command) => Some(command),
            Step::Drained => None,
        };
        let again = node.next_command();
        if again.as_ref() != asked {
            return Err(format!("step {index}: asked for {asked:?}, in the replay for {again:?}"));
        }
    }
    Ok(())
}
