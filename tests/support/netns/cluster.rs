//! Three machines that share an address, and a client that asks it.

use std::fmt;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use barevip::engine::time::Instant;
use barevip::engine::vrrp::role::Role;
use barevip::io::clock::now;
use barevip::io::lab::lan::{Host, Lan};
use barevip::io::lab::probe::{Probe, Responder};
use barevip::io::lab::record::Outcome;

use super::daemon::Daemon;
use super::patience::until;
use crate::support::scratch::Scratch;

/// An address family and a way to send adverts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) vip: &'static str,
    pub(crate) unicast: bool,
}

pub(crate) const IPV4_MULTICAST: Setting = Setting { vip: "192.0.2.50", unicast: false };
pub(crate) const IPV4_UNICAST: Setting = Setting { vip: "192.0.2.50", unicast: true };
pub(crate) const IPV6_MULTICAST: Setting = Setting { vip: "2001:db8::50", unicast: false };
pub(crate) const IPV6_UNICAST: Setting = Setting { vip: "2001:db8::50", unicast: true };

/// Highest first, as the placement table has them.
pub(crate) const PRIORITIES: [u8; 3] = [254, 230, 206];

/// An answer this old says nothing about who answers now: a hundred went unanswered since.
const RECENT: Duration = Duration::from_millis(100);

/// Three machines with a daemon each. They go in this order.
pub(crate) struct Cluster {
    pub(crate) daemons: Vec<Daemon>,
    pub(crate) probe: Probe,
    _responders: Vec<Responder>,
    pub(crate) vip: IpAddr,
    pub(crate) lan: Arc<Lan>,
    _scratch: Scratch,
}

impl Cluster {
    /// Three machines, whose daemons do not run yet.
    pub(crate) fn new(setting: Setting, preempt: &str) -> Self {
        let lan = Arc::new(Lan::new(&["one", "two", "three"]).unwrap());
        let scratch = Scratch::new();
        let daemon = |node| {
            let toml = router(&lan, node, setting, preempt);
            Daemon::new(&lan, node, &scratch, "barevip", &toml)
        };
        let daemons = (0..PRIORITIES.len()).map(daemon).collect();
        let vip = setting.vip.parse().unwrap();
        Self {
            daemons,
            probe: Probe::start(lan.client(), vip, Duration::from_millis(1)).unwrap(),
            _responders: lan.nodes().iter().map(|node| Responder::start(node).unwrap()).collect(),
            vip,
            lan,
            _scratch: scratch,
        }
    }

    /// Three machines, the first of which serves.
    pub(crate) fn serving(setting: Setting, preempt: &str) -> Self {
        let mut cluster = Self::new(setting, preempt);
        // One after the other: in a common start the first to wake serves, whatever its priority.
        cluster.daemons[0].start();
        cluster.is(0, Role::Active);
        for backup in [1, 2] {
            cluster.daemons[backup].start();
            cluster.is(backup, Role::Backup);
        }
        cluster.served_by(0, &[0, 1, 2]);
        cluster
    }

    pub(crate) fn host(&self, node: usize) -> &Host {
        &self.lan.nodes()[node]
    }

    /// Waits until this node serves and no other of `among` does anything but wait.
    #[track_caller]
    pub(crate) fn served_by(&self, node: usize, among: &[usize]) {
        until(&format!("node {node} serves"), || {
            let seen = self.look();
            if self.server(&seen, among) == Some(node) { Ok(()) } else { Err(seen.to_string()) }
        });
    }

    /// Waits until another node than this one serves, and returns which. The next in rank wakes
    /// only milliseconds before the one after it, and on a busy machine that may come first.
    #[track_caller]
    pub(crate) fn succeeded(&self, node: usize, among: &[usize]) -> usize {
        until(&format!("another than node {node} serves"), || {
            let seen = self.look();
            self.server(&seen, among).filter(|server| *server != node).ok_or(seen.to_string())
        })
    }

