//! What happened in a simulation, for exact assertions and for a trace that explains a failure.

use std::fmt;
use std::net::IpAddr;

use barevip::engine::node::command::{AddressChange, Failure};
use barevip::engine::node::event::Event;
use barevip::engine::vrrp::role::Role;

use super::time::Nanos;

/// One thing that happened on a machine.
#[derive(Clone, Debug)]
pub(crate) struct Happened {
    pub(crate) at: Nanos,
    pub(crate) machine: usize,
    pub(crate) what: What,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    /// It sent an advert; priority 0: it leaves.
    Advert { vrid: u8, priority: u8, to: IpAddr },
    /// Its engine was given an advert.
    Heard { vrid: u8, priority: u8, from: IpAddr },
    /// It announced an address.
    Announced(IpAddr),
    /// Its engine was given an announcement of another machine.
    HeardAnnouncement(IpAddr, usize),
    /// Its engine asked netlink for something.
    Asked(IpAddr, AddressChange),
    /// Netlink refused.
    Failed(IpAddr, Failure),
    /// The kernel has the address from now on.
    Bound(IpAddr),
    /// It has it no longer, and why.
    Unbound(IpAddr, &'static str),
    /// A router's role there is another one.
    Role { router: usize, role: Role },
    /// What the engine tells the operator.
    Note(Event),
    /// Its plan was told.
    Plan,
    /// The process began, stopped, stalled …
    Process(&'static str),
    /// A client's entry for an address leads here now.
    Client { address: IpAddr },
    /// A client lost packets for so long.
    Outage { address: IpAddr, lasted: Nanos },
    /// A fault began or ended.
    Fault(String),
}

/// For things that concern no machine.
pub(crate) const NOBODY: usize = usize::MAX;

impl fmt::Display for Happened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>12.6}s ", self.at as f64 / 1e9)?;
        match self.machine {
            NOBODY => f.write_str("     ")?,
            machine => write!(f, "{:<5}", format!("n{}", machine + 1))?,
        }
        match &self.what {
            What::Advert { vrid, priority, to } => {
                write!(f, "advert of {vrid}, priority {priority}, to {to}")
            }
            What::Heard { vrid, priority, from } => {
                write!(f, "   heard {from}: advert of {vrid}, priority {priority}")
            }
            What::Announced(address) => write!(f, "announces {address}"),
            What::HeardAnnouncement(address, from) => {
                write!(f, "   heard n{} announce {address}", from + 1)
            }
            What::Asked(address, change) => write!(f, "   asks: {change:?} {address}"),
            What::Failed(address, failure) => write!(f, "   {address}: {failure}"),
            What::Bound(address) => write!(f, "+ {address}"),
            What::Unbound(address, why) => write!(f, "- {address} ({why})"),
            What::Role { router, role } => write!(f, "= r{router} is {role}"),
            What::Note(event) => write!(f, "\"{event}\""),
            What::Plan => f.write_str("# new plan"),
            What::Process(what) => write!(f, "# process {what}"),
            What::Client { address } => write!(f, "   a client sends {address} here"),
            What::Outage { address, lasted } => {
                write!(f, "! a client lost {address} for {:.3} ms", *lasted as f64 / 1e6)
            }
            What::Fault(text) => write!(f, "### {text}"),
        }
    }
}
