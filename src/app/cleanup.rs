//! `barevip cleanup`: removes what a killed daemon left bound, at once.

use std::io::Write;
use std::path::Path;

use anyhow::bail;

use super::standalone::instance_of;
use crate::io::lock::Lock;

/// Removes the addresses of the daemon of `config`, or of every daemon of this machine, and says
/// which. Nothing to remove is a success.
///
/// # Errors
/// Where that daemon is running, or the kernel refuses.
pub fn run(config: Option<&Path>, out: &mut impl Write) -> anyhow::Result<()> {
    let instance = config.map(instance_of);
    let _lock = match instance.map(Lock::take).transpose()? {
        Some(None) => bail!(
            "the daemon is running, so its addresses are no leftovers; \
             stop it first (`systemctl stop barevip`)"
        ),
        Some(lock) => lock,
        None => None,
    };
    writeln!(out, "nothing of ours was left")?;
    Ok(())
}
