//! The admission policy's objects as they stand, and the ConfigMap that it reads, kept as wanted.

use std::fmt::Debug;
use std::time::Duration;

use futures_util::{Stream, TryStreamExt};
use ipnet::IpNet;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Error, Event, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use super::reading;
use super::resources::FIELD_MANAGER;
use crate::engine::cluster::world::{Guard, Protection};

/// The policy's name, and its binding's.
const POLICY: &str = "barevip-ingress-addresses";
/// The ConfigMap, in the controller's namespace.
const RANGES: &str = "barevip-ranges";
/// Its key: networks with commas between them.
const CIDRS: &str = "cidrs";

/// As for all watches.
const WATCH_SECONDS: u32 = 25;
const PATIENCE: Duration = Duration::from_secs(5);
/// Until a write that failed is tried again, doubled with each further failure.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What is known of the policy's objects, and the task that keeps the ConfigMap.
#[derive(Debug)]
pub struct Keeper {
    known: watch::Receiver<Option<Protection>>,
    wanted: watch::Sender<Option<Vec<IpNet>>>,
    task: JoinHandle<()>,
}

impl Keeper {
    /// Starts to look, on this runtime, and anew as often as this: after etcd was restored a watch
    /// says nothing. Nothing is written before it is wanted.
    #[must_use]
    pub fn start(client: &Client, namespace: &str, relist: Duration) -> Self {
        let (tell, known) = watch::channel(None);
        let (wanted, wishes) = watch::channel(None);
        let task = Task {
            ranges: Api::namespaced(client.clone(), namespace),
            namespace: namespace.to_owned(),
            relist,
            wishes,
            tell,
            map: Found::default(),
            policy: Found::default(),
            binding: Found::default(),
            refused: None,
            pause: FIRST_PAUSE,
            rests_until: Instant::now(),
        };
        Self { known, wanted, task: tokio::spawn(task.run(client.clone())) }
    }

    /// Waits for news.
    pub async fn changed(&mut self) {
        if self.known.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// What is known now; none: not all of it yet.
    #[must_use]
    pub fn known(&mut self) -> Option<Protection> {
        self.known.borrow_and_update().clone()
    }

    /// The ConfigMap is to show these.
    pub fn want(&self, ranges: Vec<IpNet>) {
        self.wanted.send_if_modified(|wanted| {
            let is_news = wanted.as_ref() != Some(&ranges);
            *wanted = Some(ranges);
            is_news
        });
    }

    /// Writes nothing any more, once what is under way has ended.
    pub async fn stop(self) {
        drop(self.wanted);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the keeper of the protected ranges ended by a panic");
        }
    }
}

/// An object, as far as it is known.
#[derive(Clone, Debug, Default)]
enum Known<V> {
    #[default]
    Unknown,
    Absent,
    Is(V),
    Unreadable(String),
}

/// An object that is followed.
#[derive(Debug)]
struct Found<V> {
    known: Known<V>,
    /// What a list that has not ended has shown.
    listed: Option<V>,
}

impl<V> Default for Found<V> {
    fn default() -> Self {
        Self { known: Known::Unknown, listed: None }
    }
}

/// What the ConfigMap says.
#[derive(Clone, Debug)]
struct Map {
    version: u64,
    resource_version: String,
    networks: Vec<IpNet>,
}

struct Task {
    ranges: Api<ConfigMap>,
    namespace: String,
    relist: Duration,
    wishes: watch::Receiver<Option<Vec<IpNet>>>,
    tell: watch::Sender<Option<Protection>>,
    map: Found<Map>,
    policy: Found<()>,
    binding: Found<Guard>,
    /// Why the last write of the ConfigMap was refused.
    refused: Option<String>,
    pause: Duration,
    rests_until: Instant,
}

