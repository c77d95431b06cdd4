//! Service accounts, and programs that run as one.

use std::path::PathBuf;

use crate::support::control_plane::{ControlPlane, write_kubeconfig};

impl ControlPlane {
    /// What a client needs to be this service account of barevip-system: a token as its pods have
    /// one.
    pub(crate) fn kubeconfig_as(&self, account: &str) -> PathBuf {
        let token = self.kubectl(&["create", "token", account, "-n", "barevip-system"]);
        let path = self.scratch.path().join(format!("kubeconfig-{account}"));
        write_kubeconfig(&path, self.launcher.port, &token);
        path
    }
}
