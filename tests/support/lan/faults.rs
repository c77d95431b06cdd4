//! What can go wrong, or is asked for, in a simulated LAN: each begins at a moment, and most last.

use std::time::Duration;

use barevip::engine::node::identity::{Health, Scope};
use barevip::model::{Interval, Priority};

use super::happened::{NOBODY, What};
use super::host::Input;
use super::kernel::Held;
use super::plans::{Standing, served, vip_of};
use super::random::Random;
use super::stranger::Stranger;
use super::time::{MS, Nanos};
use super::wire::Path;
use super::world::{Event, Lan};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) at: Nanos,
    pub(crate) lasts: Nanos,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    // ---- a process or machine
    /// Killed; started again at the end.
    Crash {
        host: usize,
    },
    /// A planned stop; started again at the end.
    Stop {
        host: usize,
    },
    /// Like `Stop`, and killed before it is done.
    StopKilled {
        host: usize,
    },
    /// The process stands still.
    Pause {
        host: usize,
    },
    /// The machine sleeps, and its clocks tell.
    Suspend {
        host: usize,
    },
    /// The virtual machine stands still, and no clock tells.
    Freeze {
        host: usize,
    },
    // ---- its link
    Unplug {
        host: usize,
    },
    LinkDown {
        host: usize,
    },
    /// Its own address is gone for a moment, and comes back behind the virtual ones.
    Renumber {
        host: usize,
    },
    /// All virtual addresses are deleted by hand.
    DeleteVips {
        host: usize,
    },
    /// An administrator's own address equals a virtual one.
    Occupy {
        host: usize,
        router: usize,
    },
    /// Netlink hangs.
    HoldNetlink {
        host: usize,
    },
    /// The kernel refuses additions.
    RefuseAdds {
        host: usize,
    },
    // ---- the wire
    /// Adverts and announcements from one to another are lost.
    Deafen {
        from: usize,
        to: usize,
        multicast: bool,
        unicast: bool,
    },
    /// Those of `mask` and the others do not hear each other.
    Partition {
        mask: u64,
    },
    NoMulticast,
    NoUnicast,
    Loss {
        permille: u64,
    },
    Duplicates {
        permille: u64,
    },
    /// Malformed adverts follow each advert.
    Junk,
    /// Foreign machines use a VRID of ours.
    Stranger {
        router: usize,
        priority: u8,
    },
    /// Clients forget their neighbour entries.
    Forget,
    // ---- what is asked for
    /// Priorities change hands.
    Rerank {
        seed: u64,
    },
    /// The two highest priorities of a router change hands, as a controller swaps them.
    Swap {
        router: usize,
    },
    /// An address is added or released.
    Resize {
        router: usize,
        seed: u64,
    },
    Retime {
        router: usize,
        centiseconds: u16,
    },
    /// A machine is no candidate for a while, and then joins again.
    Unlist {
        host: usize,
        router: usize,
    },
    /// The first address moves from one router to another, out first.
    MoveVip {
        from: usize,
        to: usize,
    },
    Sick {
        host: usize,
        router: Option<usize>,
        health: Health,
    },
    Drain {
        host: usize,
    },
    Takeover {
        host: usize,
        router: usize,
    },
}

/// A machine that could not bind leaves the role to others for 10 s.
pub(crate) const BIND_HOLD: Nanos = 11_000 * MS;
/// A plan reaches its machines within this.
const PLAN_SPREADS: Nanos = 60 * MS;

impl Lan {
    /// These faults come at their times.
    pub(crate) fn schedule(&mut self, faults: &[Fault]) {
        for fault in faults {
            let index = self.faults.len();
            self.faults.push(*fault);
            let (begins, ends) = (fault.at - self.now, fault.at + fault.lasts - self.now);
            self.push(begins, Event::Fault { index, begins: true });
            self.push(ends, Event::Fault { index, begins: false });
        }
    }

    /// A fault that begins now.
    pub(crate) fn suffer(&mut self, lasts: Nanos, kind: Kind) {
        self.schedule(&[Fault { at: self.now, lasts, kind }]);
    }

    pub(crate) fn fault(&mut self, index: usize, begins: bool) {
        let Fault { kind, lasts, .. } = self.faults[index];
        self.log(NOBODY, || {
            What::Fault(format!("{} {kind:?}", if begins { "begins:" } else { "ends:" }))
        });
        self.judge.disturbed(self.now);
        if begins {
            self.judge.in_force += 1;
            self.begin(kind, lasts);
        } else {
            self.judge.in_force -= 1;
            self.end(kind, lasts);
        }
    }

