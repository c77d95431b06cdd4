//! What was measured on: a figure without it says little.

use std::fs;
use std::process::{Command, Stdio};
use std::thread::available_parallelism;

use anyhow::Context as _;

use crate::contender::{barevip, keepalived};

/// One line: kernel, cores, versions.
pub(crate) fn describe() -> anyhow::Result<String> {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let cores = available_parallelism()?;
    let load = fs::read_to_string("/proc/loadavg")?;
    let load = load.split_whitespace().next().unwrap_or_default();
    Ok(format!(
        "Linux {}, {cores} cores (load {load} before), {}, {}",
        kernel.trim(),
        version(keepalived::program().arg("--version"))?,
        version(barevip::program().arg("--version"))?,
    ))
}

/// The name and version that a program tells of itself, in the first line of whatever it prints.
fn version(command: &mut Command) -> anyhow::Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {program}; install it"))?;
    let told = [output.stdout, output.stderr].concat();
    let told = String::from_utf8_lossy(&told);
    let words: Vec<&str> = told.split_whitespace().take(2).collect();
    Ok(words.join(" "))
}
