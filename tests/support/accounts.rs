//! Service accounts, and programs that run as one.

use std::path::PathBuf;

use crate::support::control_plane::{ControlPlane, write_kubeconfig};

impl ControlPlane {
    /// What a client needs to be this service account of barevip-system. A token that is bound to
    /// a pod, as pods have theirs, names the pod's node.
    pub(crate) fn kubeconfig_as(&self, account: &str, bound: &[&str]) -> PathBuf {
        let create = ["create", "token", account, "-n", "barevip-system"];
        let token = self.kubectl(&[&create[..], bound].concat());
        let path = self.scratch.path().join(format!("kubeconfig-{account}"));
        write_kubeconfig(&path, self.launcher.port, &token);
        path
    }
}
