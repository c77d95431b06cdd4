//! The rules by themselves: ranges as the controller would write them, and no controller.

use serde_json::json;

use crate::support::control_plane::ControlPlane;
use crate::support::guarded::{Guarded, assert_denied, service, shows};
use crate::support::netns::patience::{unless, until};

#[test]
fn line_33_an_ingress_address_may_stand_in_its_own_services_external_ips_alone() {
    let guarded = Guarded::with_ranges();
    guarded.balanced("own", &["192.0.2.200", "2001:db8::200"]);

    let created = guarded.create(&service("thief", &["198.51.100.7", "192.0.2.200"]));
    assert_denied(created, "spec.externalIPs[1]: \"192.0.2.200\": of an IngressPool");
    guarded.create(&service("other", &["198.51.100.7", "192.0.2.208"])).unwrap();
    let takes = |addresses: &[&str]| json!({"spec": {"externalIPs": addresses}});
    let taken = guarded.patch("other", &takes(&["192.0.2.207", "198.51.100.7"]));
    assert_denied(taken, "spec.externalIPs[0]: \"192.0.2.207\"");
    let taken = guarded.patch("other", &takes(&["2001:DB8:0::27F", "192.0.2.201"]));
    assert_denied(
        taken,
        "spec.externalIPs[0]: \"2001:DB8:0::27F\", spec.externalIPs[1]: \"192.0.2.201\"",
    );

    // In another spelling it is its own all the same.
    guarded.patch("own", &takes(&["192.0.2.200", "2001:DB8:0::200"])).unwrap();
    let taken = guarded.patch("own", &takes(&["192.0.2.200", "192.0.2.201"]));
    assert_denied(taken, "spec.externalIPs[1]: \"192.0.2.201\"");
}

#[test]
fn line_34_and_35_a_policy_that_allows_a_range_opens_nothing() {
    let guarded = Guarded::with_ranges();
    guarded.0.apply(
        "
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: allow-documentation}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [''], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [services]}
  validations:
  - {expression: \"object.spec.?externalIPs.orValue([]).all(e, cidr('192.0.2.0/24').containsIP(ip(e)))\"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: allow-documentation}
spec: {policyName: allow-documentation, validationActions: [Deny]}
",
    );
    let elsewhere = service("elsewhere", &["198.51.100.7"]);
    let refused = || guarded.create(&elsewhere).err().unwrap_or_default();
    let is_at_work = || {
        let refused = refused();
        guarded.0.kubectl(&["delete", "service", "elsewhere", "--ignore-not-found"]);
        refused.contains("allow-documentation")
    };
    until("the other policy is at work", || unless(is_at_work(), refused));
    guarded.create(&service("allowed", &["192.0.2.10"])).unwrap();
    let refused = guarded.create(&service("both", &["192.0.2.200"]));
    assert_denied(refused, "spec.externalIPs[0]: \"192.0.2.200\"");
}

#[test]
fn line_35_what_is_no_address_is_refused_and_named() {
    // As servers before 1.36 do it: they take 192.0.2.010 for an address.
    let lax = ControlPlane::start_with(&["--feature-gates=StrictIPCIDRValidation=false"]);
    let guarded = Guarded::on(lax);
    guarded.create(&service("old", &["192.0.2.010", "192.0.2.11"])).unwrap();
    guarded.protect();
    let wrong = guarded.create(&service("new", &["198.51.100.7", "192.0.2.0200"]));
    assert_denied(wrong, "spec.externalIPs[1]: \"192.0.2.0200\": no IP address");
    let wrong = guarded.create(&service("new", &["::ffff:192.0.2.200"]));
    assert_denied(wrong, "spec.externalIPs[0]: \"::ffff:192.0.2.200\": no IP address");
    guarded.balanced("web", &[]);
    let wrong = guarded.patch_status("web", &shows(&["198.51.100.7", "192.0.2.0200"]));
    assert_denied(wrong, "status.loadBalancer.ingress[1].ip: \"192.0.2.0200\": no IP address");
    // What stood there before holds nothing up.
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    guarded.patch("old", &labelled).unwrap();
    guarded.patch("old", &json!({"spec": {"externalIPs": ["192.0.2.010"]}})).unwrap();
}

fn grant(verb: &str, binding: &str) -> String {
    let namespace = if binding == "RoleBinding" { "\n  namespace: default" } else { "" };
    format!(
        "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: may-{verb}}}
rules:
- {{apiGroups: [barevip.io], resources: [ingressaddresses], verbs: [{verb}]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {binding}
metadata:
  name: may-{verb}{namespace}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: may-{verb}}}
subjects:
- {{apiGroup: rbac.authorization.k8s.io, kind: User, name: mallory}}
"
    )
}