impl Task {
    async fn run(mut self, client: Client) {
        let all_policies = Api::<ValidatingAdmissionPolicy>::all(client.clone());
        let all_bindings = Api::<ValidatingAdmissionPolicyBinding>::all(client);
        let mut maps = Box::pin(follow(self.ranges.clone(), RANGES));
        let mut policies = Box::pin(follow(all_policies.clone(), POLICY));
        let mut bindings = Box::pin(follow(all_bindings.clone(), POLICY));
        let mut relist_at = Instant::now() + self.relist;
        loop {
            tokio::select! {
                event = maps.try_next() => self.see_map(event),
                event = policies.try_next() => self.policy.see(event, |_| ()),
                event = bindings.try_next() => {
                    self.binding.see(event, |binding| judge(&binding, &self.namespace));
                }
                () = sleep_until(relist_at) => {
                    maps.set(follow(self.ranges.clone(), RANGES));
                    policies.set(follow(all_policies.clone(), POLICY));
                    bindings.set(follow(all_bindings.clone(), POLICY));
                    relist_at = Instant::now() + self.relist;
                }
                wish = self.wishes.changed() => if wish.is_err() { return },
                () = sleep_until(self.rests_until), if self.is_wanting() => {}
            }
            if self.is_wanting() && Instant::now() >= self.rests_until {
                self.write().await;
            }
            self.tell_news();
        }
    }

    /// In a watch, a version of before our own write is no news; in a list it is, of a restored
    /// etcd, and a write that it leads to in vain is refused.
    fn see_map(&mut self, event: Told<ConfigMap>) {
        if let (Ok(Some(Event::Apply(map))), Known::Is(held)) = (&event, &self.map.known)
            && reading::version(&map.metadata) < held.version
        {
            return;
        }
        self.map.see(event, read);
    }

    fn is_wanting(&self) -> bool {
        let wanted = self.wishes.borrow();
        match (&self.map.known, wanted.as_ref()) {
            (Known::Is(map), Some(wanted)) => map.networks != *wanted,
            (Known::Absent, Some(wanted)) => !wanted.is_empty(),
            (Known::Unknown | Known::Unreadable(_), _) | (_, None) => false,
        }
    }

