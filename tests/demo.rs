//! `barevip demo` as whoever tries it meets it. What its acts cost is for people to see: a busy
//! machine may take longer than they allow.
#![cfg(test)]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

#[test]
fn every_act_ends_with_a_machine_that_answers() {
    let mut demo = start();
    let mut told = String::new();
    demo.stdout.take().unwrap().read_to_string(&mut told).unwrap();
    demo.wait().unwrap();
    let results: Vec<_> = told.lines().filter(|line| line.contains(" of silence")).collect();
    let expected = [
        "    three machines elect one: amber answers",
        "    the cable of amber breaks: blue answers",
        "    the cable of amber is mended: amber answers",
        "    amber is stopped (SIGTERM): blue answers",
        "    blue is killed (SIGKILL): crimson answers",
    ];
    assert_eq!(results.len(), expected.len(), "{told}");
    for (result, expected) in results.iter().zip(expected) {
        assert!(result.starts_with(expected), "{told}");
    }
    assert_nothing_is_left(demo.id());
}

#[test]
fn interrupted_it_leaves_nothing_behind() {
    let mut demo = start();
    let mut told = BufReader::new(demo.stdout.take().unwrap()).lines();
    // Now its daemons are at work.
    assert!(told.any(|line| line.unwrap().contains("Active")));
    kill(Pid::from_raw(demo.id().try_into().unwrap()), Signal::SIGINT).unwrap();
    let mut said = String::new();
    demo.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(demo.wait().unwrap().code(), Some(1));
    assert_eq!(said, "barevip: interrupted; nothing of the demo is left\n");
    assert_nothing_is_left(demo.id());
}

fn start() -> Child {
    Command::new(env!("CARGO_BIN_EXE_barevip"))
        .arg("demo")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Neither files nor daemons, which have those files' paths as arguments.
fn assert_nothing_is_left(demo: u32) {
    let directory = std::env::temp_dir().join(format!("barevip-demo-{demo}"));
    assert!(!directory.exists());
    let command_lines = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| std::fs::read_to_string(entry.unwrap().path().join("cmdline")).ok());
    let left: Vec<_> =
        command_lines.filter(|line| line.contains(directory.to_str().unwrap())).collect();
    assert_eq!(left, Vec::<String>::new());
}
