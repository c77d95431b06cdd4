//! The command line: which rows, and how many trials.

use clap::{Parser, ValueEnum};

/// barevip beside keepalived, measured.
#[derive(Debug, Parser)]
#[command(name = "side_by_side")]
pub(crate) struct Options {
    /// Fewer trials, under three minutes
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these rows; may be given several times
    #[arg(long, value_enum, value_name = "ROW")]
    only: Vec<Row>,
    /// So many trials of everything
    #[arg(long, value_name = "N")]
    trials: Option<usize>,
    /// The table as Markdown
    #[arg(long)]
    pub(crate) markdown: bool,
    /// Cargo says this to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Row {
    /// The Active node falls silent
    Cut,
    /// The Active node is stopped as planned
    Stop,
    /// A preferred node returns
    GiveBack,
    /// The daemon is killed or hangs
    Killed,
    /// Nine candidates
    Crowd,
    /// Resident memory
    Memory,
    /// Processor time of 255 virtual routers
    Load,
    /// Keeping addresses alive
    Refresh,
    /// Failover of 200 addresses
    Many,
}

impl Options {
    /// The rows asked for, in the table's order.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row> {
        let wanted = |row: &Row| self.only.is_empty() || self.only.contains(row);
        Row::value_variants().iter().copied().filter(wanted)
    }

    /// How many trials, where a full and a quick run make so many.
    pub(crate) fn trials(&self, full: usize, quick: usize) -> usize {
        self.trials.unwrap_or(if self.quick { quick } else { full }).max(1)
    }
}
