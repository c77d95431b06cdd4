//! How keepalived is told, and where it tells.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use barevip::io::lab::lan::LINK;

use super::setting::{Preempt, Setting};

/// The file with the process id of the child that speaks VRRP.
const VRRP_PID: &str = "vrrp.pid";

pub(crate) fn program() -> Command {
    Command::new("keepalived")
}

/// Its configuration for the node of this priority.
pub(crate) fn configuration(setting: &Setting, priority: u8) -> String {
    let mut text = "global_defs {\n    vrrp_version 3\n}\n".to_owned();
    let interval = setting.interval.as_secs_f64();
    let preempt = match setting.preempt {
        Preempt::Never => "nopreempt",
        Preempt::AfterASecond => "preempt_delay 1",
    };
    for (vrid, addresses) in (1..).zip(&setting.routers) {
        let addresses: String = addresses
            .iter()
            .map(|address| {
                format!(
                    "        {address}/{} dev {LINK}\n",
                    if address.is_ipv4() { 32 } else { 128 }
                )
            })
            .collect();
        let _fits = write!(
            text,
            "\
vrrp_instance router{vrid} {{
    state BACKUP
    {preempt}
    interface {LINK}
    virtual_router_id {vrid}
    priority {priority}
    advert_int {interval}
    virtual_ipaddress {{
{addresses}    }}
}}
"
        );
    }
    text
}

/// In the foreground, its log on standard error.
pub(crate) fn command(folder: &Path, configuration: &Path) -> Command {
    let mut command = program();
    command
        .args(["-n", "-l", "-f"])
        .arg(configuration)
        .arg("-p")
        .arg(folder.join("keepalived.pid"))
        .arg("-r")
        .arg(folder.join(VRRP_PID));
    command
}

/// The child that speaks VRRP, as soon as there is one.
pub(crate) fn vrrp_process(folder: &Path) -> Option<u32> {
    fs::read_to_string(folder.join(VRRP_PID)).ok()?.trim().parse().ok()
}

/// Whether all its virtual routers take part.
pub(crate) fn is_ready(log: &str, routers: usize) -> bool {
    log.matches("Entering BACKUP STATE").count() >= routers
}
