//! The invariants of testing.md that hold at every moment, checked at what happens; those of a
//! LAN at rest are in `audit.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use barevip::engine::node::command::AddressChange;
use barevip::engine::node::event::{Event as Note, EventKind};
use barevip::engine::vrrp::frames::MacAddress;
use barevip::engine::vrrp::role::{Cause, Role};
use barevip::model::{Family, Preempt};

use super::happened::What;
use super::host::{AdvertPacket, Input};
use super::plans::RouterPlan;
use super::time::{MS, Nanos, SECOND, nanos};
use super::world::Lan;

/// How long an announcement may still name an address that the kernel has lost meanwhile: the
/// news is on its way.
const NEWS: Nanos = 50 * MS;

pub(crate) struct Judge {
    pub(crate) failure: Option<String>,
    /// For each machine and router.
    pub(crate) parts: Vec<Vec<Part>>,
    /// For each router: since when not exactly one machine is Active; when any role changed.
    pub(crate) not_one_since: Vec<Option<Nanos>>,
    pub(crate) changed_at: Vec<Nanos>,
    /// Faults in force, and when the last one began or ended, or a plan came.
    pub(crate) in_force: u32,
    pub(crate) disturbed_at: Nanos,
    /// When each machine last was not eligible or just began.
    pub(crate) own_fault: Vec<Nanos>,
    /// When each machine last had trouble with its link or stood still.
    pub(crate) trouble: Vec<Nanos>,
    /// The longest interval that any plan had.
    pub(crate) slowest: Nanos,
    /// Every address that each router ever had.
    carried: Vec<BTreeSet<IpAddr>>,
    /// When each machine first heard an address announced by another one since it left.
    /// Then also whether it was held at that time: a claim of it, that is.
    heard: BTreeMap<(usize, IpAddr), (Nanos, bool)>,
    /// When the kernel lost an address of ours, and got it.
    gone: BTreeMap<(usize, IpAddr), Nanos>,
    /// When each machine last announced an address.
    told: BTreeMap<(usize, IpAddr), Nanos>,
    pub(crate) bound: BTreeMap<(usize, IpAddr), Nanos>,
    /// When each machine last took a router by a delayed preemption.
    moved: Vec<Option<Nanos>>,
    /// Since the last input of the machine at hand: whether it told the operator something, and
    /// what it announced.
    noted: bool,
    announced: Vec<IpAddr>,
    /// Routers that the machine at hand must give up before it says anything.
    must_yield: Vec<usize>,
    /// The most machines that were Active at once, for each router, since it was last reset.
    pub(crate) most_active: Vec<usize>,
    pub(crate) role_changes: u64,
}

/// What one machine is for one router.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Part {
    pub(crate) role: Role,
    pub(crate) since: Nanos,
    /// When it last became Active, and when it ceased to be; `None` while it is.
    pub(crate) took: Nanos,
    pub(crate) left: Option<Nanos>,
    /// When it last sent an advert.
    pub(crate) spoke: Nanos,
    /// Whether it ever heard an Active router.
    pub(crate) has_heard: bool,
}

impl Judge {
    pub(crate) fn new(machines: usize, plan: &[RouterPlan]) -> Self {
        let routers = plan.len();
        let mut judge = Self {
            failure: None,
            parts: vec![vec![Part::default(); routers]; machines],
            not_one_since: vec![Some(0); routers],
            changed_at: vec![0; routers],
            in_force: 0,
            disturbed_at: 0,
            own_fault: vec![0; machines],
            trouble: vec![0; machines],
            slowest: 0,
            carried: vec![BTreeSet::new(); routers],
            heard: BTreeMap::new(),
            gone: BTreeMap::new(),
            told: BTreeMap::new(),
            bound: BTreeMap::new(),
            moved: vec![None; machines],
            noted: false,
            announced: Vec::new(),
            must_yield: Vec::new(),
            most_active: vec![0; routers],
            role_changes: 0,
        };
        judge.plan_known(plan);
        judge
    }

    /// Something happened that the LAN may need time for.
    pub(crate) fn disturbed(&mut self, now: Nanos) {
        self.disturbed_at = now;
    }

    /// The machine was not eligible until now.
    pub(crate) fn own_fault(&mut self, machine: usize, now: Nanos) {
        self.own_fault[machine] = now;
        self.disturbed(now);
    }

    /// The machine's link had trouble, or it stood still, until now.
    pub(crate) fn trouble(&mut self, machine: usize, now: Nanos) {
        self.trouble[machine] = now;
        self.disturbed(now);
    }

    pub(crate) fn process_ended(&mut self, machine: usize, now: Nanos) {
        self.own_fault(machine, now);
        self.moved[machine] = None;
        for router in 0..self.changed_at.len() {
            if self.parts[machine][router].role != Role::Initialize {
                self.changed_at[router] = now;
            }
            self.parts[machine][router] = Part::default();
            self.count_active(router, now);
        }
    }

