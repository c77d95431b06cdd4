//! What a daemon says of itself: the JSON of `/state` and of `barevip status --output json`.
//!
//! Keys are added, never renamed. Times are RFC 3339 in UTC by the machine's wall clock; durations
//! are numbers whose key ends in their unit.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::app::observed::Observed;
use crate::engine::node::event;
use crate::engine::node::links::LinkFault;
use crate::engine::node::status::{Counters, NodeStatus, RouterStatus};
use crate::engine::time::Instant;
use crate::engine::vrrp::packet::Checksum;
use crate::engine::vrrp::role::Role;
use crate::model::{Family, Priority, Vip, Vrid};

/// What does not change while a daemon runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The machine's name.
    pub node: String,
    /// The configuration file.
    pub config: PathBuf,
}

/// One daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The daemon's version.
    pub version: String,
    /// The machine's name.
    pub node: String,
    /// The configuration file.
    pub config: PathBuf,
    /// When this was so.
    pub at: String,
    /// Whether everything is being handed over.
    pub draining: bool,
    /// Seconds after its last refresh at which a dead or hung daemon holds no address any more.
    pub fence_bound_s: u64,
    /// Every virtual router, in the file's order.
    pub routers: Vec<Router>,
    /// Counters since the start.
    pub counters: Counters,
    /// How this machine lets the daemon do its work.
    pub machine: Machine,
}

/// How a machine lets its daemon do its work, since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Why the engine does not run before all ordinary threads; `null`: it does.
    pub realtime_refused: Option<String>,
    /// The worst delay of a timer.
    pub timers_late_max_ms: f64,
    /// Packets handed to the kernel.
    pub packets_sent: u64,
    /// Packets that the kernel refused to send, by its own words.
    pub packets_refused: BTreeMap<String, u64>,
    /// Packets that came faster than they could be read.
    pub packets_overflowed: u64,
    /// Events that are missing in the log.
    pub events_lost: u64,
}

/// One virtual router on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Router {
    /// Its name.
    pub name: String,
    /// Its VRID.
    pub vrid: Vrid,
    /// Its family.
    pub family: Family,
    /// The link it lives on.
    pub link: Option<String>,
    /// Why it takes no part.
    pub fault: Option<Fault>,
    /// Its role here.
    pub role: Role,
    /// Since when it has this role.
    pub since: String,
    /// How long it has this role.
    pub age_ms: u64,
    /// The priority that this machine advertises, or would.
    pub priority: Option<Priority>,
    /// The configured interval.
    pub interval_ms: u64,
    /// The checksum form that was last heard from a peer.
    pub checksum: Option<Checksum>,
    /// Who is Active, as far as this machine knows.
    pub active: Option<Active>,
    /// Its addresses.
    pub addresses: Vec<Address>,
    /// The last time this machine took over.
    pub last_failover: Option<LastFailover>,
    /// How often the role changed since the start.
    pub transitions: u64,
    /// What is wrong.
    pub problems: Vec<Problem>,
}

/// Why a router takes no part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// In words.
    pub text: String,
    /// What to do.
    pub remedy: String,
}

/// The Active router of a virtual router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Active {
    /// The address it advertises from.
    pub address: IpAddr,
    /// The priority it advertises.
    pub priority: Priority,
    /// Whether it is this machine.
    pub here: bool,
}

/// One virtual address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// The address.
    pub address: Vip,
    /// Whether it is bound here.
    pub bound: bool,
}

/// A take-over by this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastFailover {
    /// When the last address was bound and announced.
    pub at: String,
    /// How long ago that was.
    pub age_ms: u64,
    /// From the last sign of life of the former Active, or since this machine became Active.
    pub took_ms: f64,
}

/// Something that is wrong, and for how long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// What, with its `type`.
    #[serde(flatten)]
    pub problem: event::Problem,
    /// The same in words.
    pub text: String,
    /// What to do, where the words do not say it.
    pub remedy: Option<String>,
    /// Since when.
    pub since: String,
    /// For how long.
    pub age_ms: u64,
}

/// What both clocks showed when a status was taken.
#[derive(Clone, Copy)]
struct Clocks {
    now: Instant,
    wall: SystemTime,
}

impl State {
    /// The view of what was observed.
    #[must_use]
    pub fn of(about: &About, seen: &Observed) -> Self {
        let state = Self::at(about, &seen.status, seen.at.now(), seen.at.wall());
        Self { machine: Machine::of(seen), ..state }
    }

    /// The view of a status alone, taken at `now`, which was `wall` on the wall clock.
    #[must_use]
    pub fn at(about: &About, status: &NodeStatus, now: Instant, wall: SystemTime) -> Self {
        let clocks = Clocks { now, wall };
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            node: about.node.clone(),
            config: about.config.clone(),
            at: clocks.wall_time(now),
            draining: status.draining,
            routers: status.routers.iter().map(|router| Router::of(router, clocks)).collect(),
            // The kernel looks at lifetimes once a second.
            fence_bound_s: status.lifetime.as_secs() + 1,
            counters: status.counters.clone(),
            machine: Machine::default(),
        }
    }

    /// One line: roles, and how many problems.
    #[must_use]
    pub fn summary(&self) -> String {
        let count = |role: Role| self.routers.iter().filter(|r| r.role == role).count();
        let mut line = format!("{} active, {} backup", count(Role::Active), count(Role::Backup));
        if let out @ 1.. = count(Role::Initialize) {
            let _fits = write!(line, ", {out} taking no part");
        }
        if let problems @ 1.. = self.problems() {
            let _fits = write!(line, "; problems: {problems}");
        }
        if self.draining {
            line.insert_str(0, "handing over: ");
        }
        line
    }

    /// How many things are wrong.
    #[must_use]
    pub fn problems(&self) -> usize {
        self.routers
            .iter()
            .map(|router| router.problems.len() + usize::from(router.fault.is_some()))
            .sum()
    }
}

