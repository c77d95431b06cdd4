//! An ordinary user among Services that have what he wants, and the controller that gave it.

use serde_json::{Value, json};

use crate::support::guarded::{Guarded, assert_denied, is_denied, service, shows};
use crate::support::netns::patience::{unless, until};

const POOLS: &str = r#"
apiVersion: barevip.io/v1alpha1
kind: IngressPool
metadata: {name: open}
spec: {addresses: ["192.0.2.200-192.0.2.207"], avoid: ["192.0.2.203"], priority: 1, reuseAfter: 1h}
---
apiVersion: barevip.io/v1alpha1
kind: IngressPool
metadata: {name: closed}
spec: {addresses: ["198.51.100.0/28"], namespaceSelector: {matchLabels: {team: a}}}
---
apiVersion: barevip.io/v1alpha1
kind: IngressPool
metadata: {name: chosen}
spec: {addresses: ["203.0.113.0/28"], requests: Nobody}
---
apiVersion: v1
kind: Namespace
metadata: {name: others}
"#;

const INGRESS: &str = "jsonpath={.status.loadBalancer.ingress[*].ip}";
const MESSAGE: &str = "jsonpath={.status.conditions[*].message}";

/// A LoadBalancer Service with these annotations.
fn balanced(namespace: &str, name: &str, annotations: &Value) -> Value {
    let mut balanced = service(name, &[]);
    balanced["metadata"]["namespace"] = json!(namespace);
    balanced["metadata"]["annotations"] = annotations.clone();
    balanced["spec"]["type"] = json!("LoadBalancer");
    balanced
}

fn asks(address: &str) -> Value {
    json!({"barevip.io/addresses": address})
}

fn until_service(guarded: &Guarded, namespace: &str, name: &str, expected: &str) {
    guarded.0.until(&["get", "service", name, "-n", namespace, "-o", INGRESS], expected);
}

fn until_protection(guarded: &Guarded, pool: &str, expected: &str) {
    let path = "jsonpath={.status.conditions[?(@.type==\"Protected\")].reason}";
    guarded.0.until(&["get", "ingresspool", pool, "-o", path], expected);
}

#[test]
fn an_address_is_not_to_be_had_by_wishing() {
    let guarded = Guarded::start();
    guarded.0.apply(POOLS);
    let _controller = guarded.controller();
    for pool in ["open", "closed", "chosen"] {
        until_protection(&guarded, pool, "Protected");
    }
    let shared = json!({"barevip.io/addresses": "192.0.2.200", "barevip.io/share": "ours"});
    guarded.prepare(&balanced("others", "holder", &shared));
    until_service(&guarded, "others", "holder", "192.0.2.200");
    guarded.prepare(&balanced("others", "gone", &asks("192.0.2.201")));
    until_service(&guarded, "others", "gone", "192.0.2.201");
    guarded.0.kubectl(&["delete", "service", "gone", "-n", "others"]);
    let resting = ["get", "ingresspool", "open", "-o", "jsonpath={.status.resting}"];
    guarded.0.until(&resting, "1");

    // He joins nobody of another namespace, whatever his key.
    guarded.create(&balanced("default", "thief", &json!({"barevip.io/share": "ours"}))).unwrap();
    until_service(&guarded, "default", "thief", "192.0.2.202");

    let wishes = [
        ("held", "192.0.2.200", "others/holder has it"),
        ("resting", "192.0.2.201", "it rests since others/gone had it"),
        ("avoided", "192.0.2.203", "pool open never gives it"),
        ("of a pool for other namespaces", "198.51.100.1", "the selectors of pool closed"),
        ("of a pool that takes no requests", "203.0.113.1", "pool chosen chooses addresses itself"),
    ];
    for (what, address, rule) in wishes {
        guarded.until_protected(address);
        let external = json!({"spec": {"externalIPs": [address]}});
        let place = format!("spec.externalIPs[0]: \"{address}\"");
        assert_denied(guarded.patch("thief", &external), &place);
        let place = format!("status.loadBalancer.ingress[1].ip: \"{address}\"");
        assert_denied(guarded.patch_status("thief", &shows(&["192.0.2.202", address])), &place);

        guarded.patch("thief", &json!({"metadata": {"annotations": asks(address)}})).unwrap();
        let said = || guarded.0.kubectl(&["get", "service", "thief", "-o", MESSAGE]);
        let refusal = format!("{address} was asked for and not given: {rule}");
        until(&format!("an address that is {what} is refused"), || {
            unless(said().contains(&refusal), said)
        });
        until_service(&guarded, "default", "thief", "192.0.2.202");
    }
    until_service(&guarded, "others", "holder", "192.0.2.200");
}