    fn begin(&mut self, kind: Kind, lasts: Nanos) {
        match kind {
            Kind::Crash { host } => self.crash(host),
            Kind::Stop { host } => self.stop(host),
            Kind::StopKilled { host } => {
                self.stop(host);
                let after = self.random.below(lasts);
                self.schedule(&[Fault {
                    at: self.now + after,
                    lasts: lasts - after,
                    kind: Kind::Crash { host },
                }]);
            }
            Kind::Pause { host } => {
                self.hosts[host].stalls += 1;
                self.judge.trouble(host, self.now);
            }
            Kind::Suspend { host } | Kind::Freeze { host } => {
                self.hosts[host].frozen += 1;
                self.judge.trouble(host, self.now);
                self.refresh_clients(None);
            }
            Kind::Unplug { host } => self.plug(host, |machine| machine.unplugged += 1),
            Kind::LinkDown { host } => {
                let gone: Vec<_> =
                    self.hosts[host].kernel.ours().filter(std::net::IpAddr::is_ipv6).collect();
                self.hosts[host].kernel.addresses.retain(|held| !gone.contains(&held.address));
                for address in gone {
                    self.address_vanished(host, address, "the link is down");
                }
                self.plug(host, |machine| machine.downed += 1);
            }
            Kind::Renumber { host } => {
                let own = self.hosts[host].addresses;
                self.hosts[host].kernel.addresses.retain(|held| !own.contains(&held.address));
                // Less than an interval is waited out, and no fault then.
                self.judge.trouble(host, self.now);
                self.links_changed(host);
            }
            Kind::DeleteVips { host } => {
                for address in self.hosts[host].kernel.ours().collect::<Vec<_>>() {
                    self.hosts[host].kernel.addresses.retain(|held| held.address != address);
                    self.address_vanished(host, address, "deleted by hand");
                }
                self.links_changed(host);
            }
            Kind::Occupy { host, router } => {
                let address = self.published[router].served().next();
                if let Some(address) = address
                    && self.hosts[host].kernel.held(address).is_none()
                {
                    let held = Held { address, prefix_len: 24, mark: None, expires: None };
                    self.hosts[host].kernel.addresses.push(held);
                    self.judge.trouble(host, self.now);
                    self.links_changed(host);
                }
            }
            Kind::HoldNetlink { host } => self.hosts[host].netlink_held += 1,
            Kind::RefuseAdds { host } => {
                self.hosts[host].refusing += 1;
                self.hosts[host].kernel.refuses = Some("out of memory");
            }
            Kind::Deafen { .. } | Kind::Partition { .. } | Kind::NoMulticast | Kind::NoUnicast => {
                self.for_each_cut(kind, |wire, path, from, to| wire.cut(path, from, to));
            }
            Kind::Loss { permille } => self.wire.loss += permille,
            Kind::Duplicates { permille } => self.wire.duplicates += permille,
            Kind::Junk => self.junk += 1,
            Kind::Stranger { router, priority } => {
                let plan = &self.published[router].router;
                let stranger = Stranger {
                    family: plan.family,
                    vrid: plan.vrid,
                    priority: Priority::try_from(priority).unwrap(),
                    interval: plan.interval,
                    until: self.now + lasts,
                };
                self.stranger_comes(stranger);
            }
            Kind::Forget => self.clients_forget(None),
            Kind::Rerank { seed } => self.rerank(seed),
            Kind::Swap { router } => self.swap(router),
            Kind::Resize { router, seed } => self.resize(router, seed),
            Kind::Retime { router, centiseconds } => {
                let interval = Interval::from_centiseconds(centiseconds).unwrap();
                self.publish(PLAN_SPREADS, |plan| plan[router].router.interval = interval);
            }
            Kind::Unlist { host, router } => {
                self.judge.own_fault(host, self.now);
                self.publish(PLAN_SPREADS, |plan| {
                    plan[router].unlisted[host] = plan[router].standing[host].take();
                });
            }
            Kind::MoveVip { from, .. } => self.publish(PLAN_SPREADS, |plan| {
                if plan[from].router.entries.len() > 1 {
                    let entry = plan[from].router.entries.remove(0);
                    plan[from].moving.push(entry);
                }
            }),
            Kind::Sick { host, router, health } => self.sicken(host, router, health),
            Kind::Drain { host } => self.drain(host, true),
            Kind::Takeover { host, router } => self.publish(PLAN_SPREADS, |plan| {
                plan[router].router.takeover = Some(super::plans::name_of(host));
            }),
        }
    }

