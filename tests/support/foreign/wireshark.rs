//! What Wireshark's dissectors make of the packets on the stage.

use std::path::{Path, PathBuf};
use std::process::Output;

use barevip::io::lab::lan::{Host, LINK};

use super::program::{Running, installed};
use super::stage::wait_until;

/// How the checksum of an IPv4 advert is made. A packet does not say, so tshark has to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChecksumForm {
    /// Over the message alone, as in version 2.
    Rfc9568,
    /// Over a pseudo-header too.
    PseudoHeader,
}

/// All packets that a host meets, but UDP, in a file.
pub(crate) struct Capture {
    file: PathBuf,
    _tcpdump: Running,
}

impl Capture {
    /// Captures from now on.
    pub(crate) fn start(host: &Host, directory: &Path) -> Self {
        let file = directory.join("capture.pcap");
        let mut command = installed("/usr/bin/tcpdump", "tcpdump");
        command.args(["--interface", LINK, "--immediate-mode", "--packet-buffered"]);
        command.args(["--relinquish-privileges", "root", "-w"]).arg(&file).arg("not udp");
        let tcpdump = Running::spawn(host, command, directory.join("tcpdump.log"));
        wait_until(
            || tcpdump.log.text().contains("listening on"),
            || format!("tcpdump does not listen: {}", tcpdump.log.text()),
        );
        Self { file, _tcpdump: tcpdump }
    }

    /// The packets so far that match a display filter, down to their last field; empty if none.
    pub(crate) fn dissect(&self, form: ChecksumForm, filter: &str) -> String {
        let as_in_v2 = match form {
            ChecksumForm::Rfc9568 => "vrrp.v3_checksum_as_in_v2:TRUE",
            ChecksumForm::PseudoHeader => "vrrp.v3_checksum_as_in_v2:FALSE",
        };
        let mut tshark = installed("/usr/bin/tshark", "tshark");
        tshark.args(["-n", "-o", "ip.check_checksum:TRUE", "-o", as_in_v2, "-V", "-Y", filter]);
        let Output { status, stdout, stderr } = tshark.arg("-r").arg(&self.file).output().unwrap();
        assert!(status.success(), "{filter}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8_lossy(&stdout).into_owned()
    }

    /// Wants at least one packet to match `which`, and all that do to match `rule` too.
    #[track_caller]
    pub(crate) fn all(&self, form: ChecksumForm, which: &str, rule: &str) {
        assert_ne!(self.dissect(form, which), "", "no packet is {which}");
        let offenders = self.dissect(form, &format!("({which}) && !({rule})"));
        assert_eq!(offenders, "", "{which}, but not {rule}");
    }
}
