//! `barevip install`: everything into a cluster, and waiting until it works.

mod objects;
mod readiness;
mod rivals;

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, bail};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::time::{Instant, sleep};

pub use self::objects::{Fit, objects};
use self::readiness::Seen;
use super::manifests::Part;
use super::runtime::runtime;
use crate::io::kubernetes::apply::{Applier, Outcome};
use crate::io::kubernetes::client::connect_as_person;
use crate::io::kubernetes::resources::{Announcer, IngressPool};
use crate::model::AddressRange;

/// The API server gives up a write after this.
const WRITE_LIMIT: Duration = Duration::from_secs(10);
/// Between two looks at the cluster.
const PAUSE: Duration = Duration::from_millis(250);
/// Definitions are served a moment after they were made.
const DEFINED_WITHIN: Duration = Duration::from_secs(30);
/// The oldest API server that knows all that the policies ask for, as (major, minor).
const OLDEST: (u32, u32) = (1, 32);
/// The pool of `--addresses`.
const POOL: &str = "default";
/// The label of all that is ours, and the one that says of which version.
const PART_OF: &str = "app.kubernetes.io/part-of";
const VERSION: &str = "app.kubernetes.io/version";

/// Which cluster, as kubectl names it.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// A kubeconfig file; none: as kubectl finds it.
    pub kubeconfig: Option<std::path::PathBuf>,
    /// A context of it; none: the current one.
    pub context: Option<String>,
}

impl Cluster {
    /// A client of it, and its API server's URL.
    pub(super) async fn connect(&self) -> anyhow::Result<(Client, String)> {
        connect_as_person(self.kubeconfig.as_deref(), self.context.as_deref(), WRITE_LIMIT).await
    }
}

/// How barevip is installed.
#[derive(Clone, Debug)]
pub struct Options {
    /// Into which cluster.
    pub cluster: Cluster,
    /// What the pool `default` gives out; empty: pools stay as they are.
    pub addresses: Vec<AddressRange>,
    /// The image of agents and controller.
    pub image: String,
    /// When a node pulls it; none: as Kubernetes does by itself.
    pub pull_policy: Option<String>,
    /// The namespace of all that runs.
    pub namespace: String,
    /// Whether Services without a class are served; none: unless somebody else does.
    pub default_class: Option<bool>,
    /// Nothing is changed, only said.
    pub dry: bool,
    /// How long it may take until it works; zero: nobody waits.
    pub wait: Duration,
}

/// Installs, and waits until an address would be given and announced.
///
/// # Errors
/// No cluster, or one that is too old; a newer barevip is there; what the API server refuses; what
/// still lacks at the end.
pub fn run(options: &Options, out: &mut impl Write) -> anyhow::Result<()> {
    runtime()?.block_on(install(options, out))
}

async fn install(options: &Options, out: &mut impl Write) -> anyhow::Result<()> {
    let (client, url) = options.cluster.connect().await?;
    let version = server_version(&client).await?;
    let own = env!("CARGO_PKG_VERSION");
    writeln!(
        out,
        "barevip {own} into {url} (Kubernetes {version}), namespace {}",
        options.namespace
    )?;
    let before = workloads(&client, &options.namespace).await?;
    refuse_downgrade(&before)?;
    let default_class = default_class(options, &client, &before, out).await?;
    let fit = Fit {
        namespace: options.namespace.clone(),
        image: options.image.clone(),
        pull_policy: options.pull_policy.clone(),
        default_class,
    };
    let job = Job { applier: Applier::new(client.clone(), options.dry), fit, dry: options.dry };
    job.apply(Part::Crds, "definitions", out).await?;
    if !options.dry {
        job.until_defined().await?;
    }
    if owns_namespace(&client, &options.namespace).await? {
        job.apply(Part::Namespace, "namespace", out).await?;
    } else {
        writeln!(out, "  {:<12} {}: not ours, stays as it is", "namespace", options.namespace)?;
    }
    job.apply(Part::Policies, "policies", out).await?;
    job.apply(Part::Agent, "agents", out).await?;
    job.apply(Part::Controller, "controller", out).await?;
    if !options.addresses.is_empty() {
        job.tell("pool", &[pool(&options.addresses)?], out).await?;
    }
    if options.dry {
        writeln!(out, "nothing was changed: --dry-run")?;
        return Ok(());
    }
    if options.wait.is_zero() {
        return Ok(());
    }
    wait(&client, options, out).await
}

