//! Row 44: 200 Services come, go and change under two controllers, while writes fail, and leaders
//! die and freeze.

use nix::sys::signal::Signal;
use serde_json::json;

use crate::adversity::invariants::{lack, needless_writes, until_agree};
use crate::support::api_proxy::{ApiProxy, Asked, Fault};
use crate::support::lan::random::Random;
use crate::support::live::{Controller, Live, addresses};
use crate::support::netns::patience::{unless, until};

const SERVICES: usize = 200;
const STEPS: u64 = 400;
const SEED: u64 = 44;

#[derive(Clone, Copy)]
enum Kind {
    Gone,
    Balanced,
    Plain,
}

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
    Controller::start(proxy)
}

#[test]
fn two_hundred_services_in_a_storm() {
    let live = Live::start();
    live.pool("r", "172.16.0.0/24", &json!({"reuseAfter": "1h"}));
    let balanced =
        json!({"spec": {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false}});
    let plain = json!({"spec": {"type": "ClusterIP", "allocateLoadBalancerNodePorts": null}});
    let mut kinds = [Kind::Balanced; SERVICES];
    let mut random = Random::new(SEED);
    let mut pair = [rough(&live, 1), rough(&live, 2)];
    let mut seed = 2;
    let mut totals = Totals::default();
    for number in 0..SERVICES {
        live.expose(&format!("s{number}"));
    }
    for step in 0..STEPS {
        let number = random.index(kinds.len());
        let name = format!("s{number}");
        kinds[number] = match kinds[number] {
            Kind::Gone => {
                live.expose(&name);
                Kind::Balanced
            }
            _ if random.permille(300) => {
                live.delete(&name);
                Kind::Gone
            }
            Kind::Plain => {
                live.patch(&name, &balanced);
                Kind::Balanced
            }
            Kind::Balanced => {
                live.patch(&name, &plain);
                Kind::Plain
            }
        };
        if matches!(step, 100 | 200 | 300) {
            // The one that was killed before still has the lease until it is over.
            until("one of them leads", || {
                let leads = pair.iter().any(|controller| controller.holds_lease(&live));
                unless(leads, || pair.iter().map(Controller::log).collect::<Vec<_>>())
            });
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
                totals.add(controller);
                *controller = rough(&live, seed);
            }
        }
    }
    for controller in &pair {
        controller.proxy.no_more_faults();
    }
    until_agree(&live);
    let count = live.services().values().filter(|s| !addresses(s).is_empty()).count();
    let status = || live.pool_status("r");
    let counts = || {
        let status = status();
        status.free.parse::<usize>().unwrap() + usize::try_from(status.resting).unwrap()
    };
    until("free = 254 - Services", || unless(counts() == 254 - count, status));
    lack(&live).unwrap();
    let leader = &pair[usize::from(!pair[0].holds_lease(&live))];
    leader.until_leads(&live);
    println!("{count} Services have an address; {:?}", status());
    pair.iter().for_each(|controller| totals.add(controller));
    println!("{totals:?}");
    let needless = needless_writes(&live, leader, leader.proxy.mark());
    assert!(needless.is_empty(), "{needless:?}");
}

/// What all controllers together have written.
#[derive(Debug, Default)]
struct Totals {
    controllers: usize,
    writes: usize,
    refused: usize,
    unanswered: usize,
}

impl Totals {
    fn add(&mut self, controller: &Controller) {
        let writes = controller.proxy.writes_since(0);
        self.controllers += 1;
        self.writes += writes.len();
        self.refused += writes.iter().filter(|asked| asked.status >= Some(400)).count();
        self.unanswered += writes.iter().filter(|asked| asked.status == Some(0)).count();
    }
}

/// Stops the leader beyond its lease, with writes under way, and lets it go on.
fn freeze(live: &Live, leader: &Controller, other: &Controller) {
    leader.signal(Signal::SIGSTOP);
    other.until_leads(live);
    leader.signal(Signal::SIGCONT);
    assert!(!leader.wait(), "whoever has lost the lease ends with a failure");
}