#[test]
fn line_39_the_allocators_writes_pass_and_no_other_accounts_of_its_namespace() {
    let guarded = Guarded::start();
    guarded.0.apply(POOLS);
    let _controller = guarded.controller();
    until_protection(&guarded, "open", "Protected");
    guarded.until_protected("192.0.2.200");
    guarded.create(&balanced("default", "web", &json!({}))).unwrap();
    until_service(&guarded, "default", "web", "192.0.2.200");
    let account = "system:serviceaccount:barevip-system:default";
    let written = guarded.patch_status_as(account, "web", &shows(&["192.0.2.200", "192.0.2.201"]));
    assert_denied(written, "status.loadBalancer.ingress[1].ip: \"192.0.2.201\"");
}

/// What the mirror into `spec.externalIPs` needs besides.
const MIRROR: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: mirror}
rules:
- {apiGroups: [''], resources: [services], verbs: [patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: mirror}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: mirror}
subjects:
- {kind: ServiceAccount, name: barevip-controller, namespace: barevip-system}
";

#[test]
fn line_38_and_39_the_mirror_passes_and_goes_with_the_type() {
    let guarded = Guarded::start();
    guarded.0.apply(POOLS);
    guarded.0.apply(MIRROR);
    let _controller = guarded.controller_with(&["--mirror-external-ips=true"]);
    until_protection(&guarded, "open", "Protected");
    guarded.until_protected("192.0.2.200");
    guarded.create(&balanced("default", "web", &json!({}))).unwrap();
    let external = ["get", "service", "web", "-o", "jsonpath={.spec.externalIPs[*]}"];
    guarded.0.until(&external, "192.0.2.200");
    guarded.patch("web", &json!({"spec": {"type": "ClusterIP"}})).unwrap();
    guarded.0.until(&external, "");
}

#[test]
fn line_40_without_the_policy_the_entry_decides_and_the_pool_says_so() {
    let guarded = Guarded::start();
    guarded.0.apply(POOLS);
    let _controller = guarded.controller();
    until_protection(&guarded, "open", "Protected");
    guarded.create(&balanced("default", "web", &json!({}))).unwrap();
    until_service(&guarded, "default", "web", "192.0.2.200");
    guarded.create(&balanced("default", "thief", &json!({}))).unwrap();
    until_service(&guarded, "default", "thief", "192.0.2.201");
    guarded.until_protected("192.0.2.200");
    let stolen = shows(&["192.0.2.200"]);
    assert_denied(
        guarded.patch_status("thief", &stolen),
        "status.loadBalancer.ingress[0].ip: \"192.0.2.200\"",
    );

    let binding = ["validatingadmissionpolicybinding", "barevip-ingress-addresses"];
    guarded.0.kubectl(&[&["delete"], &binding[..]].concat());
    until_protection(&guarded, "open", "BindingMissing");
    until("nothing keeps him from the status", || {
        let written = guarded.patch_status("thief", &stolen);
        unless(!is_denied(&written), || written)
    });
    until_service(&guarded, "default", "thief", "192.0.2.201");
    until_service(&guarded, "default", "web", "192.0.2.200");
    // New addresses are given all the same.
    guarded.create(&balanced("default", "late", &json!({}))).unwrap();
    until_service(&guarded, "default", "late", "192.0.2.202");

    guarded.0.kubectl(&["delete", "validatingadmissionpolicy", "barevip-ingress-addresses"]);
    until_protection(&guarded, "open", "PolicyMissing");
    guarded.0.apply(&crate::support::guarded::manifests(&["policies"]));
    until_protection(&guarded, "open", "Protected");
}
