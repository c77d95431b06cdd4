//! HTTP/1.1 on a Unix or TCP socket: a small server that answers GET, and the client that asks it.
//!
//! Both are bounded: connections, header time, time and size of an answer. Nobody who holds a
//! connection open can starve the daemon.

use std::convert::Infallible;
use std::fs::Permissions;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{ALLOW, CONTENT_TYPE, HOST, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// Connections at a time; more wait in the socket's queue.
const MAX_CONNECTIONS: usize = 16;
/// A request's head has to be there by then.
const HEAD_TIMEOUT: Duration = Duration::from_secs(2);
/// A whole exchange ends by then, with or without an answer.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the client waits for a whole answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// More octets are no answer of ours.
const MAX_ANSWER: usize = 64 << 20;
/// Owner and group may ask.
const SOCKET_MODE: u32 = 0o660;

/// An answer of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Its status.
    pub status: StatusCode,
    /// The media type of its body.
    pub content_type: &'static str,
    /// Its body.
    pub body: String,
}

/// Why there is no socket to serve on. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Somebody answers there.
    #[error(
        "{0} is in use: another daemon with a configuration file of this name is running; \
         stop it first, or give this one a path of its own with --socket"
    )]
    InUse(PathBuf),
    /// It would be overwritten.
    #[error("{0} is there and no socket; remove it, or give another path with --socket")]
    NotASocket(PathBuf),
    /// Its directory can't be made.
    #[error("the directory {0} can't be made ({1}); make it, or give another path with --socket")]
    Directory(PathBuf, io::Error),
    /// The kernel refuses.
    #[error("{0} can't be listened on ({1}); give another path with --socket")]
    Refused(PathBuf, io::Error),
    /// The kernel refuses.
    #[error("{0} can't be listened on ({1}); give another address with --http")]
    RefusedAddress(SocketAddr, io::Error),
}

/// A socket that answers.
#[derive(Debug)]
pub struct Server {
    listener: Listener,
}

#[derive(Debug)]
enum Listener {
    Unix(UnixListener, SocketFile),
    Tcp(TcpListener),
}

/// The file of a Unix socket; it goes away with its server.
#[derive(Debug)]
struct SocketFile(PathBuf);

/// A connection of either kind.
trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

impl Listener {
    async fn accept(&self) -> io::Result<Box<dyn Connection>> {
        Ok(match self {
            Self::Unix(listener, _) => Box::new(listener.accept().await?.0),
            Self::Tcp(listener) => Box::new(listener.accept().await?.0),
        })
    }
}

impl Server {
    /// Listens on `path`, for its owner and group. A file that a dead daemon left there is
    /// replaced, and a missing directory made.
    ///
    /// # Errors
    /// [`SocketError`]: one that answers, or anything that is no socket, is left alone.
    pub async fn bind(path: PathBuf) -> Result<Self, SocketError> {
        make_directory_of(&path)?;
        remove_stale(&path).await?;
        let refused = |error| SocketError::Refused(path.clone(), error);
        let listener = UnixListener::bind(&path).map_err(refused)?;
        std::fs::set_permissions(&path, Permissions::from_mode(SOCKET_MODE)).map_err(refused)?;
        Ok(Self { listener: Listener::Unix(listener, SocketFile(path)) })
    }

    /// Listens on an address of this machine.
    ///
    /// # Errors
    /// [`SocketError::RefusedAddress`].
    pub async fn bind_tcp(address: SocketAddr) -> Result<Self, SocketError> {
        let refused = |error| SocketError::RefusedAddress(address, error);
        Ok(Self { listener: Listener::Tcp(TcpListener::bind(address).await.map_err(refused)?) })
    }

    /// Where it listens.
    #[must_use]
    pub fn place(&self) -> String {
        match &self.listener {
            Listener::Unix(_, file) => file.0.display().to_string(),
            Listener::Tcp(listener) => {
                listener.local_addr().map_or_else(|error| error.to_string(), |own| own.to_string())
            }
        }
    }

