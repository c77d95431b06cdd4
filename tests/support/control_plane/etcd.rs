//! The control plane's etcd, and backups of it.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use barevip::io::lab::process::Process;
use nix::sys::signal::Signal;

use super::start;

/// A running etcd.
pub(super) struct Etcd {
    folder: PathBuf,
    clients: u16,
    peers: u16,
    process: RefCell<Process>,
}

/// All that etcd held at a time.
pub(crate) struct Backup(PathBuf);

impl Etcd {
    pub(super) fn start(folder: &Path, clients: u16, peers: u16) -> Self {
        let process = RefCell::new(run(folder, clients, peers));
        Self { folder: folder.to_owned(), clients, peers, process }
    }

    fn stop(&self) {
        let mut process = self.process.borrow_mut();
        process.signal(Signal::SIGTERM).unwrap();
        process.wait().unwrap();
    }

    fn run_again(&self) {
        *self.process.borrow_mut() = run(&self.folder, self.clients, self.peers);
    }

    /// Stops, copies its data, and goes on.
    pub(super) fn save(&self) -> Backup {
        self.stop();
        let backup = self.folder.join("etcd.backup");
        copy(&self.folder.join("etcd"), &backup);
        self.run_again();
        Backup(backup)
    }

    /// Goes on from what there was at the time of the backup.
    pub(super) fn restore(&self, backup: &Backup) {
        self.stop();
        let data = self.folder.join("etcd");
        fs::remove_dir_all(&data).unwrap();
        copy(&backup.0, &data);
        self.run_again();
    }
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(copied.success(), "{} can't be copied", from.display());
}

fn run(folder: &Path, clients: u16, peers: u16) -> Process {
    let url = |port: u16| format!("http://127.0.0.1:{port}");
    let mut command = Command::new("etcd");
    command
        .arg("--unsafe-no-fsync")
        .arg(format!("--data-dir={}", folder.join("etcd").display()))
        .arg(format!("--listen-client-urls={}", url(clients)))
        .arg(format!("--advertise-client-urls={}", url(clients)))
        .arg(format!("--listen-peer-urls={}", url(peers)))
        .arg(format!("--initial-advertise-peer-urls={}", url(peers)))
        .arg(format!("--initial-cluster=default={}", url(peers)));
    start(command, &folder.join("etcd.log"))
}
