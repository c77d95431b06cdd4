//! `barevip install` against a real API server: no node runs a kubelet here, so workloads become
//! ready where the tests say so.

#![cfg(test)]

use std::process::{Command, Output, Stdio};

use barevip::io::lab::process::Process;
use serde_json::json;

use crate::support::control_plane::ControlPlane;

mod support {
    pub(crate) mod control_plane;
    pub(crate) mod netns {
        pub(crate) mod patience;
    }
    pub(crate) mod printed;
    pub(crate) mod scratch;
}

const ADDRESSES: &str = "192.0.2.200-192.0.2.201,2001:db8::200/121";

fn barevip(plane: &ControlPlane, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_barevip"));
    command.args(arguments).arg("--kubeconfig").arg(plane.kubeconfig());
    command.stdin(Stdio::null()).output().unwrap()
}

/// What it prints where it must work.
fn good(plane: &ControlPlane, arguments: &[&str]) -> String {
    let output = barevip(plane, arguments);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "barevip {}: {errors}", arguments.join(" "));
    String::from_utf8(output.stdout).unwrap()
}

/// What it says where it must fail.
fn bad(plane: &ControlPlane, arguments: &[&str]) -> String {
    let output = barevip(plane, arguments);
    assert_eq!(output.status.code(), Some(1), "barevip {}", arguments.join(" "));
    String::from_utf8(output.stderr).unwrap()
}

/// Every object of the kinds that are installed, with its version.
fn objects(plane: &ControlPlane) -> String {
    let kinds = "namespaces,serviceaccounts,clusterroles,clusterrolebindings,roles,rolebindings,\
        poddisruptionbudgets,deployments,daemonsets,customresourcedefinitions,\
        validatingadmissionpolicies,validatingadmissionpolicybindings";
    let path = "jsonpath={range .items[*]}{.kind} {.metadata.namespace} {.metadata.name} \
        {.metadata.resourceVersion}{\"\\n\"}{end}";
    plane.kubectl(&["get", kinds, "--all-namespaces", "-o", path])
}

#[test]
fn a_second_time_changes_nothing() {
    let plane = ControlPlane::start();
    let before = objects(&plane);
    let dry = good(&plane, &["install", "--addresses", ADDRESSES, "--dry-run"]);
    assert!(dry.contains("pool         would be: created IngressPool default"), "{dry}");
    assert_eq!(objects(&plane), before, "{dry}");

    let install = ["install", "--addresses", ADDRESSES, "--wait", "0s"];
    let first = good(&plane, &install);
    let daemons = "created ServiceAccount barevip-agent, ClusterRole barevip-agent, \
        ClusterRoleBinding barevip-agent, DaemonSet barevip-agent";
    assert!(first.contains(daemons), "{first}");
    let pool = plane.kubectl(&["get", "ipool", "default", "-o", "jsonpath={.spec.addresses}"]);
    assert_eq!(pool, r#"["192.0.2.200-192.0.2.201","2001:db8::200/121"]"#);

    let installed = objects(&plane);
    for flags in [&install[..], &["install", "--wait", "0s"], &["install", "--dry-run"]] {
        let again = good(&plane, flags);
        assert!(!again.contains("created") && !again.contains("changed "), "{again}");
        assert_eq!(objects(&plane), installed);
    }
}

#[test]
fn it_is_ready_when_an_address_would_be_announced() {
    let plane = ControlPlane::start();
    let install = ["install", "--addresses", "192.0.2.200-192.0.2.201"];
    let slow = bad(&plane, &[&install[..], &["--wait", "100ms"]].concat());
    let lacking = "it does not work after 100ms: 0 of 2 controllers are up; 0 of 0 agents are up";
    assert!(slow.contains(lacking), "{slow}");

    let shows = |kind: &str, name: &str, status: serde_json::Value| {
        let patch = json!({"status": status}).to_string();
        let object = ["patch", kind, name, "-n", "barevip-system"];
        let how = ["--subresource=status", "--type=merge", "-p", &patch];
        plane.kubectl(&[&object[..], &how].concat());
    };
    shows(
        "deployment",
        "barevip-controller",
        json!({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "readyReplicas": 2}),
    );
    shows(
        "daemonset",
        "barevip-agent",
        json!({"observedGeneration": 1, "desiredNumberScheduled": 1, "currentNumberScheduled": 1,
            "updatedNumberScheduled": 1, "numberReady": 1, "numberMisscheduled": 0}),
    );
    let mut controller = Command::new(env!("CARGO_BIN_EXE_barevip"));
    controller.arg("controller").env("KUBECONFIG", plane.kubeconfig()).stdout(Stdio::null());
    let _controller = Process::start(controller).unwrap();
    plane.apply("{apiVersion: v1, kind: Node, metadata: {name: a}}");
    plane.until(&["get", "announcers", "-o", "name"], "announcer.barevip.io/a\n");

    let far = bad(&plane, &[&install[..], &["--wait", "10s"]].concat());
    assert!(far.contains("no node has an own address in the network of 192.0.2.200"), "{far}");

    let links = json!([{"name": "eth0", "addresses": ["192.0.2.1/24"]}]);
    shows("announcer", "a", json!({"at": "2026-12-01T00:00:00Z", "links": links}));
    let ready = good(&plane, &install);
    assert!(ready.contains("1 agent(s) have reported"), "{ready}");
    assert!(ready.contains("pool default: 2 address(es) free"), "{ready}");
}

#[test]
fn what_others_have_made_is_left_to_them() {
    let plane = ControlPlane::start();
    plane.apply(
        r#"
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: svclb-web, namespace: kube-system}
spec:
  selector: {matchLabels: {app: svclb}}
  template:
    metadata: {labels: {app: svclb}}
    spec: {containers: [{name: lb, image: "rancher/klipper-lb:v0.4.9"}]}
"#,
    );
    plane.kubectl(&["create", "namespace", "net"]);
    let label = "pod-security.kubernetes.io/enforce=restricted";
    plane.kubectl(&["label", "namespace", "net", label]);
    let refused = bad(&plane, &["install", "--namespace", "net", "--wait", "0s"]);
    assert!(refused.contains("--namespace net: its label"), "{refused}");

    plane.kubectl(&["label", "namespace", "net", "pod-security.kubernetes.io/enforce-"]);
    let said = good(&plane, &["install", "--namespace", "net", "--wait", "0s"]);
    assert!(said.contains("k3s's ServiceLB is at work"), "{said}");
    assert!(said.contains("net: not ours, stays as it is"), "{said}");
    let arguments = "jsonpath={.spec.template.spec.containers[0].args}";
    let path = ["get", "deployment", "barevip-controller", "-n", "net", "-o", arguments];
    assert!(plane.kubectl(&path).contains("--default-class=false"));

    let newer = "app.kubernetes.io/version=100.0.0";
    plane.kubectl(&["label", "daemonset", "barevip-agent", "-n", "net", "--overwrite", newer]);
    let refused = bad(&plane, &["install", "--namespace", "net", "--wait", "0s"]);
    assert!(refused.contains("barevip 100.0.0 is installed, and this is"), "{refused}");
}