    fn end(&mut self, kind: Kind, lasted: Nanos) {
        match kind {
            Kind::Crash { host } | Kind::Stop { host } => self.start_when_free(host),
            Kind::Pause { host } => {
                self.hosts[host].stalls -= 1;
                self.judge.trouble(host, self.now);
                self.go_on(host);
            }
            Kind::Suspend { host } => self.wake_up(host, lasted, true),
            Kind::Freeze { host } => self.wake_up(host, lasted, false),
            Kind::Unplug { host } => self.plug(host, |machine| machine.unplugged -= 1),
            Kind::LinkDown { host } => self.plug(host, |machine| machine.downed -= 1),
            Kind::Renumber { host } => {
                for address in self.hosts[host].addresses {
                    if self.hosts[host].kernel.held(address).is_none() {
                        let prefix_len = if address.is_ipv4() { 16 } else { 64 };
                        let held = Held { address, prefix_len, mark: None, expires: None };
                        self.hosts[host].kernel.addresses.push(held);
                    }
                }
                self.judge.trouble(host, self.now);
                self.links_changed(host);
            }
            Kind::Occupy { host, .. } => {
                let machine = &mut self.hosts[host];
                machine.kernel.addresses.retain(|h| h.mark.is_some() || h.prefix_len != 24);
                self.judge.trouble(host, self.now);
                self.links_changed(host);
            }
            Kind::HoldNetlink { host } => {
                self.hosts[host].netlink_held -= 1;
                self.judge.trouble(host, self.now);
                self.netlink_goes_on(host);
                if std::mem::take(&mut self.hosts[host].picture_due) {
                    self.links_changed(host);
                }
            }
            Kind::RefuseAdds { host } => {
                self.hosts[host].refusing -= 1;
                if self.hosts[host].refusing == 0 {
                    self.hosts[host].kernel.refuses = None;
                }
                self.judge.own_fault(host, self.now);
                self.judge.in_force += 1;
                self.push(BIND_HOLD, Event::Forgiven);
            }
            Kind::Deafen { .. } | Kind::Partition { .. } | Kind::NoMulticast | Kind::NoUnicast => {
                self.for_each_cut(kind, |wire, path, from, to| wire.heal(path, from, to));
            }
            Kind::Loss { permille } => self.wire.loss -= permille,
            Kind::Duplicates { permille } => self.wire.duplicates -= permille,
            Kind::Junk => self.junk -= 1,
            Kind::Unlist { host, router } => self.list_again(host, router),
            Kind::MoveVip { from, to } => self.publish(PLAN_SPREADS, |plan| {
                let entries = std::mem::take(&mut plan[from].moving);
                plan[to].router.entries.extend(entries);
            }),
            Kind::Sick { host, router, .. } => self.sicken(host, router, Health::Healthy),
            Kind::Drain { host } => self.drain(host, false),
            Kind::Takeover { router, .. } => {
                self.publish(PLAN_SPREADS, |plan| plan[router].router.takeover = None);
            }
            Kind::StopKilled { .. }
            | Kind::DeleteVips { .. }
            | Kind::Stranger { .. }
            | Kind::Forget
            | Kind::Rerank { .. }
            | Kind::Swap { .. }
            | Kind::Resize { .. }
            | Kind::Retime { .. } => {}
        }
    }

    pub(crate) fn stop(&mut self, host: usize) {
        self.judge.own_fault(host, self.now);
        if let Some(process) = &mut self.hosts[host].process
            && !process.stopping
        {
            process.stopping = true;
            self.log(host, || What::Process("is asked to stop"));
            self.tell(host, Input::Shutdown);
        }
    }

    /// A new process, as soon as the old one has ended.
    fn start_when_free(&mut self, host: usize) {
        self.judge.disturbed(self.now);
        match &self.hosts[host].process {
            None => self.start(host),
            Some(process) if process.stopping => {
                let fault = Fault { at: self.now + 100 * MS, lasts: 0, kind: Kind::Stop { host } };
                self.schedule(&[fault]);
            }
            Some(_) => {}
        }
    }

    fn wake_up(&mut self, host: usize, slept: Nanos, clocks_tell: bool) {
        self.hosts[host].frozen -= 1;
        self.judge.trouble(host, self.now);
        if self.hosts[host].frozen > 0 {
            return;
        }
        self.thaw(host, slept);
        if clocks_tell && let Some(process) = &mut self.hosts[host].process {
            process.inbox.push_front(Input::Suspend(Duration::from_nanos(slept)));
        }
        self.go_on(host);
    }

