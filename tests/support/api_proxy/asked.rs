//! One request to the API server, in Kubernetes' terms.

use hyper::body::Bytes;
use hyper::{Method, Uri};

/// A request, and its answer once there is one.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) verb: &'static str,
    /// In the plural, with its subresource: `services/status`.
    pub(crate) resource: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    /// None: under way; 0: it ended without an answer.
    pub(crate) status: Option<u16>,
    /// Of a write.
    pub(crate) body: Bytes,
}

impl Asked {
    /// Reads `/api/v1/namespaces/NS/services/NAME/status` and its like.
    pub(super) fn read(method: &Method, uri: &Uri) -> Self {
        let parts: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
        let rest = match parts.as_slice() {
            ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
            other => other,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
            rest => (None, rest),
        };
        let (resource, name) = match rest {
            [resource, name, subresource] => (format!("{resource}/{subresource}"), Some(*name)),
            [resource, name] => ((*resource).to_owned(), Some(*name)),
            [resource] => ((*resource).to_owned(), None),
            _ => (uri.path().to_owned(), None),
        };
        let is_watch = uri.query().is_some_and(|query| query.contains("watch=true"));
        let verb = match method.as_str() {
            "GET" if is_watch => "watch",
            "GET" if name.is_some() => "get",
            "GET" => "list",
            "POST" => "create",
            "PUT" => "update",
            "PATCH" => "patch",
            "DELETE" => "delete",
            _ => "other",
        };
        let owned = |part: Option<&str>| part.map(ToOwned::to_owned);
        Self {
            verb,
            resource,
            namespace: owned(namespace),
            name: owned(name),
            status: None,
            body: Bytes::new(),
        }
    }

    pub(crate) fn is_watch(&self) -> bool {
        self.verb == "watch"
    }

    /// A write of anything but the lease.
    pub(crate) fn is_write(&self) -> bool {
        !matches!(self.verb, "get" | "list" | "watch") && self.resource != "leases"
    }

    /// A write of a Service's status.
    pub(crate) fn is_publication(&self) -> bool {
        self.is_write() && self.resource == "services/status"
    }

    /// A write of a Service's addresses, and not of its condition alone.
    pub(crate) fn is_ingress(&self) -> bool {
        self.is_publication() && self.body.windows(9).any(|text| text == b"\"ingress\"")
    }

    /// A write of a `VirtualRouter`.
    pub(crate) fn is_claim(&self) -> bool {
        self.is_write() && self.resource == "virtualrouters"
    }
}

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        match self.status {
            Some(status) => write!(f, " → {status}"),
            None => write!(f, " → ?"),
        }
    }
}
