//! The daemon as systemd and its operator meet it: a real one, on a LAN of network namespaces.
#![cfg(test)]

mod support {
    pub(crate) mod scratch;
}

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use barevip::io::lab::lan::Lan;
use barevip::io::lab::namespace::Namespace;
use barevip::io::lab::process::Process;
use nix::sys::signal::Signal;
use serde_json::Value;

use support::scratch::Scratch;

const CONFIGURATION: &str = r#"
[[virtual_router]]
name      = "web"
vrid      = 51
interval  = "50ms"
addresses = ["192.0.2.50", "192.0.2.51/24"]
"#;

/// A hanging daemon fails a test after this long.
const PATIENCE: Duration = Duration::from_secs(20);

/// One machine with a configuration file, and what a service manager hears of its daemon.
struct Machine {
    lan: Lan,
    scratch: Scratch,
    notices: UnixDatagram,
}

impl Machine {
    fn new() -> Self {
        let lan = Lan::new(&["a"]).unwrap();
        let scratch = Scratch::new();
        let directory = scratch.path();
        fs::write(directory.join("web.toml"), CONFIGURATION).unwrap();
        let notices = UnixDatagram::bind(directory.join("notify")).unwrap();
        notices.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { lan, scratch, notices }
    }

    fn namespace(&self) -> &Namespace {
        self.lan.nodes()[0].namespace()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_barevip"));
        command
            .current_dir(self.scratch.path())
            .args(arguments)
            .env("NOTIFY_SOCKET", self.scratch.path().join("notify"))
            .env("WATCHDOG_USEC", "300000")
            .env_remove("WATCHDOG_PID")
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// Starts the daemon and waits until it is ready.
    fn daemon(&self) -> Process {
        self.daemon_logging("json", Stdio::null())
    }

    fn daemon_logging(&self, format: &str, log: impl Into<Stdio>) -> Process {
        let arguments = ["run", "--config", "web.toml", "--socket", "x.sock"];
        let mut command = self.command(&arguments);
        command.args(["--log-format", format]).stderr(log);
        let daemon = self.namespace().spawn(command).unwrap();
        self.wait_for("READY=1");
        daemon
    }

    /// What the service manager hears up to and with this notice.
    fn wait_for(&self, notice: &str) -> Vec<String> {
        let mut heard = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let length = self
                .notices
                .recv(&mut buffer)
                .unwrap_or_else(|error| panic!("{error}: no {notice:?}, but {heard:?}"));
            let text = String::from_utf8_lossy(&buffer[..length]).trim_end().to_owned();
            let is_it = text == notice;
            heard.push(text);
            if is_it {
                return heard;
            }
        }
    }

