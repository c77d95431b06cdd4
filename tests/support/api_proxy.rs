//! A proxy between one controller and the API server: it records every request, and does harm
//! where a test says so. One for each controller, so that they can be told apart.

mod asked;
mod pipe;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};

pub(crate) use self::asked::Asked;
use self::pipe::{Answer, Ice};
use crate::support::netns::patience::{unless, until};
use crate::support::scratch::Scratch;

/// What happens to a request instead of being answered.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// It is not forwarded; this status is the answer.
    Refuse(u16),
    /// It is forwarded, and the connection cut once the server has done it.
    LoseAnswer,
    /// It is forwarded only when the gate is opened.
    Hold(Gate),
}

/// Where requests wait.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    open: Arc<watch::Sender<bool>>,
    waiting: Arc<watch::Sender<usize>>,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self { open: Arc::new(watch::Sender::new(false)), waiting: Arc::default() }
    }

    /// Waits until a request waits here.
    pub(crate) fn until_reached(&self) {
        until("a request waits", || unless(*self.waiting.borrow() > 0, || "none"));
    }

    pub(crate) fn open(&self) {
        self.open.send_replace(true);
    }

    async fn pass(&self) {
        self.waiting.send_modify(|waiting| *waiting += 1);
        // An error would mean that the gate is gone, which it is not while we hold it.
        self.open.subscribe().wait_for(|open| *open).await.ok();
    }
}

type Rule = Box<dyn FnMut(&Asked) -> Option<Fault> + Send>;

#[derive(Default)]
struct Shared {
    asked: Mutex<Vec<Asked>>,
    rules: Mutex<Vec<Rule>>,
    ice: Ice,
    /// Counts up when all connections are to be cut.
    cut: watch::Sender<u64>,
}

/// A running proxy; it ends with this.
pub(crate) struct ApiProxy {
    shared: Arc<Shared>,
    scratch: Scratch,
    /// Dropped, it ends the thread.
    _stop: oneshot::Sender<()>,
}

impl ApiProxy {
    /// Starts one in front of what `kubeconfig` names, with that file's credentials.
    pub(crate) fn start(kubeconfig: &Path) -> Arc<Self> {
        let shared = Arc::new(Shared::default());
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = std::sync::mpsc::channel();
        let (behind, target) = (Arc::clone(&shared), kubeconfig.to_owned());
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
                tell.send(listener.local_addr().unwrap()).unwrap();
                let client = client(&target).await;
                tokio::select! {
                    () = serve(&listener, &client, &behind) => {}
                    _ = stopped => {}
                }
            });
        });
        let scratch = Scratch::new();
        write_kubeconfig(&scratch.path().join("kubeconfig"), told.recv().unwrap());
        Arc::new(Self { shared, scratch, _stop: stop })
    }

    /// What a client of the proxy needs: `KUBECONFIG`.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.scratch.path().join("kubeconfig")
    }

    /// How many requests there were: a mark to count from.
    pub(crate) fn mark(&self) -> usize {
        self.shared.asked.lock().unwrap().len()
    }

    /// All requests since then.
    pub(crate) fn since(&self, mark: usize) -> Vec<Asked> {
        self.shared.asked.lock().unwrap()[mark..].to_vec()
    }

    /// All writes since then but the lease's.
    pub(crate) fn writes_since(&self, mark: usize) -> Vec<Asked> {
        self.since(mark).into_iter().filter(Asked::is_write).collect()
    }

    /// Waits until nothing is under way but watches.
    pub(crate) fn until_answered(&self) {
        let open = || {
            let asked = self.since(0).into_iter();
            asked.filter(|asked| asked.status.is_none() && !asked.is_watch()).collect::<Vec<_>>()
        };
        until("every request is answered", || unless(open().is_empty(), open));
    }

    /// From now on every request is put to this rule; the first fault that a rule names happens.
    pub(crate) fn rule(&self, rule: impl FnMut(&Asked) -> Option<Fault> + Send + 'static) {
        self.shared.rules.lock().unwrap().push(Box::new(rule));
    }

    /// This fault for the next `times` requests of this kind.
    pub(crate) fn next(&self, times: usize, is_kind: fn(&Asked) -> bool, fault: Fault) {
        let mut left = times;
        self.rule(move |asked| {
            let hit = left > 0 && is_kind(asked);
            left -= usize::from(hit);
            hit.then(|| fault.clone())
        });
    }

    /// The next request of this kind waits at the gate.
    pub(crate) fn hold(&self, is_kind: fn(&Asked) -> bool) -> Gate {
        let gate = Gate::new();
        self.next(1, is_kind, Fault::Hold(gate.clone()));
        gate
    }

    /// No more faults; what waits goes on waiting.
    pub(crate) fn no_more_faults(&self) {
        self.shared.rules.lock().unwrap().clear();
    }

    /// The watches that are open now show nothing any more, and stay open.
    pub(crate) fn freeze_watches(&self) {
        self.shared.ice.freeze();
    }

    /// All watches go on, with what they held back.
    pub(crate) fn thaw_watches(&self) {
        self.shared.ice.thaw();
    }

    /// Cuts all connections; new ones are accepted.
    pub(crate) fn cut(&self) {
        self.shared.cut.send_modify(|cuts| *cuts += 1);
    }
}

