//! Row 44: 200 Services come, go and change under two controllers, while writes fail, and leaders
//! die and freeze.

use nix::sys::signal::Signal;
use serde_json::json;

use crate::faults::invariants::{lack, needless_writes, until_agree};
use crate::support::api_proxy::{ApiProxy, Asked, Fault};
use crate::support::lan::random::Random;
use crate::support::live::{Controller, Live, addresses};
use crate::support::netns::patience::{unless, until};

const SERVICES: u64 = 200;
const STEPS: u64 = 400;
const SEED: u64 = 44;

/// One write in ten fails, or its answer is lost.
fn rough(live: &Live, seed: u64) -> Controller {
    let proxy = ApiProxy::start(&live.plane.kubeconfig());
    let mut random = Random::new(seed);
    proxy.rule(move |asked: &Asked| {
        if !asked.is_write() || !random.permille(100) {
            return None;
        }
        Some(match random.below(4) {
            0 => Fault::Refuse(409),
            1 => Fault::Refuse(404),
            2 => Fault::Refuse(500),
            _ => Fault::LoseAnswer,
        })
    });
    Controller::start_with(proxy, &["--lease-duration", "5s", "--retry-period", "500ms"])
}

#[test]
fn two_hundred_services_in_a_storm() {
    let live = Live::start();
    live.pool("r", "172.16.0.0/24", &json!({"reuseAfter": "1h"}));
    let mut random = Random::new(SEED);
    let mut pair = [rough(&live, 1), rough(&live, 2)];
    let mut seed = 2;
    for number in 0..SERVICES {
        live.expose(&format!("s{number}"));
    }
    for step in 0..STEPS {
        let name = format!("s{}", random.below(SERVICES));
        match live.services().get(&name).map(|service| service.spec.clone().unwrap().type_) {
            None => live.expose(&name),
            Some(_) if random.permille(300) => live.delete(&name),
            Some(Some(kind)) if kind == "ClusterIP" => {
                live.patch(&name, &json!({"spec": {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false}}));
            }
            Some(_) => live.patch(&name, &json!({"spec": {"type": "ClusterIP", "allocateLoadBalancerNodePorts": null}})),
        }
        if matches!(step, 100 | 200 | 300) {
            let [one, other] = &pair;
            let (leader, other) = if one.holds_lease(&live) { (one, other) } else { (other, one) };
            match step {
                // Not if it has lost its lease by itself meanwhile.
                200 if leader.runs() && other.runs() => freeze(&live, leader, other),
                _ if leader.runs() => leader.signal(Signal::SIGKILL),
                _ => {}
            }
        }
        for controller in &mut pair {
            // As the kubelet does.
            if !controller.runs() {
                seed += 1;
                *controller = rough(&live, seed);
            }
        }
    }
    for controller in &pair {
        controller.proxy.no_more_faults();
    }
    until_agree(&live);
    let balanced = live.services().values().filter(|s| !addresses(s).is_empty()).count();
    let status = || live.pool_status("r");
    let counts = || {
        let status = status();
        status.free.parse::<usize>().unwrap() + status.resting as usize
    };
    until("free = 254 - Services", || unless(counts() == 254 - balanced, status));
    lack(&live).unwrap();
    let leader = &pair[usize::from(!pair[0].holds_lease(&live))];
    leader.until_leads(&live);
    println!("{balanced} Services have an address; {:?}", status());
    for controller in pair.iter() {
        println!("{} writes, {} refused", controller.proxy.writes_since(0).len(), refused(controller));
    }
    let needless = needless_writes(&live, leader, leader.proxy.mark());
    assert!(needless.is_empty(), "{needless:?}");
}

fn refused(controller: &Controller) -> usize {
    let writes = controller.proxy.writes_since(0);
    writes.iter().filter(|asked| asked.status.is_some_and(|status| status >= 400)).count()
}

/// Stops the leader beyond its lease, with writes under way, and lets it go on.
fn freeze(live: &Live, leader: &Controller, other: &Controller) {
    leader.signal(Signal::SIGSTOP);
    other.until_leads(live);
    leader.signal(Signal::SIGCONT);
    assert!(!leader.wait(), "whoever has lost the lease ends with a failure");
}
