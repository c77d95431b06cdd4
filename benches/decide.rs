//! How long a decision takes, by the number of Services: `cargo bench --bench decide`.
//!
//! * settled: every Service has its address and its condition, so that there is nothing to write;
//! * one new: the same, and one Service that has none yet;
//! * waiting: none has one, and the pools were made just now;
//! * one key: the same, and all ask to share an address under one key, though their ports clash;
//! * full: the same, and no pool has an address left;
//! * floor: no decision, only every Service and claim of the first case read once, the oldest
//!   first: what the machine's memory takes at least.
//!
//! Each figure is the median of several rounds over one world, each from scratch: a decision
//! remembers nothing. It is time of one core, so that a busy machine adds little to it. The bar:
//! 10 000 settled Services in 10 ms, and about as much for each of 40 000.

#![allow(clippy::print_stdout, clippy::expect_used, reason = "a benchmark prints")]

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use barevip::engine::cluster::decide::decide;
use barevip::engine::cluster::decision::RouterChange;
use barevip::engine::cluster::world::{
    Claim, Holder, Node, PoolObject, Port, Protocol, Reign, Report, RouterObject, Service,
    ServiceKey, Settings, Timestamp, Uid, World,
};
use barevip::model::{Family, Pool};
use nix::time::{ClockId, clock_gettime};

const NOW: Timestamp = Timestamp(1_800_000_000);
const SIZES: [u32; 4] = [1_000, 2_500, 10_000, 40_000];
/// Rounds until every write has led to the next one and nothing is left to do.
const ROUNDS: usize = 6;
/// Services whose settled decision has a bar, and the bar.
const BAR: (u32, Duration) = (10_000, Duration::from_millis(10));

fn main() -> ExitCode {
    print!("{:>9}", "Services");
    for case in ["settled", "one new", "waiting", "one key", "full", "floor"] {
        print!(" {case:>17}");
    }
    println!();
    let mut holds = true;
    for size in SIZES {
        let mut waiting = cluster(size);
        let mut world = as_listed(settled(waiting.clone()));
        let steady = median(&world, |changes| changes == 0);
        let floor = median_of(|| {
            black_box(read_once(black_box(&world)));
        });
        let (uid, service) = service(size);
        world.services.insert(uid, service);
        let one = median(&world, |changes| changes == 1);
        let all = median(&waiting, |changes| changes > 0);
        waiting.services.values_mut().for_each(|service| service.share = Some("web".into()));
        let sharing = median(&waiting, |changes| changes > 0);
        for pool in waiting.pools.values_mut().filter_map(|object| object.pool.as_mut().ok()) {
            pool.avoid.clone_from(&pool.addresses);
        }
        let full = median(&waiting, |changes| changes > 0);
        print!("{size:>9}");
        for took in [steady, one, all, sharing, full, floor] {
            print!(" {:>17}", shown(took, size));
        }
        println!();
        holds &= size != BAR.0 || steady <= BAR.1;
    }
    if holds {
        return ExitCode::SUCCESS;
    }
    println!("the bar is {:?} for {} settled Services", BAR.1, BAR.0);
    ExitCode::FAILURE
}

/// The time, and what of it falls to each Service.
fn shown(took: Duration, size: u32) -> String {
    format!("{:.2} ms {:>4} ns", took.as_secs_f64() * 1e3, (took / size).as_nanos())
}

/// How long this thread has had a core.
fn worked() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has this clock").into()
}

/// The median of rounds that need this many writes of claims and statuses.
fn median(world: &World, expected: impl Fn(usize) -> bool) -> Duration {
    median_of(|| {
        let decision = decide(black_box(world), NOW);
        let changes = decision.routers.len() + decision.services.len();
        assert!(expected(changes), "{changes} writes");
    })
}

fn median_of(round: impl Fn()) -> Duration {
    let mut rounds = [(); 15].map(|()| {
        let before = worked();
        round();
        worked() - before
    });
    rounds.sort_unstable();
    let [.., median, _, _, _, _, _, _, _] = rounds;
    median
}

/// Reads what every round has to read of each Service and claim.
fn read_once(world: &World) -> usize {
    let mut services: Vec<_> = world.services.iter().collect();
    services.sort_by_key(|(_, service)| service.created);
    let octets = |text: &str| text.bytes().fold(0, |sum: usize, octet| sum + usize::from(octet));
    let of_service = |(uid, service): (&Uid, &Service)| {
        let shown = service.ingress.iter().filter_map(|ingress| ingress.ip.as_deref());
        let said = service.condition.as_ref().map_or("", |condition| &condition.message);
        octets(&uid.0) + shown.map(octets).sum::<usize>() + octets(said) + service.families.len()
    };
    let holders = world.routers.values().flat_map(|router| router.spec.held());
    let holders = holders.flat_map(|(_, holders)| holders);
    services.into_iter().map(of_service).sum::<usize>()
        + holders.map(|holder| octets(&holder.uid.0)).sum::<usize>()
}

