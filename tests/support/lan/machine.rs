//! What happens inside a machine: netlink commands one after another, pictures of the links,
//! lifetimes that end, and clients that notice.

use std::net::IpAddr;

use barevip::engine::node::command::Failure;

use super::client::PROBES_AFTER;
use super::happened::{NOBODY, What};
use super::host::{Input, Netlink};
use super::kernel::Effect;
use super::time::{Nanos, SECOND};
use super::world::{Event, Lan};

impl Lan {
    // ---- netlink -------------------------------------------------------------------------------

    pub(crate) fn netlink_asked(&mut self, host: usize, command: Netlink) {
        let epoch = self.hosts[host].epoch;
        let Some(process) = &mut self.hosts[host].process else { return };
        if process.netlink.len() >= self.delays.backlog {
            let input = Box::new(Input::Done(command.id, Err(Failure::Busy)));
            self.push(0, Event::Told { host, epoch, input });
            return;
        }
        process.netlink.push_back(command);
        if process.netlink.len() == 1 {
            self.netlink_goes_on(host);
        }
    }

    /// Sees to it that the first command that waits is carried out.
    pub(crate) fn netlink_goes_on(&mut self, host: usize) {
        let (low, high) = self.delays.netlink;
        let machine = &mut self.hosts[host];
        let epoch = machine.epoch;
        if let Some(process) = &mut machine.process
            && !process.netlink.is_empty()
            && !process.netlink_armed
        {
            process.netlink_armed = true;
            let after = self.random.between(low, high);
            self.push(after, Event::Netlink { host, epoch });
        }
    }

    pub(crate) fn netlink(&mut self, host: usize) {
        let now = self.now;
        let machine = &mut self.hosts[host];
        let clock = machine.clock(now);
        let held_up = machine.is_stalled() || machine.netlink_held > 0;
        let Some(process) = &mut machine.process else { return };
        process.netlink_armed = false;
        if held_up {
            return;
        }
        let Some(Netlink { id, vip, change }) = process.netlink.pop_front() else { return };
        let (result, effect) = machine.kernel.change(vip, change, now, clock, &mut self.random);
        let address = vip.address();
        match effect {
            Effect::Nothing => {}
            Effect::Appeared => self.address_appeared(host, address),
            Effect::Vanished => self.address_vanished(host, address, "asked"),
            Effect::TouchedForeign => {
                self.fail(host, || format!("{change:?} touched {address}, which is not ours"));
            }
        }
        match &result {
            Ok(()) => {
                self.expiry_ahead(host);
                let after = self.delay(self.delays.answer);
                self.picture_after(host, after);
            }
            Err(failure) => self.log(host, || What::Failed(address, failure.clone())),
        }
        self.report(host, Input::Done(id, result));
        self.netlink_goes_on(host);
    }

    // ---- the kernel ----------------------------------------------------------------------------

    /// A picture of the links is taken after a while, unless one is due already.
    pub(crate) fn picture_after(&mut self, host: usize, after: Nanos) {
        let machine = &mut self.hosts[host];
        if machine.process.is_some() && !machine.picture_due {
            machine.picture_due = true;
            let epoch = machine.epoch;
            let earliest = machine.pictured.map_or(0, |at| at + self.delays.pause);
            let earliest = earliest.saturating_sub(self.now);
            self.push(after.max(earliest), Event::Picture { host, epoch });
        }
    }

    /// Takes the picture, which reaches the engine a little later.
    pub(crate) fn picture(&mut self, host: usize) {
        let machine = &mut self.hosts[host];
        if machine.is_stalled() || machine.netlink_held > 0 {
            // Still due: taken when the machine goes on.
            return;
        }
        machine.picture_due = false;
        machine.pictured = Some(self.now);
        let snapshot = machine.kernel.snapshot();
        self.report(host, Input::Links(snapshot));
    }

    /// The netlink thread tells the engine's: in order, so that a picture which comes after an
    /// answer shows its effect.
    fn report(&mut self, host: usize, input: Input) {
        let arrives = (self.now + self.delay(self.delays.answer)).max(self.hosts[host].reported);
        self.hosts[host].reported = arrives;
        let epoch = self.hosts[host].epoch;
        self.push(arrives - self.now, Event::Told { host, epoch, input: Box::new(input) });
    }

    /// Something about the links changed outside of the process.
    pub(crate) fn links_changed(&mut self, host: usize) {
        self.refresh_clients(None);
        let after = self.delay(self.delays.answer);
        self.picture_after(host, after);
    }

    fn expiry_ahead(&mut self, host: usize) {
        if let Some(at) = self.hosts[host].kernel.next_expiry() {
            self.push(at.saturating_sub(self.now), Event::Expiry { host });
        }
    }

    pub(crate) fn expire(&mut self, host: usize) {
        if self.hosts[host].frozen > 0 {
            return;
        }
        let mut any = false;
        while let Some(address) = self.hosts[host].kernel.expire(self.now) {
            any = true;
            self.address_vanished(host, address, "its lifetime ended");
        }
        if any {
            self.expiry_ahead(host);
            self.links_changed(host);
        }
    }

