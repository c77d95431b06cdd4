//! Controllers that end, freeze, and fight (race table, rows 12, 13, 25 to 27).

use k8s_openapi::api::coordination::v1::LeaseSpec;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::adversity::invariants::{difference, needless_writes, until_agree, until_free};
use crate::support::api_proxy::{ApiProxy, Asked, Fault, Gate};
use crate::support::live::{Controller, LEASE_SECONDS, Live, addresses};
use crate::support::netns::patience::{unless, until};

fn range(live: &Live) {
    live.pool("r", "172.16.0.0/28", &json!({"reuseAfter": "1s"}));
}

fn proxied(live: &Live) -> Controller {
    Controller::start(ApiProxy::start(&live.plane.kubeconfig()))
}

#[test]
fn leaders_come_and_go() {
    let live = Live::start();
    killed_between_claim_and_publication(&live);
    restarted_with_everything_consistent(&live);
    killed_while_another_waits(&live);
    two_services_that_show_one_address(&live);
}

/// Row 12.
fn killed_between_claim_and_publication(live: &Live) {
    range(live);
    let proxy = ApiProxy::start(&live.plane.kubeconfig());
    let gate = proxy.hold(Asked::is_publication);
    let first = Controller::start(proxy);
    live.expose("a");
    gate.until_reached();
    let claimed = live.held();
    first.kill();
    assert!(addresses(&live.service("a")).is_empty(), "it died before the publication");
    let second = proxied(live);
    let published = live.until_address("a");
    assert!(claimed.contains_key(&published), "{claimed:?}");
    until_agree(live);
    let claims = second.proxy.writes_since(0);
    assert!(!claims.iter().any(Asked::is_claim), "the claim was there already: {claims:?}");
    second.stop();
    live.clear();
}

/// Nothing is written but the lease, by a leader that finds all as it should be.
fn restarted_with_everything_consistent(live: &Live) {
    range(live);
    let first = proxied(live);
    for number in 0..10 {
        live.expose(&format!("s{number}"));
    }
    until_agree(live);
    until_free(live, "r", 4);
    first.stop();
    let second = proxied(live);
    second.until_leads(live);
    let needless = needless_writes(live, &second, 0);
    assert!(needless.is_empty(), "{needless:?}");
    second.stop();
    live.clear();
}

/// The other one leads as soon as the lease is over, and not before.
fn killed_while_another_waits(live: &Live) {
    range(live);
    let first = proxied(live);
    live.expose("a");
    live.expose("b");
    until_agree(live);
    until_free(live, "r", 12);
    let second = proxied(live);
    // It has seen the lease: its clock runs.
    until("the second one has read the lease", || {
        let asked = second.proxy.since(0);
        unless(asked.iter().any(|a| a.resource == "leases" && a.status == Some(200)), || asked)
    });
    first.kill();
    let last = live.lease().unwrap().spec.unwrap();
    second.until_leads(live);
    let next = live.lease().unwrap().spec.unwrap();
    let waited = seconds(&next, |spec| spec.acquire_time.as_ref())
        - seconds(&last, |spec| spec.renew_time.as_ref());
    println!(
        "the other one led {waited:.2} s after the last renewal (lease {LEASE_SECONDS} s, retry 0.5 s)"
    );
    assert!(waited >= LEASE_SECONDS, "before the lease was over: {waited} s");
    let needless = needless_writes(live, &second, 0);
    assert!(needless.is_empty(), "{needless:?}");
    second.stop();
    live.clear();
}

/// Whoever waits for the lease sleeps meanwhile.
#[test]
fn a_controller_that_does_not_lead_does_nothing() {
    let live = Live::start();
    range(&live);
    let leader = proxied(&live);
    leader.until_leads(&live);
    let other = proxied(&live);
    let reads = || {
        let asked = other.proxy.since(0);
        asked.iter().filter(|asked| asked.resource == "leases").count()
    };
    until("it has looked at the lease ten times", || unless(reads() >= 10, reads));
    let (looks, sleeps) = (reads(), other.sleeps());
    assert!(sleeps >= looks as u64, "it has slept {sleeps} times between {looks} looks");
    assert!(other.proxy.writes_since(0).is_empty());
    leader.stop();
    other.stop();
}

fn seconds<'a>(
    spec: &'a LeaseSpec,
    time: impl Fn(
        &'a LeaseSpec,
    ) -> Option<&'a k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime>,
) -> f64 {
    time(spec).unwrap().0.as_microsecond() as f64 / 1e6
}

/// Rows 1, 13: the older one keeps it, the other one gets one new address, and it is told once.
fn two_services_that_show_one_address(live: &Live) {
    range(live);
    live.expose("a");
    // Ages differ by whole seconds, or the uid decides.
    until("a is older", || {
        {
            live.expose("b");
            let age = |name| live.service(name).metadata.creation_timestamp.unwrap().0;
            if age("a") < age("b") {
                return Ok(());
            }
            live.delete("b");
            Err("as old as b")
        }
        .map_err(ToOwned::to_owned)
    });
    live.show("a", "172.16.0.1");
    live.show("b", "172.16.0.1");
    let controller = proxied(live);
    until_agree(live);
    assert_eq!(addresses(&live.service("a")), ["172.16.0.1".parse::<std::net::IpAddr>().unwrap()]);
    until_free(live, "r", 12);
    let told = || live.told("b");
    until("b is told", || unless(told() == ["IngressIPReallocated"], told));
    let needless = needless_writes(live, &controller, controller.proxy.mark());
    assert!(needless.is_empty(), "{needless:?}");
    assert_eq!(told(), ["IngressIPReallocated"]);
    controller.stop();
    live.clear();
}

