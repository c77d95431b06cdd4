//! A LAN on which one contender's daemons serve, and the client that asks for their address.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use barevip::engine::time::Instant;
use barevip::io::clock;
use barevip::io::lab::lan::{Host, LINK, Lan};
use barevip::io::lab::probe::{Probe, Responder};
use barevip::io::lab::record::PATIENCE;
use barevip::model::Family;
use netlink_packet_route::AddressFamily;
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage};
use netlink_packet_route::route::RouteScope;
use nix::net::if_::if_nametoindex;
use rtnetlink::RouteMessageBuilder;

use super::addresses;
use super::scratch::Scratch;
use super::wait;
use super::wire::{What, Wire};
use crate::contender::daemon::{Contender, Daemon};
use crate::contender::setting::{Setting, WIDE_SUBNET};

/// The client asks a thousand times a second.
const PACE: Duration = Duration::from_millis(1);
/// Answers of one node alone for so long are a steady state.
const STEADY: Duration = Duration::from_millis(40);
/// How long an election and what follows may take, beyond the down interval.
const ELECTION: Duration = Duration::from_secs(20);

/// A LAN, its daemons and its client.
#[derive(Debug)]
pub(crate) struct Field {
    // In the order in which they go.
    daemons: Vec<Option<Daemon>>,
    pub(crate) probe: Probe,
    pub(crate) wire: Wire,
    responders: Vec<Responder>,
    lan: Lan,
    contender: Contender,
    setting: Setting,
    addresses: BTreeSet<IpAddr>,
    scratch: Scratch,
}

impl Field {
    /// Starts the daemons and waits until the first node serves and the others stand by.
    pub(crate) fn start(contender: Contender, setting: Setting) -> anyhow::Result<Self> {
        let names: Vec<String> = (1..=setting.priorities.len()).map(|n| format!("n{n}")).collect();
        let lan = Lan::new(&names.iter().map(String::as_str).collect::<Vec<_>>())?;
        let responders =
            lan.nodes().iter().map(Responder::start).collect::<anyhow::Result<Vec<_>>>()?;
        reach_wide_subnet(lan.client())?;
        let addresses = setting.addresses();
        let asked = *addresses.first().context("a setting has an address")?;
        let mut field = Self {
            daemons: lan.nodes().iter().map(|_| None).collect(),
            probe: Probe::start(lan.client(), asked, PACE)?,
            wire: Wire::open(lan.client(), Family::of(asked))?,
            responders,
            lan,
            contender,
            setting,
            addresses,
            scratch: Scratch::new()?,
        };
        field.start_daemon(0)?;
        field.settle(&[0])?;
        for node in 1..field.daemons.len() {
            field.start_daemon(node)?;
        }
        field.settle(&field.everybody())?;
        Ok(field)
    }

    pub(crate) fn everybody(&self) -> Vec<usize> {
        (0..self.daemons.len()).collect()
    }

    pub(crate) fn everybody_but(&self, node: usize) -> Vec<usize> {
        (0..self.daemons.len()).filter(|other| *other != node).collect()
    }

    /// Starts a node's daemon, and waits until it takes part.
    pub(crate) fn start_daemon(&mut self, node: usize) -> anyhow::Result<()> {
        let host = self.lan.nodes().get(node).context("no such node")?;
        let priority = *self.setting.priorities.get(node).context("no such node")?;
        let folder = self.scratch.folder(host.name())?;
        let mut daemon = Daemon::start(self.contender, host, folder, &self.setting, priority)?;
        daemon.wait_until_ready()?;
        *self.daemons.get_mut(node).context("no such node")? = Some(daemon);
        Ok(())
    }

    pub(crate) fn daemon(&mut self, node: usize) -> anyhow::Result<&mut Daemon> {
        self.daemons.get_mut(node).and_then(Option::as_mut).context("no daemon runs there")
    }

    pub(crate) fn host(&self, node: usize) -> anyhow::Result<&Host> {
        self.lan.nodes().get(node).context("no such node")
    }

    pub(crate) fn addresses(&self) -> &BTreeSet<IpAddr> {
        &self.addresses
    }

    pub(crate) fn setting(&self) -> &Setting {
        &self.setting
    }

    /// Waits until of these nodes one holds all addresses and the others none, and the client has
    /// its answers from that one alone. That one is returned.
    pub(crate) fn settle(&self, among: &[usize]) -> anyhow::Result<usize> {
        let patience = self.setting.down_interval() * 2 + ELECTION;
        let what = format!("one {} alone holds all addresses", self.contender);
        let holder = wait::until(&what, patience, || self.only_holder(among))
            .with_context(|| self.last_words())?;
        let what = format!("the client has its answers from {} alone", self.contender);
        wait::until(&what, patience, || Ok(self.is_steady(holder)?.then_some(holder)))
            .with_context(|| self.last_words())
    }

