//! Writes that fail, or whose answer is lost (race table, rows 7 to 9, 12, 25 to 27).

use serde_json::json;

use crate::adversity::invariants::{difference, until_agree, until_free};
use crate::support::api_proxy::{ApiProxy, Asked, Fault, Gate};
use crate::support::live::{Controller, Live, addresses};

type Kind = fn(&Asked) -> bool;

/// R of the race table: .1 to .14.
const RANGE: &str = "172.16.0.0/28";
const USABLE: usize = 14;

fn range(live: &Live) {
    live.pool("r", RANGE, &json!({"reuseAfter": "1s"}));
}

/// One Service gets one address although its first writes are answered so.
fn one_address_in_spite_of(live: &Live, case: &str, times: usize, is: Kind, fault: Fault) {
    range(live);
    let proxy = ApiProxy::start(&live.plane.kubeconfig());
    proxy.next(times, is, fault);
    let controller = Controller::start(proxy);
    live.expose("a");
    live.until_address("a");
    until_agree(live);
    until_free(live, "r", USABLE - 1);
    controller.proxy.until_answered();
    println!("{case}: {:?}", controller.proxy.writes_since(0));
    controller.stop();
    difference(live).unwrap();
    assert_eq!(live.held().len(), 1, "{case}: {:?}", live.held());
    live.clear();
}

#[test]
fn a_write_that_fails_leaves_nothing_behind() {
    let live = Live::start();
    let live = &live;
    let claim: Kind = Asked::is_claim;
    let publication: Kind = Asked::is_publication;
    for (row, times, is, fault) in [
        ("row 7: 409 on the status", 1, publication, Fault::Refuse(409)),
        ("row 7: 409 on the router", 1, claim, Fault::Refuse(409)),
        ("row 9: 500 twice on the status", 2, publication, Fault::Refuse(500)),
        ("row 9: 500 twice on the router", 2, claim, Fault::Refuse(500)),
        ("429 on the status", 1, publication, Fault::Refuse(429)),
        ("503 on the router", 1, claim, Fault::Refuse(503)),
        ("the status' answer is lost", 1, publication, Fault::LoseAnswer),
        ("the router's answer is lost", 1, claim, Fault::LoseAnswer),
    ] {
        one_address_in_spite_of(live, row, times, is, fault);
    }
    a_service_that_is_gone_at_its_publication(live);
    a_user_edits_between_decision_and_write(live);
}

/// Service `a` has its claim, and its publication is on the way.
fn publishing(live: &Live) -> (Controller, Gate) {
    range(live);
    let proxy = ApiProxy::start(&live.plane.kubeconfig());
    let gate = proxy.hold(Asked::is_publication);
    let controller = Controller::start(proxy);
    live.expose("a");
    gate.until_reached();
    (controller, gate)
}

/// Row 8.
fn a_service_that_is_gone_at_its_publication(live: &Live) {
    let (controller, gate) = publishing(live);
    assert_eq!(live.held().len(), 1, "claimed before it is published");
    live.delete("a");
    gate.open();
    controller.proxy.until_answered();
    until_agree(live);
    let refused = controller.proxy.writes_since(0);
    let refused: Vec<_> = refused.iter().filter(|asked| asked.is_publication()).collect();
    assert!(refused.iter().all(|asked| asked.status == Some(404)), "{refused:?}");
    until_free(live, "r", USABLE);
    controller.stop();
    live.clear();
}

/// Row 7 by a real conflict.
fn a_user_edits_between_decision_and_write(live: &Live) {
    let (controller, gate) = publishing(live);
    live.patch("a", &json!({"metadata": {"labels": {"edited": "by-a-user"}}}));
    gate.open();
    live.until_address("a");
    until_agree(live);
    let statuses: Vec<_> = controller.proxy.writes_since(0);
    let statuses: Vec<_> =
        statuses.iter().filter(|asked| asked.is_publication()).map(|asked| asked.status).collect();
    assert_eq!(statuses, [Some(409), Some(200)]);
    assert_eq!(live.service("a").metadata.labels.unwrap()["edited"], "by-a-user");
    until_free(live, "r", USABLE - 1);
    controller.stop();
    assert_eq!(addresses(&live.service("a")).len(), 1);
    live.clear();
}
