//! etcd restored from a backup under a running controller.

use std::collections::BTreeMap;

use serde_json::json;

use crate::adversity::invariants::{needless_writes, until_agree};
use crate::support::api_proxy::ApiProxy;
use crate::support::live::{Controller, Live, addresses};
use crate::support::netns::patience::{unless, until};

/// The lease is long enough to outlast the restore, so that the controller goes on with what it
/// knew; whoever starts anew has nothing to forget.
const PATIENT: [&str; 6] =
    ["--lease-duration", "600s", "--retry-period", "1s", "--relist-period", "5s"];

#[test]
fn a_backup_that_is_restored_moves_nobody() {
    let live = Live::start();
    live.pool("r", "172.16.0.0/28", &json!({"reuseAfter": "1h"}));
    let controller = Controller::start_with(ApiProxy::start(&live.plane.kubeconfig()), &PATIENT);
    for name in ["a", "b", "c"] {
        live.expose(name);
    }
    until_agree(&live);
    let backup = live.plane.save();
    live.until_reached();

    // A day: one goes, its address rests; others come; many versions pass.
    live.delete("b");
    live.expose("d");
    live.expose("e");
    for day in 0..50 {
        live.patch("c", &json!({"metadata": {"labels": {"day": day.to_string()}}}));
    }
    until("all have one", || {
        let all = live.services();
        let lacks = all.iter().filter(|(name, s)| *name != "kubernetes" && addresses(s).is_empty());
        let lacks: Vec<_> = lacks.map(|(name, _)| name.clone()).collect();
        unless(lacks.is_empty(), || lacks)
    });
    let late: BTreeMap<_, _> =
        live.services().iter().map(|(name, s)| (name.clone(), addresses(s))).collect();

    let mark = controller.proxy.mark();
    live.plane.restore(&backup);
    live.until_reached();
    assert!(!live.services().contains_key("d"), "it is as it was a day ago");
    until("the controller has noticed", || {
        let log = controller.log();
        let noticed = ["services", "virtualrouters", "ingresspools"].iter().all(|kind| {
            let said = format!("kind=\"{kind}\" now=");
            log.contains(&said)
        });
        unless(noticed, || log)
    });
    // `b` is back with its old address, `d` and `e` are gone with theirs.
    until_agree(&live);
    for name in ["a", "c"] {
        assert_eq!(addresses(&live.service(name)), late[name]);
    }
    // Made again, as a person would.
    live.expose("d");
    live.until_address("d");
    until_agree(&live);
    controller.proxy.until_answered();
    let writes = controller.proxy.writes_since(mark);
    println!("after the restore: {writes:?}");
    assert!(controller.runs(), "{}", controller.log());
    let needless = needless_writes(&live, &controller, controller.proxy.mark());
    assert!(needless.is_empty(), "{needless:?}");
    assert!(writes.len() < 40, "no burst of writes: {writes:?}");
    controller.stop();
}
