//! The client of the API server.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use kube::client::{Body, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig};
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
    let config = Config::infer().await.context(
        "no cluster is configured: run it in a pod, or set KUBECONFIG to a kubeconfig file",
    )?;
    client(config, patience)
}

/// A client for a person at a terminal, as kubectl finds its cluster: in this kubeconfig file, else
/// in those that `KUBECONFIG` names, else in `~/.kube/config`; with this context, else the current
/// one. Also the API server's URL.
///
/// # Errors
/// Where there is no such file or context, or it can't be used.
pub async fn connect_as_person(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
    patience: Duration,
) -> anyhow::Result<(Client, String)> {
    let options =
        KubeConfigOptions { context: context.map(ToOwned::to_owned), ..Default::default() };
    let config = match kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path)
                .with_context(|| format!("--kubeconfig {}: can't be read", path.display()))?;
            Config::from_custom_kubeconfig(file, &options).await
        }
        None => Config::from_kubeconfig(&options).await,
    };
    let config = config.context(
        "no cluster is configured: name a file with --kubeconfig or KUBECONFIG, and a context of it with --context",
    )?;
    let url = config.cluster_url.to_string();
    Ok((client(config, patience)?, url))
}

fn client(mut config: Config, patience: Duration) -> anyhow::Result<Client> {
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
