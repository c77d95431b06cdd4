//! The status socket: what it answers, and that neither a dead daemon's file nor a rude client
//! keeps it from answering.
#![cfg(test)]

mod support {
    pub(crate) mod scratch;
}

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use barevip::io::http::{AskError, Reply, Server, SocketError, get};
use hyper::StatusCode;
use tokio::net::{UnixListener, UnixStream};

use support::scratch::Scratch;

async fn answer(path: String) -> Option<Reply> {
    match path.as_str() {
        "/state" => Some(Reply::json(StatusCode::OK, "{}")),
        "/healthz" => Some(Reply::text(StatusCode::SERVICE_UNAVAILABLE, "it hangs\n")),
        _ => None,
    }
}

/// Serves until `test` is over.
async fn while_serving(path: PathBuf, test: impl Future<Output = ()>) {
    let server = Server::bind(path).await.unwrap();
    tokio::select! {
        () = test => {}
        never = server.serve(answer) => match never {},
    }
}

/// Sends octets as they are and reads until the server closes.
async fn raw(path: &Path, request: &str) -> String {
    let (path, request) = (path.to_owned(), request.to_owned());
    let exchange = move || {
        let mut stream = std::os::unix::net::UnixStream::connect(path).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    tokio::task::spawn_blocking(exchange).await.unwrap()
}

#[tokio::test]
async fn it_answers_get_and_nothing_else() {
    let scratch = Scratch::new();
    let path = scratch.path().join("made/on/the/way/x.sock");
    while_serving(path.clone(), async {
        assert_eq!(get(&path, "/state").await.unwrap(), "{}");
        match get(&path, "/healthz").await {
            Err(AskError::Status(StatusCode::SERVICE_UNAVAILABLE, words)) => {
                assert_eq!(words, "it hangs");
            }
            other => panic!("{other:?}"),
        }
        match get(&path, "/nothing").await {
            Err(AskError::Status(StatusCode::NOT_FOUND, _)) => {}
            other => panic!("{other:?}"),
        }
        let refused =
            raw(&path, "POST /state HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n").await;
        assert!(refused.starts_with("HTTP/1.1 405 "), "{refused}");
        assert!(refused.contains("allow: GET, HEAD\r\n"), "{refused}");
        let head = raw(&path, "HEAD /state HTTP/1.1\r\nhost: x\r\n\r\n").await;
        assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
        let garbage = raw(&path, "\u{1}\u{2}\r\n\r\n").await;
        assert!(garbage.starts_with("HTTP/1.1 400 "), "{garbage}");
    })
    .await;
}

#[tokio::test]
async fn its_file_is_for_owner_and_group_and_goes_away_with_it() {
    let scratch = Scratch::new();
    let path = scratch.path().join("x.sock");
    let server = Server::bind(path.clone()).await.unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    drop(server);
    assert!(!path.exists());
}

#[tokio::test]
async fn the_file_of_a_dead_daemon_is_replaced() {
    let scratch = Scratch::new();
    let path = scratch.path().join("x.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    while_serving(path.clone(), async {
        assert_eq!(get(&path, "/state").await.unwrap(), "{}");
    })
    .await;
}

#[tokio::test]
async fn what_is_not_a_dead_daemons_file_is_left_alone() {
    let scratch = Scratch::new();
    let path = scratch.path().join("x.sock");
    let living = Server::bind(path.clone()).await.unwrap();
    let refused = Server::bind(path.clone()).await;
    assert!(matches!(refused, Err(SocketError::InUse(_))), "{refused:?}");
    assert!(path.exists());
    drop(living);

    fs::write(&path, "precious").unwrap();
    let refused = Server::bind(path.clone()).await;
    assert!(matches!(refused, Err(SocketError::NotASocket(_))), "{refused:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");

    let refused = Server::bind(path.join("below/a/file.sock")).await;
    assert!(matches!(refused, Err(SocketError::Directory(..))), "{refused:?}");
}

/// More clients than there are places, all silent: they are sent away, and the next is served.
#[tokio::test]
async fn silent_clients_do_not_keep_it_from_answering() {
    let scratch = Scratch::new();
    let path = scratch.path().join("x.sock");
    while_serving(path.clone(), async {
        let mut silent = Vec::new();
        for _ in 0..40 {
            silent.push(UnixStream::connect(&path).await.unwrap());
        }
        let served = raw(&path, "GET /state HTTP/1.1\r\nhost: x\r\n\r\n").await;
        assert!(served.ends_with("{}"), "{served}");
    })
    .await;
}

#[tokio::test]
async fn nobody_there_is_said_so() {
    let scratch = Scratch::new();
    let nobody = get(&scratch.path().join("x.sock"), "/state").await;
    assert!(matches!(nobody, Err(AskError::Connect(_))), "{nobody:?}");
}
