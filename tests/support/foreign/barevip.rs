//! Our own daemon, as one of the programs on the stage.

use std::fs;
use std::path::Path;
use std::process::Command;

use barevip::io::lab::lan::{Host, LINK};
use serde_json::Value;

use super::program::{Program, Running, Setting, VRID};
use super::stage::INTERVAL;

/// barevip with a form of checksum.
pub(crate) struct Barevip {
    pub(crate) checksum: &'static str,
}

/// What its machine is called.
pub(crate) const BAREVIP: &str = "barevip";

impl Barevip {
    pub(crate) fn boxed(checksum: &'static str) -> Box<dyn Program> {
        Box::new(Self { checksum })
    }
}

impl Program for Barevip {
    fn name(&self) -> &'static str {
        BAREVIP
    }

    fn ready(&self) -> &'static str {
        "takes part"
    }

    fn start(&self, host: &Host, setting: &Setting, directory: &Path) -> Running {
        let Setting { priority, addresses } = setting;
        let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        let configuration = format!(
            "[[virtual_router]]
            name = 'web'
            vrid = {VRID}
            interface = '{LINK}'
            priority = {priority}
            interval = '{}ms'
            preempt = 'now'
            checksum = '{}'
            addresses = {addresses:?}",
            INTERVAL.as_millis(),
            self.checksum,
        );
        fs::write(directory.join("barevip.toml"), configuration).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_barevip"));
        command.current_dir(directory);
        command.args(["run", "--config", "barevip.toml", "--socket", "barevip.sock"]);
        Running::spawn(host, command, directory.join("log"))
    }
}

/// What `barevip status` says of the router.
pub(crate) fn router_status(host: &Host, directory: &Path) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_barevip"));
    command.current_dir(directory);
    command.args(["status", "--socket", "barevip.sock", "--output", "json"]);
    let mut status: Value =
        serde_json::from_str(&host.namespace().output(command).unwrap()).unwrap();
    status[0]["routers"][0].take()
}
