//! `barevip controller` against a real API server and etcd.

#![cfg(test)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};

use barevip::io::lab::process::Process;
use nix::sys::signal::Signal;

use crate::support::control_plane::ControlPlane;
use crate::support::netns::patience::{unless, until};

mod support {
    pub(crate) mod control_plane;
    pub(crate) mod netns {
        pub(crate) mod patience;
    }
    pub(crate) mod printed;
    pub(crate) mod scratch;
}

/// .200 and .201, and nothing else: soon full.
const SMALL_POOL: &str = r#"
apiVersion: barevip.io/v1alpha1
kind: IngressPool
metadata: {name: small}
spec: {addresses: ["192.0.2.200-192.0.2.201"], routers: 1, reuseAfter: 1s}
"#;

const LEASE_SECONDS: &str = "2s";

/// An API server with the custom resources and the controller's namespace.
fn cluster() -> ControlPlane {
    let plane = ControlPlane::start();
    let definitions =
        Command::new(env!("CARGO_BIN_EXE_barevip")).args(["manifests", "crds"]).output().unwrap();
    assert!(definitions.status.success());
    plane.apply(&String::from_utf8(definitions.stdout).unwrap());
    plane.kubectl(&["wait", "--for=condition=Established", "crd", "--all"]);
    plane.kubectl(&["create", "namespace", "barevip-system"]);
    plane
}

fn controller(plane: &ControlPlane) -> Process {
    controller_with(plane, &[])
}

fn controller_with(plane: &ControlPlane, flags: &[&str]) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_barevip"));
    command
        .args(["controller", "--lease-duration", LEASE_SECONDS, "--retry-period", "200ms"])
        .args(flags)
        .env("KUBECONFIG", plane.kubeconfig())
        .stdout(Stdio::null());
    Process::start(command).unwrap()
}

fn expose(plane: &ControlPlane, name: &str) {
    plane.kubectl(&["create", "service", "loadbalancer", name, "--tcp=80:80"]);
}

const INGRESS: &str = "jsonpath={.status.loadBalancer.ingress[*].ip}";
const REASON: &str = "jsonpath={.status.conditions[?(@.type==\"barevip.io/Allocated\")].reason}";

fn until_service(plane: &ControlPlane, name: &str, path: &str, expected: &str) {
    plane.until(&["get", "service", name, "-o", path], expected);
}