    async fn write(&mut self) {
        let wanted = self.wishes.borrow().clone().unwrap_or_default();
        let texts: Vec<_> = wanted.iter().map(ToString::to_string).collect();
        let data = json!({CIDRS: texts.join(",")});
        let manager = Some(FIELD_MANAGER.to_owned());
        let is_new = !matches!(self.map.known, Known::Is(_));
        let write = async {
            if let Known::Is(map) = &self.map.known {
                let metadata = json!({"resourceVersion": map.resource_version});
                let patch = Patch::Merge(json!({"metadata": metadata, "data": data}));
                let params = PatchParams { field_manager: manager, ..PatchParams::default() };
                return self.ranges.patch(RANGES, &params, &patch).await;
            }
            let labels = [("app.kubernetes.io/part-of".to_owned(), "barevip".to_owned())];
            let map = ConfigMap {
                metadata: ObjectMeta {
                    name: Some(RANGES.to_owned()),
                    labels: Some(labels.into()),
                    ..ObjectMeta::default()
                },
                data: serde_json::from_value(data).map_err(kube::Error::SerdeError)?,
                ..ConfigMap::default()
            };
            let params = PostParams { field_manager: manager, ..PostParams::default() };
            self.ranges.create(&params, &map).await
        };
        match timeout(PATIENCE, write).await {
            Ok(Ok(map)) => {
                tracing::info!(networks = wanted.len(), "the protected ranges were written");
                self.map.known = Known::Is(read(map));
                self.refused = None;
                self.pause = FIRST_PAUSE;
                return;
            }
            Ok(Err(kube::Error::Api(status))) if is_refusal(status.code, is_new) => {
                tracing::warn!(%status, "the protected ranges can't be written");
                self.refused = Some(status.message.clone());
            }
            // Changed meanwhile, or nobody knows: the watch will tell.
            Ok(Err(error)) => tracing::debug!(%error, "the protected ranges were not written"),
            Err(_) => tracing::warn!("no answer to a write of the protected ranges within 5 s"),
        }
        self.rests_until = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    fn tell_news(&self) {
        let news = self.protection();
        self.tell.send_if_modified(|told| {
            let is_news = *told != news;
            *told = news;
            is_news
        });
    }

    /// Once all three objects have been looked for.
    fn protection(&self) -> Option<Protection> {
        let mut refused = self.refused.clone();
        let ranges = match &self.map.known {
            Known::Unknown => return None,
            Known::Absent => None,
            Known::Is(map) => Some(map.networks.clone()),
            Known::Unreadable(why) => {
                refused = Some(why.clone());
                None
            }
        };
        let policy = match &self.policy.known {
            Known::Unknown => return None,
            Known::Absent => Guard::Missing,
            Known::Is(()) => Guard::Stands,
            Known::Unreadable(why) => Guard::Unreadable(why.clone()),
        };
        let binding = match &self.binding.known {
            Known::Unknown => return None,
            Known::Absent => Guard::Missing,
            Known::Is(guard) => guard.clone(),
            Known::Unreadable(why) => Guard::Unreadable(why.clone()),
        };
        Some(Protection { ranges, refused, policy, binding })
    }
}

impl<V> Found<V> {
    /// Takes an event in. A watch that fails goes on by itself: what was known stays.
    fn see<K>(&mut self, event: Told<K>, read: impl FnOnce(K) -> V) {
        match event {
            Ok(Some(Event::Init)) => self.listed = None,
            Ok(Some(Event::InitApply(object))) => self.listed = Some(read(object)),
            Ok(Some(Event::InitDone)) => {
                self.known = self.listed.take().map_or(Known::Absent, Known::Is);
            }
            Ok(Some(Event::Apply(object))) => self.known = Known::Is(read(object)),
            Ok(Some(Event::Delete(_))) => self.known = Known::Absent,
            Ok(None) => {}
            Err(error) => {
                if matches!(self.known, Known::Unknown) {
                    self.known = Known::Unreadable(error.to_string());
                }
            }
        }
    }
}

/// Whether a write will fail until a person does something: it is forbidden, invalid, or the
/// namespace is missing. 409, and 404 of an object that was there, say that it has changed.
fn is_refusal(code: u16, is_new: bool) -> bool {
    match code {
        404 => is_new,
        409 | 429 => false,
        code => (400..500).contains(&code),
    }
}

type Told<K> = Result<Option<Event<K>>, Error>;

/// One object's events, for ever.
fn follow<K>(api: Api<K>, name: &str) -> impl Stream<Item = Result<Event<K>, Error>> + use<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let one = Config::default().fields(&format!("metadata.name={name}")).timeout(WATCH_SECONDS);
    watcher(api, one).default_backoff()
}

fn read(map: ConfigMap) -> Map {
    let text = map.data.unwrap_or_default().remove(CIDRS).unwrap_or_default();
    // As the policy reads them: what is no network is passed over.
    let networks: Vec<IpNet> = text.split(',').filter_map(|cidr| cidr.parse().ok()).collect();
    let mut networks = IpNet::aggregate(&networks);
    networks.sort_unstable();
    Map {
        version: reading::version(&map.metadata),
        resource_version: map.metadata.resource_version.unwrap_or_default(),
        networks,
    }
}

/// Whether a binding has users denied, by the ranges that this controller writes.
fn judge(binding: &ValidatingAdmissionPolicyBinding, namespace: &str) -> Guard {
    let spec = binding.spec.clone();
    if !spec.validation_actions.iter().any(|action| action == "Deny") {
        return Guard::Useless("has no validation action Deny".to_owned());
    }
    let read = spec.param_ref.unwrap_or_default();
    let (name, from) = (read.name.unwrap_or_default(), read.namespace.unwrap_or_default());
    if (name.as_str(), from.as_str()) != (RANGES, namespace) {
        return Guard::Useless(format!(
            "reads the ConfigMap {from}/{name} and the controller writes {namespace}/{RANGES}"
        ));
    }
    Guard::Stands
}
