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
pub(crate) struct Keepalived {
    /// `v3_checksum_as_v2`: sums IPv4 without the pseudo-header, as RFC 9568 does.
    pub(crate) checksum_as_v2: bool,
}

impl Keepalived {
    pub(crate) fn boxed() -> Box<dyn Program> {
        Box::new(Self { checksum_as_v2: false })
    }

    /// Whether the installed one knows `v3_checksum_as_v2`: that began with version 2.2.8.
    pub(crate) fn knows_checksum_as_v2() -> bool {
        let output = installed(PATH, "keepalived").arg("--version").output().unwrap();
        // "Keepalived v2.2.7 (01/16,2022)", on standard error.
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let version: Vec<u32> = text
            .split_whitespace()
            .find_map(|word| word.strip_prefix('v'))
            .unwrap_or_else(|| panic!("no version in {text:?}"))
            .split('.')
            .map(|number| number.parse().unwrap())
            .collect();
        version >= vec![2, 2, 8]
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
                {}
                virtual_ipaddress {{
                    {}
                }}
            }}
            ",
            setting.priority,
            INTERVAL.as_secs_f64(),
            if self.checksum_as_v2 { "v3_checksum_as_v2" } else { "" },
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
