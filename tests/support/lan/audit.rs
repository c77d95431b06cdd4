//! The invariants of a LAN at rest: once nothing has disturbed it for long enough, each router has
//! exactly one Active machine, the right one, and the kernels hold what the roles want.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use barevip::engine::node::event::Problem;
use barevip::engine::node::identity::Health;
use barevip::engine::vrrp::role::Role;
use barevip::model::{Preempt, Priority};

use super::happened::NOBODY;
use super::time::{Nanos, SECOND, nanos};
use super::world::Lan;

/// How long a planned stop may take: the releases wait for announcements, 1 s after the last one.
const STOPS_IN: Nanos = 4 * SECOND;
/// How long addresses may lag behind roles: a handover waits 1 s after the last announcement
/// heard, the lifetime of a dead one ends after 3 s.
const ADDRESSES_FOLLOW_IN: Nanos = 3_800_000_000;

impl Lan {
    /// The priority that a machine has a right to stand with; `None` where it can't serve.
    pub(crate) fn eligible(&self, host: usize, router: usize) -> Option<u8> {
        let machine = &self.hosts[host];
        let plan = &self.known[host][router];
        let standing = plan.standing[host]?;
        let source = machine.addresses[plan.router.family as usize];
        let can = machine.is_running()
            && machine.kernel.is_running()
            && machine.kernel.held(source).is_some()
            && machine.refusing == 0
            && !machine.drained
            && (!standing.joining || self.judge.parts[host][router].has_heard)
            && plan.served().next().is_some();
        let priority = match (machine.sick[router], &plan.router.takeover) {
            (Health::Ineligible, _) => return None,
            (_, Some(node)) if *node == machine.name && plan.listed => Priority::OWNER,
            (Health::Unhealthy, _) if plan.router.health_band => standing.priority.unhealthy(),
            (Health::Unhealthy | Health::Healthy, _) => standing.priority,
        };
        can.then_some(priority.get())
    }

    /// Looks at everything, ten times a second.
    pub(crate) fn audit(&mut self) {
        for host in 0..self.hosts.len() {
            self.audit_host(host);
        }
        let Some(quiet) = self.judge.quiet(self.now) else { return };
        let settled = self.settles_in();
        if quiet <= settled {
            return;
        }
        for router in 0..self.published.len() {
            self.audit_router(router, quiet - settled);
        }
        let changed = self.judge.changed_at.iter().copied().max().unwrap_or(0);
        if quiet.min(self.now - changed) > settled + ADDRESSES_FOLLOW_IN {
            self.audit_addresses();
        }
    }

    fn audit_host(&mut self, host: usize) {
        let before = self.judge.role_changes;
        self.judge_roles(host);
        if self.judge.role_changes != before {
            self.fail(host, || "a role changed and no operator was told".to_owned());
        }
        let stopping = self.hosts[host].process.as_ref().is_some_and(|p| p.stopping);
        let is_slow = self.now - self.judge.own_fault[host] > STOPS_IN;
        if stopping && is_slow && self.judge.in_force == 0 {
            self.fail(host, || "a planned stop does not come to an end".to_owned());
        }
    }

    /// `rest`: how long the roles had no reason to be unsettled.
    fn audit_router(&mut self, router: usize, rest: Nanos) {
        let now = self.now;
        let eligible: Vec<(usize, u8)> = (0..self.hosts.len())
            .filter_map(|host| Some((host, self.eligible(host, router)?)))
            .collect();
        let active: Vec<usize> = self.judge.active(router).collect();
        let Some(best) = eligible.iter().map(|(_, priority)| *priority).max() else {
            if let Some(host) = active.first() {
                self.fail(*host, || format!("it is Active for r{router} and not eligible"));
            }
            return;
        };
        if let Some(since) = self.judge.not_one_since[router] {
            let moves_in = self.judge.slowest + 2 * self.wire.worst() + 2 * self.delays.lateness;
            if now - since > moves_in {
                self.fail(NOBODY, || {
                    format!(
                        "r{router} has {} Active machines for {:.3} s",
                        active.len(),
                        (now - since) as f64 / 1e9
                    )
                });
            }
            return;
        }
        let Some(host) = active.first().copied() else { return };
        let Some((_, own)) = eligible.iter().copied().find(|(other, _)| *other == host) else {
            return self.fail(host, || format!("it is Active for r{router} and not eligible"));
        };
        let plan = &self.known[host][router].router;
        let moves = self.published.len() as Nanos * SECOND;
        let preempted = match plan.preempt {
            // One that comes back while it still lets go waits until others listen to it again.
            Preempt::Now => rest > SECOND + 4 * self.judge.slowest,
            Preempt::Never => false,
            Preempt::After(delay) => rest > nanos(delay) * 3 / 2 + 2 * SECOND + moves,
        };
        let relieved = plan.health_band && own <= 31 && best > 31;
        if own < best && (preempted || relieved) {
            let preempt = plan.preempt;
            self.fail(host, || {
                format!("it is Active for r{router} (priority {own}, preempt {preempt}), and {best} is there")
            });
        }
    }