    pub(crate) fn plan_known(&mut self, plan: &[RouterPlan]) {
        for (index, router) in plan.iter().enumerate() {
            self.slowest = self.slowest.max(nanos(router.router.interval.duration()));
            self.carried[index].extend(router.served());
        }
    }

    pub(crate) fn active(&self, router: usize) -> impl Iterator<Item = usize> {
        self.parts
            .iter()
            .enumerate()
            .filter(move |(_, parts)| parts[router].role == Role::Active)
            .map(|(machine, _)| machine)
    }

    fn count_active(&mut self, router: usize, now: Nanos) {
        let count = self.active(router).count();
        self.most_active[router] = self.most_active[router].max(count);
        if count == 1 {
            self.not_one_since[router] = None;
        } else {
            self.not_one_since[router].get_or_insert(now);
        }
    }

    /// How long nothing disturbs the LAN; `None` while something does.
    pub(crate) fn quiet(&self, now: Nanos) -> Option<Nanos> {
        (self.in_force == 0).then(|| now - self.disturbed_at)
    }

    /// The routers that ever had an address.
    fn carriers(&self, address: IpAddr) -> impl Iterator<Item = usize> {
        self.carried
            .iter()
            .enumerate()
            .filter(move |(_, carried)| carried.contains(&address))
            .map(|(router, _)| router)
    }
}

impl Lan {
    /// How long roles may take to settle once nothing disturbs them.
    pub(crate) fn settles_in(&self) -> Nanos {
        let mut settles = 5 * self.judge.slowest + 4 * self.wire.worst() + 50 * MS;
        if self.published.iter().any(|router| router.router.takeover.is_some()) {
            settles += 15 * self.judge.slowest;
        }
        settles
    }

    pub(crate) fn router_of(&self, vrid: u8, family: Family) -> Option<usize> {
        self.published.iter().position(|r| r.router.vrid.get() == vrid && r.router.family == family)
    }

    // ---- what a machine sends --------------------------------------------------------------------

    pub(crate) fn judge_advert(&mut self, from: usize, packet: &AdvertPacket) {
        let source = packet.source;
        if !self.hosts[from].addresses.contains(&source) {
            self.fail(from, || format!("an advert leaves from {source}, which is not its own"));
        }
        let (vrid, priority) = (packet.message[1], packet.message[2]);
        let Some(router) = self.router_of(vrid, Family::of(source)) else {
            return self.fail(from, || format!("an advert of VRID {vrid}, which nobody planned"));
        };
        self.judge.parts[from][router].spoke = self.now;
        if priority > 0 && self.judge.must_yield.contains(&router) {
            self.fail(from, || {
                format!("it stood still, r{router} is Active elsewhere, and it advertises first")
            });
        }
    }

    pub(crate) fn judge_announcement(&mut self, from: usize, address: IpAddr, mac: MacAddress) {
        let own = self.hosts[from].kernel.mac;
        if mac != own {
            self.fail(from, || format!("it announces {address} at {mac}, its own is {own}"));
        }
        if self.hosts[from].addresses.contains(&address) {
            return;
        }
        if !self.hosts[from].kernel.is_ours(address) {
            let gone = self.judge.gone.get(&(from, address)).copied();
            let is_news = gone.is_some_and(|at| self.now - at <= NEWS);
            let is_cut_off = self.hosts[from].netlink_held > 0;
            let had_trouble = self.now - self.judge.trouble[from] <= 2 * NEWS;
            if !is_news && !is_cut_off && !had_trouble {
                self.fail(from, || format!("it announces {address}, which is not bound here"));
            }
        }
        let yields = self.judge.must_yield.clone();
        if self.judge.carriers(address).any(|router| yields.contains(&router)) {
            self.fail(from, || {
                format!("it stood still, {address} is served elsewhere, and it announces it first")
            });
        }
        self.judge.announced.push(address);
        self.judge.told.insert((from, address), self.now);
    }

    pub(crate) fn judge_change(&mut self, host: usize, address: IpAddr, change: AddressChange) {
        if !self.judge.carried.iter().any(|carried| carried.contains(&address)) {
            self.fail(host, || format!("{change:?} {address}, which no plan ever had"));
        }
        if matches!(change, AddressChange::Remove) {
            self.judge_removal(host, address);
        }
    }

