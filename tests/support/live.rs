//! A cluster with a real API server, its objects as values, and controllers as processes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use barevip::io::kubernetes::resources::{
    FIELD_MANAGER, IngressPool, IngressPoolStatus, VirtualRouter,
};
use barevip::io::lab::process::Process;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::support::api_proxy::ApiProxy;
use crate::support::control_plane::ControlPlane;
use crate::support::netns::patience::{unless, until};
use crate::support::scratch::Scratch;

const NAMESPACE: &str = "default";
/// Long enough that a busy machine renews in time, short enough to wait for.
pub(crate) const LEASE_SECONDS: f64 = 5.0;
const TIMING: [&str; 4] = ["--lease-duration", "5s", "--retry-period", "500ms"];

/// An API server with the custom resources and the controller's namespace.
pub(crate) struct Live {
    pub(crate) plane: ControlPlane,
    runtime: Runtime,
    client: Client,
}

impl Live {
    pub(crate) fn start() -> Self {
        let plane = ControlPlane::start();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = runtime.block_on(async {
            let file = Kubeconfig::read_from(plane.kubeconfig()).unwrap();
            let options = KubeConfigOptions::default();
            Client::try_from(Config::from_custom_kubeconfig(file, &options).await.unwrap()).unwrap()
        });
        let live = Self { plane, runtime, client };
        live.install();
        live.plane.kubectl(&["create", "namespace", "barevip-system"]);
        live
    }

    /// Waits until the API server answers: after its etcd was away.
    pub(crate) fn until_reached(&self) {
        until("the API server answers", || {
            let listed = self.runtime.block_on(self.services_api().list(&ListParams::default()));
            listed.map(drop).map_err(|error| error.to_string())
        });
    }

    /// Installs the custom resources.
    pub(crate) fn install(&self) {
        let definitions = Command::new(env!("CARGO_BIN_EXE_barevip"))
            .args(["manifests", "crds"])
            .output()
            .unwrap();
        assert!(definitions.status.success());
        self.plane.apply(&String::from_utf8(definitions.stdout).unwrap());
        self.plane.kubectl(&["wait", "--for=condition=Established", "crd", "--all"]);
    }

    fn services_api(&self) -> Api<Service> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    fn wait<T>(&self, ask: impl Future<Output = kube::Result<T>>) -> T {
        self.runtime.block_on(ask).unwrap()
    }

    /// A pool of these addresses, with these further fields of its spec.
    pub(crate) fn pool(&self, name: &str, addresses: &str, more: &Value) {
        let mut spec = json!({"addresses": [addresses], "routers": 1});
        spec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        let pool = json!({"apiVersion": "barevip.io/v1alpha1", "kind": "IngressPool",
            "metadata": {"name": name}, "spec": spec});
        let api = Api::<IngressPool>::all(self.client.clone());
        self.wait(api.create(&PostParams::default(), &serde_json::from_value(pool).unwrap()));
    }

    pub(crate) fn patch_pool(&self, name: &str, patch: &Value) {
        let api = Api::<IngressPool>::all(self.client.clone());
        self.wait(api.patch(name, &PatchParams::default(), &Patch::Merge(patch)));
    }

    pub(crate) fn pool_status(&self, name: &str) -> IngressPoolStatus {
        let api = Api::<IngressPool>::all(self.client.clone());
        self.wait(api.get(name)).status.unwrap_or_default()
    }

    pub(crate) fn delete_pool(&self, name: &str) {
        let api = Api::<IngressPool>::all(self.client.clone());
        self.wait(api.delete(name, &DeleteParams::default()));
    }

    /// A Service of type LoadBalancer, without node ports.
    pub(crate) fn expose(&self, name: &str) {
        self.expose_with(name, &json!({}));
    }