async fn client(kubeconfig: &Path) -> Client {
    let file = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(file, &options).await.unwrap();
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

fn write_kubeconfig(path: &Path, address: SocketAddr) {
    let text = format!(
        r#"apiVersion: v1
kind: Config
clusters: [{{name: test, cluster: {{server: "http://{address}"}}}}]
users: [{{name: proxied, user: {{}}}}]
contexts: [{{name: test, context: {{cluster: test, user: proxied}}}}]
current-context: test
"#
    );
    fs::write(path, text).unwrap();
}

async fn serve(listener: &TcpListener, client: &Client, shared: &Arc<Shared>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        tokio::spawn(connection(stream, client.clone(), Arc::clone(shared)));
    }
}

async fn connection(stream: TcpStream, client: Client, shared: Arc<Shared>) {
    let mut cut = shared.cut.subscribe();
    let service = service_fn(|request| exchange(request, client.clone(), Arc::clone(&shared)));
    let serving =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        // Ends with an error where an answer was to be lost.
        _ = serving => {}
        _ = cut.changed() => {}
    }
}

/// A request's place in the record. What ends without an answer is noted as 0.
struct Entry<'a> {
    shared: &'a Shared,
    place: usize,
}

impl<'a> Entry<'a> {
    fn new(shared: &'a Shared, asked: &Asked) -> Self {
        let mut all = shared.asked.lock().unwrap();
        all.push(asked.clone());
        Self { shared, place: all.len() - 1 }
    }

    fn note(&self, status: u16) {
        self.shared.asked.lock().unwrap()[self.place].status.get_or_insert(status);
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.note(0);
    }
}

async fn exchange(
    request: Request<Incoming>,
    client: Client,
    shared: Arc<Shared>,
) -> io::Result<Response<Answer>> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let asked = Asked { body: body.clone(), ..Asked::read(&parts.method, &parts.uri) };
    let entry = Entry::new(&shared, &asked);
    let fault = shared.rules.lock().unwrap().iter_mut().find_map(|rule| rule(&asked));
    let mut is_lost = false;
    match fault {
        Some(Fault::Refuse(code)) => {
            let status = StatusCode::from_u16(code).unwrap();
            entry.note(status.as_u16());
            return Ok(refusal(status));
        }
        Some(Fault::Hold(gate)) => gate.pass().await,
        Some(Fault::LoseAnswer) => is_lost = true,
        None => {}
    }
    let response = forward(parts, body, &client).await?;
    entry.note(response.status().as_u16());
    if is_lost {
        response.into_body().collect().await.map_err(io::Error::other)?;
        return Err(io::Error::other("this answer is lost"));
    }
    let (parts, body) = response.into_parts();
    let body = if asked.is_watch() { shared.ice.watch(body) } else { pipe::whole(body) };
    Ok(Response::from_parts(parts, body))
}

async fn forward(parts: Parts, body: Bytes, client: &Client) -> io::Result<Response<Body>> {
    let path = parts.uri.path_and_query().unwrap().as_str();
    let mut request = Request::builder().method(parts.method).uri(path);
    for name in ["accept", "content-type", "user-agent"] {
        if let Some(value) = parts.headers.get(name) {
            request = request.header(name, value);
        }
    }
    let request = request.body(Body::from(body)).unwrap();
    client.send(request).await.map_err(io::Error::other)
}

/// As the API server would say it.
fn refusal(status: StatusCode) -> Response<Answer> {
    let reason = match status.as_u16() {
        404 => "NotFound",
        409 => "Conflict",
        403 => "Forbidden",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    let code = status.as_u16();
    let text = format!(
        r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","message":"injected","reason":"{reason}","code":{code}}}"#
    );
    let body = pipe::whole(Full::new(Bytes::from(text)));
    let response = Response::builder().status(status).header("content-type", "application/json");
    response.body(body).unwrap()
}
