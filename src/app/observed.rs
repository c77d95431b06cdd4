//! What the engine's thread tells: its news as they happen, and its state when asked.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::engine::node::event::Event;
use crate::engine::node::status::NodeStatus;
use crate::io::clock::Moment;
use crate::io::kernel::send::SendCounts;

/// Something to tell an operator, with the time it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// By the wall clock.
    pub at: SystemTime,
    /// What happened.
    pub news: News,
}

/// What a node and its threads have to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The engine's.
    Event(Event),
    /// Trouble with this machine that the engine knows nothing of.
    Trouble(String),
}

impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event(event) => event.fmt(f),
            Self::Trouble(text) => f.write_str(text),
        }
    }
}

/// The news of a node, in order; ends with the engine's thread.
pub type Events = tokio::sync::mpsc::Receiver<Told>;

/// What the engine and its thread are and see at one moment.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The engine's own view.
    pub status: NodeStatus,
    /// When.
    pub at: Moment,
    /// Whether the thread runs before all ordinary ones, or why not.
    pub realtime: Result<(), String>,
    /// How late timers were since the start.
    pub lateness: Lateness,
    /// Packets sent and refused since the start.
    pub sent: SendCounts,
    /// Packets lost since the start because this process did not read them in time.
    pub overflowed: u64,
    /// News since the start that nobody read in time.
    pub untold: u64,
}

/// How late timers fired: the histogram of a metric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Timers by how late they were: each counts in the first bound that it did not exceed, the
    /// last count is of those beyond all bounds.
    pub counts: [u64; Self::BOUNDS.len() + 1],
    /// All of it.
    pub sum: Duration,
    /// The worst.
    pub worst: Duration,
}

impl Lateness {
    /// Upper bounds of the buckets.
    pub const BOUNDS: [Duration; 8] = [
        Duration::from_micros(50),
        Duration::from_micros(200),
        Duration::from_millis(1),
        Duration::from_millis(5),
        Duration::from_millis(20),
        Duration::from_millis(100),
        Duration::from_millis(500),
        Duration::from_secs(2),
    ];

    /// Counts a timer.
    pub(super) fn note(&mut self, late: Duration) {
        let bucket = Self::BOUNDS.iter().take_while(|bound| late > **bound);
        if let Some(count) = self.counts.get_mut(bucket.count()) {
            *count += 1;
        }
        self.sum += late;
        self.worst = self.worst.max(late);
    }
}
