//! Addresses that are written into `spec.externalIPs` too (race table, rows 10 to 12, 45).

use std::sync::Arc;

use serde_json::json;

use crate::adversity::invariants::{needless_writes, until_agree, until_free};
use crate::support::api_proxy::{ApiProxy, Asked, Fault};
use crate::support::live::{Controller, Live, addresses, external};
use crate::support::netns::patience::{unless, until};

fn is_mirror(asked: &Asked) -> bool {
    asked.is_write() && asked.resource == "services"
}

fn prepared(live: &Live) -> Arc<ApiProxy> {
    live.pool("r", "172.16.0.0/28", &json!({"reuseAfter": "1h"}));
    ApiProxy::start(&live.plane.kubeconfig())
}

/// A Service shows its address in both places.
fn until_mirrored(live: &Live, name: &str) {
    let both = || {
        let service = live.service(name);
        (addresses(&service), external(&service))
    };
    until("status and externalIPs are the same", || {
        let (status, mirror) = both();
        unless(status.len() == 1 && status == mirror, || (status, mirror))
    });
}

#[test]
fn the_mirror_follows_the_status_whatever_fails() {
    let live = Live::start();
    refused_once(&live);
    forbidden(&live);
    killed_before_the_mirror(&live);
    old_news(&live);
}

/// Row 10.
fn refused_once(live: &Live) {
    let proxy = prepared(live);
    proxy.next(1, is_mirror, Fault::Refuse(409));
    let controller = Controller::mirroring(proxy);
    live.expose("a");
    until_mirrored(live, "a");
    until_agree(live);
    controller.proxy.until_answered();
    let writes = controller.proxy.writes_since(0);
    println!("row 10: {writes:?}");
    assert_eq!(writes.iter().filter(|asked| asked.is_ingress()).count(), 1, "{writes:?}");
    controller.stop();
    live.clear();
}

/// Row 11: as `DenyServiceExternalIPs` does it.
fn forbidden(live: &Live) {
    let proxy = prepared(live);
    proxy.next(usize::MAX, is_mirror, Fault::Refuse(403));
    let controller = Controller::mirroring(proxy);
    live.expose("a");
    until_agree(live);
    let told = || live.told("a");
    until("it is told", || unless(told() == ["ExternalIPsRefused"], told));
    // Something else to do, so that everything is decided again and again.
    for number in 0..5 {
        live.expose(&format!("s{number}"));
        live.until_address(&format!("s{number}"));
    }
    controller.proxy.until_answered();
    let writes = controller.proxy.writes_since(0);
    let tried: Vec<_> = writes.iter().filter(|a| is_mirror(a)).collect();
    let of_a = tried.iter().filter(|asked| asked.name.as_deref() == Some("a")).count();
    println!("row 11: {of_a} attempts for one Service, {} for six", tried.len());
    assert!(of_a <= 8, "each pause is twice as long as the one before: {tried:?}");
    assert_eq!(told(), ["ExternalIPsRefused"]);
    assert!(external(&live.service("a")).is_empty());
    controller.stop();
    live.clear();
}

/// Row 12.
fn killed_before_the_mirror(live: &Live) {
    let proxy = prepared(live);
    let gate = proxy.hold(is_mirror);
    let first = Controller::mirroring(proxy);
    live.expose("a");
    gate.until_reached();
    let shown = addresses(&live.service("a"));
    assert_eq!(shown.len(), 1, "the status comes first");
    first.kill();
    assert!(external(&live.service("a")).is_empty());
    let second = Controller::mirroring(ApiProxy::start(&live.plane.kubeconfig()));
    until_mirrored(live, "a");
    assert_eq!(addresses(&live.service("a")), shown);
    until_agree(live);
    second.stop();
    live.clear();
}

/// Row 45: what the watch shows is older than what we have written since.
fn old_news(live: &Live) {
    let proxy = prepared(live);
    let gate = proxy.hold(Asked::is_publication);
    let controller = Controller::mirroring(proxy);
    live.expose("a");
    gate.until_reached();
    controller.proxy.freeze_watches();
    gate.open();
    until_mirrored(live, "a");
    controller.proxy.until_answered();
    let mark = controller.proxy.mark();
    // First the version with the status alone, though both are written.
    controller.proxy.thaw_watches();
    until_free(live, "r", 13);
    let mut needless = needless_writes(live, &controller, mark);
    needless.retain(|asked| asked.name.as_deref() != Some("sentinel"));
    assert!(needless.is_empty(), "{needless:?}");
    let writes = controller.proxy.writes_since(0);
    let of_a = writes.iter().filter(|asked| asked.name.as_deref() == Some("a")).count();
    assert_eq!(of_a, 2, "{writes:?}");
    controller.stop();
    live.clear();
}