impl Machine {
    fn of(seen: &Observed) -> Self {
        let refused = seen.sent.failed.iter();
        Self {
            realtime_refused: seen.realtime.clone().err(),
            timers_late_max_ms: tenths_of_milliseconds(seen.lateness.worst),
            packets_sent: seen.sent.sent,
            packets_refused: refused.map(|(why, count)| ((*why).to_owned(), *count)).collect(),
            packets_overflowed: seen.overflowed,
            events_lost: seen.untold,
        }
    }
}

impl Router {
    fn of(status: &RouterStatus, clocks: Clocks) -> Self {
        Self {
            name: status.name.clone(),
            vrid: status.vrid,
            family: status.family,
            link: status.link.clone(),
            fault: status.fault.as_ref().map(|fault| Fault {
                text: fault.to_string(),
                remedy: link_remedy(fault).to_owned(),
            }),
            role: status.role,
            since: clocks.wall_time(status.since),
            age_ms: clocks.age_ms(status.since),
            priority: status.priority,
            interval_ms: milliseconds(status.interval.duration()),
            checksum: status.checksum,
            active: status.active.as_ref().map(|active| Active {
                address: active.address,
                priority: active.priority,
                here: active.here,
            }),
            addresses: status
                .addresses
                .iter()
                .map(|address| Address { address: address.vip, bound: address.bound })
                .collect(),
            last_failover: status.last_failover.map(|failover| LastFailover {
                at: clocks.wall_time(failover.at),
                age_ms: clocks.age_ms(failover.at),
                took_ms: tenths_of_milliseconds(failover.took),
            }),
            transitions: status.transitions,
            problems: status
                .problems
                .iter()
                .map(|(problem, since)| Problem {
                    problem: problem.clone(),
                    text: problem.to_string(),
                    remedy: problem_remedy(problem).map(str::to_owned),
                    since: clocks.wall_time(*since),
                    age_ms: clocks.age_ms(*since),
                })
                .collect(),
        }
    }
}

impl Clocks {
    fn age_ms(self, then: Instant) -> u64 {
        milliseconds(self.now.since(then))
    }

    /// A wall clock that was never set may be younger than the daemon: then it is its origin.
    fn wall_time(self, then: Instant) -> String {
        let time = self
            .wall
            .checked_sub(self.now.since(then))
            .unwrap_or(SystemTime::UNIX_EPOCH)
            .max(SystemTime::UNIX_EPOCH);
        let mut text = String::new();
        match write!(text, "{}", humantime::format_rfc3339_millis(time)) {
            Ok(()) => text,
            Err(_) => "after the year 9999".to_owned(),
        }
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn tenths_of_milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 10_000.0).round() / 10.0
}

const fn link_remedy(fault: &LinkFault) -> &'static str {
    match fault {
        LinkFault::Missing(_) => {
            "`ip link` shows the names; correct `interface` in the file and restart"
        }
        LinkFault::NoSubnet => {
            "give a link an own address in that subnet, or write `interface` in the file"
        }
        LinkFault::Down(_) => "see who took it down; `ip link set dev LINK up`",
        LinkFault::NoCarrier(_) => "look at the cable, the switch port or the hypervisor",
        LinkFault::Enslaved(_) => "write the bridge or bond as `interface` in the file",
        LinkFault::NoSource(..) => {
            "give it an address that is not one of the virtual ones; for IPv6 a link-local one"
        }
    }
}

/// `None`: the problem's own text says it.
const fn problem_remedy(problem: &event::Problem) -> Option<&'static str> {
    match problem {
        event::Problem::AddressInUse { .. }
        | event::Problem::ForeignRouter { .. }
        | event::Problem::DeafPeer { .. }
        | event::Problem::FenceSlow
        | event::Problem::AdvertsUnsent
        | event::Problem::IntervalDiffers { .. }
        | event::Problem::TwoOwners { .. } => None,
        event::Problem::BindFailed { .. } => {
            Some("see `dmesg` and the link's settings; it is tried again by itself")
        }
        event::Problem::AddressElsewhere { .. } => {
            Some("let one virtual router have the address, with one VRID on all machines")
        }
        event::Problem::ForeignClaim { .. } => {
            Some("find the machine of this MAC address and take the address from it")
        }
        event::Problem::DuplicateSource { .. } => {
            Some("find that machine (`arping -D`) and give it an address of its own")
        }
        event::Problem::StaleActive { .. } => {
            Some("give that machine the same `addresses` and restart its daemon")
        }
        event::Problem::MulticastFiltered => {
            Some("look at IGMP or MLD snooping on the switch; it needs a querier, or switch it off")
        }
        event::Problem::NotListed { .. } => {
            Some("spread them over several virtual routers, each with its own VRID")
        }
    }
}
