//! `barevip agent` and `barevip controller` against a real API server: a cluster of one node in a
//! network namespace of the test's own.

#![cfg(test)]

use std::process::{Command, Stdio};

use barevip::io::lab::process::Process;
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::Signal;

use crate::support::control_plane::ControlPlane;
use crate::support::netns::patience::{unless, until};
use crate::support::scratch::Scratch;

mod support {
    pub(crate) mod control_plane;
    pub(crate) mod killed;
    pub(crate) mod netns {
        pub(crate) mod patience;
    }
    pub(crate) mod printed;
    pub(crate) mod scratch;
}

/// A LAN, and a control plane on the loopback beside it, in a namespace that this thread and all
/// that it starts live in.
struct Cluster {
    plane: ControlPlane,
    scratch: Scratch,
}

impl Cluster {
    fn start() -> Self {
        unshare(CloneFlags::CLONE_NEWNET).expect("the test needs root");
        ip("link set lo up");
        ip("link add lan0 type veth peer name lan1");
        ip("link set lan1 up");
        ip("link set lan0 up");
        ip("address add 192.0.2.1/24 dev lan0");
        let plane = ControlPlane::start();
        let definitions =
            Command::new(env!("CARGO_BIN_EXE_barevip")).args(["manifests", "crds"]).output();
        plane.apply(&String::from_utf8(definitions.unwrap().stdout).unwrap());
        plane.kubectl(&["wait", "--for=condition=Established", "crd", "--all"]);
        plane.kubectl(&["create", "namespace", "barevip-system"]);
        plane.apply("{apiVersion: v1, kind: Node, metadata: {name: a}}");
        plane.apply(
            r#"
apiVersion: barevip.io/v1alpha1
kind: IngressPool
metadata: {name: lan}
spec: {addresses: ["192.0.2.200-192.0.2.201"], routers: 1}
"#,
        );
        Self { plane, scratch: Scratch::new() }
    }

    fn run(&self, arguments: &[&str]) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_barevip"));
        command.args(arguments).env("KUBECONFIG", self.plane.kubeconfig()).stdout(Stdio::null());
        Process::start(command).unwrap()
    }

    fn controller(&self) -> Process {
        self.run(&["controller", "--lease-duration", "5s", "--retry-period", "500ms"])
    }

    fn agent(&self) -> Process {
        let path = |name: &str| self.scratch.path().join(name).display().to_string();
        let (state, socket) = (path("state"), path("agent.sock"));
        self.run(&["agent", "--node-name", "a", "--state-dir", &state, "--socket", &socket])
    }

    fn until_announced(&self, address: &str) {
        until(&format!("{address} is bound"), || unless(holds(address), || ip("address")));
    }
}

fn ip(arguments: &str) -> String {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "ip {arguments}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

fn holds(address: &str) -> bool {
    ip("address show dev lan0").contains(&format!("inet {address}/32"))
}

#[test]
fn a_service_is_announced_and_stays_so_while_the_api_server_is_away() {
    let cluster = Cluster::start();
    let _controller = cluster.controller();
    let mut agent = cluster.agent();
    let plane = &cluster.plane;
    plane.kubectl(&["create", "service", "loadbalancer", "web", "--tcp=80:80"]);
    cluster.until_announced("192.0.2.200");
    let active = "jsonpath={.status.active[*].router}";
    plane.until(&["get", "announcer", "a", "-o", active], "lan-v4-0");

    plane.kubectl(&["create", "service", "loadbalancer", "mail", "--tcp=25:25"]);
    cluster.until_announced("192.0.2.201");
    plane.kubectl(&["delete", "service", "mail"]);
    until("the released address goes", || unless(!holds("192.0.2.201"), || ip("address")));
    assert!(holds("192.0.2.200"), "it stays meanwhile");

    // Nothing that the API server loses takes the address away.
    plane.kill();
    agent.signal(Signal::SIGKILL).unwrap();
    agent.wait().unwrap();
    until("the dead agent's address goes", || unless(!holds("192.0.2.200"), || ip("address")));
    let mut agent = cluster.agent();
    cluster.until_announced("192.0.2.200");

    agent.signal(Signal::SIGTERM).unwrap();
    assert!(agent.wait().unwrap().success(), "a stop is clean");
    assert!(!holds("192.0.2.200"), "{}", ip("address"));
}
