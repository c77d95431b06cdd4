//! What the kernel says of a process: memory, processor time.

use std::fs;
use std::time::Duration;

use anyhow::Context as _;
use nix::unistd::{SysconfVar, sysconf};

/// Resident memory in MB (10⁶ octets).
pub(crate) fn resident_megabytes(pid: u32) -> anyhow::Result<f64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let kibibytes: f64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|value| value.split_whitespace().next())
        .with_context(|| format!("{path} has no VmRSS"))?
        .parse()?;
    Ok(kibibytes * 1024.0 / 1e6)
}

/// Processor time used so far by all threads, in user mode and in the kernel.
pub(crate) fn processor_time(pid: u32) -> anyhow::Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    // The name in parentheses may hold blanks; utime and stime are fields 14 and 15 (proc(5)).
    let (_, fields) = stat.rsplit_once(')').with_context(|| format!("{path} has no name"))?;
    let times: Vec<u64> =
        fields.split_whitespace().skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
    let ticks: u64 = times.into_iter().sum();
    let per_second = sysconf(SysconfVar::CLK_TCK)?.context("the kernel does not tell its ticks")?;
    Ok(Duration::from_secs_f64(ticks as f64 / per_second as f64))
}
