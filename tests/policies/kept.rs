//! The ConfigMap of the protected ranges, as the controller keeps it.

use serde_json::json;

use crate::support::guarded::{Guarded, service};

const POOL: &str = r#"
apiVersion: barevip.io/v1alpha1
kind: IngressPool
metadata: {name: small}
spec: {addresses: ["192.0.2.200-192.0.2.203"], routers: 1}
"#;

const NEXT_POOL: &str = r#"
apiVersion: barevip.io/v1alpha1
kind: IngressPool
metadata: {name: next}
spec: {addresses: ["192.0.2.204/30"], routers: 1}
"#;

const CIDRS: [&str; 7] =
    ["get", "configmap", "barevip-ranges", "-n", "barevip-system", "-o", "jsonpath={.data.cidrs}"];

fn expose(guarded: &Guarded) {
    let mut web = service("web", &[]);
    web["spec"]["type"] = json!("LoadBalancer");
    guarded.create(&web).unwrap();
}

fn until_address(guarded: &Guarded) {
    let ingress = ["get", "service", "web", "-o", "jsonpath={.status.loadBalancer.ingress[*].ip}"];
    guarded.0.until(&ingress, "192.0.2.200");
}

fn until_protection(guarded: &Guarded, expected: &str) {
    let path = "jsonpath={.status.conditions[?(@.type==\"Protected\")].reason}";
    guarded.0.until(&["get", "ingresspool", "small", "-o", path], expected);
}

#[test]
fn the_ranges_are_written_before_the_first_address_is_given() {
    let guarded = Guarded::start();
    expose(&guarded);
    let _controller = guarded.controller();
    guarded.0.apply(POOL);
    until_address(&guarded);
    // Versions of all objects are revisions of one store: neither was written a second time.
    let version = |arguments: &[&str]| -> (u64, String) {
        let path = "jsonpath={.metadata.resourceVersion} {.metadata.generation}";
        let text = guarded.0.kubectl(&[arguments, &["-o", path]].concat());
        let (version, generation) = text.split_once(' ').unwrap();
        (version.parse().unwrap(), generation.to_owned())
    };
    let (ranges, _) = version(&CIDRS[..5]);
    let (claim, generation) = version(&["get", "virtualrouter", "small-v4-0"]);
    assert_eq!(generation, "1", "this is the first claim");
    assert!(ranges < claim, "ranges at {ranges}, claim at {claim}");
}

#[test]
fn the_ranges_follow_the_pools_and_come_back_whoever_removes_or_edits_them() {
    let guarded = Guarded::start();
    guarded.0.apply(POOL);
    let _controller = guarded.controller();
    guarded.0.until(&CIDRS, "192.0.2.200/30");
    until_protection(&guarded, "Protected");
    guarded.until_protected("192.0.2.200");

    guarded.0.kubectl(&["delete", "configmap", "barevip-ranges", "-n", "barevip-system"]);
    guarded.0.until(&CIDRS, "192.0.2.200/30");
    let edit = r#"{"data":{"cidrs":"10.0.0.0/8"}}"#;
    guarded.0.kubectl(&[
        "patch",
        "configmap",
        "barevip-ranges",
        "-n",
        "barevip-system",
        "-p",
        edit,
    ]);
    guarded.0.until(&CIDRS, "192.0.2.200/30");

    guarded.0.apply(NEXT_POOL);
    guarded.0.until(&CIDRS, "192.0.2.200/29");
    guarded.0.kubectl(&["delete", "ingresspool", "next"]);
    guarded.0.until(&CIDRS, "192.0.2.200/30");
    // What a Service has stays protected after its pool is gone.
    expose(&guarded);
    until_address(&guarded);
    guarded.0.kubectl(&["delete", "ingresspool", "small"]);
    guarded.0.until(&CIDRS, "192.0.2.200/32");
}

#[test]
fn ranges_that_can_not_be_written_hold_nothing_up() {
    let guarded = Guarded::start();
    guarded.0.apply(
        "
apiVersion: v1
kind: ConfigMap
metadata: {name: barevip-ranges, namespace: barevip-system}
immutable: true
data: {cidrs: ''}
",
    );
    let _controller = guarded.controller();
    guarded.0.apply(POOL);
    expose(&guarded);
    until_address(&guarded);
    until_protection(&guarded, "RangesNotWritten");
    let path = "jsonpath={.status.conditions[?(@.type==\"Protected\")].message}";
    let message = guarded.0.kubectl(&["get", "ingresspool", "small", "-o", path]);
    assert!(message.contains("immutable"), "{message}");

    guarded.0.kubectl(&["delete", "configmap", "barevip-ranges", "-n", "barevip-system"]);
    until_protection(&guarded, "Protected");
}

#[test]
fn a_binding_that_reads_elsewhere_is_said() {
    let guarded = Guarded::start();
    let _controller = guarded.controller();
    guarded.0.apply(POOL);
    until_protection(&guarded, "Protected");
    let patch = r#"{"spec":{"paramRef":{"namespace":"default"}}}"#;
    let binding = ["validatingadmissionpolicybinding", "barevip-ingress-addresses"];
    guarded.0.kubectl(&[&["patch"], &binding[..], &["--type=merge", "-p", patch]].concat());
    until_protection(&guarded, "BindingUseless");
}

#[test]
fn as_many_networks_as_are_written_are_within_what_the_api_server_bears() {
    let guarded = Guarded::start();
    let networks: Vec<_> =
        (0..512).map(|n| format!("10.{}.{}.0/24", n / 128, n % 128 * 2)).collect();
    let ranges = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "barevip-ranges", "namespace": "barevip-system"},
        "data": {"cidrs": networks.join(",")},
    });
    guarded.0.apply(&ranges.to_string());
    guarded.until_protected("10.3.254.1");
    let many: Vec<_> = (0..64).map(|n| format!("192.0.2.{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    guarded.create(&service("many", &many)).unwrap();
}
