//! One `[[virtual_router]]` as it stands in the file: each value with its place, so that what is
//! found later can still point at it.

use std::net::IpAddr;
use std::ops::Range;

use toml::Spanned;
use toml::de::DeTable;

use super::diagnostic::Findings;
use super::section::Section;
use super::values;
use crate::model::{
    Announce, Candidates, ChecksumForm, Entry, EntryState, Family, Interval, LinkSelector, Preempt,
    Priority, Transport, Version, Vip, VirtualRouter, Vrid,
};

/// What may stand below `[[virtual_router]]`.
pub(super) const KEYS: [&str; 10] = [
    "name",
    "interface",
    "vrid",
    "priority",
    "interval",
    "preempt",
    "addresses",
    "peers",
    "announce",
    "checksum",
];

/// `None` is a key that the file does not have, or whose value was refused.
pub(super) struct Draft {
    /// Where the table begins.
    pub(super) header: Range<usize>,
    pub(super) name: Option<Spanned<String>>,
    pub(super) interface: Option<Spanned<String>>,
    pub(super) vrid: Option<Spanned<Vrid>>,
    pub(super) priority: Option<Spanned<Priority>>,
    pub(super) interval: Option<Spanned<Interval>>,
    pub(super) preempt: Option<Spanned<Preempt>>,
    pub(super) addresses: Vec<Spanned<Vip>>,
    pub(super) peers: Vec<Spanned<IpAddr>>,
    pub(super) announce: Announce,
    pub(super) checksum: Option<Spanned<ChecksumForm>>,
}

impl Draft {
    pub(super) fn read(
        table: &DeTable<'_>,
        header: Range<usize>,
        findings: &mut Findings<'_>,
    ) -> Self {
        let mut section = Section::new(table, header.clone());
        section.require("vrid", "51", findings);
        section.require("addresses", "[\"192.0.2.200\"]", findings);
        let draft = Self {
            header,
            name: section.value("name", values::name, findings),
            interface: section.value("interface", values::interface, findings),
            vrid: section.value("vrid", values::vrid, findings),
            priority: section.value("priority", values::priority, findings),
            interval: section.value("interval", values::interval, findings),
            preempt: section.value("preempt", values::preempt, findings),
            addresses: section.list("addresses", values::vip, findings),
            peers: section.list("peers", values::peer, findings),
            announce: read_announce(&mut section, findings),
            checksum: section.value("checksum", values::checksum, findings),
        };
        section.refuse_the_rest(findings, |_| None);
        draft
    }

    /// The family of its first address.
    pub(super) fn family(&self) -> Option<Family> {
        self.addresses.first().map(|vip| vip.get_ref().family())
    }

    /// Its name, or the default one: "vrid-51-ipv4".
    pub(super) fn name(&self) -> Option<String> {
        match &self.name {
            Some(name) => Some(name.get_ref().clone()),
            None => {
                let family = self.family()?.to_string().to_lowercase();
                Some(format!("vrid-{}-{family}", self.vrid.as_ref()?))
            }
        }
    }

    /// The router; `None` where something that it can't be without is missing or was refused.
    pub(super) fn finish(self) -> Option<VirtualRouter> {
        let name = self.name()?;
        let family = self.family()?;
        let peers: Vec<IpAddr> = self.peers.into_iter().map(Spanned::into_inner).collect();
        Some(VirtualRouter {
            name,
            version: Version::default(),
            vrid: self.vrid?.into_inner(),
            family,
            link: match self.interface {
                Some(name) => LinkSelector::Name(name.into_inner()),
                None => LinkSelector::Subnet,
            },
            interval: value_or_default(self.interval),
            preempt: value_or_default(self.preempt),
            entries: self
                .addresses
                .into_iter()
                .map(|vip| Entry { vip: vip.into_inner(), state: EntryState::Served })
                .collect(),
            candidates: Candidates::Open { priority: value_or_default(self.priority) },
            takeover: None,
            health_band: false,
            transport: Transport { multicast: peers.is_empty(), peers },
            announce: self.announce,
            checksum: value_or_default(self.checksum),
        })
    }
}

fn value_or_default<T: Default>(value: Option<Spanned<T>>) -> T {
    value.map(Spanned::into_inner).unwrap_or_default()
}

fn read_announce(section: &mut Section<'_, '_>, findings: &mut Findings<'_>) -> Announce {
    let default = Announce::default();
    let example = "{ rounds = 5, spacing = \"250ms\", refresh = \"60s\" }";
    let Some(mut announce) = section.section("announce", example, findings) else {
        return default;
    };
    let rounds = announce.value("rounds", values::rounds, findings);
    let spacing = announce.value("spacing", values::spacing, findings);
    let refresh = announce.value("refresh", values::refresh, findings);
    announce.refuse_the_rest(findings, |_| None);
    Announce {
        rounds: rounds.map_or(default.rounds, Spanned::into_inner),
        spacing: spacing.map_or(default.spacing, Spanned::into_inner),
        refresh: refresh.map_or(default.refresh, Spanned::into_inner),
    }
}
