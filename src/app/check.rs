//! `barevip check`: what a configuration file says, or all that is wrong with it.

use std::io::{self, Write};
use std::path::Path;

use crate::config;
use crate::model::{Candidates, LinkSelector, VirtualRouter};

/// Checks a file and says what it means.
///
/// # Errors
/// [`config::Rejected`] where the file is not good, and what `out` returns.
pub fn run(config: &Path, out: &mut impl Write) -> anyhow::Result<()> {
    let plan = config::load(config)?;
    writeln!(out, "{}: good, {}", config.display(), count(plan.len(), "virtual router"))?;
    for router in &plan {
        describe(router, out)?;
    }
    Ok(())
}

fn describe(router: &VirtualRouter, out: &mut impl Write) -> io::Result<()> {
    let link = match &router.link {
        LinkSelector::Name(name) => format!("on {name}"),
        LinkSelector::OneOf(names) => format!("on one of {}", names.join(", ")),
        LinkSelector::Subnet => "on the link in the addresses' subnet".to_owned(),
    };
    let adverts = match router.transport.peers.len() {
        0 => "multicast".to_owned(),
        peers => format!("unicast to {}", count(peers, "peer")),
    };
    let priority = match &router.candidates {
        Candidates::Open { priority } => format!("priority {priority}, "),
        Candidates::Listed(_) => String::new(),
    };
    writeln!(
        out,
        "  {}: VRID {}, {} {link}, {priority}{adverts} every {}, preempt {}, {}",
        router.name,
        router.vrid,
        router.family,
        router.interval,
        router.preempt,
        count(router.entries.len(), "address"),
    )
}

/// "1 address", "2 addresses".
fn count(number: usize, thing: &str) -> String {
    let plural = match (number, thing.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{number} {thing}{plural}")
}
