//! Whatever happens to the API server or to our definitions: a plain Service is never denied.

use std::cell::Cell;

use serde_json::json;

use crate::support::guarded::{Guarded, is_denied, manifests, service};

/// Plain Services, created one after the other.
struct Plain<'a> {
    guarded: &'a Guarded,
    number: Cell<usize>,
}

impl<'a> Plain<'a> {
    fn new(guarded: &'a Guarded) -> Self {
        Self { guarded, number: Cell::new(0) }
    }

    /// Tries to create one; whether it is there. A server that is not up is no denial.
    fn try_create(&self) -> bool {
        let number = self.number.replace(self.number.get() + 1);
        let mut plain = service(&format!("plain-{number}"), &[]);
        if number % 2 == 1 {
            plain["spec"]["type"] = json!("LoadBalancer");
        }
        let answer = self.guarded.create(&plain);
        assert!(!is_denied(&answer), "{answer:?}");
        answer.is_ok()
    }

    /// Creates a few of both types.
    fn create(&self) {
        for _ in 0..4 {
            assert!(self.try_create(), "the server is up");
        }
    }

    fn restart(&self) {
        self.guarded.0.restart(|| {
            self.try_create();
        });
        self.create();
    }
}

#[test]
fn ten_restarts_in_a_row_deny_no_plain_service() {
    let guarded = Guarded::with_ranges();
    let plain = Plain::new(&guarded);
    for _ in 0..10 {
        plain.restart();
    }
    guarded.until_protected("192.0.2.200");
}

#[test]
fn definitions_removed_in_any_order_deny_no_plain_service() {
    let guarded = Guarded::with_ranges();
    let plain = Plain::new(&guarded);
    let [pools, routers, announcers] =
        ["ingresspools", "virtualrouters", "announcers"].map(|kind| format!("{kind}.barevip.io"));
    let definitions = manifests(&["crds"]);
    for order in [
        [&pools, &routers, &announcers],
        [&pools, &announcers, &routers],
        [&routers, &pools, &announcers],
        [&routers, &announcers, &pools],
        [&announcers, &pools, &routers],
        [&announcers, &routers, &pools],
    ] {
        for definition in order {
            guarded.0.kubectl(&["delete", "crd", definition]);
            plain.create();
        }
        plain.restart();
        guarded.until_protected("192.0.2.200");
        guarded.0.apply(&definitions);
    }
}
