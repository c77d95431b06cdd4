//! Watches that say nothing, and connections that break.

use serde_json::json;

use crate::adversity::invariants::{needless_writes, until_agree, until_free};
use crate::support::api_proxy::ApiProxy;
use crate::support::live::{Controller, Live};

/// Half a minute at the longest: then the controller asks anew.
#[test]
fn a_service_made_while_the_watches_are_silent_gets_its_address() {
    let live = Live::start();
    live.pool("r", "172.16.0.0/28", &json!({"reuseAfter": "1h"}));
    let controller = Controller::start(ApiProxy::start(&live.plane.kubeconfig()));
    live.expose("a");
    until_agree(&live);
    until_free(&live, "r", 13);

    let mark = controller.proxy.mark();
    controller.proxy.cut();
    live.expose("b");
    until_agree(&live);
    until_free(&live, "r", 12);
    println!("connections cut: {:?}", controller.proxy.writes_since(mark));

    controller.proxy.freeze_watches();
    live.expose("c");
    live.until_address("c");
    until_agree(&live);
    until_free(&live, "r", 11);

    // What the frozen ones held back is old, and changes nothing.
    let mark = controller.proxy.mark();
    controller.proxy.thaw_watches();
    let needless = needless_writes(&live, &controller, mark);
    assert!(needless.is_empty(), "{needless:?}");
    controller.stop();
}
