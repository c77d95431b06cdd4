//! A machine for a test: a network namespace with links of the test's choice.

use std::process::Command;
use std::time::Duration;

use barevip::engine::node::links::LinkId;
use barevip::engine::time::Instant;
use barevip::io::clock;
use barevip::io::lab::namespace::Namespace;

/// Nothing in these tests takes this long unless it is broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A machine, which ends when it is dropped.
pub(crate) struct Host(Namespace);

impl Host {
    /// A machine with nothing but a loopback link. New links skip duplicate address detection,
    /// so that their addresses are usable at once.
    pub(crate) fn new() -> Self {
        let host = Self(Namespace::new("a test's machine").expect("a network namespace"));
        host.run(|| std::fs::write("/proc/sys/net/ipv6/conf/default/accept_dad", "0"))
            .expect("write sysctl");
        host.ip("link set lo up");
        host
    }

    /// Two machines with a cable between their links `eth0`: 192.0.2.11 and 192.0.2.12, and
    /// 2001:db8::11 and 2001:db8::12.
    pub(crate) fn pair() -> (Self, Self) {
        let (here, there) = (Self::new(), Self::new());
        here.cable("eth0", &there, "eth0");
        for (host, n) in [(&here, 11), (&there, 12)] {
            host.ip(&format!("address add 192.0.2.{n}/24 dev eth0"));
            host.ip(&format!("address add 2001:db8::{n}/64 dev eth0"));
            host.settle("eth0");
        }
        (here, there)
    }

    /// Runs something on this machine.
    pub(crate) fn run<T: Send>(&self, job: impl FnOnce() -> T + Send) -> T {
        self.0.run(|| Ok(job())).expect("the machine runs")
    }

    /// Runs `ip ARGUMENTS` on this machine.
    pub(crate) fn ip(&self, arguments: &str) {
        self.run(|| output(Command::new("ip").args(arguments.split_whitespace())));
    }

    /// The kernel's own words on the addresses of a link, from `ip -json`.
    pub(crate) fn addresses(&self, link: &str) -> Vec<serde_json::Value> {
        let show = ["-json", "address", "show", "dev", link];
        let shown = self.run(|| output(Command::new("ip").args(show)));
        let mut shown: serde_json::Value = serde_json::from_slice(&shown).expect("JSON");
        serde_json::from_value(shown[0]["addr_info"].take()).expect("a list of addresses")
    }

    /// The index of a link.
    pub(crate) fn link(&self, name: &str) -> LinkId {
        let index = self.run(|| nix::net::if_::if_nametoindex(name));
        LinkId(index.expect("a link of this name"))
    }

    /// A cable between a link of this machine and one of another.
    pub(crate) fn cable(&self, here: &str, other: &Self, there: &str) {
        let far_end = format!("/proc/{}/fd/{}", std::process::id(), other.0.descriptor());
        self.ip(&format!("link add {here} type veth peer name {there} netns {far_end}"));
        self.ip(&format!("link set {here} up"));
        other.ip(&format!("link set {there} up"));
        self.settle(here);
        other.settle(there);
    }

    /// Waits until a link has its link-local address, which comes a moment after carrier, and
    /// all its addresses are usable.
    pub(crate) fn settle(&self, link: &str) {
        let deadline = deadline();
        loop {
            let addresses = self.addresses(link);
            let is_waiting = addresses.iter().any(|address| address["tentative"] == true);
            if !is_waiting && addresses.iter().any(|address| address["scope"] == "link") {
                return;
            }
            assert!(clock::now() < deadline, "{link} does not settle: {addresses:#?}");
        }
    }
}

/// Runs a command to its end, and panics with its words where it fails.
pub(crate) fn output(command: &mut Command) -> Vec<u8> {
    let output = command.output().expect("the command is installed");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {words}");
    output.stdout
}

/// When to give up waiting.
pub(crate) fn deadline() -> Instant {
    clock::now() + PATIENCE
}
