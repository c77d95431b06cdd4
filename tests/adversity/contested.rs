//! Other controllers at the same Services.

use serde_json::json;

use crate::adversity::invariants::{needless_writes, until_agree};
use crate::support::api_proxy::{ApiProxy, Asked};
use crate::support::live::{Controller, Live, addresses};
use crate::support::netns::patience::{unless, until};

const FOREIGN: &str = "10.9.9.9";

#[test]
fn whoever_replaces_our_status_three_times_in_a_minute_is_left_alone() {
    let live = Live::start();
    live.pool("r", "172.16.0.0/28", &json!({"reuseAfter": "1h"}));
    let controller = Controller::start(ApiProxy::start(&live.plane.kubeconfig()));
    live.expose("peaceful");
    until_agree(&live);

    live.expose_with("other", &json!({"loadBalancerClass": "example.com/other"}));
    live.show("other", FOREIGN);
    let other = live.service("other").metadata.resource_version;

    let mark = controller.proxy.mark();
    live.expose("fought");
    let ours = live.until_address("fought");
    let mut replaced = 0;
    until("it is left alone", || {
        let service = live.service("fought");
        if addresses(&service).contains(&ours) {
            live.show("fought", FOREIGN);
            replaced += 1;
        }
        assert!(replaced <= 3, "a war");
        let reason = crate::support::live::reason(&service.status.unwrap_or_default());
        unless(reason.as_deref() == Some("Contested"), || reason)
    });
    assert_eq!(replaced, 3);
    let shown = addresses(&live.service("fought"));
    assert_eq!(shown, [FOREIGN.parse::<std::net::IpAddr>().unwrap()]);
    assert!(live.held().contains_key(&ours), "its claim stays");
    let told = || live.told("fought");
    until("it is told", || unless(told().contains(&"Contested".to_owned()), told));

    controller.proxy.until_answered();
    let writes = controller.proxy.writes_since(mark);
    let fought: Vec<_> = writes.iter().filter(|asked| Asked::is_publication(asked)).collect();
    println!("writes of the status that another replaces: {fought:?}");
    assert!(fought.len() <= 4, "three publications and the condition: {fought:?}");
    assert_eq!(live.service("other").metadata.resource_version, other, "never touched");
    let needless = needless_writes(&live, &controller, controller.proxy.mark());
    assert!(needless.is_empty(), "{needless:?}");

    // Another leader leaves it alone too.
    controller.stop();
    live.delete("sentinel");
    let next = Controller::start(ApiProxy::start(&live.plane.kubeconfig()));
    let needless = needless_writes(&live, &next, 0);
    assert!(!needless.iter().any(Asked::is_publication), "{needless:?}");
    next.stop();
}