    pub(crate) fn expose_with(&self, name: &str, more: &Value) {
        let mut spec = json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false,
            "ports": [{"port": 80}]});
        spec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        let service = json!({"metadata": {"name": name}, "spec": spec});
        let service = serde_json::from_value(service).unwrap();
        self.wait(self.services_api().create(&PostParams::default(), &service));
    }

    pub(crate) fn patch(&self, name: &str, patch: &Value) {
        let api = self.services_api();
        self.wait(api.patch(name, &PatchParams::default(), &Patch::Merge(patch)));
    }

    /// As another field manager writes it.
    pub(crate) fn patch_status(&self, name: &str, manager: &str, patch: &Value) {
        let api = self.services_api();
        let params = PatchParams { field_manager: Some(manager.into()), ..PatchParams::default() };
        self.wait(api.patch_status(name, &params, &Patch::Merge(json!({"status": patch}))));
    }

    /// Shows this address in the status, as an admin or another allocator would.
    pub(crate) fn show(&self, name: &str, address: &str) {
        let ingress = json!({"loadBalancer": {"ingress": [{"ip": address}]}});
        self.patch_status(name, "somebody", &ingress);
    }

    pub(crate) fn delete(&self, name: &str) {
        self.wait(self.services_api().delete(name, &DeleteParams::default()));
    }

    /// All Services of the namespace by name.
    pub(crate) fn services(&self) -> BTreeMap<String, Service> {
        let all = self.wait(self.services_api().list(&ListParams::default()));
        all.items.into_iter().map(|s| (s.metadata.name.clone().unwrap(), s)).collect()
    }

    pub(crate) fn service(&self, name: &str) -> Service {
        self.wait(self.services_api().get(name))
    }

    pub(crate) fn address(&self, name: &str) -> Option<IpAddr> {
        addresses(&self.service(name)).first().copied()
    }

    /// Waits until the Service has an address.
    pub(crate) fn until_address(&self, name: &str) -> IpAddr {
        until(&format!("{name} has an address"), || {
            self.address(name).ok_or_else(|| format!("{:?}", self.service(name).status))
        })
    }

    pub(crate) fn until_reason(&self, name: &str, expected: &str) {
        until(&format!("{name}: {expected}"), || {
            let status = self.service(name).status.unwrap_or_default();
            let reason = reason(&status);
            unless(reason.as_deref() == Some(expected), || status)
        });
    }

    pub(crate) fn routers(&self) -> Vec<VirtualRouter> {
        let api = Api::<VirtualRouter>::all(self.client.clone());
        self.wait(api.list(&ListParams::default())).items
    }

    /// Addresses that are claimed, with the uids of those that hold them.
    pub(crate) fn held(&self) -> BTreeMap<IpAddr, Vec<String>> {
        let entries = self.routers().into_iter().flat_map(|router| router.spec.addresses);
        let held = entries.filter(|entry| !entry.holders.is_empty());
        let uids = |entry: &barevip::io::kubernetes::resources::AddressEntry| {
            entry.holders.iter().map(|holder| holder.uid.clone()).collect()
        };
        held.map(|entry| (entry.ip.parse().unwrap(), uids(&entry))).collect()
    }

    /// Reasons of all our events about a Service, each as often as it was told. The API server has
    /// its own to tell, `ClusterIPNotAllocated` of a Service that is a moment old for one.
    pub(crate) fn told(&self, name: &str) -> Vec<String> {
        let api = Api::<Event>::namespaced(self.client.clone(), NAMESPACE);
        let all = self.wait(api.list(&ListParams::default())).items;
        let uid = self.service(name).metadata.uid;
        let about = all.into_iter().filter(|event| {
            let ours = event.reporting_controller.as_deref() == Some(FIELD_MANAGER);
            ours && event.regarding.as_ref().is_some_and(|regarding| regarding.uid == uid)
        });
        let told = about.flat_map(|event| {
            let times = event.series.map_or(1, |series| series.count);
            (0..times).map(move |_| event.reason.clone().unwrap_or_default())
        });
        told.collect()
    }

    pub(crate) fn lease(&self) -> Option<Lease> {
        let api = Api::<Lease>::namespaced(self.client.clone(), "barevip-system");
        self.wait(api.get_opt("barevip-controller"))
    }

    /// As before the first Service; no controller may run.
    pub(crate) fn clear(&self) {
        let everything = ListParams::default();
        let now = DeleteParams::default();
        for name in self.services().keys().filter(|name| *name != "kubernetes") {
            self.delete(name);
        }
        let routers = Api::<VirtualRouter>::all(self.client.clone());
        self.wait(routers.delete_collection(&now, &everything));
        let pools = Api::<IngressPool>::all(self.client.clone());
        self.wait(pools.delete_collection(&now, &everything));
        let leases = Api::<Lease>::namespaced(self.client.clone(), "barevip-system");
        self.wait(leases.delete_collection(&now, &everything));
        let events = Api::<Event>::namespaced(self.client.clone(), NAMESPACE);
        self.wait(events.delete_collection(&now, &everything));
    }
}

