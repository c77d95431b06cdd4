//! What a controller or the configuration files say: the same routers, seen by each machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use barevip::engine::vrrp::frames::MacAddress;
use barevip::model::{
    Announce, Candidate, Candidates, ChecksumForm, Entry, EntryState, Family, Interval,
    LinkSelector, Preempt, Priority, Transport, Version, VirtualRouter, Vrid,
};

/// So many machines see all routers, whether they are candidates or not.
const FEW: usize = 16;

/// How a simulated LAN begins.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) machines: usize,
    pub(crate) routers: usize,
    /// Addresses of each router.
    pub(crate) vips: usize,
    pub(crate) family: Family,
    pub(crate) interval: Interval,
    pub(crate) preempt: Preempt,
    /// Listed candidates, the health band, multicast and unicast, as in a cluster; else as by a
    /// configuration file.
    pub(crate) cluster: bool,
    /// Candidates of each router, where there are more machines.
    pub(crate) candidates: usize,
    /// The VRID of the first router.
    pub(crate) vrid: u8,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            machines: 3,
            routers: 1,
            vips: 2,
            family: Family::Ipv4,
            interval: Interval::DEFAULT,
            preempt: Preempt::Now,
            cluster: true,
            candidates: 9,
            vrid: 10,
        }
    }
}

/// One virtual router and who stands for it.
#[derive(Clone, Debug)]
pub(crate) struct RouterPlan {
    pub(crate) router: VirtualRouter,
    /// For each machine: what it is as a candidate.
    pub(crate) standing: Vec<Option<Standing>>,
    /// Whether the plan lists the candidates.
    pub(crate) listed: bool,
    /// Who is no candidate for a while, and what it was.
    pub(crate) unlisted: Vec<Option<Standing>>,
    /// Entries that are on their way to another router.
    pub(crate) moving: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) priority: Priority,
    pub(crate) joining: bool,
}

pub(crate) fn name_of(machine: usize) -> String {
    format!("n{}", machine + 1)
}

pub(crate) fn mac_of(machine: usize) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, machine as u8 + 1])
}

/// The address that adverts of this family leave from.
pub(crate) fn source_of(family: Family, machine: usize) -> IpAddr {
    let number = machine as u16 + 1;
    match family {
        Family::Ipv4 => IpAddr::V4(Ipv4Addr::new(10, 0, 0, number as u8)),
        Family::Ipv6 => IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, number)),
    }
}

/// A global IPv6 address, so that IPv6 routers find their subnet.
pub(crate) fn global_of(machine: usize) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, machine as u16 + 1))
}

pub(crate) fn vip_of(family: Family, router: usize, vip: usize) -> IpAddr {
    match family {
        Family::Ipv4 => IpAddr::V4(Ipv4Addr::new(10, 0, 1 + router as u8, 1 + vip as u8)),
        Family::Ipv6 => {
            let host = 0x1000 + (router as u16) * 0x100 + vip as u16;
            IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host))
        }
    }
}

pub(crate) fn served(address: IpAddr) -> Entry {
    Entry { vip: address.try_into().unwrap(), state: EntryState::Served }
}

impl Setup {
    /// The routers of this LAN: machine `rank + router` (modulo) has the rank-th priority.
    pub(crate) fn plans(&self) -> Vec<RouterPlan> {
        (0..self.routers).map(|router| self.plan(router)).collect()
    }

    fn plan(&self, index: usize) -> RouterPlan {
        let mut standing = vec![None; self.machines];
        for rank in 0..self.machines.min(self.candidates) {
            let priority = Priority::for_rank(rank as u8).unwrap();
            standing[(rank + index) % self.machines] = Some(Standing { priority, joining: false });
        }
        let entries = (0..self.vips).map(|vip| served(vip_of(self.family, index, vip))).collect();
        let router = VirtualRouter {
            name: format!("r{index}"),
            version: Version { uid: "u".to_owned(), generation: 1 },
            vrid: Vrid::try_from(self.vrid + index as u8).unwrap(),
            family: self.family,
            link: if index.is_multiple_of(2) {
                LinkSelector::Subnet
            } else {
                LinkSelector::Name("eth0".to_owned())
            },
            interval: self.interval,
            preempt: self.preempt,
            entries,
            candidates: Candidates::Listed(Vec::new()),
            takeover: None,
            health_band: self.cluster,
            transport: Transport::default(),
            announce: Announce::default(),
            checksum: ChecksumForm::Auto,
        };
        RouterPlan {
            router,
            unlisted: vec![None; standing.len()],
            standing,
            listed: self.cluster,
            moving: Vec::new(),
        }
    }
}

impl RouterPlan {
    /// The router as this machine's plan has it; `None` where a file would not have it.
    pub(crate) fn seen_by(&self, machine: usize) -> Option<VirtualRouter> {
        // Among many machines an agent watches what concerns its own.
        let is_concerned = self.standing[machine].is_some() || self.unlisted[machine].is_some();
        if !is_concerned && self.standing.len() > FEW {
            return None;
        }
        let mut router = self.router.clone();
        if self.listed {
            let family = router.family;
            let others = (0..self.standing.len())
                .filter(|other| *other != machine && self.standing[*other].is_some());
            router.transport.peers = others.map(|other| source_of(family, other)).collect();
            router.candidates = Candidates::Listed(self.candidates());
        } else {
            let priority = self.standing[machine]?.priority;
            router.candidates = Candidates::Open { priority };
            router.version = Version::default();
        }
        Some(router)
    }

    fn candidates(&self) -> Vec<Candidate> {
        let of = |(machine, standing): (usize, &Option<Standing>)| {
            let Standing { priority, joining } = (*standing)?;
            Some(Candidate { node: name_of(machine), priority, joining })
        };
        self.standing.iter().enumerate().filter_map(of).collect()
    }

    pub(crate) fn served(&self) -> impl Iterator<Item = IpAddr> {
        self.router.served().map(barevip::model::Vip::address)
    }
}