    /// Runs a command of barevip to its end.
    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(arguments);
        command.stderr(Stdio::piped());
        self.namespace().run(|| Ok(command.output()?)).unwrap()
    }

    fn status(&self) -> Value {
        let output = self.run(&["status", "--socket", "x.sock", "--output", "json"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The address lines of all links.
    fn addresses(&self) -> String {
        let mut command = Command::new("ip");
        command.args(["-oneline", "address"]);
        self.namespace().output(command).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The messages of a log of JSON lines.
fn messages(log: &Path) -> Vec<String> {
    BufReader::new(fs::File::open(log).unwrap())
        .lines()
        .map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap())
        .map(|entry| entry["message"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_daemon_from_start_to_planned_stop() {
    let machine = Machine::new();
    let log = fs::File::create(machine.path("log")).unwrap();
    let mut daemon = machine.daemon_logging("json", log);

    // It serves, and says so to the service manager and to whoever asks.
    machine.wait_for("STATUS=1 active, 0 backup");
    machine.wait_for("WATCHDOG=1");
    machine.wait_for("WATCHDOG=1");
    let status = machine.status();
    assert_eq!(status.as_array().unwrap().len(), 1);
    let router = &status[0]["routers"][0];
    assert_eq!(router["name"], "web");
    assert_eq!(router["role"], "active");
    assert_eq!(router["active"]["here"], true);
    assert_eq!(router["addresses"][0], serde_json::json!({"address": "192.0.2.50", "bound": true}));
    let table = text(&machine.run(&["status", "--socket", "x.sock"]).stdout);
    assert!(table.contains("this machine  2 of 2"), "{table}");
    assert!(machine.addresses().contains("192.0.2.50/32"), "{}", machine.addresses());

    // A planned stop leaves nothing.
    daemon.signal(Signal::SIGTERM).unwrap();
    machine.wait_for("STOPPING=1");
    assert_eq!(daemon.wait().unwrap().code(), Some(0));
    assert!(!machine.addresses().contains("192.0.2.5"), "{}", machine.addresses());
    assert!(!machine.path("x.sock").exists());
    let told = messages(&machine.path("log"));
    for sentence in [
        "web: is Active here: no Active router was heard for the down interval",
        "SIGTERM: a planned stop, the addresses are handed over",
        "web: takes no part: planned stop",
        "stopped: no address of this daemon is left on this machine",
    ] {
        assert!(told.iter().any(|message| message == sentence), "{sentence:?} in {told:#?}");
    }
    assert!(told.len() < 12, "one sentence an event, none a packet: {told:#?}");
}

#[test]
fn a_line_of_the_log_names_its_router_once() {
    let machine = Machine::new();
    let log = fs::File::create(machine.path("log")).unwrap();
    let mut daemon = machine.daemon_logging("text", log);
    machine.wait_for("STATUS=1 active, 0 backup");
    daemon.signal(Signal::SIGTERM).unwrap();
    daemon.wait().unwrap();
    let log = fs::read_to_string(machine.path("log")).unwrap();
    let line = log.lines().find(|line| line.contains("takes no part")).unwrap();
    assert!(line.ends_with("INFO web: takes no part: planned stop"), "{log}");
    let first = log.lines().next().unwrap();
    assert!(first.contains("starts with 1 virtual router(s) config="), "{log}");
}

#[test]
fn what_a_killed_daemon_leaves_is_cleaned_up_once() {
    let machine = Machine::new();
    let mut daemon = machine.daemon();
    machine.wait_for("STATUS=1 active, 0 backup");

    // While it runs its addresses are no leftovers.
    let refused = machine.run(&["cleanup", "--config", "web.toml"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("runs already"), "{refused:?}");
    let spared = machine.run(&["cleanup", "--all"]);
    assert_eq!(spared.status.code(), Some(0));
    assert!(text(&spared.stdout).contains("left alone"), "{spared:?}");

    // At once, although the killed process is not quite gone, by another way to write the path,
    // and although the file is gone.
    daemon.signal(Signal::SIGKILL).unwrap();
    fs::remove_file(machine.path("web.toml")).unwrap();
    let path =
        machine.path("../").join(machine.scratch.path().file_name().unwrap()).join("web.toml");
    let arguments = ["cleanup", "--config", path.to_str().unwrap()];
    let removed = machine.run(&arguments);
    assert_eq!(removed.status.code(), Some(0), "{removed:?}");
    for address in ["192.0.2.50/32", "192.0.2.51/24"] {
        assert!(text(&removed.stdout).contains(&format!("removed {address} from")), "{removed:?}");
    }
    assert!(!machine.addresses().contains("192.0.2.5"), "{}", machine.addresses());
    let nothing = machine.run(&arguments);
    assert_eq!(nothing.status.code(), Some(0));
    assert_eq!(text(&nothing.stdout), "nothing was left behind\n");
    daemon.wait().unwrap();
}

#[test]
fn a_second_daemon_is_refused_and_the_first_goes_on() {
    let machine = Machine::new();
    let _daemon = machine.daemon();
    // On the same socket, and on another one with the same file.
    for (socket, reason) in [("x.sock", "x.sock is in use"), ("y.sock", "runs already")] {
        let second = machine.run(&["run", "--config", "web.toml", "--socket", socket]);
        assert_eq!(second.status.code(), Some(1), "{second:?}");
        assert!(text(&second.stderr).contains(reason), "{second:?}");
    }
    assert_eq!(machine.status()[0]["routers"][0]["name"], "web");
}

/// The journal may be restarted, a terminal closed: nobody reads the log, and nothing else changes.
#[test]
fn a_log_that_nobody_reads_does_no_harm() {
    let machine = Machine::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut daemon = machine.daemon_logging("json", writer);
    machine.wait_for("STATUS=1 active, 0 backup");
    daemon.signal(Signal::SIGTERM).unwrap();
    assert_eq!(daemon.wait().unwrap().code(), Some(0));
}

#[test]
fn a_second_signal_stops_at_once() {
    let machine = Machine::new();
    let mut daemon = machine.daemon();
    machine.wait_for("STATUS=1 active, 0 backup");
    // Both wait when it goes on, so the second one comes before the handover can end.
    for signal in [Signal::SIGSTOP, Signal::SIGTERM, Signal::SIGINT, Signal::SIGCONT] {
        daemon.signal(signal).unwrap();
    }
    assert_eq!(daemon.wait().unwrap().code(), Some(1));
}
