//! The admission policy's objects as they stand, and the ConfigMap that it reads, kept as wanted.

use std::time::Duration;

use ipnet::IpNet;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};

use super::delta::{Delta, Seen, Trouble};
use super::follow::Follower;
use super::reading;
use super::resources::FIELD_MANAGER;
use crate::engine::cluster::world::{Guard, Protection};

/// The policy's name, and its binding's.
const POLICY: &str = "barevip-ingress-addresses";
/// The ConfigMap, in the controller's namespace.
const RANGES: &str = "barevip-ranges";
/// Its key: networks with commas between them.
const CIDRS: &str = "cidrs";

/// News that wait for the keeper.
const QUEUE: usize = 16;
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
    /// Starts to look, on this runtime, and anew about every `relist`. Nothing is written before it
    /// is wanted.
    #[must_use]
    pub fn start(client: &Client, namespace: &str, relist: Duration) -> Self {
        let (tell, known) = watch::channel(None);
        let (wanted, wishes) = watch::channel(None);
        let task = Task {
            ranges: Api::namespaced(client.clone(), namespace),
            wishes,
            tell,
            map: Known::default(),
            policy: Known::default(),
            binding: Known::default(),
            refused: None,
            pause: FIRST_PAUSE,
            rests_until: Instant::now(),
        };
        let (news, followers) = follow(client, namespace, relist);
        Self { known, wanted, task: tokio::spawn(task.run(news, followers)) }
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

/// Something happened to one of the objects.
enum News {
    Map(Delta<Map>),
    Policy(Delta<()>),
    Binding(Delta<Guard>),
    Trouble(Trouble),
}

impl From<Trouble> for News {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

const MAPS: &str = "configmaps";
const POLICIES: &str = "validatingadmissionpolicies";
const BINDINGS: &str = "validatingadmissionpolicybindings";

/// Follows the three objects.
fn follow(
    client: &Client,
    namespace: &str,
    relist: Duration,
) -> (mpsc::Receiver<News>, JoinSet<()>) {
    let (out, news) = mpsc::channel(QUEUE);
    let mut tasks = JoinSet::new();
    let maps = Api::namespaced(client.clone(), namespace);
    let see = |map: ConfigMap| seen(&map.metadata, read(&map));
    let maps = Follower::new(MAPS, maps, Box::new(see), News::Map, relist, out.clone());
    tasks.spawn(maps.only(RANGES).run());
    let policies = Api::all(client.clone());
    let see = |policy: ValidatingAdmissionPolicy| seen(&policy.metadata, ());
    let policies =
        Follower::new(POLICIES, policies, Box::new(see), News::Policy, relist, out.clone());
    tasks.spawn(policies.only(POLICY).run());
    let bindings = Api::all(client.clone());
    let namespace = namespace.to_owned();
    let see = move |binding: ValidatingAdmissionPolicyBinding| {
        seen(&binding.metadata, judge(&binding, &namespace))
    };
    let bindings = Follower::new(BINDINGS, bindings, Box::new(see), News::Binding, relist, out);
    tasks.spawn(bindings.only(POLICY).run());
    (news, tasks)
}

fn seen<V>(meta: &ObjectMeta, value: V) -> Seen<V> {
    Seen { key: reading::name(meta), version: reading::version(meta), value }
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
    wishes: watch::Receiver<Option<Vec<IpNet>>>,
    tell: watch::Sender<Option<Protection>>,
    map: Known<Map>,
    policy: Known<()>,
    binding: Known<Guard>,
    /// Why the last write of the ConfigMap was refused.
    refused: Option<String>,
    pause: Duration,
    rests_until: Instant,
}

impl Task {
    /// The followers end with it.
    async fn run(mut self, mut news: mpsc::Receiver<News>, _followers: JoinSet<()>) {
        loop {
            tokio::select! {
                Some(news) = news.recv() => self.see(news),
                wish = self.wishes.changed() => if wish.is_err() { return },
                () = sleep_until(self.rests_until), if self.is_wanting() => {}
            }
            if self.is_wanting() && Instant::now() >= self.rests_until {
                self.write().await;
            }
            self.tell_news();
        }
    }

    fn see(&mut self, news: News) {
        match news {
            // A version of before our own write. In a list it is news, of a restored etcd, and a
            // write that it leads to in vain is refused.
            News::Map(Delta::Applied(map)) if matches!(&self.map, Known::Is(held) if map.version < held.version) =>
                {}
            News::Map(delta) => self.map.see(delta),
            News::Policy(delta) => self.policy.see(delta),
            News::Binding(delta) => self.binding.see(delta),
            News::Trouble(Trouble { kind: MAPS, error }) => self.map.fail(error),
            News::Trouble(Trouble { kind: POLICIES, error }) => self.policy.fail(error),
            News::Trouble(Trouble { error, .. }) => self.binding.fail(error),
        }
    }

    fn is_wanting(&self) -> bool {
        let wanted = self.wishes.borrow();
        match (&self.map, wanted.as_ref()) {
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
        let is_new = !matches!(self.map, Known::Is(_));
        let write = async {
            if let Known::Is(map) = &self.map {
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
                self.map = Known::Is(read(&map));
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
        let ranges = match &self.map {
            Known::Unknown => return None,
            Known::Absent => None,
            Known::Is(map) => Some(map.networks.clone()),
            Known::Unreadable(why) => {
                refused = Some(why.clone());
                None
            }
        };
        let policy = match &self.policy {
            Known::Unknown => return None,
            Known::Absent => Guard::Missing,
            Known::Is(()) => Guard::Stands,
            Known::Unreadable(why) => Guard::Unreadable(why.clone()),
        };
        let binding = match &self.binding {
            Known::Unknown => return None,
            Known::Absent => Guard::Missing,
            Known::Is(guard) => guard.clone(),
            Known::Unreadable(why) => Guard::Unreadable(why.clone()),
        };
        Some(Protection { ranges, refused, policy, binding })
    }
}

impl<V> Known<V> {
    fn see(&mut self, delta: Delta<V>) {
        *self = match delta {
            Delta::All(listing) => {
                listing.objects.into_iter().next().map_or(Self::Absent, |seen| Self::Is(seen.value))
            }
            Delta::Applied(seen) => Self::Is(seen.value),
            Delta::Deleted { .. } => Self::Absent,
        };
    }

    /// A watch that fails goes on by itself: what was known stays.
    fn fail(&mut self, error: String) {
        if matches!(self, Self::Unknown) {
            *self = Self::Unreadable(error);
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

fn read(map: &ConfigMap) -> Map {
    let text = map.data.as_ref().and_then(|data| data.get(CIDRS)).map_or("", String::as_str);
    // As the policy reads them: what is no network is passed over.
    let networks: Vec<IpNet> = text.split(',').filter_map(|cidr| cidr.parse().ok()).collect();
    let mut networks = IpNet::aggregate(&networks);
    networks.sort_unstable();
    Map {
        version: reading::version(&map.metadata),
        resource_version: map.metadata.resource_version.clone().unwrap_or_default(),
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
