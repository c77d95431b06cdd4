//! The allocator against a real API server: `cargo bench --bench allocation`.
//!
//! One API server with its etcd on this machine, the admission policies in place, a pool of ten
//! networks. Times are shown as multiples of what the API server itself takes in the same run: its
//! own speed is not what is measured. About two minutes; needs what `tests/run` installs.
//!
//! * all waiting: 1 000 Services wait, a pool appears; until the last one has its address;
//! * restart: 5 000 Services that all have theirs; from the start of a new leader to its first
//!   decision, and what it writes;
//! * one new: beside these, from the creation of a Service to its address;
//! * memory of the leader with all of them.

#![allow(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    dead_code,
    reason = "a benchmark prints, and uses a part of what the tests share"
)]

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use barevip::io::lab::process::Process;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Service;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher::{Config as WatchConfig, Event, watcher};
use kube::{Api, Client, Config, ResourceExt};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::control_plane::ControlPlane;

#[path = "../tests/support"]
mod support {
    pub(crate) mod control_plane;
    pub(crate) mod netns {
        pub(crate) mod patience;
    }
    pub(crate) mod scratch;
}

const WAITING: usize = 1_000;
const ALL: usize = 5_000;
const NEW: usize = 30;
const AT_ONCE: usize = 16;
/// Ten networks that do not touch: 5 100 addresses.
const POOL: &str = r#"
apiVersion: barevip.io/v1alpha1
kind: IngressPool
metadata: {name: large}
spec:
  routers: 32
  reuseAfter: 0s
  addresses: ["198.18.0.0/23", "198.18.4.0/23", "198.18.8.0/23", "198.18.12.0/23",
    "198.18.16.0/23", "198.18.20.0/23", "198.18.24.0/23", "198.18.28.0/23", "198.18.32.0/23",
    "198.18.36.0/23"]
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match measure().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A value, and the bar that it has to keep below.
struct Line {
    what: &'static str,
    value: String,
    bar: String,
    holds: bool,
}

async fn measure() -> anyhow::Result<bool> {
    let bench = Bench::start().await?;
    let mut lines = Vec::new();
    progress("1 000 status writes, one after the other");
    let serial = bench.serial_writes().await?;
    let mut controller = bench.controller();
    lines.push(bench.all_waiting(&serial).await?);
    bench.fill().await?;
    lines.extend(bench.restart(&mut controller).await?);
    lines.push(bench.one_new(&serial).await?);
    lines.push(memory(controller.id()));
    println!("\n| measure | barevip | bar | |\n| --- | --- | --- | --- |");
    for line in &lines {
        let verdict = if line.holds { "good" } else { "missed" };
        println!("| {} | {} | {} | {verdict} |", line.what, line.value, line.bar);
    }
    Ok(lines.iter().all(|line| line.holds))
}

fn progress(what: &str) {
    println!("… {what}");
}

/// Status writes, one after the other.
struct Serial {
    whole: Duration,
    median: Duration,
}

struct Bench {
    plane: ControlPlane,
    services: Api<Service>,
    http: SocketAddr,
}

impl Bench {
    async fn start() -> anyhow::Result<Self> {
        progress("an API server starts");
        let plane = ControlPlane::start();
        for which in ["crds", "policies"] {
            let printed =
                Command::new(env!("CARGO_BIN_EXE_barevip")).args(["manifests", which]).output()?;
            plane.apply(&String::from_utf8(printed.stdout)?);
        }
        plane.kubectl(&["wait", "--for=condition=Established", "crd", "--all"]);
        plane.kubectl(&["create", "namespace", "barevip-system"]);
        let kubeconfig = Kubeconfig::read_from(plane.kubeconfig())?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        let client = Client::try_from(config)?;
        let http = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?;
        Ok(Self { plane, services: Api::default_namespaced(client), http })
    }