    /// The one node of `among` that is Active, has the address and gave the last answer, if no
    /// other one is Active or has the address.
    fn server(&self, seen: &Seen, among: &[usize]) -> Option<usize> {
        let is_active = |node: usize| seen.roles[node] == Some(Role::Active);
        let serving = |node: &&usize| is_active(**node) || seen.holders[**node];
        let servers: Vec<usize> = among.iter().filter(serving).copied().collect();
        let &[server] = servers.as_slice() else { return None };
        let answers = seen.answering == self.host(server).name();
        (is_active(server) && seen.holders[server] && answers).then_some(server)
    }

    /// Waits until a node has a role.
    #[track_caller]
    pub(crate) fn is(&self, node: usize, role: Role) {
        until(&format!("node {node} is {role}"), || {
            let seen = self.look();
            if seen.roles[node] == Some(role) { Ok(()) } else { Err(seen.to_string()) }
        });
    }

    /// Waits until a node's kernel has the address no more.
    #[track_caller]
    pub(crate) fn lets_go(&self, node: usize) {
        until(&format!("node {node} does not have the address"), || {
            let seen = self.look();
            if seen.holders[node] { Err(seen.to_string()) } else { Ok(()) }
        });
    }

    /// Waits until a node has heard so many more adverts, and wants `always` to hold meanwhile.
    #[track_caller]
    pub(crate) fn while_hearing(&self, node: usize, adverts: u64, always: impl Fn(&Seen) -> bool) {
        let heard = || self.daemons[node].state().unwrap().counters.adverts_heard;
        let enough = heard() + adverts;
        until(&format!("node {node} hears {adverts} adverts"), || {
            let seen = self.look();
            assert!(always(&seen), "{seen}");
            let heard = heard();
            if heard >= enough { Ok(()) } else { Err(format!("{heard} of {enough}")) }
        });
    }

    /// How many questions of a stretch of time got no answer; waits until that is certain.
    #[track_caller]
    pub(crate) fn lost(&self, within: &Range<Instant>) -> usize {
        until("the fate of every question", || {
            let now = now();
            let is_open = |outcome| outcome == Outcome::Open;
            self.probe.look(|record| {
                let questions = record.questions(within);
                let open = questions.iter().filter(|q| is_open(q.outcome(now))).count();
                if open == 0 { Ok(record.lost(within, now)) } else { Err(format!("{open} open")) }
            })
        })
    }

    pub(crate) fn look(&self) -> Seen {
        Seen {
            roles: self.daemons.iter().map(Daemon::role).collect(),
            holders: self.daemons.iter().map(|daemon| daemon.holds(self.vip)).collect(),
            answering: self.probe.look(|record| {
                let last = record.last_answer().filter(|answer| now().since(answer.at) < RECENT);
                last.map_or_else(String::new, |last| record.name(last.node).to_owned())
            }),
        }
    }
}

/// What all machines are at one moment.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) roles: Vec<Option<Role>>,
    pub(crate) holders: Vec<bool>,
    answering: String,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { roles, holders, answering } = self;
        write!(f, "roles {roles:?}, holders {holders:?}, the last answer from {answering:?}")
    }
}

/// One node's configuration.
fn router(lan: &Lan, node: usize, setting: Setting, preempt: &str) -> String {
    let vip = setting.vip;
    let others = lan.nodes().iter().enumerate().filter(|(other, _)| *other != node);
    let peers: Vec<IpAddr> = others
        .filter(|_| setting.unicast)
        .map(
            |(_, host)| {
                if vip.contains(':') { host.link_local().into() } else { host.ipv4().into() }
            },
        )
        .collect();
    let peers: Vec<String> = peers.iter().map(|peer| format!("\"{peer}\"")).collect();
    format!(
        "[[virtual_router]]\nvrid = 50\naddresses = [\"{vip}\"]\npriority = {}\n\
         interval = \"100ms\"\npreempt = \"{preempt}\"\npeers = [{}]\n",
        PRIORITIES[node],
        peers.join(", "),
    )
}