/// Rows 25 to 27: a leader is frozen in the middle of a write, another one takes over, and the
/// write arrives late.
#[test]
fn what_a_deposed_leader_writes_late_is_refused() {
    let live = Live::start();
    late(&live, "its publication", Asked::is_publication, &[409]);
    late(&live, "its claim", Asked::is_claim, &[409, 422]);
    a_late_claim_of_an_address_that_is_given(&live);
}

fn late(live: &Live, what: &str, is: fn(&Asked) -> bool, refusals: &[u16]) {
    range(live);
    let old = proxied(live);
    live.expose("a");
    until_agree(live);
    let gate = old.proxy.hold(is);
    live.expose("b");
    gate.until_reached();
    old.signal(Signal::SIGSTOP);
    let new = proxied(live);
    live.until_address("b");
    live.expose("c");
    until_agree(live);
    let before = live.held();
    gate.open();
    old.proxy.until_answered();
    let late: Vec<_> = old.proxy.since(0).into_iter().filter(is).collect();
    println!("{what}, late: {late:?}");
    let answer = late.last().unwrap().status.unwrap();
    assert!(refusals.contains(&answer), "{what}: {late:?}");
    assert_eq!(live.held(), before);
    let mark = old.proxy.mark();
    old.signal(Signal::SIGCONT);
    assert!(!old.wait(), "whoever has lost the lease ends with a failure");
    let written = old.proxy.writes_since(mark);
    let is_refused = |asked: &Asked| matches!(asked.status, Some(0 | 409 | 422));
    assert!(written.iter().all(is_refused), "it has written after its lease: {written:?}");
    difference(live).unwrap();
    let needless = needless_writes(live, &new, new.proxy.mark());
    assert!(needless.is_empty(), "{needless:?}");
    new.stop();
    live.clear();
}

/// More writes than go at once: those that wait when it is stopped are never sent.
#[test]
fn what_waits_when_a_leader_is_deposed_is_not_written() {
    let live = Live::start();
    live.pool("r", "172.16.0.0/24", &json!({"reuseAfter": "1h"}));
    let gate = Gate::new();
    let proxy = ApiProxy::start(&live.plane.kubeconfig());
    let held = gate.clone();
    proxy.rule(move |asked| asked.is_publication().then(|| Fault::Hold(held.clone())));
    for number in 0..60 {
        live.expose(&format!("s{number}"));
    }
    let old = Controller::start(proxy);
    let under_way = || old.proxy.writes_since(0).iter().filter(|a| a.is_publication()).count();
    until("as many writes as go at once are under way", || unless(under_way() == 32, under_way));
    old.signal(Signal::SIGSTOP);
    let new = proxied(&live);
    until_agree(&live);
    let mark = old.proxy.mark();
    gate.open();
    old.proxy.until_answered();
    old.signal(Signal::SIGCONT);
    assert!(!old.wait(), "whoever has lost the lease ends with a failure");
    let late = old.proxy.writes_since(0);
    let late = late.iter().filter(|asked| asked.is_publication());
    let late: Vec<_> = late.map(|asked| asked.status).collect();
    println!("{} publications under way, late: {late:?}", late.len());
    assert!(late.iter().all(|status| *status == Some(409)), "{late:?}");
    let after = old.proxy.writes_since(mark);
    let is_new = |asked: &&Asked| !matches!(asked.status, Some(0 | 409));
    assert_eq!(after.iter().find(is_new), None, "written after the lease");
    difference(&live).unwrap();
    let needless = needless_writes(&live, &new, new.proxy.mark());
    assert!(needless.is_empty(), "{needless:?}");
    new.stop();
}

/// The router does not exist yet, so there is no generation to compare.
fn a_late_claim_of_an_address_that_is_given(live: &Live) {
    range(live);
    let proxy = ApiProxy::start(&live.plane.kubeconfig());
    let gate = proxy.hold(Asked::is_claim);
    let old = Controller::start(proxy);
    live.expose("a");
    gate.until_reached();
    old.signal(Signal::SIGSTOP);
    // Its Service goes, and another one gets the address that the old leader wanted for it.
    live.delete("a");
    live.expose("b");
    let new = proxied(live);
    live.until_address("b");
    until_agree(live);
    gate.open();
    old.proxy.until_answered();
    let late: Vec<_> = old.proxy.since(0).into_iter().filter(Asked::is_claim).collect();
    assert_eq!(late.last().unwrap().status, Some(409), "{late:?}");
    difference(live).unwrap();
    drop(old);
    new.stop();
    live.clear();
}
