//! Backups of a control plane.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;

use crate::support::control_plane::ControlPlane;

/// All that etcd held at a time.
pub(crate) struct Backup(PathBuf);

impl ControlPlane {
    /// A copy of all objects: etcd stops for it, and goes on.
    pub(crate) fn save(&self) -> Backup {
        let backup = self.launcher.folder.join("etcd.backup");
        self.without_etcd(|data| copy(data, &backup));
        Backup(backup)
    }

    /// Restores a copy, as an operator does: the API server is stopped meanwhile.
    pub(crate) fn restore(&self, backup: &Backup) {
        let mut server = self.server.borrow_mut();
        server.signal(Signal::SIGTERM).unwrap();
        server.wait().unwrap();
        self.without_etcd(|data| {
            fs::remove_dir_all(data).unwrap();
            copy(&backup.0, data);
        });
        *server = self.launcher.start();
        drop(server);
        self.wait(|| {});
    }

    fn without_etcd(&self, then: impl FnOnce(&Path)) {
        let mut etcd = self.etcd.borrow_mut();
        etcd.signal(Signal::SIGTERM).unwrap();
        etcd.wait().unwrap();
        then(&self.launcher.folder.join("etcd"));
        *etcd = self.launcher.start_etcd();
    }
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(copied.success(), "{} can't be copied", from.display());
}