/// The addresses that a Service's status shows.
pub(crate) fn addresses(service: &Service) -> Vec<IpAddr> {
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = balancer.and_then(|balancer| balancer.ingress.as_ref());
    let all = ingress.into_iter().flatten().filter_map(|ingress| ingress.ip.as_deref());
    all.map(|ip| ip.parse().unwrap()).collect()
}

/// The addresses of its `spec.externalIPs`.
pub(crate) fn external(service: &Service) -> Vec<IpAddr> {
    let all = service.spec.as_ref().and_then(|spec| spec.external_ips.as_ref());
    all.into_iter().flatten().map(|ip| ip.parse().unwrap()).collect()
}

/// The reason of our condition.
pub(crate) fn reason(status: &k8s_openapi::api::core::v1::ServiceStatus) -> Option<String> {
    let mut conditions = status.conditions.iter().flatten();
    let ours = conditions.find(|condition| condition.type_ == "barevip.io/Allocated");
    ours.map(|condition| condition.reason.clone())
}

/// A controller behind a proxy of its own.
pub(crate) struct Controller {
    pub(crate) proxy: Arc<ApiProxy>,
    process: RefCell<Process>,
    scratch: Scratch,
}

impl Controller {
    /// Starts one behind this proxy.
    pub(crate) fn start(proxy: Arc<ApiProxy>) -> Self {
        Self::start_with(proxy, &TIMING)
    }

    /// Starts one that writes `spec.externalIPs` too.
    pub(crate) fn mirroring(proxy: Arc<ApiProxy>) -> Self {
        let mirror = ["--mirror-external-ips", "true"];
        Self::start_with(proxy, &[&TIMING[..], &mirror].concat())
    }

    pub(crate) fn start_with(proxy: Arc<ApiProxy>, arguments: &[&str]) -> Self {
        let scratch = Scratch::new();
        let log = fs::File::create(scratch.path().join("log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_barevip"));
        command
            .arg("controller")
            .args(arguments)
            .env("KUBECONFIG", proxy.kubeconfig())
            .stdout(Stdio::null())
            .stderr(log);
        Self { proxy, process: RefCell::new(Process::start(command).unwrap()), scratch }
    }

    pub(crate) fn log(&self) -> String {
        let path: PathBuf = self.scratch.path().join("log");
        fs::read_to_string(path).unwrap_or_default()
    }

    /// Whether it still runs.
    pub(crate) fn runs(&self) -> bool {
        self.process.borrow_mut().ended().unwrap().is_none()
    }

    /// How often it has given up the processor by itself.
    pub(crate) fn sleeps(&self) -> u64 {
        let path = format!("/proc/{}/status", self.process.borrow().id());
        let status = fs::read_to_string(path).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.unwrap().trim().parse().unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.process.borrow_mut().signal(signal).unwrap();
    }

    /// Waits until it has ended; whether that was clean.
    pub(crate) fn wait(&self) -> bool {
        self.process.borrow_mut().wait().unwrap().success()
    }

    pub(crate) fn kill(self) -> Arc<ApiProxy> {
        self.signal(Signal::SIGKILL);
        self.wait();
        Arc::clone(&self.proxy)
    }

    /// Stops it as the kubelet does; its proxy can serve another.
    pub(crate) fn stop(self) -> Arc<ApiProxy> {
        self.signal(Signal::SIGTERM);
        assert!(self.wait(), "a stop is clean\n{}", self.log());
        Arc::clone(&self.proxy)
    }

    /// Whether the lease is its own.
    pub(crate) fn holds_lease(&self, live: &Live) -> bool {
        let mine = format!("_{}_", self.process.borrow().id());
        let holder = live.lease().and_then(|lease| lease.spec?.holder_identity);
        holder.is_some_and(|holder| holder.contains(&mine))
    }

    pub(crate) fn until_leads(&self, live: &Live) {
        let seen = || format!("{:?}\n{}", live.lease().map(|lease| lease.spec), self.log());
        until("it leads", || if self.holds_lease(live) { Ok(()) } else { Err(seen()) });
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("the controller said:\n{}", self.log());
        }
    }
}
