//! An agent writes the Announcer of its own node alone.

use serde_json::json;

use crate::support::guarded::{Answer, Guarded, assert_denied};
use crate::support::netns::patience::{unless, until};

const AGENT: &str = "
# kubectl looks before it patches.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: look}
rules:
- {apiGroups: [barevip.io], resources: [announcers/status], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: look}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: look}
subjects:
- {kind: ServiceAccount, name: barevip-agent, namespace: barevip-system}
---
apiVersion: v1
kind: Node
metadata: {name: one}
---
apiVersion: v1
kind: Pod
metadata: {name: agent, namespace: barevip-system}
spec:
  serviceAccountName: barevip-agent
  nodeName: one
  containers:
  - name: agent
    image: barevip
---
apiVersion: barevip.io/v1alpha1
kind: Announcer
metadata: {name: one}
spec: {}
---
apiVersion: barevip.io/v1alpha1
kind: Announcer
metadata: {name: two}
spec: {}
";

#[test]
fn an_agent_writes_the_announcer_of_its_own_node_alone() {
    let guarded = Guarded::start();
    guarded.0.apply(AGENT);
    let token = |bound: &[&str]| {
        let create = ["create", "token", "barevip-agent", "-n", "barevip-system"];
        guarded.0.kubectl(&[&create[..], bound].concat())
    };
    let (free, of_pod) =
        (token(&[]), token(&["--bound-object-kind=Pod", "--bound-object-name=agent"]));
    let write = |token: &str, name: &str| -> Answer {
        let patch = json!({"status": {"at": "2026-12-01T00:00:00Z"}}).to_string();
        let arguments = ["patch", "announcer", name, "--subresource=status", "--type=merge"];
        let arguments = [&arguments[..], &["-p", &patch, "--token", token]].concat();
        guarded.0.try_kubectl(&arguments, None)
    };
    let is_at_work = || write(&free, "one").is_err_and(|said| said.contains("barevip-announcers"));
    until("the policy is at work", || unless(is_at_work(), || write(&free, "one")));
    assert_denied(write(&free, "one"), "the token of this agent names no node");
    write(&of_pod, "one").unwrap();
    assert_denied(
        write(&of_pod, "two"),
        "the agent of node one may not write the Announcer two; an agent writes that of its own node alone",
    );
}