    fn controller(&self) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_barevip"));
        command
            .args(["--log-level", "warn", "controller", "--http", &self.http.to_string()])
            .env("KUBECONFIG", self.plane.kubeconfig())
            .stdout(Stdio::null());
        Process::start(command).unwrap()
    }

    async fn create(&self, names: Vec<String>, class: Option<&str>) -> anyhow::Result<()> {
        let creations = names.iter().map(|name| self.create_one(name, class));
        stream::iter(creations).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
        Ok(())
    }

    async fn create_one(&self, name: &str, class: Option<&str>) -> anyhow::Result<()> {
        let service = serde_json::from_value(json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name},
            "spec": {
                "type": "LoadBalancer",
                "loadBalancerClass": class,
                "allocateLoadBalancerNodePorts": false,
                "ports": [{"port": 80}],
            },
        }))?;
        self.services.create(&PostParams::default(), &service).await?;
        Ok(())
    }

    async fn serial_writes(&self) -> anyhow::Result<Serial> {
        let names: Vec<_> = (0..WAITING).map(|n| format!("serial-{n}")).collect();
        self.create(names.clone(), Some("example.com/other")).await?;
        let mut each = Vec::new();
        for name in &names {
            let patch = Patch::Strategic(json!({"status": {
                "loadBalancer": {"ingress": [{"ip": "203.0.113.7", "ipMode": "VIP"}]},
                "conditions": [{
                    "type": "example.com/Allocated", "status": "True", "reason": "Allocated",
                    "message": "203.0.113.7", "lastTransitionTime": "2026-01-01T00:00:00Z",
                }],
            }}));
            let started = Instant::now();
            self.services.patch_status(name, &PatchParams::default(), &patch).await?;
            each.push(started.elapsed());
        }
        let gone = names.iter().map(|name| async {
            self.services.delete(name, &DeleteParams::default()).await.map(drop)
        });
        stream::iter(gone).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
        let whole = each.iter().sum();
        Ok(Serial { whole, median: median(each) })
    }

    async fn all_waiting(&self, serial: &Serial) -> anyhow::Result<Line> {
        progress("1 000 Services wait for a pool");
        self.create((0..WAITING).map(|n| format!("waiting-{n}")).collect(), None).await?;
        self.until_page("the Services know that they wait", |page| {
            sum(page, r#"barevip_writes_total{object="service",result="done"}"#) >= WAITING as f64
        })
        .await;
        let mut seen = Addresses::watch(&self.services).await?;
        let started = Instant::now();
        self.plane.apply(POOL);
        seen.until(WAITING).await?;
        let took = started.elapsed();
        let ratio = took.as_secs_f64() / serial.whole.as_secs_f64();
        Ok(Line {
            what: "a pool appears: 1 000 waiting Services have an address",
            value: format!("{:.2} s = {ratio:.2} × serial", took.as_secs_f64()),
            bar: format!("0.6 × {:.2} s", serial.whole.as_secs_f64()),
            holds: ratio <= 0.6,
        })
    }

    async fn fill(&self) -> anyhow::Result<()> {
        progress("5 000 Services");
        self.create((WAITING..ALL).map(|n| format!("more-{n}")).collect(), None).await?;
        Addresses::watch(&self.services).await?.until(ALL).await
    }

    async fn restart(&self, controller: &mut Process) -> anyhow::Result<[Line; 2]> {
        progress("a new leader");
        controller.signal(Signal::SIGTERM)?;
        controller.wait()?;
        let started = Instant::now();
        self.services.list(&ListParams::default()).await?;
        let list = started.elapsed();
        let started = Instant::now();
        *controller = self.controller();
        self.until_page("the new leader has decided", |page| {
            sum(page, "barevip_decision_seconds_count") >= 1.0
        })
        .await;
        let took = started.elapsed();
        // What it would write it would write at once.
        let renewals = self.plane.kubectl(&RENEWED);
        let mut pace = tokio::time::interval(Duration::from_millis(100));
        while self.plane.kubectl(&RENEWED) == renewals {
            pace.tick().await;
        }
        let written = sum(&self.page(), "barevip_writes_total");
        let ratio = took.as_secs_f64() / list.as_secs_f64();
        Ok([
            Line {
                what: "restart with 5 000 Services: start to first decision",
                value: format!("{:.0} ms = {ratio:.2} × list", took.as_secs_f64() * 1e3),
                bar: format!("1.5 × {:.0} ms", list.as_secs_f64() * 1e3),
                holds: ratio <= 1.5,
            },
            Line {
                what: "the same: writes but the lease's",
                value: written.to_string(),
                bar: "0".to_owned(),
                holds: written == 0.0,
            },
        ])
    }

    async fn one_new(&self, serial: &Serial) -> anyhow::Result<Line> {
        progress("one more, thirty times");
        let mut seen = Addresses::watch(&self.services).await?;
        let mut each = Vec::new();
        for n in 0..NEW {
            let started = Instant::now();
            self.create_one(&format!("new-{n}"), None).await?;
            seen.until(ALL + n + 1).await?;
            each.push(started.elapsed());
        }
        let took = median(each);
        let ratio = took.as_secs_f64() / serial.median.as_secs_f64();
        Ok(Line {
            what: "one new Service beside 5 000: create to address (median)",
            value: format!("{:.1} ms = {ratio:.1} × a write", took.as_secs_f64() * 1e3),
            bar: format!("4 × {:.1} ms", serial.median.as_secs_f64() * 1e3),
            holds: ratio <= 4.0,
        })
    }

    async fn until_page(&self, what: &str, holds: impl Fn(&str) -> bool) {
        let mut pace = tokio::time::interval(Duration::from_millis(2));
        let started = Instant::now();
        while !holds(&self.page()) {
            assert!(started.elapsed() < Duration::from_secs(300), "{what}: not within 300 s");
            pace.tick().await;
        }
    }

    /// The controller's metrics; nothing while it does not answer.
    fn page(&self) -> String {
        let mut page = String::new();
        if let Ok(mut stream) = TcpStream::connect(self.http) {
            let asked = write!(stream, "GET /metrics HTTP/1.1\r\nHost: barevip\r\n\r\n");
            if asked.is_err() || stream.read_to_string(&mut page).is_err() {
                page.clear();
            }
        }
        page
    }
}

