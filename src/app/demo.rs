//! `barevip demo`: a LAN of three machines inside this one.

/// Shows a failover on a LAN of network namespaces.
///
/// # Errors
/// Always: it is not built yet.
pub fn run() -> anyhow::Result<()> {
    anyhow::bail!("the demo is not part of this build yet")
}
