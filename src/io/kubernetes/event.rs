//! Events on Services: what a person must know of an address. They never hold up a write: they
//! wait in a bounded queue, and what does not fit is counted in the log.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::sync::mpsc;

use super::resources::FIELD_MANAGER;
use crate::engine::cluster::decision::Notice;
use crate::engine::cluster::world::{ServiceKey, Uid};

/// Events that wait for the API server.
const QUEUE: usize = 256;

/// Where events go.
#[derive(Clone, Debug)]
pub struct Events {
    queue: mpsc::Sender<(ObjectReference, Event)>,
}

impl Events {
    /// Starts telling, on this runtime. `instance` is this process among the controllers.
    #[must_use]
    pub fn start(client: Client, instance: &str) -> Self {
        let (queue, mut waiting) = mpsc::channel::<(ObjectReference, Event)>(QUEUE);
        let reporter =
            Reporter { controller: FIELD_MANAGER.to_owned(), instance: Some(instance.to_owned()) };
        let recorder = Recorder::new(client, reporter);
        tokio::spawn(async move {
            while let Some((about, event)) = waiting.recv().await {
                if let Err(error) = recorder.publish(&event, &about).await {
                    tracing::warn!(%error, "an event was not taken by the API server");
                }
            }
        });
        Self { queue }
    }

    /// Tells of a Service.
    pub fn tell(&self, uid: &Uid, service: &ServiceKey, notice: &Notice) {
        tracing::info!(service = %service, reason = notice.reason, "{}", notice.note);
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Service".to_owned()),
            namespace: Some(service.namespace.to_string()),
            name: Some(service.name.to_string()),
            uid: Some(uid.to_string()),
            ..ObjectReference::default()
        };
        let event = Event {
            type_: if notice.warning { EventType::Warning } else { EventType::Normal },
            reason: notice.reason.to_owned(),
            note: Some(notice.note.clone()),
            action: "Allocate".to_owned(),
            secondary: None,
        };
        if self.queue.try_send((about, event)).is_err() {
            tracing::warn!(service = %service, "too many events wait: this one stays in the log");
        }
    }
}