const RENEWED: [&str; 7] = [
    "get",
    "lease",
    "-n",
    "barevip-system",
    "barevip-controller",
    "-o",
    "jsonpath={.spec.renewTime}",
];

/// Services that have an address, as a watch shows them.
struct Addresses {
    stream: BoxStream<'static, Result<Event<Service>, kube::runtime::watcher::Error>>,
    have_one: BTreeSet<String>,
}

impl Addresses {
    async fn watch(services: &Api<Service>) -> anyhow::Result<Self> {
        let stream = watcher(services.clone(), WatchConfig::default()).boxed();
        let mut addresses = Self { stream, have_one: BTreeSet::new() };
        while !addresses.next().await? {}
        Ok(addresses)
    }

    async fn until(&mut self, count: usize) -> anyhow::Result<()> {
        while self.have_one.len() < count {
            self.next().await?;
        }
        Ok(())
    }

    /// Takes one event; whether it ends a list.
    async fn next(&mut self) -> anyhow::Result<bool> {
        match self.stream.try_next().await?.context("the watch ended")? {
            Event::Apply(service) | Event::InitApply(service) => {
                let status = service.status.as_ref();
                let ingress = status
                    .and_then(|status| status.load_balancer.as_ref())
                    .and_then(|balancer| balancer.ingress.as_ref());
                if ingress.is_some_and(|ingress| !ingress.is_empty()) {
                    self.have_one.insert(service.name_any());
                }
            }
            Event::Delete(service) => drop(self.have_one.remove(&service.name_any())),
            Event::Init => {}
            Event::InitDone => return Ok(true),
        }
        Ok(false)
    }
}

fn median(mut each: Vec<Duration>) -> Duration {
    each.sort_unstable();
    each[each.len() / 2]
}

/// The sum of the samples whose line begins so.
fn sum(page: &str, beginning: &str) -> f64 {
    let lines = page.lines().filter(|line| line.starts_with(beginning));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

fn memory(process: u32) -> Line {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let of = |name: &str| -> f64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
    };
    let (now, peak) = (of("VmRSS:"), of("VmHWM:"));
    Line {
        what: "memory of the leader with 5 000 Services",
        value: format!("{now:.1} MB (at most {peak:.1})"),
        bar: "30 MB".to_owned(),
        holds: now <= 30.0,
    }
}