    /// Wanted = seen, on every machine. Where plans differ, several may want an address: one of
    /// them has it.
    fn audit_addresses(&mut self) {
        let mut wanted: BTreeMap<IpAddr, Vec<usize>> = BTreeMap::new();
        for host in 0..self.hosts.len() {
            for (part, plan) in self.judge.parts[host].iter().zip(self.known[host].iter()) {
                if part.role == Role::Active {
                    for address in plan.served() {
                        wanted.entry(address).or_default().push(host);
                    }
                }
            }
        }
        let mut holders: BTreeMap<IpAddr, Vec<usize>> = BTreeMap::new();
        for (host, machine) in self.hosts.iter().enumerate() {
            for address in machine.kernel.ours() {
                holders.entry(address).or_default().push(host);
            }
        }
        for address in wanted.keys().chain(holders.keys()).copied().collect::<BTreeSet<_>>() {
            let by = wanted.get(&address).map_or(&[][..], Vec::as_slice);
            let at = holders.get(&address).map_or(&[][..], Vec::as_slice);
            let is_foreign = |host: &usize| {
                self.hosts[*host].kernel.held(address).is_some_and(|held| held.mark.is_none())
            };
            let is_right = match (by, at) {
                (_, []) => by.iter().all(is_foreign),
                (_, [holder]) => by.contains(holder),
                _ => false,
            };
            if !is_right {
                let who = at.first().or(by.first()).copied().unwrap_or(NOBODY);
                let text = format!("at rest {address} is at {at:?}, and wanted at {by:?}");
                return self.fail(who, || text);
            }
        }
    }

    /// The end of a run: the LAN is at rest, everybody knows who is Active, nobody has a problem,
    /// and clients are answered.
    pub(crate) fn verdict(&mut self) {
        for router in 0..self.published.len() {
            let active: Vec<usize> = self.judge.active(router).collect();
            let [active] = active[..] else { continue };
            let plan = &self.known[active][router].router;
            let address = self.hosts[active].addresses[plan.family as usize];
            for host in 0..self.hosts.len() {
                self.verdict_of(host, router, address);
            }
            for address in self.known[active][router].served().collect::<Vec<_>>() {
                for client in 0..self.clients.len() {
                    let entry = self.clients[client].entries[&address];
                    let is_served = entry.machine.is_some_and(|m| self.hosts[m].serves(address));
                    let is_foreign = !self.hosts[active].kernel.is_ours(address);
                    if !is_foreign && (entry.machine != Some(active) || !is_served) {
                        self.fail(active, || {
                            format!(
                                "it serves {address}, and a client sends to {:?}",
                                entry.machine
                            )
                        });
                    }
                }
            }
        }
    }

    /// Where nothing but planned moves happened, no client lost a packet.
    pub(crate) fn no_packet_lost(&mut self) {
        for client in 0..self.clients.len() {
            let entries = &self.clients[client].entries;
            let worst = entries.iter().max_by_key(|(_, entry)| entry.outage(self.now));
            if let Some((&address, entry)) = worst
                && entry.outage(self.now) > 0
            {
                let outage = entry.outage(self.now) as f64 / 1e6;
                self.fail(NOBODY, || format!("a client lost {address} for {outage:.3} ms"));
            }
        }
    }

    fn verdict_of(&mut self, host: usize, router: usize, active: IpAddr) {
        if self.eligible(host, router).is_none() {
            return;
        }
        let Some(process) = &self.hosts[host].process else { return };
        let name = &self.published[router].router.name;
        let status = process.node.status();
        let Some(status) = status.routers.iter().find(|r| r.name == *name) else { return };
        let believes = status.active.as_ref().map(|active| active.address);
        if believes != Some(active) {
            self.fail(host, || format!("r{router} is Active at {active}, it says {believes:?}"));
            return;
        }
        // Foreign things stay on record for a minute, these do not.
        let lasting = status.problems.iter().find(|(problem, _)| {
            matches!(
                problem,
                Problem::AddressInUse { .. }
                    | Problem::AddressElsewhere { .. }
                    | Problem::StaleActive { .. }
                    | Problem::NotListed { .. }
                    | Problem::FenceSlow
            )
        });
        if let Some((problem, _)) = lasting {
            let text = format!("at rest r{router} has a problem: {problem}");
            self.fail(host, || text);
        }
    }
}
