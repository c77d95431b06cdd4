//! A real API server with its etcd, on free ports of the loopback, for one test.

use std::cell::RefCell;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use barevip::io::lab::process::Process;

use crate::support::netns::patience::{unless, until};
use crate::support::scratch::Scratch;

/// A running API server and etcd. They end with it, after a panic too.
pub(crate) struct ControlPlane {
    pub(super) scratch: Scratch,
    pub(super) launcher: Launcher,
    pub(super) server: RefCell<Process>,
    pub(super) etcd: RefCell<Process>,
}

/// How the API server and etcd are started.
pub(super) struct Launcher {
    pub(super) folder: PathBuf,
    etcd_port: u16,
    peers: u16,
    pub(super) port: u16,
    flags: &'static [&'static str],
}

impl ControlPlane {
    /// Starts both and waits until the API server is ready.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same with further flags of the API server.
    pub(crate) fn start_with(flags: &'static [&'static str]) -> Self {
        let scratch = Scratch::new();
        let (etcd_port, peers, port) = free_ports();
        make_tokens(scratch.path());
        let folder = scratch.path().to_owned();
        let launcher = Launcher { folder, etcd_port, peers, port, flags };
        let etcd = RefCell::new(launcher.start_etcd());
        let server = RefCell::new(launcher.start());
        write_kubeconfig(&scratch.path().join("kubeconfig"), port, "admin");
        let plane = Self { scratch, launcher, server, etcd };
        plane.wait(|| {});
        plane
    }

    /// Waits until the API server is ready; meanwhile does this again and again.
    pub(super) fn wait(&self, mut meanwhile: impl FnMut()) {
        let said = || fs::read_to_string(self.launcher.log()).unwrap_or_default();
        let mut is_ready = || {
            let ended = self.server.borrow_mut().ended().unwrap();
            assert!(ended.is_none(), "the API server has ended\n{}", said());
            assert!(self.etcd.borrow_mut().ended().unwrap().is_none(), "etcd has ended");
            meanwhile();
            self.try_kubectl(&["get", "--raw", "/readyz"], None).is_ok()
        };
        until("the API server is ready", || unless(is_ready(), said));
    }

    /// What a client needs: `KUBECONFIG`.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.scratch.path().join("kubeconfig")
    }

    /// What kubectl prints, fed with `input`.
    pub(crate) fn try_kubectl(
        &self,
        arguments: &[&str],
        input: Option<&str>,
    ) -> Result<String, String> {
        let file = self.scratch.path().join("input");
        fs::write(&file, input.unwrap_or_default()).unwrap();
        let output = Command::new(tool("kubectl"))
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .args(arguments)
            .stdin(fs::File::open(&file).unwrap())
            .output()
            .unwrap();
        if output.status.success() {
            Ok(String::from_utf8(output.stdout).unwrap())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    /// As [`Self::try_kubectl`], where it must work.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        self.try_kubectl(arguments, None)
            .unwrap_or_else(|error| panic!("kubectl {}: {error}", arguments.join(" ")))
    }

    /// `kubectl apply` of a manifest.
    pub(crate) fn apply(&self, manifest: &str) {
        self.try_kubectl(&["apply", "--server-side", "-f", "-"], Some(manifest))
            .unwrap_or_else(|error| panic!("kubectl apply: {error}\n{manifest}"));
    }
}

/// A program that `tests/run` has built; see `tests/cluster/tools`.
fn tool(name: &str) -> PathBuf {
    let cache = || {
        let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
        let caches = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
        caches.unwrap_or_default().join("barevip/kubernetes")
    };
    let folder = std::env::var_os("KUBEBUILDER_ASSETS").map_or_else(cache, PathBuf::from);
    let path = folder.join(name);
    assert!(
        path.exists(),
        "{} is not there: run tests/cluster/tools, or name a folder with {name} in KUBEBUILDER_ASSETS",
        path.display()
    );
    path
}

fn free_ports() -> (u16, u16, u16) {
    let taken: Vec<_> = (0..3).map(|_| TcpListener::bind(("127.0.0.1", 0)).unwrap()).collect();
    let port = |index: usize| taken[index].local_addr().unwrap().port();
    (port(0), port(1), port(2))
}

fn start(mut command: Command, log: &Path) -> Process {
    let log = fs::File::create(log).unwrap();
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    Process::start(command).unwrap()
}

/// One line for each answer that a service account got.
const AUDIT: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, userGroups: ['system:serviceaccounts']}
- {level: None}
";

/// What the API server knows its clients by.
fn make_tokens(folder: &Path) {
    let made = Command::new("openssl")
        .args(["genrsa", "-out"])
        .arg(folder.join("tokens.key"))
        .arg("2048")
        .output()
        .unwrap();
    assert!(made.status.success(), "openssl can't make a key");
    fs::write(folder.join("tokens.csv"), "admin,admin,admin,\"system:masters\"\n").unwrap();
    fs::write(folder.join("audit.yaml"), AUDIT).unwrap();
}

impl Launcher {
    fn log(&self) -> PathBuf {
        self.folder.join("api.log")
    }

    pub(super) fn start_etcd(&self) -> Process {
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let (clients, peers) = (self.etcd_port, self.peers);
        let mut command = Command::new("etcd");
        command
            .arg("--unsafe-no-fsync")
            .arg(format!("--data-dir={}", self.folder.join("etcd").display()))
            .arg(format!("--listen-client-urls={}", url(clients)))
            .arg(format!("--advertise-client-urls={}", url(clients)))
            .arg(format!("--listen-peer-urls={}", url(peers)))
            .arg(format!("--initial-advertise-peer-urls={}", url(peers)))
            .arg(format!("--initial-cluster=default={}", url(peers)));
        start(command, &self.folder.join("etcd.log"))
    }

    pub(super) fn start(&self) -> Process {
        let file = |name: &str| self.folder.join(name).display().to_string();
        let key = file("tokens.key");
        let mut command = Command::new(tool("kube-apiserver"));
        command
            .arg(format!("--etcd-servers=http://127.0.0.1:{}", self.etcd_port))
            .arg(format!("--cert-dir={}", file("certificates")))
            .arg(format!("--secure-port={}", self.port))
            .args(["--bind-address=127.0.0.1", "--advertise-address=192.0.2.1"])
            .arg(format!("--token-auth-file={}", file("tokens.csv")))
            .arg(format!("--service-account-key-file={key}"))
            .arg(format!("--service-account-signing-key-file={key}"))
            .arg("--service-account-issuer=https://kubernetes.default.svc")
            .arg("--service-cluster-ip-range=10.96.0.0/16,fd00:96::/112")
            .args(["--authorization-mode=Node,RBAC", "--allow-privileged"])
            .arg(format!("--audit-policy-file={}", file("audit.yaml")))
            .arg(format!("--audit-log-path={}", file("audit.log")))
            .args(self.flags);
        start(command, &self.log())
    }
}

/// Beside the certificate that the server makes for itself.
pub(super) fn write_kubeconfig(path: &Path, port: u16, token: &str) {
    let certificate = path.with_file_name("certificates").join("apiserver.crt");
    let certificate = certificate.display();
    let text = format!(
        r#"apiVersion: v1
kind: Config
clusters: [{{name: test, cluster: {{server: "https://127.0.0.1:{port}", certificate-authority: "{certificate}"}}}}]
users: [{{name: test, user: {{token: "{token}"}}}}]
contexts: [{{name: test, context: {{cluster: test, user: test}}}}]
current-context: test
"#
    );
    fs::write(path, text).unwrap();
}