    /// The machine's clock stood still for `slept`.
    pub(crate) fn thaw(&mut self, host: usize, slept: Nanos) {
        self.wire.forget(host, self.now);
        self.hosts[host].clock_lost += slept;
        self.hosts[host].kernel.shift_lifetimes(slept);
        self.expiry_ahead(host);
        self.refresh_clients(None);
    }

    pub(crate) fn address_appeared(&mut self, host: usize, address: IpAddr) {
        self.log(host, || What::Bound(address));
        self.judge_appeared(host, address);
        self.refresh_clients(Some(address));
    }

    pub(crate) fn address_vanished(&mut self, host: usize, address: IpAddr, why: &'static str) {
        self.log(host, || What::Unbound(address, why));
        self.judge_vanished(host, address);
        self.refresh_clients(Some(address));
    }

    // ---- clients -------------------------------------------------------------------------------

    /// Every address of the plan is a client's business.
    pub(crate) fn clients_learn_addresses(&mut self) {
        let addresses: Vec<IpAddr> = self.published.iter().flat_map(|r| r.served()).collect();
        for client in 0..self.clients.len() {
            for address in &addresses {
                if !self.clients[client].entries.contains_key(address) {
                    self.clients[client].entries.insert(*address, Default::default());
                    self.push(0, Event::ClientAsks { client, address: *address });
                }
            }
        }
    }

    /// Who serves has changed, for one address or for all.
    pub(crate) fn refresh_clients(&mut self, only: Option<IpAddr>) {
        for client in 0..self.clients.len() {
            match only {
                Some(address) => self.refresh_client(client, address),
                None => {
                    let entries = &self.clients[client].entries;
                    for address in entries.keys().copied().collect::<Vec<_>>() {
                        self.refresh_client(client, address);
                    }
                }
            }
        }
    }

    fn refresh_client(&mut self, client: usize, address: IpAddr) {
        let Some(entry) = self.clients[client].entries.get_mut(&address) else { return };
        let is_served = match entry.machine {
            Some(machine) => self.hosts[machine].serves(address),
            // Packets wait for the answer, which comes if anybody has the address.
            None => self.hosts.iter().any(|host| host.serves(address)),
        };
        let before = entry.lost_since;
        entry.update(is_served, self.now);
        if let (Some(since), None) = (before, entry.lost_since) {
            let lasted = self.now - since;
            let machine = entry.machine.unwrap_or(NOBODY);
            self.log(machine, || What::Outage { address, lasted });
        }
    }

    /// An announcement is on its way to the clients. Their kernels take it up at once: the jitter
    /// of the wire is that of a busy machine's processes.
    pub(crate) fn clients_are_told(&mut self, from: usize, address: IpAddr) {
        for client in 0..self.clients.len() {
            let event = Event::ClientHears { client, from, address, asked: false };
            self.push(self.wire.latency[0], event);
        }
    }

    pub(crate) fn client_hears(
        &mut self,
        client: usize,
        from: usize,
        address: IpAddr,
        asked: bool,
    ) {
        let Some(entry) = self.clients[client].entries.get_mut(&address) else { return };
        if asked {
            entry.asking = false;
        }
        // IPv4 locks an answered entry for a second, and a late answer changes nothing.
        if !(asked && entry.machine.is_some()) && entry.machine != Some(from) {
            entry.machine = Some(from);
            self.log(from, || What::Client { address });
            self.refresh_clients(Some(address));
        }
    }

    pub(crate) fn client_asks(&mut self, client: usize, address: IpAddr) {
        let Some(entry) = self.clients[client].entries.get_mut(&address) else { return };
        entry.asking = entry.machine.is_none();
        if !entry.asking {
            return;
        }
        let there_and_back = 2 * self.wire.latency[0];
        let answers: Vec<usize> =
            (0..self.hosts.len()).filter(|host| self.hosts[*host].serves(address)).collect();
        if !answers.is_empty() {
            let from = self.random.pick(&answers);
            self.push(there_and_back, Event::ClientHears { client, from, address, asked: true });
        }
        self.push(SECOND, Event::ClientAsks { client, address });
    }

    /// Clients forget their neighbour entries, and ask at once.
    pub(crate) fn clients_forget(&mut self, address: Option<IpAddr>) {
        for client in 0..self.clients.len() {
            let addresses: Vec<IpAddr> = self.clients[client].entries.keys().copied().collect();
            for forgotten in addresses.into_iter().filter(|a| address.is_none_or(|b| b == *a)) {
                if let Some(entry) = self.clients[client].entries.get_mut(&forgotten) {
                    entry.machine = None;
                }
                self.push(0, Event::ClientAsks { client, address: forgotten });
            }
        }
        self.refresh_clients(address);
    }

    /// A client that sends into the void for long asks anew.
    pub(crate) fn clients_probe(&mut self) {
        for client in 0..self.clients.len() {
            let now = self.now;
            let is_lost = |since: Option<Nanos>| since.is_some_and(|at| now - at > PROBES_AFTER);
            let lost: Vec<IpAddr> = self.clients[client]
                .entries
                .iter()
                .filter(|(_, entry)| is_lost(entry.lost_since) && entry.machine.is_some())
                .map(|(address, _)| *address)
                .collect();
            for address in lost {
                self.clients_forget(Some(address));
            }
        }
    }
}