/// The pool of `--addresses`. Everything else that it may say stays as it is.
fn pool(addresses: &[AddressRange]) -> anyhow::Result<DynamicObject> {
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let object = json!({
        "apiVersion": "barevip.io/v1alpha1",
        "kind": "IngressPool",
        "metadata": {"name": POOL},
        "spec": {"addresses": addresses},
    });
    serde_json::from_value(object).context("the pool can't be written")
}

struct Job {
    applier: Applier,
    fit: Fit,
    dry: bool,
}

impl Job {
    async fn apply(&self, part: Part, title: &str, out: &mut impl Write) -> anyhow::Result<()> {
        self.tell(title, &objects(part, &self.fit)?, out).await
    }

    /// Applies objects and says in one line what became of them.
    async fn tell(
        &self,
        title: &str,
        objects: &[DynamicObject],
        out: &mut impl Write,
    ) -> anyhow::Result<()> {
        let (mut created, mut changed, mut unchanged) = (Vec::new(), Vec::new(), 0);
        for object in objects {
            let name = described(object);
            match self.applier.apply(object).await.with_context(|| format!("can't apply {name}"))? {
                Outcome::Created => created.push(name),
                Outcome::Changed => changed.push(name),
                Outcome::Unchanged => unchanged += 1,
            }
        }
        let mut says = Vec::new();
        for (what, names) in [("created", created), ("changed", changed)] {
            if !names.is_empty() {
                says.push(format!("{what} {}", names.join(", ")));
            }
        }
        if unchanged > 0 {
            says.push(format!("{unchanged} unchanged"));
        }
        let would = if self.dry { "would be: " } else { "" };
        Ok(writeln!(out, "  {title:<12} {would}{}", says.join("; "))?)
    }

    async fn until_defined(&self) -> anyhow::Result<()> {
        let give_up = Instant::now() + DEFINED_WITHIN;
        for definition in objects(Part::Crds, &self.fit)? {
            while !self.applier.get(&definition).await?.is_some_and(|seen| is_served(&seen)) {
                if Instant::now() > give_up {
                    bail!("{} is not served by the API server after 30 s", described(&definition));
                }
                sleep(PAUSE).await;
            }
        }
        Ok(())
    }
}

/// "Deployment barevip-controller".
pub(super) fn described(object: &DynamicObject) -> String {
    let kind = object.types.as_ref().map_or("", |types| &types.kind);
    format!("{kind} {}", object.name_any())
}

fn is_served(definition: &DynamicObject) -> bool {
    let conditions = definition.data.pointer("/status/conditions").and_then(|c| c.as_array());
    let served = |c: &serde_json::Value| c["type"] == "Established" && c["status"] == "True";
    conditions.into_iter().flatten().any(served)
}

async fn server_version(client: &Client) -> anyhow::Result<String> {
    let info = client.apiserver_version().await.context("the API server does not answer")?;
    let number = |text: &str| {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().unwrap_or(0)
    };
    if (number(&info.major), number(&info.minor)) < OLDEST {
        let (major, minor) = OLDEST;
        bail!(
            "the cluster is Kubernetes {}: barevip needs {major}.{minor} or newer",
            info.git_version
        );
    }
    Ok(info.git_version)
}

/// What of an installation runs, as it was before.
struct Workloads {
    agents: Option<DaemonSet>,
    controller: Option<Deployment>,
}

async fn workloads(client: &Client, namespace: &str) -> anyhow::Result<Workloads> {
    let agents = Api::<DaemonSet>::namespaced(client.clone(), namespace);
    let controller = Api::<Deployment>::namespaced(client.clone(), namespace);
    Ok(Workloads {
        agents: agents.get_opt("barevip-agent").await?,
        controller: controller.get_opt("barevip-controller").await?,
    })
}

/// Fields may have come since: an older barevip would lose what they say.
fn refuse_downgrade(before: &Workloads) -> anyhow::Result<()> {
    let labels = |labels: &std::collections::BTreeMap<String, String>| labels.get(VERSION).cloned();
    let agents = before.agents.as_ref().and_then(|set| labels(set.labels()));
    let controller = before.controller.as_ref().and_then(|set| labels(set.labels()));
    let own = env!("CARGO_PKG_VERSION");
    for there in agents.into_iter().chain(controller) {
        if numbers(&there) > numbers(own) {
            bail!(
                "barevip {there} is installed, and this is {own}: install with that version or a \
                 newer one, or take it out first with barevip uninstall"
            );
        }
    }
    Ok(())
}

/// 0.10.2 as numbers, so that it comes after 0.9.
fn numbers(version: &str) -> Vec<u64> {
    version.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect()
}