#[test]
fn a_service_gets_an_address_keeps_it_and_gives_it_back() {
    let plane = cluster();
    plane.apply(SMALL_POOL);
    let mut first = controller(&plane);
    expose(&plane, "web");
    until_service(&plane, "web", INGRESS, "192.0.2.200");
    expose(&plane, "mail");
    until_service(&plane, "mail", INGRESS, "192.0.2.201");

    // Full: whoever describes the Service learns why, and that is all that happens.
    expose(&plane, "late");
    until_service(&plane, "late", REASON, "RangeFull");
    until_service(&plane, "late", INGRESS, "");
    let events = ["get", "events", "-o", "jsonpath={.items[*].reason}"];
    plane.until(&events, "IngressIPRangeFull");

    // Numbers are written once a second: after these all is told.
    let numbers = "jsonpath={.status.used} used, {.status.waiting} waiting";
    plane.until(&["get", "ipool", "small", "-o", numbers], "2 used, 1 waiting");

    // Another controller, started from the same objects, has nothing to write.
    first.signal(Signal::SIGTERM).unwrap();
    assert!(first.wait().unwrap().success(), "a stop is clean");
    let versions = || plane.kubectl(&["get", "service,virtualrouter,ipool", "-o", VERSIONS]);
    let before = versions();
    let mut second = controller(&plane);
    until_leader_is_ready(&plane, second.id());
    assert_eq!(versions(), before);

    plane.kubectl(&["delete", "service", "web"]);
    until_service(&plane, "late", INGRESS, "192.0.2.200");
    plane.kubectl(&["patch", "service", "mail", "-p", r#"{"spec":{"type":"ClusterIP"}}"#]);
    until_service(&plane, "mail", REASON, "");
    second.signal(Signal::SIGTERM).unwrap();
    assert!(second.wait().unwrap().success(), "a stop is clean");
}

const VERSIONS: &str =
    "jsonpath={range .items[*]}{.kind}/{.metadata.name}={.metadata.resourceVersion} {end}";

/// The leader renews its lease once it leads; by its second renewal it has decided.
fn until_leader_is_ready(plane: &ControlPlane, process: u32) {
    let lease = || {
        let path = "jsonpath={.spec.holderIdentity} {.spec.renewTime}";
        plane.kubectl(&["get", "lease", "-n", "barevip-system", "barevip-controller", "-o", path])
    };
    let holds = || lease().contains(&format!("_{process}_"));
    until("the second controller leads", || unless(holds(), lease));
    for _ in 0..3 {
        let before = lease();
        until("the lease is renewed", || unless(lease() != before, lease));
    }
}

#[test]
fn a_killed_leader_is_replaced_and_nothing_moves() {
    let plane = cluster();
    plane.apply(SMALL_POOL);
    let mut leader = controller(&plane);
    expose(&plane, "web");
    until_service(&plane, "web", INGRESS, "192.0.2.200");
    let other = controller(&plane);
    leader.signal(Signal::SIGKILL).unwrap();
    leader.wait().unwrap();
    expose(&plane, "mail");
    until_service(&plane, "mail", INGRESS, "192.0.2.201");
    until_service(&plane, "web", INGRESS, "192.0.2.200");
    drop(other);
}

#[test]
fn routers_that_were_deleted_come_back_with_the_same_addresses() {
    let plane = cluster();
    plane.apply(SMALL_POOL);
    let _controller = controller(&plane);
    for name in ["web", "mail"] {
        expose(&plane, name);
    }
    let addresses = || plane.kubectl(&["get", "service", "-o", ADDRESSES]);
    let both = || addresses().contains("192.0.2.200") && addresses().contains("192.0.2.201");
    until("both have an address", || unless(both(), addresses));
    let before = addresses();
    plane.kubectl(&["delete", "virtualrouters", "--all"]);
    let entries = "jsonpath={.items[*].spec.addresses[*].ip}";
    plane.until(&["get", "virtualrouters", "-o", entries], "192.0.2.200 192.0.2.201");
    assert_eq!(addresses(), before);
}

const ADDRESSES: &str =
    "jsonpath={range .items[*]}{.metadata.name}={.status.loadBalancer.ingress[*].ip} {end}";

#[test]
fn others_services_are_left_alone() {
    let plane = cluster();
    plane.apply(SMALL_POOL);
    plane.apply(
        r"
apiVersion: v1
kind: Service
metadata: {name: foreign, namespace: default}
spec: {type: LoadBalancer, loadBalancerClass: example.com/other, ports: [{port: 80}]}
",
    );
    let version = ["get", "service", "foreign", "-o", "jsonpath={.metadata.resourceVersion}"];
    let before = plane.kubectl(&version);
    let _controller = controller(&plane);
    expose(&plane, "web");
    until_service(&plane, "web", INGRESS, "192.0.2.200");
    assert_eq!(plane.kubectl(&version), before);
}

#[test]
fn a_pool_that_makes_no_sense_says_so() {
    let plane = cluster();
    let _controller = controller(&plane);
    plane.apply(
        r#"
apiVersion: barevip.io/v1alpha1
kind: IngressPool
metadata: {name: typo}
spec: {addresses: ["192.0.2.250-192.0.2.200"]}
"#,
    );
    let message = "jsonpath={.status.conditions[?(@.type==\"Ready\")].message}";
    let said = || plane.kubectl(&["get", "ipool", "typo", "-o", message]);
    let is_named = || said().contains("192.0.2.200-192.0.2.250");
    until("the remedy is named", || unless(is_named(), said));
}

/// What the controller answers: the whole response.
fn ask(address: SocketAddr, path: &str) -> String {
    let mut answer = String::new();
    if let Ok(mut stream) = TcpStream::connect(address) {
        write!(stream, "GET {path} HTTP/1.1\r\nHost: barevip\r\n\r\n").unwrap();
        stream.read_to_string(&mut answer).unwrap();
    }
    answer
}

#[test]
fn its_pages_show_what_it_knows() {
    let plane = cluster();
    plane.apply(SMALL_POOL);
    let address = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let _controller = controller_with(&plane, &["--http", &address.to_string()]);
    let ready = || ask(address, "/readyz");
    until("it is ready", || unless(ready().starts_with("HTTP/1.1 200"), ready));
    expose(&plane, "web");
    until_service(&plane, "web", INGRESS, "192.0.2.200");

    assert!(ask(address, "/healthz").ends_with("ok\n"));
    let metrics = || ask(address, "/metrics");
    let expected = [
        "barevip_leader 1",
        r#"barevip_pool_addresses{pool="small",state="used"} 1.0"#,
        r#"barevip_pool_waiting_services{pool="small"} 0.0"#,
        "barevip_allocation_seconds_count 1",
        r#"barevip_writes_total{object="service",result="done"} 1"#,
    ];
    until("the metrics tell of it", || {
        let page = metrics();
        unless(expected.iter().all(|line| page.contains(line)), || page)
    });
    let state = ask(address, "/state");
    assert!(state.contains(r#""192.0.2.200":["default/web"]"#), "{state}");
    assert!(ask(address, "/nothing").starts_with("HTTP/1.1 404"));
}

const EXTERNAL_IPS: &str = "jsonpath={.spec.externalIPs[*]}";

#[test]
fn a_mirror_of_the_address_is_kept_beside_what_others_wrote() {
    let plane = cluster();
    plane.apply(SMALL_POOL);
    let _controller = controller_with(&plane, &["--mirror-external-ips=true"]);
    expose(&plane, "web");
    until_service(&plane, "web", EXTERNAL_IPS, "192.0.2.200");
    let patch = |patch: &str| plane.kubectl(&["patch", "service", "web", "-p", patch]);
    patch(r#"{"spec": {"externalIPs": ["198.51.100.7"]}}"#);
    until_service(&plane, "web", EXTERNAL_IPS, "198.51.100.7 192.0.2.200");
    patch(r#"{"spec": {"type": "ClusterIP"}}"#);
    until_service(&plane, "web", EXTERNAL_IPS, "198.51.100.7");
}

#[test]
fn every_node_gets_an_announcer_that_goes_with_it() {
    let plane = cluster();
    let _controller = controller(&plane);
    plane.apply("{apiVersion: v1, kind: Node, metadata: {name: a}}");
    let owner = "jsonpath={.metadata.ownerReferences[*].uid}";
    let uid = plane.kubectl(&["get", "node", "a", "-o", "jsonpath={.metadata.uid}"]);
    plane.until(&["get", "announcer", "a", "-o", owner], &uid);
}