/// A mixed congruence: as good as random, and the same in every run.
fn scattered(number: u32) -> u32 {
    (number ^ 0x5bf0_3635).wrapping_mul(0x9e37_79b1).rotate_left(13).wrapping_mul(0x85eb_ca6b)
}

/// A Service as most are: one IPv4 address, two ports, a selector, a few labels.
fn service(number: u32) -> (Uid, Service) {
    let uid = format!(
        "{:08x}-{:04x}-4d1e-9c3b-{number:012x}",
        scattered(number),
        scattered(number + 1) >> 16
    );
    let app = format!("app-{number}");
    let labels = BTreeMap::from([
        ("app.kubernetes.io/name".to_owned(), app.clone()),
        ("app.kubernetes.io/managed-by".to_owned(), "Helm".to_owned()),
    ]);
    let port = |number| Port { protocol: Protocol::Tcp, number };
    let service = Service {
        key: ServiceKey {
            namespace: format!("team-{}", number % 200).into(),
            name: app.as_str().into(),
        },
        resource_version: number.to_string().into(),
        created: Timestamp(1_700_000_000 + i64::from(scattered(number) % 50_000_000)),
        load_balancer: true,
        families: vec![Family::Ipv4],
        ports: BTreeSet::from([port(80), port(443)]),
        selector: BTreeMap::from([("app.kubernetes.io/name".to_owned(), app)]),
        labels,
        ..Service::default()
    };
    (Uid(uid.into()), service)
}

/// So many Services without an address, pools that suffice, and twelve nodes.
fn cluster(size: u32) -> World {
    let pool = |number: u32| {
        let range = format!("10.{number}.0.0/18").parse().expect("a network");
        let pool = Pool { addresses: vec![range], routers: 64, vrids: 1..=254, ..Pool::default() };
        let object = PoolObject {
            uid: format!("pool-{number}").as_str().into(),
            generation: 1,
            created: Timestamp(1_700_000_000),
            pool: Ok(pool),
        };
        (Arc::from(format!("pool-{number}")), object)
    };
    let node = |number: u32| {
        let own = "10.0.0.0/8".parse().expect("a network");
        let report = Report {
            at: Timestamp(NOW.0 - 20),
            links: BTreeMap::from([(Arc::from("eth0"), vec![own])]),
            ..Report::default()
        };
        let node = Node { report: Some(report), ..Node::default() };
        (Arc::from(format!("node-{number}")), node)
    };
    World {
        services: (0..size).map(service).collect(),
        pools: (0..=size / 16_000).map(pool).collect(),
        nodes: (0..12).map(node).collect(),
        settings: Settings { cluster: "5b0c".into(), ..Settings::default() },
        ..World::default()
    }
}

/// All that is decided is written, until nothing is.
fn settled(mut world: World) -> World {
    for _ in 0..ROUNDS {
        let decision = decide(&world, NOW);
        world.memory = decision.memory;
        for (name, change) in decision.routers {
            let object = match change {
                RouterChange::Create(spec) => {
                    let uid = Uid(Arc::clone(&name));
                    RouterObject { uid, generation: 1, spec, move_to: None }
                }
                RouterChange::Update { uid, generation, spec, .. } => {
                    RouterObject { uid, generation: generation + 1, spec, move_to: None }
                }
                RouterChange::Delete { .. } => continue,
            };
            world.routers.insert(name, object);
        }
        for change in decision.services {
            let service = world.services.get_mut(&change.uid).expect("the Service");
            service.ingress =
                change.ingress.unwrap_or_else(|| std::mem::take(&mut service.ingress));
            service.condition = change.condition.unwrap_or_else(|| service.condition.take());
        }
        // Whoever was asked to take over has done so.
        for (name, router) in &mut world.routers {
            let Some(first) = router.spec.candidates.first() else { continue };
            let statement = Reign {
                uid: router.uid.clone(),
                generation: router.generation,
                vrid: Some(router.spec.vrid),
            };
            let report = world.nodes.get_mut(&*first.node).and_then(|node| node.report.as_mut());
            report.expect("its report").active.insert(Arc::clone(name), statement);
        }
    }
    world
}

/// The same world as a new leader reads it: no two objects share a text.
fn as_listed(mut world: World) -> World {
    for router in world.routers.values_mut() {
        for claim in router.spec.claims.values_mut() {
            if let Claim::Held(holders) = claim {
                for Holder { uid, service } in holders {
                    *uid = Uid::from(&*uid.0);
                    service.namespace = service.namespace.as_ref().into();
                    service.name = service.name.as_ref().into();
                }
            }
        }
    }
    world
}
