//! Stand-in for the engine's thread, with the agreed surface: to be replaced by the real one.

use std::time::{Duration, SystemTime};

use tokio::sync::mpsc;
use tokio::sync::watch;

use crate::engine::node::event::Event;
use crate::engine::node::node::{Identity, Node};
use crate::engine::node::status::NodeStatus;
use crate::engine::time::Instant;
use crate::model::Plan;

/// Choices of the loop.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options;

/// A status and when it was taken.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The status.
    pub status: NodeStatus,
    /// When, on the engine's clock.
    pub now: Instant,
    /// The same on the wall clock.
    pub wall: SystemTime,
}

/// The engine at work.
#[derive(Debug)]
pub struct NodeHandle {
    node: Node,
    stop: watch::Sender<bool>,
    events: mpsc::Sender<(SystemTime, Event)>,
    given: Option<mpsc::Receiver<(SystemTime, Event)>>,
}

impl NodeHandle {
    /// Starts.
    ///
    /// # Errors
    /// None.
    pub fn start(identity: Identity, plan: Plan, _options: Options) -> anyhow::Result<Self> {
        let mut node = Node::new(identity, 0);
        node.handle_plan(plan, Instant::ZERO);
        let (events, given) = mpsc::channel(64);
        Ok(Self {
            node,
            stop: watch::Sender::new(false),
            events,
            given: Some(given),
        })
    }

    /// The status.
    ///
    /// # Errors
    /// None.
    pub async fn status(&self) -> anyhow::Result<Observed> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok(Observed {
            status: self.node.status(),
            now: Instant::ZERO,
            wall: SystemTime::UNIX_EPOCH,
        })
    }

    /// Stops.
    pub fn shutdown(&self) {
        self.stop.send_replace(true);
    }

    /// Waits.
    ///
    /// # Errors
    /// None.
    pub async fn finished(&mut self) -> anyhow::Result<()> {
        self.stop.subscribe().wait_for(|stop| *stop).await?;
        Ok(())
    }

    /// Events.
    pub fn events(&mut self) -> mpsc::Receiver<(SystemTime, Event)> {
        let _open = &self.events;
        self.given.take().unwrap_or_else(|| mpsc::channel(1).1)
    }
}
