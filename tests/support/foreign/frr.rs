//! FRR's vrrpd, of the Debian package frr.

use std::fs;
use std::path::Path;
use std::process::Command;

use barevip::io::lab::lan::{Host, LINK};
use barevip::io::lab::process::Process;
use barevip::model::Family;

use super::program::{Program, Running, Setting, VRID, installed};
use super::stage::{INTERVAL, wait_until};

const ZEBRA: &str = "/usr/lib/frr/zebra";
const VRRPD: &str = "/usr/lib/frr/vrrpd";

/// What its machine is called.
pub(crate) const FRR: &str = "frr";

/// The link of the virtual MAC, which FRR expects to find and opens and closes.
const VIRTUAL_LINK: &str = "vrrp-1";

/// FRR in VRRP version 3.
pub(crate) struct Frr;

impl Frr {
    pub(crate) fn boxed() -> Box<dyn Program> {
        Box::new(Self)
    }
}

impl Program for Frr {
    fn name(&self) -> &'static str {
        FRR
    }

    fn ready(&self) -> &'static str {
        "Initialize -> Backup"
    }

    /// Makes the link of the virtual MAC with the virtual address on it, and starts zebra, which
    /// tells vrrpd of links and carries out what it wants of them.
    fn prepare(&self, host: &Host, setting: &Setting, directory: &Path) -> Option<Process> {
        let ip = |arguments: &str| {
            let mut command = Command::new("ip");
            command.args(arguments.split_whitespace());
            host.namespace().output(command).unwrap();
        };
        let family = match setting.family() {
            Family::Ipv4 => 1,
            Family::Ipv6 => 2,
        };
        ip(&format!(
            "link add link {LINK} name {VIRTUAL_LINK} address 00:00:5e:00:0{family}:{VRID:02x} \
             type macvlan mode bridge"
        ));
        ip(&format!("link set dev {VIRTUAL_LINK} addrgenmode none"));
        ip(&format!("link set dev {VIRTUAL_LINK} up"));
        for address in &setting.addresses {
            let detection = if address.is_ipv6() { "nodad" } else { "" };
            ip(&format!("address add {address} dev {VIRTUAL_LINK} {detection}"));
        }
        // Where IPv6 adverts leave from. The last digits say whose it is.
        let [.., number] = host.link_local().segments();
        ip(&format!("address add fe80::5e:{number:x}/64 dev {VIRTUAL_LINK} nodad"));
        // Else a Backup's other link answers for the addresses of this one.
        host.namespace()
            .run(|| Ok(fs::write("/proc/sys/net/ipv4/conf/all/arp_ignore", "1")?))
            .unwrap();

        let zebra = Running::spawn(host, daemon(ZEBRA, directory), directory.join("zebra.log"));
        wait_until(
            || directory.join("zserv.api").exists(),
            || format!("zebra does not listen:\n{}", zebra.log.text()),
        );
        Some(zebra.process)
    }

    fn start(&self, host: &Host, setting: &Setting, directory: &Path) -> Running {
        let family = match setting.family() {
            Family::Ipv4 => "ip",
            Family::Ipv6 => "ipv6",
        };
        let addresses: String = setting
            .addresses
            .iter()
            .map(|address| format!(" vrrp {VRID} {family} {address}\n"))
            .collect();
        let configuration = format!(
            "interface {LINK}\n \
             vrrp {VRID} version 3\n \
             vrrp {VRID} priority {}\n \
             vrrp {VRID} advertisement-interval {}\n \
             {addresses}",
            setting.priority,
            INTERVAL.as_millis(),
        );
        fs::write(directory.join("vrrpd.conf"), configuration).unwrap();
        Running::spawn(host, daemon(VRRPD, directory), directory.join("log"))
    }
}

/// A daemon of FRR that keeps all its files in `directory`.
fn daemon(path: &str, directory: &Path) -> Command {
    let name = Path::new(path).file_name().unwrap().to_string_lossy();
    let configuration = directory.join(format!("{name}.conf"));
    if !configuration.exists() {
        fs::write(&configuration, "").unwrap();
    }
    let mut command = installed(path, "frr");
    // Root is no member of frrvty, the group that its sockets are for.
    command.args(["--user", "root", "--group", "frrvty", "--log", "stdout", "--vty_port", "0"]);
    command.arg("--config_file").arg(configuration);
    command.arg("--socket").arg(directory.join("zserv.api"));
    command.arg("--vty_socket").arg(directory);
    command.arg("--pid_file").arg(directory.join(format!("{name}.pid")));
    command
}
