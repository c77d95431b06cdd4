//! Worlds as the race table writes them: `A:.1/.1 B:–/–` is Services A and B, A with 172.16.0.1 in
//! its status and in its externalIPs, B with nothing. Letters are ages: A is the oldest. A name
//! that begins with P is a ClusterIP Service. `[x,.1]` is a list; x, y, z are addresses elsewhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use barevip::engine::cluster::world::{
    Ingress, PoolObject, Port, Protocol, Service, ServiceKey, Settings, Timestamp, Uid, World,
};
use barevip::model::{Family, Pool};

const NET: &str = "172.16.0";
const ELSEWHERE: [(&str, &str); 3] = [("x", "10.0.0.24"), ("y", "10.0.0.25"), ("z", "10.0.0.26")];

/// `.1` and `x` in full.
pub(crate) fn full(short: &str) -> String {
    if short.starts_with('.') {
        return format!("{NET}{short}");
    }
    let elsewhere = ELSEWHERE.iter().find(|(letter, _)| *letter == short);
    elsewhere.map_or(short, |(_, address)| *address).to_owned()
}

fn short(full: &str) -> String {
    if let Some((letter, _)) = ELSEWHERE.iter().find(|(_, address)| *address == full) {
        return (*letter).to_owned();
    }
    full.strip_prefix(NET).unwrap_or(full).to_owned()
}

fn list(text: &str) -> Vec<String> {
    let inner = text.trim_start_matches('[').trim_end_matches(']');
    let items = inner.split(',').filter(|item| !item.is_empty() && *item != "–");
    items.map(full).collect()
}

fn shown(items: &[String]) -> String {
    match items {
        [] => "–".to_owned(),
        [one] => short(one),
        several => {
            let items: Vec<_> = several.iter().map(|item| short(item)).collect();
            format!("[{}]", items.join(","))
        }
    }
}

/// A pool of these ranges, named `lan`.
pub(crate) fn pool(ranges: &str) -> Pool {
    let addresses = ranges.split(',').map(|range| range.parse().unwrap()).collect();
    Pool { addresses, ..Pool::default() }
}

/// A Service of this name without anything: one IPv4 address, port 80 of TCP.
pub(crate) fn service(name: &str) -> (Uid, Service) {
    let age = i64::from(name.bytes().next().unwrap());
    let service = Service {
        key: ServiceKey { namespace: "default".into(), name: name.into() },
        resource_version: "0".into(),
        created: Timestamp(age),
        load_balancer: !name.starts_with('P'),
        families: vec![Family::Ipv4],
        ports: [Port { protocol: Protocol::Tcp, number: 80 }].into(),
        ..Service::default()
    };
    (Uid::from(format!("uid-{}", name.to_lowercase()).as_str()), service)
}

/// A Service as the table writes it.
pub(crate) fn read_service(text: &str) -> (Uid, Service) {
    let (name, rest) = text.split_once(':').expect("NAME:status/externalIPs");
    let (status, external) = rest.split_once('/').expect("status/externalIPs");
    let (uid, mut service) = service(name);
    service.external_ips = list(external);
    let ingress = |text: String| match text.strip_prefix("host=") {
        Some(hostname) => Ingress { ip: None, hostname: Some(hostname.to_owned()) },
        None => Ingress { ip: Some(text), hostname: None },
    };
    service.ingress = list(status).into_iter().map(ingress).collect();
    (uid, service)
}

/// A world in mirror mode with one pool of these ranges, and these Services.
pub(crate) fn world(ranges: &str, services: &str) -> World {
    let lan = PoolObject {
        uid: "uid-lan".into(),
        generation: 1,
        created: Timestamp(1),
        pool: Ok(pool(ranges)),
    };
    World {
        services: services.split_whitespace().map(read_service).collect(),
        pools: BTreeMap::from([(Arc::from("lan"), lan)]),
        namespaces: BTreeMap::from([(Arc::from("default"), BTreeMap::new())]),
        settings: Settings { mirror: true, ..Settings::default() },
        ..World::default()
    }
}

/// A Service's part as the table writes it.
pub(crate) fn show(service: &Service) -> String {
    let status = |ingress: &Ingress| match (&ingress.ip, &ingress.hostname) {
        (Some(ip), _) => ip.clone(),
        (None, Some(hostname)) => format!("host={hostname}"),
        (None, None) => "empty".to_owned(),
    };
    let status: Vec<_> = service.ingress.iter().map(status).collect();
    format!("{}:{}/{}", service.key.name, shown(&status), shown(&service.external_ips))
}

/// All Services, in the order of their names.
pub(crate) fn show_all(world: &World) -> String {
    let mut all: Vec<_> = world.services.values().collect();
    all.sort_by_key(|service| Arc::clone(&service.key.name));
    all.into_iter().map(show).collect::<Vec<_>>().join(" ")
}
