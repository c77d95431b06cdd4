//! An API server with all of barevip's manifests, and an ordinary user who tries his luck.

use std::process::{Command, Stdio};

use barevip::io::lab::process::Process;
use serde_json::{Value, json};

use crate::support::control_plane::ControlPlane;
use crate::support::netns::patience::{unless, until};

/// He may do everything to Services, their status included, and no more.
const USER: &str = "mallory";

const RIGHTS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: everything-of-services}
rules:
- {apiGroups: [''], resources: [services, services/status], verbs: ['*']}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: everything-of-services}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: everything-of-services}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: mallory}
- {kind: ServiceAccount, namespace: barevip-system, name: default}
";

/// What the controller would write; the rules are tried without it first.
pub(crate) const RANGES: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: barevip-ranges, namespace: barevip-system}
data: {cidrs: '192.0.2.200/29,2001:db8::200/121'}
";

/// What kubectl answered.
pub(crate) type Answer = Result<String, String>;

/// What `barevip manifests` prints.
pub(crate) fn manifests(part: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_barevip"));
    let output = command.arg("manifests").args(part).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// A Service with these externalIPs.
pub(crate) fn service(name: &str, external: &[&str]) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"ports": [{"port": 80}], "externalIPs": external},
    })
}

/// A status that sends clients to these addresses.
pub(crate) fn shows(addresses: &[&str]) -> Value {
    let ingress: Vec<_> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
    json!({"status": {"loadBalancer": {"ingress": ingress}}})
}

pub(crate) struct Guarded(pub(crate) ControlPlane);

impl Guarded {
    /// All is installed; there is neither a pool nor a controller.
    pub(crate) fn start() -> Self {
        Self::on(ControlPlane::start())
    }

    pub(crate) fn on(plane: ControlPlane) -> Self {
        plane.apply(&manifests(&[]));
        plane.kubectl(&["wait", "--for=condition=Established", "crd", "--all"]);
        plane.apply(RIGHTS);
        Self(plane)
    }

    /// The same with [`RANGES`], and the policies are at work.
    pub(crate) fn with_ranges() -> Self {
        let guarded = Self::start();
        guarded.protect();
        guarded
    }

    pub(crate) fn protect(&self) {
        self.0.apply(RANGES);
        self.until_protected("192.0.2.200");
        self.until_protected("2001:db8::200");
    }

    /// Waits until the ordinary user may not take this address.
    pub(crate) fn until_protected(&self, address: &str) {
        let probe = service("probe", &[address]);
        let take = || self.create_as(USER, &probe, &["--dry-run=server"]);
        until("the policies are at work", || unless(is_denied(&take()), take));
    }

    /// The controller, with its service account's token.
    pub(crate) fn controller(&self) -> Process {
        self.controller_with(&[])
    }

    /// The same with further flags.
    pub(crate) fn controller_with(&self, flags: &[&str]) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_barevip"));
        command
            .args(["controller", "--lease-duration", "2s", "--retry-period", "200ms"])
            .args(flags)
            .env("KUBECONFIG", self.0.kubeconfig_as("barevip-controller", &[]))
            .stdout(Stdio::null());
        Process::start(command).unwrap()
    }

    fn create_as(&self, user: &str, object: &Value, flags: &[&str]) -> Answer {
        let arguments = [&["create", "-f", "-", "--as", user], flags].concat();
        self.0.try_kubectl(&arguments, Some(&object.to_string()))
    }

    /// The ordinary user creates this.
    pub(crate) fn create(&self, object: &Value) -> Answer {
        self.create_as(USER, object, &[])
    }

    /// Somebody who may do everything creates this.
    pub(crate) fn prepare(&self, object: &Value) {
        self.create_as("admin", object, &["--as-group=system:masters"]).unwrap();
    }

    /// The ordinary user changes a Service.
    pub(crate) fn patch(&self, name: &str, patch: &Value) -> Answer {
        self.patch_as(USER, name, patch, &[])
    }

    pub(crate) fn patch_status(&self, name: &str, patch: &Value) -> Answer {
        self.patch_status_as(USER, name, patch)
    }

    pub(crate) fn patch_status_as(&self, user: &str, name: &str, patch: &Value) -> Answer {
        self.patch_as(user, name, patch, &["--subresource=status"])
    }

    fn patch_as(&self, user: &str, name: &str, patch: &Value, flags: &[&str]) -> Answer {
        let patch = patch.to_string();
        let arguments = ["patch", "service", name, "--type=merge", "-p", &patch, "--as", user];
        self.0.try_kubectl(&[&arguments, flags].concat(), None)
    }

    /// A LoadBalancer Service with this status, whoever gave it that.
    pub(crate) fn balanced(&self, name: &str, addresses: &[&str]) {
        let mut balanced = service(name, &[]);
        balanced["spec"]["type"] = json!("LoadBalancer");
        self.prepare(&balanced);
        let patch = shows(addresses).to_string();
        let arguments = ["patch", "service", name, "--type=merge", "-p", &patch];
        self.0.kubectl(&[&arguments[..], &["--subresource=status"]].concat());
    }
}

pub(crate) fn is_denied(answer: &Answer) -> bool {
    answer.as_ref().is_err_and(|text| text.contains("ValidatingAdmissionPolicy"))
}

/// It was refused by our policy, with this in its message.
#[track_caller]
pub(crate) fn assert_denied(answer: Answer, message: &str) {
    let text = answer.expect_err("it must be refused");
    assert!(text.contains("'barevip-") && text.contains(message), "{message:?} is not in: {text}");
}
