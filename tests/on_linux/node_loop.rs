//! The engine on its thread, joined with the real kernel: two machines and a cable.

use std::future::Future;
use std::time::Duration;

use barevip::app::node_loop::{NodeHandle, Options};
use barevip::app::observed::{Events, News, Observed};
use barevip::engine::node::event::EventKind;
use barevip::engine::node::identity::Identity;
use barevip::engine::node::links::Instance;
use barevip::engine::vrrp::role::Role;
use barevip::model::{
    Announce, Candidates, ChecksumForm, Entry, EntryState, Family, Interval, LinkSelector, Plan,
    Preempt, Priority, Transport, Version, VirtualRouter, Vrid,
};

use crate::support::host::{Host, PATIENCE, deadline};

const VIPS: [&str; 2] = ["192.0.2.50", "2001:db8::50"];

/// A router of each family, as a configuration file has them.
fn plan(priority: u8) -> Plan {
    let router = |family, vip: &str| VirtualRouter {
        name: format!("{family}"),
        version: Version::default(),
        vrid: Vrid::try_from(7).unwrap(),
        family,
        link: LinkSelector::Name("eth0".to_owned()),
        interval: Interval::from_centiseconds(5).unwrap(),
        preempt: Preempt::Now,
        entries: vec![Entry { vip: vip.parse().unwrap(), state: EntryState::Served }],
        candidates: Candidates::Open { priority: Priority::try_from(priority).unwrap() },
        takeover: None,
        health_band: false,
        transport: Transport::default(),
        announce: Announce::default(),
        checksum: ChecksumForm::Auto,
    };
    vec![router(Family::Ipv4, VIPS[0]), router(Family::Ipv6, VIPS[1])]
}

/// A machine with an engine.
struct Machine {
    host: Host,
    handle: NodeHandle,
    events: Events,
}

fn start(host: &Host, instance: &str, plan: Plan) -> anyhow::Result<NodeHandle> {
    let instance = Instance::named(instance.as_bytes());
    let identity = Identity { node: "here".to_owned(), instance };
    host.run(move || NodeHandle::start(identity, plan, Options::default()))
}

impl Machine {
    fn on(host: Host, priority: u8) -> Self {
        let mut handle = start(&host, "test", plan(priority)).unwrap();
        let events = handle.events();
        Self { host, handle, events }
    }

    /// How many of the addresses it has, as the kernel shows them.
    fn holds(&self) -> usize {
        let addresses = self.host.addresses("eth0");
        let held = addresses.iter().filter_map(|address| address["local"].as_str());
        held.filter(|address| VIPS.contains(address)).count()
    }

    /// Waits for a state of both routers that is seen from inside.
    async fn until(&self, what: &str, holds: impl Fn(&Observed) -> bool) -> Observed {
        let deadline = deadline();
        loop {
            let observed = self.handle.status().await.unwrap();
            if holds(&observed) {
                return observed;
            }
            assert!(observed.at.now() < deadline, "{what}: {observed:#?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn serves(&self) -> Observed {
        self.until("serves both", |observed| {
            let routers = &observed.status.routers;
            routers.len() == 2
                && routers.iter().all(|r| r.role == Role::Active)
                && routers.iter().all(|r| r.addresses.iter().all(|a| a.bound))
        })
        .await
    }
}

/// Two machines at the ends of a cable, the first with the higher priority.
fn two() -> (Machine, Machine) {
    let (here, there) = Host::pair();
    (Machine::on(here, 200), Machine::on(there, 100))
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE * 3, test).await.expect("hangs") });
}

#[test]
fn the_higher_one_serves_and_hands_over_when_it_stops() {
    let (mut here, there) = two();
    run(async {
        here.serves().await;
        there
            .until("backs up", |observed| {
                let routers = &observed.status.routers;
                routers.len() == 2 && routers.iter().all(|r| r.role == Role::Backup)
            })
            .await;
        assert_eq!((here.holds(), there.holds()), (2, 0));
        here.handle.shutdown();
        here.handle.finished().await.unwrap();
        assert_eq!(here.holds(), 0);
        there.serves().await;
        assert_eq!(there.holds(), 2);

        // The news of the first one end with its thread.
        let mut told = Vec::new();
        while let Some(news) = here.events.recv().await {
            told.push(news.news);
        }
        let is = |wanted: fn(&EventKind) -> bool| {
            told.iter().any(|n| matches!(n, News::Event(event) if wanted(&event.kind)))
        };
        assert!(is(|kind| matches!(kind, EventKind::Serving { addresses: 1, .. })), "{told:#?}");
        let handed_over =
            |kind: &EventKind| matches!(kind, EventKind::Released { handed_over: 1, unclaimed: 0 });
        assert!(is(handed_over), "{told:#?}");
        assert!(!is(|kind| matches!(kind, EventKind::LinkLost(_))), "{told:#?}");
        assert!(here.handle.status().await.is_err(), "nobody answers any more");
    });
}

#[test]
fn a_foreign_deletion_is_made_good() {
    let (here, _there) = two();
    run(async {
        here.serves().await;
        for vip in VIPS {
            let length = if vip.contains(':') { 128 } else { 32 };
            here.host.ip(&format!("address del {vip}/{length} dev eth0"));
        }
        here.until("noticed", |observed| observed.status.counters.addresses_lost == 2).await;
        here.serves().await;
        assert_eq!(here.holds(), 2);
    });
}

#[test]
fn a_stop_leaves_no_address_also_where_nobody_takes_over() {
    let (mut here, mut there) = two();
    run(async {
        here.serves().await;
        there.handle.shutdown();
        there.handle.finished().await.unwrap();
        here.handle.shutdown();
        here.handle.finished().await.unwrap();
        assert_eq!((here.holds(), there.holds()), (0, 0));
    });
}

#[test]
fn an_instance_runs_once_in_a_network_namespace() {
    let (host, other) = (Host::new(), Host::new());
    let mut first = start(&host, "a", Vec::new()).unwrap();
    let refused = start(&host, "a", Vec::new()).unwrap_err();
    assert!(refused.to_string().contains("runs already"), "{refused}");
    start(&host, "b", Vec::new()).unwrap();
    start(&other, "a", Vec::new()).unwrap();
    run(async {
        first.shutdown();
        first.finished().await.unwrap();
    });
    start(&host, "a", Vec::new()).expect("the first one has stopped");
}