    /// The ends of all logs.
    fn last_words(&self) -> String {
        let logs = self.lan.nodes().iter().zip(&self.daemons).map(|(host, daemon)| {
            let words = daemon.as_ref().map(Daemon::last_words).unwrap_or_default();
            format!("{} said at last:\n{words}\n", host.name())
        });
        logs.collect()
    }

    fn only_holder(&self, among: &[usize]) -> anyhow::Result<Option<usize>> {
        let mut holder = None;
        for node in among {
            match addresses::held(self.host(*node)?, &self.addresses)? {
                0 => {}
                all if all == self.addresses.len() && holder.is_none() => holder = Some(*node),
                _ => return Ok(None),
            }
        }
        Ok(holder)
    }

    /// Whether this node alone has answered everything of late.
    fn is_steady(&self, node: usize) -> anyhow::Result<bool> {
        let now = clock::now();
        let name = self.host(node)?.name();
        // What was asked in the last few milliseconds may still be under way.
        let late = now - PACE * 5;
        let within = late - STEADY..late;
        Ok(self.probe.look(|record| {
            let asked = record.questions(&within);
            let all_answered = asked.iter().all(|question| question.answer.is_some());
            let reigns = record.reigns(&within);
            asked.len() * 2 > STEADY.as_millis() as usize
                && all_answered
                && matches!(reigns.as_slice(), [only] if record.name(only.node) == name)
        }))
    }

    /// Cuts a node off right after an advert of it. When the client's kernel received that advert
    /// is returned.
    pub(crate) fn cut_after_an_advert(&mut self, node: usize) -> anyhow::Result<Instant> {
        let source = IpAddr::V4(self.host(node)?.ipv4());
        self.wire.heard();
        let patience = self.setting.interval * 5 + ELECTION;
        let at = self
            .wire
            .listen(patience, |seen| (seen.what == What::Active(source)).then_some(seen.at))?
            .context("the Active node sends no adverts")?;
        self.lan.cut(self.host(node)?)?;
        Ok(at)
    }

    /// Plugs a node in again and waits until one serves. The client forgets where the address
    /// was: whom it believes after two have claimed it is not what is measured.
    pub(crate) fn mend(&self, node: usize) -> anyhow::Result<usize> {
        self.lan.mend(self.host(node)?)?;
        let patience = self.setting.down_interval() + ELECTION;
        let what = format!("of two {} one gives way", self.contender);
        let everybody = self.everybody();
        wait::until(&what, patience, || self.only_holder(&everybody))?;
        self.forget_neighbours()?;
        self.settle(&everybody)
    }

    fn forget_neighbours(&self) -> anyhow::Result<()> {
        self.lan.client().namespace().netlink(async |netlink| {
            for address in self.addresses.iter().take(1) {
                let mut neighbour = NeighbourMessage::default();
                neighbour.header.ifindex = if_nametoindex(LINK)?;
                let (family, destination) = match address {
                    IpAddr::V4(ipv4) => (AddressFamily::Inet, NeighbourAddress::Inet(*ipv4)),
                    IpAddr::V6(ipv6) => (AddressFamily::Inet6, NeighbourAddress::Inet6(*ipv6)),
                };
                neighbour.header.family = family;
                neighbour.attributes.push(NeighbourAttribute::Destination(destination));
                // It may be forgotten already.
                netlink.neighbours().del(neighbour).execute().await.ok();
            }
            Ok(())
        })
    }

    /// How many of the questions in each stretch of time went unanswered, after waiting long
    /// enough to know.
    pub(crate) fn lost(&self, stretches: &[Range<Instant>]) -> anyhow::Result<Vec<usize>> {
        let end = stretches.iter().map(|stretch| stretch.end).max().unwrap_or_default();
        let known_by = end + PATIENCE + PACE;
        wait::until("the last answers", PATIENCE * 3, || {
            Ok((clock::now() > known_by).then_some(()))
        })?;
        let now = clock::now();
        Ok(self
            .probe
            .look(|record| stretches.iter().map(|stretch| record.lost(stretch, now)).collect()))
    }

    /// Ends everything, and says what went wrong with the client or a responder meanwhile.
    pub(crate) fn end(self) -> anyhow::Result<()> {
        let Self { daemons, probe, responders, .. } = self;
        drop(daemons);
        let record = probe.stop()?;
        ensure!(record.last_answer().is_some(), "the client never had an answer");
        responders.into_iter().try_for_each(Responder::stop)
    }
}

/// Lets the client find the addresses of the wide subnet on its link too.
fn reach_wide_subnet(client: &Host) -> anyhow::Result<()> {
    client.namespace().netlink(async |netlink| {
        let (subnet, length) = WIDE_SUBNET;
        let route = RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(subnet, length)
            .output_interface(if_nametoindex(LINK)?)
            .scope(RouteScope::Link)
            .build();
        Ok(netlink.route().add(route).execute().await?)
    })
}
