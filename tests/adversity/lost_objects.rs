//! Custom resources and pools that are taken away while Services hold addresses.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::json;

use crate::adversity::invariants::{difference, needless_writes, until_agree, until_free};
use crate::support::api_proxy::{ApiProxy, Asked};
use crate::support::live::{Controller, Live, addresses};
use crate::support::netns::patience::{unless, until};

fn all(live: &Live) -> BTreeMap<String, Vec<IpAddr>> {
    live.services().iter().map(|(name, service)| (name.clone(), addresses(service))).collect()
}

fn started(live: &Live) -> Controller {
    let controller = Controller::start(ApiProxy::start(&live.plane.kubeconfig()));
    for name in ["a", "b", "c"] {
        live.expose(name);
    }
    until_agree(live);
    controller
}

#[test]
fn a_pool_that_shrinks_or_goes_moves_nobody() {
    let live = Live::start();
    live.pool("r", "172.16.0.1-172.16.0.4", &json!({"reuseAfter": "1s"}));
    let controller = started(&live);
    let before = all(&live);

    // .1 is outside now; whoever has it keeps it.
    live.patch_pool("r", &json!({"spec": {"addresses": ["172.16.0.2-172.16.0.4"]}}));
    let (outside, _) = before.iter().find(|(_, has)| has[..] == [ip("172.16.0.1")]).unwrap();
    live.until_reason(outside, "PoolGone");
    assert_eq!(all(&live), before);
    until_free(&live, "r", 1);

    live.delete_pool("r");
    for name in ["a", "b", "c"] {
        live.until_reason(name, "PoolGone");
    }
    assert_eq!(all(&live), before);
    difference(&live).unwrap();
    live.expose("late");
    live.until_reason("late", "NoPool");
    assert_eq!(live.held().len(), 3);

    // The entries stay until the last one is released.
    live.delete("a");
    live.delete("b");
    until("two are released", || unless(live.held().len() == 1, || live.held()));
    assert_eq!(all(&live)["c"], before["c"]);
    difference(&live).unwrap();
    controller.stop();
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn definitions_that_are_deleted_and_come_back_change_no_address() {
    let live = Live::start();
    live.pool("r", "172.16.0.0/28", &json!({"reuseAfter": "1s"}));
    let controller = started(&live);
    let before = all(&live);
    let mark = controller.proxy.mark();
    live.plane.kubectl(&["delete", "crd", "virtualrouters.barevip.io", "ingresspools.barevip.io"]);
    until("the controller is told that there are none", || {
        let asked = controller.proxy.since(mark);
        let gone = |kind: &str| {
            asked.iter().any(|asked| asked.resource == kind && asked.status == Some(404))
        };
        unless(gone("virtualrouters") && gone("ingresspools"), || asked.clone())
    });
    assert_eq!(all(&live), before);
    live.install();
    live.pool("r", "172.16.0.0/28", &json!({"reuseAfter": "1s"}));
    until_agree(&live);
    assert_eq!(all(&live), before);
    until_free(&live, "r", 11);
    let writes = controller.proxy.writes_since(mark);
    println!("CRDs deleted and installed again: {writes:?}");
    assert!(!writes.iter().any(Asked::is_ingress), "no address is written: {writes:?}");
    let needless = needless_writes(&live, &controller, controller.proxy.mark());
    assert!(needless.is_empty(), "{needless:?}");
    controller.stop();
}