    /// Answers for ever: `answer` gets the path of a GET, and gives `None` for one that it does
    /// not know.
    pub async fn serve<A, F>(&self, answer: A) -> Infallible
    where
        A: Fn(String) -> F + Clone + Send + 'static,
        F: Future<Output = Option<Reply>> + Send + 'static,
    {
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            // The semaphore is never closed: there always is a place, sooner or later.
            let place = Arc::clone(&places).acquire_owned().await.ok();
            match self.listener.accept().await {
                Ok(stream) => {
                    let answer = answer.clone();
                    tokio::spawn(async move {
                        exchange(stream, answer).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // One that is gone already is as good.
        let _removed = std::fs::remove_file(&self.0);
    }
}

fn make_directory_of(path: &Path) -> Result<(), SocketError> {
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => std::fs::create_dir_all(directory)
            .map_err(|error| SocketError::Directory(directory.to_owned(), error)),
        _ => Ok(()),
    }
}

/// Removes the file of a socket on which nobody listens any more.
async fn remove_stale(path: &Path) -> Result<(), SocketError> {
    let refused = |error| SocketError::Refused(path.to_owned(), error);
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(refused(error)),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(SocketError::NotASocket(path.to_owned()));
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(refused)
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(refused(error)),
        // Also where its queue is full: somebody listens.
        Ok(_) | Err(_) => Err(SocketError::InUse(path.to_owned())),
    }
}

/// One request, one answer.
async fn exchange<A, F>(stream: Box<dyn Connection>, answer: A)
where
    A: Fn(String) -> F + Clone,
    F: Future<Output = Option<Reply>>,
{
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let answer = answer.clone();
        async move { Ok::<_, Infallible>(respond(&request, answer).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    match timeout(EXCHANGE_TIMEOUT, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "an HTTP exchange failed"),
        Err(_) => tracing::debug!("an HTTP exchange took too long"),
    }
}

async fn respond<B, A, F>(request: &Request<B>, answer: A) -> Response<Full<Bytes>>
where
    A: Fn(String) -> F,
    F: Future<Output = Option<Reply>>,
{
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let text = "only GET is answered here\n";
        let mut refused = response(Reply::text(StatusCode::METHOD_NOT_ALLOWED, text));
        let allowed = HeaderValue::from_static("GET, HEAD");
        refused.headers_mut().insert(ALLOW, allowed);
        return refused;
    }
    let reply = answer(request.uri().path().to_owned()).await;
    response(reply.unwrap_or_else(|| {
        Reply::text(StatusCode::NOT_FOUND, "there is nothing of this name here\n")
    }))
}

fn response(reply: Reply) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(reply.body)));
    *response.status_mut() = reply.status;
    let media = HeaderValue::from_static(reply.content_type);
    response.headers_mut().insert(CONTENT_TYPE, media);
    response
}

impl Reply {
    /// Plain text.
    pub fn text(status: StatusCode, body: impl Into<String>) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: body.into() }
    }

    /// JSON.
    pub fn json(status: StatusCode, body: impl Into<String>) -> Self {
        Self { status, content_type: "application/json", body: body.into() }
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody listens.
    #[error("nobody listens on the socket ({0})")]
    Connect(#[source] io::Error),
    /// The exchange failed.
    #[error("the daemon's answer can't be read ({0})")]
    Exchange(String),
    /// No answer in time.
    #[error("the daemon did not answer within {} s", ANSWER_TIMEOUT.as_secs())]
    Late,
    /// Another status than 200; the answer's own words.
    #[error("{1} ({0})")]
    Status(StatusCode, String),
}

/// Asks the server on `socket` for `path`: the body of its answer.
///
/// # Errors
/// [`AskError`].
pub async fn get(socket: &Path, path: &str) -> Result<Bytes, AskError> {
    timeout(ANSWER_TIMEOUT, ask(socket, path)).await.unwrap_or(Err(AskError::Late))
}

async fn ask(socket: &Path, path: &str) -> Result<Bytes, AskError> {
    let failed = |error: &dyn std::error::Error| AskError::Exchange(error.to_string());
    let stream = UnixStream::connect(socket).await.map_err(AskError::Connect)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| failed(&error))?;
    let request = Request::get(path)
        .header(HOST, "barevip")
        .body(Empty::<Bytes>::new())
        .map_err(|error| failed(&error))?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(|error| failed(&error))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER)
            .collect()
            .await
            .map_err(|error| failed(error.as_ref()))?
            .to_bytes();
        Ok::<_, AskError>((status, body))
    };
    // The connection has to be driven while the answer is awaited, and may end before it.
    let mut connection = std::pin::pin!(connection);
    let mut exchange = std::pin::pin!(exchange);
    let (status, body) = tokio::select! {
        answer = &mut exchange => answer?,
        _ended = &mut connection => exchange.await?,
    };
    if status == StatusCode::OK {
        return Ok(body);
    }
    let words = String::from_utf8_lossy(&body).trim().to_owned();
    Err(AskError::Status(status, words))
}
