//! barevip beside keepalived: both in the same laboratory, in the same run, by the same probe.
//!
//! ```text
//! cargo bench --bench side_by_side                         every row, about a quarter of an hour
//! cargo bench --bench side_by_side -- --quick              fewer trials, under three minutes
//! cargo bench --bench side_by_side -- --only cut --trials 5
//! ```
//!
//! Needs the `keepalived` command and root, or a kernel that lets users make namespaces. Beside
//! the values stands the floor that barevip has to hold; the exit status is 0 if it holds all.

use std::process::ExitCode;

use barevip::io::lab::privilege::become_root_of_a_user_namespace;
use clap::Parser as _;

mod contender {
    pub(crate) mod barevip;
    pub(crate) mod daemon;
    pub(crate) mod keepalived;
    pub(crate) mod setting;
}
mod laboratory {
    pub(crate) mod address_events;
    pub(crate) mod addresses;
    pub(crate) mod field;
    pub(crate) mod processes;
    pub(crate) mod scratch;
    pub(crate) mod wait;
    pub(crate) mod wire;
}
mod report {
    pub(crate) mod console;
    pub(crate) mod figures;
    pub(crate) mod line;
    pub(crate) mod machine;
    pub(crate) mod table;
}
mod rows {
    pub(crate) mod crowd;
    pub(crate) mod cut;
    pub(crate) mod give_back;
    pub(crate) mod killed;
    pub(crate) mod load;
    pub(crate) mod many;
    pub(crate) mod memory;
    pub(crate) mod refresh;
    pub(crate) mod stop;
}
mod options;

use options::{Options, Row};
use report::line::Line;

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            report::console::progress(&format!("failed: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Measures and prints; whether every floor holds.
fn run(options: &Options) -> anyhow::Result<bool> {
    become_root_of_a_user_namespace()?;
    let machine = report::machine::describe()?;
    report::console::progress(&machine);
    let mut lines = Vec::new();
    for row in options.rows() {
        lines.extend(measure(row, options)?);
    }
    report::console::print(&machine, &lines, options.markdown);
    Ok(lines.iter().all(|line| line.misses().is_none()))
}

fn measure(row: Row, options: &Options) -> anyhow::Result<Vec<Line>> {
    match row {
        Row::Cut => rows::cut::measure(options),
        Row::Stop => rows::stop::measure(options),
        Row::GiveBack => rows::give_back::measure(options),
        Row::Killed => rows::killed::measure(options),
        Row::Crowd => rows::crowd::measure(options),
        Row::Memory => rows::memory::measure(options),
        Row::Load => rows::load::measure(options),
        Row::Refresh => rows::refresh::measure(options),
        Row::Many => rows::many::measure(options),
    }
}
