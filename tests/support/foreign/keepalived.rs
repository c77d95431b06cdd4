//! keepalived, of the Debian package of that name.

use std::fs;
use std::path::Path;

use barevip::io::lab::lan::{Host, LINK};

use super::program::{Program, Running, Setting, VRID, installed};
use super::stage::INTERVAL;

const PATH: &str = "/usr/sbin/keepalived";

/// What its machine is called.
pub(crate) const KEEPALIVED: &str = "keepalived";

/// keepalived in VRRP version 3.
pub(crate) struct Keepalived;

impl Keepalived {
    pub(crate) fn boxed() -> Box<dyn Program> {
        Box::new(Self)
    }
}

impl Program for Keepalived {
    fn name(&self) -> &'static str {
        KEEPALIVED
    }

    fn ready(&self) -> &'static str {
        "Entering BACKUP STATE (init)"
    }

    fn start(&self, host: &Host, setting: &Setting, directory: &Path) -> Running {
        let addresses: Vec<_> = setting.addresses.iter().map(ToString::to_string).collect();
        let configuration = format!(
            "global_defs {{
                vrrp_version 3
            }}
            vrrp_instance web {{
                interface {LINK}
                virtual_router_id {VRID}
                priority {}
                advert_int {}
                virtual_ipaddress {{
                    {}
                }}
            }}
            ",
            setting.priority,
            INTERVAL.as_secs_f64(),
            addresses.join("\n"),
        );
        fs::write(directory.join("keepalived.conf"), configuration).unwrap();
        let mut command = installed(PATH, "keepalived");
        command.current_dir(directory);
        command.args(["--dont-fork", "--log-console", "--no-syslog", "--vrrp"]);
        command.args(["--use-file", "keepalived.conf", "--pid", "pid"]);
        command.args(["--vrrp_pid", "vrrp.pid", "--checkers_pid", "checkers.pid"]);
        Running::spawn(host, command, directory.join("log"))
    }
}
