//! The committed manifests are what the program prints, and what a cluster needs: no more rights
//! than controller and agents use, and pods as restricted as their work allows.

#![cfg(test)]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use barevip::cli::Cli;
use barevip::io::lab::process::Process;
use clap::Parser;
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::control_plane::ControlPlane;
use crate::support::netns::patience::{unless, until};
use crate::support::rights::{Right, granted, requested, unused};
use crate::support::scratch::Scratch;

mod support {
    pub(crate) mod accounts;
    pub(crate) mod control_plane;
    pub(crate) mod netns {
        pub(crate) mod patience;
    }
    pub(crate) mod printed;
    pub(crate) mod rights;
    pub(crate) mod scratch;
}

/// What `barevip manifests` prints.
fn printed(part: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_barevip"));
    let output = command.arg("manifests").args(part).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

fn committed(part: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(part);
    std::fs::read_to_string(path.with_extension("yaml")).unwrap()
}

#[test]
fn custom_resource_definitions_under_deploy_are_the_generated_ones() {
    assert_eq!(
        committed("crds"),
        printed(&["crds"]),
        "renew it: cargo run -- manifests crds > deploy/crds.yaml"
    );
}

#[test]
fn without_a_part_all_are_printed_in_the_order_of_installation() {
    let parts = ["crds", "namespace", "policies", "agent", "controller"];
    for part in parts {
        assert_eq!(committed(part), printed(&[part]), "{part}");
    }
    assert_eq!(printed(&[]), parts.map(committed).concat());
}

/// The rights of a role, as the API server has it.
fn rights_of(plane: &ControlPlane, role: &[&str]) -> BTreeSet<Right> {
    let role = plane.kubectl(&[&["get", "-n", "barevip-system", "-o", "json"], role].concat());
    granted(&serde_json::from_str(&role).unwrap())
}

fn installed() -> ControlPlane {
    let plane = ControlPlane::start();
    plane.apply(&printed(&[]));
    plane.kubectl(&["wait", "--for=condition=Established", "crd", "--all"]);
    plane
}

#[test]
fn the_controller_uses_all_of_its_rights_and_needs_no_others() {
    let plane = installed();
    let mut command = Command::new(env!("CARGO_BIN_EXE_barevip"));
    command
        .args(["controller", "--lease-duration", "2s", "--retry-period", "200ms"])
        .env("KUBECONFIG", plane.kubeconfig_as("barevip-controller", &[]))
        .stdout(Stdio::null());
    let mut controller = Process::start(command).unwrap();
    live(&plane);
    controller.signal(Signal::SIGTERM).unwrap();
    assert!(controller.wait().unwrap().success(), "a stop is clean");

    let (requests, refused) = requested(&plane);
    assert_eq!(refused, BTreeSet::new(), "rights that it lacks");
    let mut rights = rights_of(&plane, &["clusterrole", "barevip-controller"]);
    rights.extend(rights_of(&plane, &["role", "barevip-controller"]));
    // Nothing that is asked for: the admission policy looks whether it has it.
    let assign = Right {
        namespace: String::new(),
        group: "barevip.io".to_owned(),
        resource: "ingressaddresses".to_owned(),
        verb: "assign".to_owned(),
        name: String::new(),
    };
    assert!(rights.remove(&assign), "the allocator may assign addresses");
    assert_eq!(unused(&rights, &requests), Vec::<String>::new(), "rights that it never used");
}

const INGRESS: &str = "jsonpath={.status.loadBalancer.ingress[*].ip}";
const REASON: &str = "jsonpath={.status.conditions[?(@.type==\"barevip.io/Allocated\")].reason}";

/// All that happens to a controller in its life.
fn live(plane: &ControlPlane) {
    let service = |name: &str, path: &str, expected: &str| {
        plane.until(&["get", "service", name, "-o", path], expected);
    };
    let ask = |name: &str, address: &str| {
        let annotation = format!("barevip.io/addresses={address}");
        plane.kubectl(&["annotate", "service", name, "--overwrite", &annotation]);
        let message = "jsonpath={.status.conditions[*].message}";
        let said = || plane.kubectl(&["get", "service", name, "-o", message]);
        let is_refused = || said().contains(&format!("{address} was asked for and not given"));
        until("the request is refused", || unless(is_refused(), said));
    };
    plane.apply("{apiVersion: v1, kind: Node, metadata: {name: a}}");
    plane.until(&["get", "announcers", "-o", "name"], "announcer.barevip.io/a\n");
    plane.apply(
        r#"
apiVersion: barevip.io/v1alpha1
kind: IngressPool
metadata: {name: small}
spec: {addresses: ["192.0.2.200-192.0.2.201"], routers: 1, reuseAfter: 1s}
"#,
    );
    for (name, address) in [("web", "192.0.2.200"), ("mail", "192.0.2.201")] {
        plane.kubectl(&["create", "service", "loadbalancer", name, "--tcp=80:80"]);
        service(name, INGRESS, address);
    }
    plane.kubectl(&["create", "service", "loadbalancer", "late", "--tcp=80:80"]);
    service("late", REASON, "RangeFull");
    // The second event of a kind on one Service goes into the first one's series.
    ask("web", "192.0.2.201");
    ask("web", "192.0.2.99");
    plane.kubectl(&["patch", "service", "mail", "-p", r#"{"spec":{"type":"ClusterIP"}}"#]);
    service("late", INGRESS, "192.0.2.201");
    plane.kubectl(&["delete", "service", "web", "late"]);
    plane.until(&["get", "virtualrouters", "-o", "name"], "");
    plane.kubectl(&["delete", "ingresspool", "small"]);
    let ranges = ["get", "configmap", "barevip-ranges", "-n", "barevip-system"];
    plane.until(&[&ranges[..], &["-o", "jsonpath={.data.cidrs}"]].concat(), "");
}

#[test]
fn the_agent_uses_all_of_its_rights_and_needs_no_others() {
    unshare(CloneFlags::CLONE_NEWNET).expect("the test needs root");
    let up = Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap();
    assert!(up.success(), "the test needs iproute2");
    let plane = installed();
    plane.apply("{apiVersion: v1, kind: Node, metadata: {name: a}}");
    plane
        .apply("{apiVersion: barevip.io/v1alpha1, kind: Announcer, metadata: {name: a}, spec: {}}");
    let mut pod = pod(&plane, "daemonset", "barevip-agent");
    pod["spec"]["nodeName"] = json!("a");
    plane.apply(&pod.to_string());
    let scratch = Scratch::new();
    let bound = ["--bound-object-kind=Pod", "--bound-object-name=barevip-agent"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_barevip"));
    command
        .args(["agent", "--node-name", "a", "--state-dir"])
        .arg(scratch.path().join("state"))
        .arg("--socket")
        .arg(scratch.path().join("agent.sock"))
        .env("KUBECONFIG", plane.kubeconfig_as("barevip-agent", &bound))
        .stdout(Stdio::null());
    let mut agent = Process::start(command).unwrap();
    let at = || plane.kubectl(&["get", "announcer", "a", "-o", "jsonpath={.status.at}"]);
    until("the agent has reported", || unless(!at().is_empty(), at));
    agent.signal(Signal::SIGTERM).unwrap();
    assert!(agent.wait().unwrap().success(), "a stop is clean");

    let (requests, refused) = requested(&plane);
    assert_eq!(refused, BTreeSet::new(), "rights that it lacks");
    let rights = rights_of(&plane, &["clusterrole", "barevip-agent"]);
    assert_eq!(unused(&rights, &requests), Vec::<String>::new(), "rights that it never used");
}

/// A pod of a workload, as Kubernetes would make it.
fn pod(plane: &ControlPlane, kind: &str, name: &str) -> Value {
    let path = ["get", kind, name, "-n", "barevip-system", "-o", "json"];
    let workload: Value = serde_json::from_str(&plane.kubectl(&path)).unwrap();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "barevip-system"},
        "spec": workload["spec"]["template"]["spec"],
    })
}

/// What becomes of a pod where this is the standard of all pods.
fn under(plane: &ControlPlane, standard: &str, pod: &Value) -> Result<String, String> {
    let label = format!("pod-security.kubernetes.io/enforce={standard}");
    plane.kubectl(&["label", "namespace", "barevip-system", "--overwrite", &label]);
    plane.try_kubectl(&["create", "--dry-run=server", "-f", "-"], Some(&pod.to_string()))
}

#[test]
fn the_controllers_pod_is_admitted_where_only_restricted_pods_are() {
    let plane = installed();
    let mut pod = pod(&plane, "deployment", "barevip-controller");
    under(&plane, "restricted", &pod).unwrap();
    pod["spec"]["hostNetwork"] = json!(true);
    let refused = under(&plane, "restricted", &pod).unwrap_err();
    assert!(refused.contains("violates PodSecurity \"restricted"), "{refused}");
}

#[test]
fn the_agents_pod_asks_for_its_nodes_network_and_nothing_else() {
    let plane = installed();
    let pod = pod(&plane, "daemonset", "barevip-agent");
    plane.try_kubectl(&["create", "--dry-run=server", "-f", "-"], Some(&pod.to_string())).unwrap();
    let refused = under(&plane, "baseline", &pod).unwrap_err();
    let (_, reasons) = refused.split_once("\"baseline:latest\": ").expect(&refused);
    assert_eq!(
        reasons.trim(),
        "non-default capabilities (container \"agent\" must not include \"NET_ADMIN\", \
         \"NET_RAW\", \"SYS_NICE\" in securityContext.capabilities.add), \
         host namespaces (hostNetwork=true), probe or lifecycle host (container \"agent\" uses \
         probe or lifecycle host \"127.0.0.1\")"
    );
}

#[test]
fn commands_in_the_manifests_are_those_of_this_version() {
    for part in ["agent", "controller"] {
        let text = committed(part);
        let lines = text.lines().map(str::trim).skip_while(|line| *line != "args:").skip(1);
        let words = lines.take_while(|line| !line.ends_with(':'));
        let words: Vec<&str> = words.filter_map(|line| line.strip_prefix("- ")).collect();
        let node = ["--node-name", "a"].into_iter().filter(|_| part == "agent");
        Cli::try_parse_from(["barevip"].into_iter().chain(words).chain(node)).unwrap();
        let version = env!("CARGO_PKG_VERSION");
        for line in
            [format!("image: barevip:{version}"), format!("app.kubernetes.io/version: {version}")]
        {
            assert!(text.contains(&line), "{part} is this version's: {line}");
        }
    }
}
