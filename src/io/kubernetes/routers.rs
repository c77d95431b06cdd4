//! The `VirtualRouter`s as an agent follows them.

use std::time::Duration;

use kube::core::DeserializeGuard;
use kube::{Api, Client, Resource};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::delta::{Delta, Seen, Trouble};
use super::follow::Follower;
use super::plan::virtual_router;
use super::reading;
use super::resources::VirtualRouter;
use crate::model;

/// Changes that wait for the agent; more wait in the connection.
const QUEUE: usize = 256;

/// Something happened to the plan of a node.
#[derive(Clone, Debug)]
pub enum PlanChange {
    /// To routers; what can't be read, with the reason.
    Routers(Delta<Result<Box<model::VirtualRouter>, String>>),
    /// The watch failed.
    Trouble(Trouble),
}

impl From<Trouble> for PlanChange {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

/// The watch of an agent. Dropping it ends it.
#[derive(Debug)]
pub struct RouterWatch {
    changes: mpsc::Receiver<PlanChange>,
    _task: JoinSet<()>,
}

impl RouterWatch {
    /// Starts the watch for the agent of `node`. Everything is listed anew about every `relist`.
    #[must_use]
    pub fn start(client: Client, node: &str, relist: Duration) -> Self {
        let (out, changes) = mpsc::channel(QUEUE);
        let node = node.to_owned();
        let see = move |guard: DeserializeGuard<VirtualRouter>| Seen {
            key: reading::name(guard.meta()),
            version: reading::version(guard.meta()),
            value: match guard.0 {
                Ok(object) => {
                    virtual_router(object, &node).map(Box::new).map_err(|error| error.to_string())
                }
                Err(invalid) => Err(invalid.error),
            },
        };
        let api = Api::all(client);
        let follower =
            Follower::new("virtualrouters", api, Box::new(see), PlanChange::Routers, relist, out);
        let mut task = JoinSet::new();
        task.spawn(follower.run());
        Self { changes, _task: task }
    }

    /// The next change. They never end.
    pub async fn next(&mut self) -> Option<PlanChange> {
        self.changes.recv().await
    }
}