    fn plug(&mut self, host: usize, change: impl FnOnce(&mut super::host::Host)) {
        let machine = &mut self.hosts[host];
        change(machine);
        machine.kernel.carrier = machine.unplugged == 0;
        machine.kernel.up = machine.downed == 0;
        if machine.kernel.is_running() {
            self.wire.forget(host, self.now);
        }
        self.judge.trouble(host, self.now);
        self.judge.own_fault(host, self.now);
        self.links_changed(host);
    }

    fn for_each_cut(
        &mut self,
        kind: Kind,
        apply: impl Fn(&mut super::wire::Wire, Path, usize, usize),
    ) {
        let machines = self.hosts.len();
        for from in 0..machines {
            for to in 0..machines {
                let (multicast, unicast) = match kind {
                    Kind::Deafen { from: f, to: t, multicast, unicast } => {
                        let is_it = (f, t) == (from, to);
                        (is_it && multicast, is_it && unicast)
                    }
                    Kind::Partition { mask } => {
                        let is_cut = (mask >> (from % 64) & 1) != (mask >> (to % 64) & 1);
                        (is_cut, is_cut)
                    }
                    Kind::NoMulticast => (true, false),
                    Kind::NoUnicast => (false, true),
                    _ => (false, false),
                };
                for (path, is_cut) in [(Path::Multicast, multicast), (Path::Unicast, unicast)] {
                    if is_cut {
                        apply(&mut self.wire, path, from, to);
                    }
                }
            }
        }
    }

    fn rerank(&mut self, seed: u64) {
        self.publish(PLAN_SPREADS, |plan| {
            let mut random = Random::new(seed);
            for router in plan {
                let mut standing: Vec<Standing> =
                    router.standing.iter().copied().flatten().collect();
                random.shuffle(&mut standing);
                for place in router.standing.iter_mut().flatten() {
                    place.priority = standing.pop().unwrap().priority;
                }
            }
        });
    }

    fn swap(&mut self, router: usize) {
        self.publish(PLAN_SPREADS, |plan| {
            let mut best: Vec<&mut Standing> = plan[router].standing.iter_mut().flatten().collect();
            best.sort_by_key(|standing| std::cmp::Reverse(standing.priority));
            if let [first, second, ..] = &mut best[..] {
                std::mem::swap(&mut first.priority, &mut second.priority);
            }
        });
    }

    fn resize(&mut self, router: usize, seed: u64) {
        self.publish(PLAN_SPREADS, |plan| {
            let mut random = Random::new(seed);
            let family = plan[router].router.family;
            let entries = &mut plan[router].router.entries;
            if entries.len() > 1 && random.permille(500) {
                entries.remove(random.index(entries.len()));
            } else {
                let entry = served(vip_of(family, router, 100 + random.index(100)));
                if !entries.contains(&entry) {
                    entries.insert(random.index(entries.len() + 1), entry);
                }
            }
        });
    }

    /// In a cluster a machine that comes back is `joining`, until the controller has heard that
    /// everybody knows it.
    fn list_again(&mut self, host: usize, router: usize) {
        self.judge.own_fault(host, self.now);
        self.publish(PLAN_SPREADS, |plan| {
            let standing = plan[router].unlisted[host].take();
            if let Some(Standing { priority, .. }) = standing {
                plan[router].standing[host] = Some(Standing { priority, joining: true });
            }
        });
        self.judge.in_force += 1;
        self.push(300 * MS, Event::Joined { host, router });
    }

    pub(crate) fn forgiven(&mut self) {
        self.judge.in_force -= 1;
        self.judge.disturbed(self.now);
    }

    pub(crate) fn joined(&mut self, host: usize, router: usize) {
        self.judge.in_force -= 1;
        self.publish(PLAN_SPREADS, |plan| {
            if let Some(standing) = &mut plan[router].standing[host] {
                standing.joining = false;
            }
        });
    }

    pub(crate) fn sicken(&mut self, host: usize, router: Option<usize>, health: Health) {
        self.judge.own_fault(host, self.now);
        if self.hosts[host].process.is_none() {
            return;
        }
        let scope = match router {
            Some(router) => {
                self.hosts[host].sick[router] = health;
                Scope::Router(self.published[router].router.name.clone())
            }
            None => {
                self.hosts[host].sick.fill(health);
                Scope::Node
            }
        };
        self.tell(host, Input::Health(scope, health));
    }

    pub(crate) fn drain(&mut self, host: usize, drain: bool) {
        self.judge.own_fault(host, self.now);
        if self.hosts[host].process.is_some() {
            self.hosts[host].drained = drain;
            self.tell(host, Input::Drain(drain));
        }
    }
}
