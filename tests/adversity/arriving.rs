//! Services that come while others are being given their addresses.

use std::net::IpAddr;

use barevip::io::kubernetes::resources::VirtualRouter;
use serde_json::json;

use crate::adversity::invariants::until_agree;
use crate::support::api_proxy::{ApiProxy, Asked};
use crate::support::live::{Controller, Live};
use crate::support::netns::patience::{unless, until};

#[test]
fn an_address_that_is_being_claimed_stays_with_its_service() {
    let live = Live::start();
    // Neighbouring addresses live in routers of their own.
    live.pool("r", "172.16.0.0/26", &json!({"routers": 8}));
    let proxy = ApiProxy::start(&live.plane.kubeconfig());
    let gate = proxy.hold(Asked::is_claim);
    let controller = Controller::start(proxy);
    live.expose("first");
    gate.until_reached();
    let claimed = only_address(&controller);
    // It is heard before those that show nothing.
    live.expose("second");
    live.show("second", &claimed.to_string());
    until("the controller knows of both", || {
        let status = live.pool_status("r");
        unless(status.used == 2, || status)
    });
    gate.open();
    assert_eq!(live.until_address("first"), claimed);
    until_agree(&live);
    controller.proxy.until_answered();
    let claims = controller.proxy.writes_since(0).into_iter().filter(Asked::is_claim);
    let claims: Vec<_> = claims.collect();
    assert_eq!(claims.len(), 2, "one for each: {claims:?}");
    controller.stop();
}

/// The address that the claim on its way is of.
fn only_address(controller: &Controller) -> IpAddr {
    let writes = controller.proxy.writes_since(0);
    let claim = writes.iter().find(|asked| asked.is_claim()).unwrap();
    let router: VirtualRouter = serde_json::from_slice(&claim.body).unwrap();
    assert_eq!(router.spec.addresses.len(), 1);
    router.spec.addresses[0].ip.parse().unwrap()
}