/// As asked for; else as it was; else unless somebody else serves Services.
async fn default_class(
    options: &Options,
    client: &Client,
    before: &Workloads,
    out: &mut impl Write,
) -> anyhow::Result<bool> {
    if let Some(asked) = options.default_class {
        return Ok(asked);
    }
    if let Some(deployment) = &before.controller {
        let template = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
        let containers = template.iter().flat_map(|spec| &spec.containers);
        let mut arguments = containers.flat_map(|container| container.args.iter().flatten());
        return Ok(!arguments.any(|argument| argument == "--default-class=false"));
    }
    let Some(rival) = rivals::find(client).await? else { return Ok(true) };
    writeln!(
        out,
        "  {rival} is at work: Services without a loadBalancerClass stay its own, those of class \
         barevip.io/vip are served (--default-class true takes them all)"
    )?;
    Ok(false)
}

/// Whether the namespace is to be made or is ours; one that was made by others is left as it is.
async fn owns_namespace(client: &Client, name: &str) -> anyhow::Result<bool> {
    let Some(namespace) = Api::<Namespace>::all(client.clone()).get_opt(name).await? else {
        return Ok(true);
    };
    if is_ours(&namespace) {
        return Ok(true);
    }
    let label = "pod-security.kubernetes.io/enforce";
    match namespace.labels().get(label).map(String::as_str) {
        Some(standard @ ("baseline" | "restricted")) => bail!(
            "--namespace {name}: its label {label}={standard} keeps the agents out, which work on \
             their nodes' network; choose another namespace, or set the label to privileged"
        ),
        _ => Ok(false),
    }
}

/// Whether we have made a namespace.
pub(super) fn is_ours(namespace: &Namespace) -> bool {
    namespace.labels().get(PART_OF).is_some_and(|value| value == "barevip")
}

/// Waits until nothing lacks, and says what is waited for.
async fn wait(client: &Client, options: &Options, out: &mut impl Write) -> anyhow::Result<()> {
    let started = Instant::now();
    let mut said = Vec::new();
    loop {
        let seen = look(client, &options.namespace).await?;
        let lacks = seen.lacks();
        if lacks.is_empty() {
            return tell_ready(&seen, started.elapsed(), out);
        }
        if started.elapsed() > options.wait {
            bail!(
                "it does not work after {}: {}",
                humantime::format_duration(options.wait),
                lacks.join("; ")
            );
        }
        if lacks != said {
            writeln!(out, "  {:<12} {}", "waiting", lacks.join("; "))?;
            out.flush()?;
            said = lacks;
        }
        sleep(PAUSE).await;
    }
}

async fn look(client: &Client, namespace: &str) -> anyhow::Result<Seen> {
    let Workloads { agents, controller } = workloads(client, namespace).await?;
    let ours = ListParams::default().labels(&format!("{PART_OF}=barevip"));
    let all = ListParams::default();
    Ok(Seen {
        agents,
        controller,
        pods: Api::<Pod>::namespaced(client.clone(), namespace).list(&ours).await?.items,
        announcers: Api::<Announcer>::all(client.clone()).list(&all).await?.items,
        pools: Api::<IngressPool>::all(client.clone()).list(&all).await?.items,
    })
}

fn tell_ready(seen: &Seen, after: Duration, out: &mut impl Write) -> anyhow::Result<()> {
    let agents = seen.agents.as_ref().and_then(|set| set.status.as_ref());
    let agents = agents.map_or(0, |status| status.desired_number_scheduled);
    writeln!(out, "ready after {:.1} s: {agents} agent(s) have reported", after.as_secs_f64())?;
    for pool in &seen.pools {
        let free = pool.status.as_ref().map_or("?", |status| &status.free);
        writeln!(out, "  pool {}: {free} address(es) free", pool.name_any())?;
    }
    let next = if seen.pools.is_empty() {
        "give it addresses: barevip install --addresses 192.0.2.200-192.0.2.250"
    } else {
        "next: kubectl expose deployment NAME --port=80 --type=LoadBalancer"
    };
    Ok(writeln!(out, "{next}")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(version: &str) -> Workloads {
        let mut set = DaemonSet::default();
        set.labels_mut().insert(VERSION.to_owned(), version.to_owned());
        Workloads { agents: Some(set), controller: None }
    }

    #[test]
    fn an_older_version_does_not_replace_a_newer_one() {
        let own = env!("CARGO_PKG_VERSION");
        refuse_downgrade(&labelled(own)).unwrap();
        refuse_downgrade(&labelled("0.0.9")).unwrap();
        let refused = refuse_downgrade(&labelled("100.0.0")).unwrap_err().to_string();
        assert!(refused.starts_with("barevip 100.0.0 is installed, and this is"), "{refused}");
        assert!(numbers("0.10.2") > numbers("0.9.7"));
    }
}
