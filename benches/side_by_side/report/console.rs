//! The terminal: the table on standard output, progress on standard error.

use std::sync::OnceLock;

use barevip::engine::time::Instant;
use barevip::io::clock;

use super::line::Line;
use super::table;

/// Says on standard error how far it is, and after how many seconds.
#[expect(clippy::print_stderr, reason = "this is where it is said")]
pub(crate) fn progress(text: &str) {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    let now = clock::now();
    let elapsed = now.since(*BEGIN.get_or_init(|| now)).as_secs();
    eprintln!("{elapsed:4} s  {text}");
}

/// Prints what was measured, and below it what barevip missed.
#[expect(clippy::print_stdout, reason = "this is what the program is for")]
pub(crate) fn print(machine: &str, lines: &[Line], markdown: bool) {
    let table = if markdown { table::markdown(lines) } else { table::text(lines) };
    println!(
        "{machine}\nvalues: least / median / most of all trials, or what all showed\n\n{table}"
    );
    for line in lines {
        if let Some(miss) = line.misses() {
            println!("\nmissed: {}, {}: {miss}", line.measure, line.setting);
        }
    }
}