const REVIEW: [&str; 5] = ["create", "-f", "-", "-o", "jsonpath={.status.allowed}"];

/// Whether the ordinary user has the verb in the namespace `default`.
fn review(verb: &str) -> String {
    let resource = json!({"group": "barevip.io", "resource": "ingressaddresses", "verb": verb, "namespace": "default"});
    let spec = json!({"user": "mallory", "resourceAttributes": resource});
    json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec})
        .to_string()
}

#[test]
fn line_36_a_cluster_wide_grant_overrides_and_one_in_a_namespace_does_not() {
    let guarded = Guarded::with_ranges();
    guarded.balanced("web", &[]);
    guarded.prepare(&service("plain", &[]));
    let use_it = || guarded.patch("plain", &json!({"spec": {"externalIPs": ["192.0.2.200"]}}));
    let assign_it = || guarded.patch_status("web", &shows(&["192.0.2.201"]));
    for verb in ["use", "assign"] {
        guarded.0.apply(&grant(verb, "RoleBinding"));
    }
    for verb in ["use", "assign"] {
        let answer = || guarded.0.try_kubectl(&REVIEW, Some(&review(verb))).unwrap();
        until("the grant is known", || unless(answer() == "true", answer));
    }
    assert_denied(use_it(), "spec.externalIPs[0]: \"192.0.2.200\"");
    assert_denied(assign_it(), "status.loadBalancer.ingress[0].ip: \"192.0.2.201\"");

    guarded.0.apply(&grant("use", "ClusterRoleBinding"));
    until("the grant opens externalIPs", use_it);
    assert_denied(assign_it(), "status.loadBalancer.ingress[0].ip: \"192.0.2.201\"");
    guarded.0.apply(&grant("assign", "ClusterRoleBinding"));
    until("the grant opens the status", assign_it);
}

#[test]
fn line_37_unchanged_external_ips_block_nothing_and_removal_is_free() {
    let guarded = Guarded::start();
    let had = ["192.0.2.200", "198.51.100.7", "2001:db8::200"];
    guarded.create(&service("old", &had)).unwrap();
    guarded.protect();
    let holds = |addresses: &[&str]| {
        guarded.patch("old", &json!({"spec": {"externalIPs": addresses}, "metadata": {"labels": {"n": addresses.len().to_string()}}}))
    };
    guarded.patch("old", &json!({"spec": {"ports": [{"port": 81}]}})).unwrap();
    holds(&["2001:db8::200", "192.0.2.200", "198.51.100.7"]).unwrap();
    assert_denied(
        holds(&["192.0.2.200", "192.0.2.201", "198.51.100.7"]),
        "spec.externalIPs[1]: \"192.0.2.201\"",
    );
    holds(&["2001:db8::200", "198.51.100.7"]).unwrap();
    // Gone is gone.
    assert_denied(holds(&["192.0.2.200", "2001:db8::200"]), "spec.externalIPs[0]: \"192.0.2.200\"");
    holds(&[]).unwrap();

    // A status can be emptied as well; the allocator fills it again.
    guarded.balanced("web", &["192.0.2.203"]);
    guarded.patch("web", &json!({"spec": {"ports": [{"port": 81}]}})).unwrap();
    let conditions = json!([{"type": "example.com/Checked", "status": "True", "reason": "Checked", "message": "", "lastTransitionTime": "2026-12-01T00:00:00Z"}]);
    guarded.patch_status("web", &json!({"status": {"conditions": conditions}})).unwrap();
    guarded.patch_status("web", &shows(&[])).unwrap();
}

#[test]
fn line_38_the_type_of_a_service_can_be_changed_away() {
    let guarded = Guarded::with_ranges();
    guarded.balanced("web", &["192.0.2.200"]);
    guarded.patch("web", &json!({"spec": {"externalIPs": ["192.0.2.200"]}})).unwrap();
    guarded.patch("web", &json!({"spec": {"type": "ClusterIP"}})).unwrap();
    let ingress = ["get", "service", "web", "-o", "jsonpath={.status.loadBalancer.ingress}"];
    assert_eq!(guarded.0.kubectl(&ingress), "");
    guarded.patch("web", &json!({"spec": {"externalIPs": []}})).unwrap();
    // And back: it waits for an address like everybody.
    guarded.patch("web", &json!({"spec": {"type": "LoadBalancer"}})).unwrap();
    let taken = guarded.patch("web", &json!({"spec": {"externalIPs": ["192.0.2.200"]}}));
    assert_denied(taken, "spec.externalIPs[0]: \"192.0.2.200\"");
}
