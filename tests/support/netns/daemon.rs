//! barevip as a daemon on a node of a LAN.

use std::fs::{self, File};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::Arc;

use barevip::app::status::State;
use barevip::app::status::state::Router;
use barevip::engine::node::links::Instance;
use barevip::engine::vrrp::role::Role;
use barevip::io::http;
use barevip::io::lab::lan::{Host, Lan};
use barevip::io::lab::process::Process;
use nix::ifaddrs::getifaddrs;
use nix::sys::signal::Signal;

use super::patience::until;
use crate::support::scratch::Scratch;

/// A daemon, running or not. Where a test fails, its log is shown.
pub(crate) struct Daemon {
    lan: Arc<Lan>,
    node: usize,
    name: String,
    config: PathBuf,
    socket: PathBuf,
    log: PathBuf,
    process: Option<Process>,
}

impl Daemon {
    /// A daemon with this configuration, not yet started; `name` tells two on one node apart.
    pub(crate) fn new(
        lan: &Arc<Lan>,
        node: usize,
        scratch: &Scratch,
        name: &str,
        toml: &str,
    ) -> Self {
        let name = format!("{}-{name}", lan.nodes()[node].name());
        let file = |extension| scratch.path().join(format!("{name}.{extension}"));
        let daemon = Self {
            lan: Arc::clone(lan),
            node,
            config: file("toml"),
            socket: file("sock"),
            log: file("log"),
            name,
            process: None,
        };
        daemon.configure(toml);
        daemon
    }

    /// Another configuration, for the next start.
    pub(crate) fn configure(&self, toml: &str) {
        fs::write(&self.config, toml).unwrap();
    }

    pub(crate) fn start(&mut self) {
        let log = File::options().create(true).append(true).open(&self.log).unwrap();
        let mut command = self.barevip("run");
        command.arg("--config").arg(&self.config).arg("--socket").arg(&self.socket);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.process = Some(self.host().namespace().spawn(command).unwrap());
    }

    /// SIGKILL, and no process left.
    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    pub(crate) fn signal(&mut self, signal: Signal) {
        self.process.as_mut().unwrap().signal(signal).unwrap();
    }

    /// Waits until it has ended by itself, and then wants it to have ended well.
    #[track_caller]
    pub(crate) fn ended(&mut self) {
        let mut process = self.process.take().unwrap();
        let status: ExitStatus = until("the end of a daemon", || {
            process.ended().unwrap().ok_or_else(|| "it runs".to_owned())
        });
        assert!(status.success(), "{status}");
    }

    /// SIGTERM, and no process left.
    #[track_caller]
    pub(crate) fn stop(&mut self) {
        self.signal(Signal::SIGTERM);
        self.ended();
    }

    /// `barevip cleanup` for this daemon's configuration.
    pub(crate) fn cleanup(&self) -> String {
        let mut command = self.barevip("cleanup");
        command.arg("--config").arg(&self.config);
        let Output { status, stdout, stderr } =
            self.host().namespace().run(|| Ok(command.output()?)).unwrap();
        let text = String::from_utf8(stdout).unwrap();
        assert!(status.success(), "{text}{}", String::from_utf8_lossy(&stderr));
        text
    }

    fn barevip(&self, command: &str) -> Command {
        let mut barevip = Command::new(env!("CARGO_BIN_EXE_barevip"));
        barevip.arg(command);
        barevip
    }

    pub(crate) fn host(&self) -> &Host {
        &self.lan.nodes()[self.node]
    }

    /// The mark of this daemon's addresses.
    pub(crate) fn instance(&self) -> Instance {
        barevip::app::standalone::instance_of(&self.config)
    }

    /// What the daemon says of itself; `None` if it does not answer.
    pub(crate) fn state(&self) -> Option<State> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let answer = runtime.block_on(http::get(&self.socket, "/state")).ok()?;
        Some(serde_json::from_slice(&answer).unwrap())
    }

    /// What it says of its first router; `None` before it has taken up its configuration.
    pub(crate) fn router(&self) -> Option<Router> {
        self.state().and_then(|state| state.routers.into_iter().next())
    }

    pub(crate) fn role(&self) -> Option<Role> {
        self.router().map(|router| router.role)
    }

    pub(crate) fn holds(&self, address: IpAddr) -> bool {
        addresses(self.host()).contains(&address)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            eprintln!("--- the log of {}:\n{log}", self.name);
        }
    }
}

/// The addresses that a host's kernel has.
pub(crate) fn addresses(host: &Host) -> Vec<IpAddr> {
    let found = host.namespace().run(|| Ok(getifaddrs()?.collect::<Vec<_>>())).unwrap();
    let address = |found: nix::ifaddrs::InterfaceAddress| {
        let address = found.address?;
        let v4 = address.as_sockaddr_in().map(|v4| v4.ip().into());
        v4.or_else(|| address.as_sockaddr_in6().map(|v6| v6.ip().into()))
    };
    found.into_iter().filter_map(address).collect()
}

/// Runs `ip` on a host.
#[track_caller]
pub(crate) fn ip(host: &Host, arguments: &str) -> String {
    let mut command = Command::new("ip");
    command.args(arguments.split_whitespace());
    host.namespace().output(command).unwrap()
}
