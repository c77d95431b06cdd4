//! A machine for a test: a thread in a network namespace of its own, which runs what it is given.

use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use barevip::engine::node::links::LinkId;
use barevip::engine::time::Instant;
use barevip::io::clock;
use nix::sched::{CloneFlags, unshare};

type Job = Box<dyn FnOnce() + Send>;

/// Nothing in these tests takes this long unless it is broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A thread in a network namespace of its own; both end when it is dropped.
pub(crate) struct Host {
    jobs: Sender<Job>,
    /// How other namespaces name this one.
    path: String,
}

impl Host {
    /// A machine with nothing but a loopback link. New links skip duplicate address detection,
    /// so that their addresses are usable at once.
    pub(crate) fn new() -> Self {
        let (jobs, inbox) = channel::<Job>();
        let (path, started) = channel();
        std::thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).expect("these tests need root (CAP_SYS_ADMIN)");
            std::fs::write("/proc/sys/net/ipv6/conf/default/accept_dad", "0")
                .expect("write sysctl");
            ip("link set lo up");
            let (process, thread) = (std::process::id(), nix::unistd::gettid());
            path.send(format!("/proc/{process}/task/{thread}/ns/net")).expect("send");
            for job in inbox {
                job();
            }
        });
        let path = started.recv().expect("a network namespace (these tests need root)");
        Self { jobs, path }
    }

    /// Runs something on this machine.
    pub(crate) fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, result) = channel();
        self.jobs
            .send(Box::new(move || done.send(job()).expect("somebody waits")))
            .expect("the machine runs");
        result.recv().expect("the job panicked; see above")
    }

    /// Runs `ip ARGUMENTS` on this machine.
    pub(crate) fn ip(&self, arguments: &str) {
        let arguments = arguments.to_owned();
        self.run(move || ip(&arguments));
    }

    /// The kernel's own words on the addresses of a link, from `ip -json`.
    pub(crate) fn addresses(&self, link: &str) -> Vec<serde_json::Value> {
        let link = link.to_owned();
        self.run(move || {
            let shown = output(Command::new("ip").args(["-json", "address", "show", "dev", &link]));
            let mut shown: serde_json::Value = serde_json::from_slice(&shown).expect("JSON");
            serde_json::from_value(shown[0]["addr_info"].take()).expect("a list of addresses")
        })
    }

    /// The index of a link.
    pub(crate) fn link(&self, name: &'static str) -> LinkId {
        let index = self.run(move || nix::net::if_::if_nametoindex(name));
        LinkId(index.expect("a link of this name"))
    }

    /// A cable between a link of this machine and one of another.
    pub(crate) fn cable(&self, here: &str, other: &Self, there: &str) {
        self.ip(&format!("link add {here} type veth peer name {there} netns {}", other.path));
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

/// Runs `ip ARGUMENTS` in this thread's namespace.
pub(crate) fn ip(arguments: &str) {
    output(Command::new("ip").args(arguments.split_whitespace()));
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
