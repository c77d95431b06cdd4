//! `barevip cleanup`: removes what a killed daemon left bound, at once.

use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::Context;

use super::node_loop::lock;
use super::standalone::instance_of;
use crate::engine::node::links::Instance;
use crate::io::clock;
use crate::io::kernel::netlink;

/// A killed process goes on for a moment: until the kernel has closed its files it has its lock.
const DYING: Duration = Duration::from_millis(200);
const STEP: Duration = Duration::from_millis(1);

/// Removes the addresses of the daemon of `config`, or with `None` of every daemon of this machine
/// that does not run, and says which. Nothing to remove is a success.
///
/// # Errors
/// Where that daemon runs, so that its addresses are no leftovers; the kernel's.
pub fn run(config: Option<&Path>, out: &mut impl Write) -> anyhow::Result<()> {
    let removed = match config.map(instance_of) {
        Some(instance) => {
            let _held = lock_of_the_dead(instance)?;
            remove(instance, out)?
        }
        None => remove_all(out)?,
    };
    if removed == 0 {
        writeln!(out, "nothing was left behind")?;
    }
    Ok(())
}

fn remove_all(out: &mut impl Write) -> anyhow::Result<usize> {
    let mut removed = 0;
    for instance in netlink::instances().context("can't see this machine's addresses")? {
        if let Ok(_held) = lock_of_the_dead(instance) {
            removed += remove(instance, out)?;
        } else {
            writeln!(out, "left alone: the addresses of a daemon that runs")?;
        }
    }
    Ok(removed)
}

/// Takes the instance's lock, also if its daemon was killed this very moment.
#[expect(clippy::disallowed_methods, reason = "nothing tells when a lock becomes free")]
fn lock_of_the_dead(instance: Instance) -> anyhow::Result<UnixDatagram> {
    let deadline = clock::now() + DYING;
    loop {
        let held = lock(instance);
        if held.is_ok() || clock::now() >= deadline {
            return held;
        }
        thread::sleep(STEP);
    }
}

/// The caller holds the instance's lock, so that no daemon starts and binds what is removed.
fn remove(instance: Instance, out: &mut impl Write) -> anyhow::Result<usize> {
    let removed = netlink::cleanup(instance)
        .context("can't remove addresses; it needs root, or the capability CAP_NET_ADMIN")?;
    for (link, address) in &removed {
        writeln!(out, "removed {address} from {link}")?;
    }
    Ok(removed.len())
}
