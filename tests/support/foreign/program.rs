//! A program that speaks VRRP on a machine of the stage, ours or a foreign one.

use std::fs::File;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use barevip::io::lab::lan::Host;
use barevip::io::lab::process::Process;
use barevip::model::Family;

/// The VRID of every virtual router on the stage.
pub(crate) const VRID: u8 = 51;

/// How a machine takes part.
pub(crate) struct Setting {
    pub(crate) priority: u8,
    /// The list of its adverts, in order.
    pub(crate) addresses: Vec<IpAddr>,
}

impl Setting {
    pub(crate) fn new(priority: u8, addresses: &[&str]) -> Self {
        let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
        Self { priority, addresses }
    }

    pub(crate) fn family(&self) -> Family {
        Family::of(self.addresses[0])
    }
}

/// One make of VRRP speaker.
pub(crate) trait Program {
    /// What its machine is called.
    fn name(&self) -> &'static str;

    /// What its log says once it takes part in the election.
    fn ready(&self) -> &'static str;

    /// Makes the machine ready for it, with what has to run beside it.
    fn prepare(&self, _host: &Host, _setting: &Setting, _directory: &Path) -> Option<Process> {
        None
    }

    /// Starts it.
    fn start(&self, host: &Host, setting: &Setting, directory: &Path) -> Running;
}

/// A program that was started, and is killed when dropped.
pub(crate) struct Running {
    pub(crate) process: Process,
    pub(crate) log: Log,
}

impl Running {
    /// Starts a command that logs to the standard streams.
    pub(crate) fn spawn(host: &Host, mut command: Command, log: PathBuf) -> Self {
        let file = File::create(&log).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        let process = host.namespace().spawn(command).unwrap();
        Self { process, log: Log(log) }
    }
}

/// A file that a program logs to.
pub(crate) struct Log(PathBuf);

impl Log {
    /// What stands there so far.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.0).unwrap_or_default()).into_owned()
    }
}

/// A program of a Debian package, which has to be installed.
pub(crate) fn installed(path: &str, package: &str) -> Command {
    assert!(
        Path::new(path).exists(),
        "{path} is missing: this test needs the Debian package {package} (apt-get install {package})"
    );
    Command::new(path)
}