    /// An address is released when it is heard from another MAC, or 1 s after the last
    /// announcement heard (network.md 2).
    fn judge_removal(&mut self, host: usize, address: IpAddr) {
        let now = self.now;
        for router in self.judge.carriers(address).collect::<Vec<_>>() {
            let Part { left: Some(left), took, .. } = self.judge.parts[host][router] else {
                continue;
            };
            let known = &self.known[host][router];
            let had_trouble = self.judge.trouble[host] + SECOND >= left;
            // What it never told anybody to have is nobody's.
            let was_told = self.judge.told.get(&(host, address)).is_some_and(|at| *at >= took);
            if had_trouble || !was_told || known.served().all(|served| served != address) {
                continue;
            }
            let heard = |of: &IpAddr| self.judge.heard.get(&(host, *of)).copied();
            let is_taken = heard(&address).is_some_and(|(at, _)| at >= left);
            let claims = known.served().filter_map(|of| heard(&of)).filter(|(_, held)| *held);
            let last_heard = claims.map(|(at, _)| at).max().unwrap_or(0);
            if !is_taken && now - left.max(last_heard) < SECOND {
                self.fail(host, || {
                    format!(
                        "it lets {address} go {:.3} ms after it left r{router} and before anybody announced it",
                        (now - left) as f64 / 1e6
                    )
                });
            }
        }
    }

    pub(crate) fn judge_heard(&mut self, host: usize, input: &Input) {
        if let Input::Advert(packet, _) = input
            && packet.message[2] > 0
            && let Some(router) = self.router_of(packet.message[1], Family::of(packet.source))
        {
            self.judge.parts[host][router].has_heard = true;
        }
        if let Input::Neighbour(address, _) = input {
            let was_held = self.hosts[host].kernel.is_ours(*address);
            self.judge.heard.entry((host, *address)).or_insert((self.now, was_held));
        }
    }

    // ---- what a kernel has -----------------------------------------------------------------------

    /// No late command brings an address back, and none is bound under two VRIDs.
    pub(crate) fn judge_appeared(&mut self, host: usize, address: IpAddr) {
        let now = self.now;
        self.judge.bound.insert((host, address), now);
        let grace = 5 * self.judge.slowest;
        let routers: Vec<usize> = self.judge.carriers(address).collect();
        let serves = |machine: usize, router: usize| {
            let part = &self.judge.parts[machine][router];
            part.role == Role::Active || part.left.is_some_and(|at| now - at <= grace)
        };
        let Some(own) = routers.iter().find(|router| serves(host, **router)) else {
            return self.fail(host, || format!("{address} appears, and nothing is Active here"));
        };
        if self.judge.quiet(now).is_none_or(|quiet| quiet < grace) {
            return;
        }
        for other in (0..self.hosts.len()).filter(|other| *other != host) {
            let bound = self.judge.bound.get(&(other, address));
            let is_old = bound.is_some_and(|at| now - at > grace);
            let under = routers.iter().find(|router| {
                *router != own && self.judge.parts[other][**router].role == Role::Active
            });
            if let Some(under) = under
                && is_old
                && self.hosts[other].kernel.is_ours(address)
                && self.known[other][*under].served().any(|served| served == address)
            {
                let (own, under) = (*own, *under);
                return self.fail(host, || {
                    format!(
                        "{address} is bound for r{own}, while n{} serves it as r{under}",
                        other + 1
                    )
                });
            }
        }
    }

    pub(crate) fn judge_vanished(&mut self, host: usize, address: IpAddr) {
        self.judge.bound.remove(&(host, address));
        self.judge.gone.insert((host, address), self.now);
    }

    /// After a planned stop nothing is left.
    pub(crate) fn judge_stopped(&mut self, host: usize) {
        let left: Vec<IpAddr> = self.hosts[host].kernel.ours().collect();
        if !left.is_empty() {
            self.fail(host, || format!("it has stopped and left {left:?} behind"));
        }
    }

    // ---- what a machine is -----------------------------------------------------------------------

    pub(crate) fn judge_note(&mut self, host: usize, note: &Note) {
        self.judge.noted = true;
        if matches!(note.kind, EventKind::BecameBackup { .. })
            && let Some(router) = note.router.as_deref().and_then(index_of)
        {
            self.judge.must_yield.retain(|other| *other != router);
        }
        let EventKind::BecameActive { cause: Cause::Preempts { .. } } = note.kind else { return };
        let router = note.router.as_deref().and_then(index_of);
        let Some(router) = router else { return };
        if !matches!(self.known[host][router].router.preempt, Preempt::After(_)) {
            return;
        }
        if let Some(before) = self.judge.moved[host].replace(self.now)
            && self.now - before < SECOND
        {
            self.fail(host, || format!("it preempts r{router} within a second of another one"));
        }
    }

