//! The client of the API server.

use std::time::Duration;

use anyhow::Context;
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use tower::util::MapRequestLayer;

/// A client of the cluster that the pod's service account belongs to, else of the one that
/// `KUBECONFIG` names.
///
/// The API server is told to give up a write after `patience`, and no write is repeated behind its
/// sender's back: one that lands later than its sender thinks could land after another leads.
///
/// # Errors
/// Where no cluster is configured, or its configuration can't be used.
pub async fn connect(patience: Duration) -> anyhow::Result<Client> {
    let mut config = Config::infer().await.context(
        "no cluster is configured: run it in a pod, or set KUBECONFIG to a kubeconfig file",
    )?;
    config.default_retry = false;
    let limit = format!("timeout={}ms", patience.as_millis());
    let limited = MapRequestLayer::new(move |request| with_limit(request, &limit));
    let builder = ClientBuilder::try_from(config)
        .context("the cluster's configuration can't be used")?
        .with_layer(&limited);
    Ok(builder.build())
}

/// Reads are not limited so: a watch lasts as long as it asks for.
fn with_limit(mut request: hyper::Request<Body>, limit: &str) -> hyper::Request<Body> {
    if request.method() == hyper::Method::GET {
        return request;
    }
    let uri = request.uri().to_string();
    let sign = if uri.contains('?') { '&' } else { '?' };
    // A URI with one more parameter is one; if not, the write is sent without its limit.
    if let Ok(uri) = format!("{uri}{sign}{limit}").parse() {
        *request.uri_mut() = uri;
    }
    request
}

#[cfg(test)]
mod tests {
    use hyper::{Method, Request};
    use kube::client::Body;

    use super::with_limit;

    fn sent(method: Method, uri: &str) -> String {
        let request = Request::builder().method(method).uri(uri).body(Body::empty()).unwrap();
        with_limit(request, "timeout=3000ms").uri().to_string()
    }

    #[test]
    fn writes_carry_their_limit_and_reads_none() {
        let patched = sent(Method::PATCH, "https://a/api/v1/x?fieldManager=b");
        assert_eq!(patched, "https://a/api/v1/x?fieldManager=b&timeout=3000ms");
        assert_eq!(sent(Method::DELETE, "https://a/x"), "https://a/x?timeout=3000ms");
        assert_eq!(sent(Method::GET, "https://a/x?watch=1"), "https://a/x?watch=1");
    }
}
