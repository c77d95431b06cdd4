//! How barevip is told, and where it tells.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use barevip::io::lab::lan::LINK;
use serde_json::Value;

use super::setting::{Preempt, Setting};

pub(crate) fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_barevip"))
}

/// Its configuration for the node of this priority.
pub(crate) fn configuration(setting: &Setting, priority: u8) -> String {
    let mut text = String::new();
    let interval = setting.interval.as_millis();
    let preempt = match setting.preempt {
        Preempt::Never => "never",
        Preempt::AfterASecond => "after 1s",
    };
    for (vrid, addresses) in (1..).zip(&setting.routers) {
        let _fits = write!(
            text,
            "\
[[virtual_router]]
vrid = {vrid}
addresses = {addresses:?}
interface = {LINK:?}
priority = {priority}
interval = \"{interval}ms\"
preempt = {preempt:?}
",
            addresses = addresses.iter().map(ToString::to_string).collect::<Vec<_>>()
        );
    }
    text
}

pub(crate) fn command(folder: &Path, configuration: &Path) -> Command {
    let mut command = program();
    command
        .args(["run", "--config"])
        .arg(configuration)
        .arg("--socket")
        .arg(folder.join("barevip.sock"));
    command
}

/// Removes what the killed daemon of this configuration left behind.
pub(crate) fn cleanup(configuration: &Path) -> Command {
    let mut command = program();
    command.args(["cleanup", "--config"]).arg(configuration);
    command
}

/// Whether all its virtual routers take part.
pub(crate) fn is_ready(folder: &Path) -> anyhow::Result<bool> {
    let mut status = program();
    status.args(["status", "--output", "json", "--socket"]).arg(folder.join("barevip.sock"));
    let answer = status.stdin(Stdio::null()).stderr(Stdio::null()).output()?;
    // Before it listens there is no answer at all.
    let state: Value = serde_json::from_slice(&answer.stdout).unwrap_or_default();
    let daemons = state.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut routers =
        daemons.iter().filter_map(|daemon| daemon.get("routers")?.as_array()).flatten();
    let takes_part = |router: &Value| {
        let role = router.get("role").and_then(Value::as_str);
        role.is_some_and(|role| !role.eq_ignore_ascii_case("initialize"))
    };
    Ok(answer.status.success() && !daemons.is_empty() && routers.all(takes_part))
}