    /// After everything that one input led to.
    pub(crate) fn judge_drive(&mut self, host: usize) {
        let was_active: Vec<bool> = if self.judge.announced.is_empty() {
            Vec::new()
        } else {
            self.judge.parts[host].iter().map(|part| part.role == Role::Active).collect()
        };
        if std::mem::take(&mut self.judge.noted) {
            self.judge_roles(host);
        }
        for address in std::mem::take(&mut self.judge.announced) {
            let is_active = self.judge.carriers(address).any(|router| {
                was_active[router] || self.judge.parts[host][router].role == Role::Active
            });
            if !is_active {
                self.fail(host, || format!("it announces {address} and is not Active"));
            }
        }
    }

    /// Takes up the roles that the engine states.
    pub(crate) fn judge_roles(&mut self, host: usize) {
        let mut roles = vec![Role::Initialize; self.published.len()];
        if let Some(process) = &self.hosts[host].process {
            for status in process.node.status().routers {
                if let Some(router) = index_of(&status.name) {
                    roles[router] = status.role;
                }
            }
        }
        for (router, role) in roles.into_iter().enumerate() {
            if self.judge.parts[host][router].role != role {
                self.role_changed(host, router, role);
            }
        }
    }

    fn role_changed(&mut self, host: usize, router: usize, role: Role) {
        let now = self.now;
        self.log(host, || What::Role { router, role });
        if [self.judge.parts[host][router].role, role].contains(&Role::Initialize) {
            self.judge.own_fault(host, now);
        }
        let part = &mut self.judge.parts[host][router];
        match (part.role, role) {
            (Role::Active, _) => {
                part.left = Some(now);
                let carried = &self.judge.carried[router];
                self.judge.heard.retain(|(h, a), _| *h != host || !carried.contains(a));
            }
            (_, Role::Active) => (part.took, part.left) = (now, None),
            _ => {}
        }
        (part.role, part.since) = (role, now);
        self.judge.changed_at[router] = now;
        self.judge.role_changes += 1;
        self.judge.count_active(router, now);
        if role == Role::Active {
            self.judge_move(host, router);
        }
    }

    /// In a LAN at rest nobody takes a role from an Active machine without the right to.
    fn judge_move(&mut self, host: usize, router: usize) {
        let now = self.now;
        if self.judge.quiet(now).is_none_or(|quiet| quiet < self.settles_in()) {
            return;
        }
        let Some(own) = self.eligible(host, router) else {
            return self.fail(host, || format!("it is Active for r{router} and not eligible"));
        };
        let others: Vec<usize> = self.judge.active(router).filter(|h| *h != host).collect();
        for other in others {
            // News that is still on its way binds nobody.
            let known_by = self.judge.parts[other][router].since + self.wire.worst();
            if known_by + self.delays.lateness >= now {
                continue;
            }
            let Some(theirs) = self.eligible(other, router) else { continue };
            let plan = &self.known[host][router].router;
            let relieves = plan.health_band && theirs <= 31 && own > 31;
            let is_allowed = match plan.preempt {
                _ if relieves || own == 255 => true,
                Preempt::Now => own > theirs,
                Preempt::Never => false,
                Preempt::After(delay) => {
                    own > theirs && now - self.judge.own_fault[host] >= nanos(delay)
                }
            };
            if !is_allowed {
                self.fail(host, || {
                    format!(
                        "it takes r{router} (priority {own}) from n{} (priority {theirs}) without the right to",
                        other + 1
                    )
                });
            }
        }
    }

    // ---- a machine that stood still --------------------------------------------------------------

    /// "A foreign Active router in the queue: Backup, whatever the priorities" (network.md 13).
    pub(crate) fn judge_before_inbox(&mut self, host: usize, packets: &[Input]) {
        let clock = self.hosts[host].clock(self.now);
        for router in 0..self.published.len() {
            let part = self.judge.parts[host][router];
            let plan = &self.published[router].router;
            let down = nanos(plan.interval.duration()) * 4;
            let mut elsewhere = false;
            for packet in packets {
                let Input::Advert(advert, received_at) = packet else { continue };
                let is_for = advert.ttl == 255
                    && advert.message[1] == plan.vrid.get()
                    && Family::of(advert.source) == plan.family
                    && self.hosts.iter().any(|h| h.addresses.contains(&advert.source));
                let ago = nanos(clock.since(*received_at));
                if is_for && self.now - ago > part.spoke + down && self.junk == 0 {
                    elsewhere = advert.message[2] > 0;
                }
            }
            if part.role == Role::Active && elsewhere {
                self.judge.must_yield.push(router);
            }
        }
    }

    pub(crate) fn judge_after_inbox(&mut self, host: usize) {
        if let Some(router) = std::mem::take(&mut self.judge.must_yield).first() {
            self.fail(host, || {
                format!("it stood still, r{router} is Active elsewhere, and it did not yield")
            });
        }
    }
}

/// Routers are called r0, r1 …
pub(crate) fn index_of(name: &str) -> Option<usize> {
    name.strip_prefix('r')?.parse().ok()
}
