//! Random lives of a cluster under two controllers, with stale watches, conflicts, failing writes
//! and lost answers. Whatever happened: once all is quiet, I1 to I4 hold and nothing has leaked.

use std::collections::BTreeSet;

use barevip::engine::cluster::world::{Port, Protocol};
use proptest::prelude::*;

use crate::support::cluster::api::{Answer, Write};
use crate::support::cluster::controller::Controller;
use crate::support::cluster::notation::service;
use crate::support::cluster::scene::{Scene, scene};

/// One thing that happens.
#[derive(Clone, Debug)]
enum Step {
    /// Makes a Service, or deletes the one that is there.
    Flip(usize),
    /// Changes its type.
    Type(usize),
    /// A user edits something that does not matter.
    Edit(usize),
    /// Asks for an address.
    Ask(usize, u8),
    /// An admin writes its status.
    Write(usize, u8),
    /// A user writes its externalIPs.
    External(usize, u8),
    /// Gives it a key to share under, or takes it, and the port.
    Share(usize, bool, u16),
    /// A controller's watch catches up.
    Look(bool),
    /// A controller writes claims, from whatever it saw last.
    Claim(bool),
    /// A controller writes Services.
    Publish(bool),
    /// A controller starts anew.
    Restart(bool),
    /// The next write fails.
    Fail(Write, Answer),
    /// Time passes, and released addresses are confirmed.
    Elapse(i64),
}

/// What happens in any cluster.
fn everyday(services: usize) -> impl Strategy<Value = Step> {
    let which = 0..services;
    let answer = prop_oneof![
        prop_oneof![Just(409), Just(404), Just(500)].prop_map(Answer::Code),
        Just(Answer::Lost)
    ];
    let write = prop_oneof![
        Just(Write::Claim),
        prop_oneof![Just("A"), Just("B"), Just("C")].prop_map(Write::Status),
        prop_oneof![Just("A"), Just("B"), Just("C")].prop_map(Write::External),
    ];
    prop_oneof![
        4 => which.clone().prop_map(Step::Flip),
        2 => which.clone().prop_map(Step::Type),
        1 => which.prop_map(Step::Edit),
        3 => any::<bool>().prop_map(Step::Look),
        3 => any::<bool>().prop_map(Step::Claim),
        3 => any::<bool>().prop_map(Step::Publish),
        1 => any::<bool>().prop_map(Step::Restart),
        1 => (write, answer).prop_map(|(write, answer)| Step::Fail(write, answer)),
        1 => prop_oneof![Just(1), Just(301)].prop_map(Step::Elapse),
    ]
}

/// What people do to Services.
fn people(services: usize, addresses: u8) -> impl Strategy<Value = Step> {
    let which = 0..services;
    prop_oneof![
        (which.clone(), 0..addresses).prop_map(|(which, last)| Step::Ask(which, last)),
        (which.clone(), 0..addresses).prop_map(|(which, last)| Step::Write(which, last)),
        (which.clone(), 0..addresses).prop_map(|(which, last)| Step::External(which, last)),
        (which, any::<bool>(), 80..82_u16)
            .prop_map(|(which, key, port)| { Step::Share(which, key, port) }),
    ]
}

/// Two controllers of one cluster.
struct Life {
    scene: Scene,
    other: Controller,
    names: Vec<String>,
    born: usize,
}

impl Life {
    fn new(ranges: &str, services: usize) -> Self {
        let names = (0..services).map(|at| match at {
            0..26 => char::from(b'A' + u8::try_from(at).unwrap()).to_string(),
            _ => format!("S{at:03}"),
        });
        Self {
            scene: scene(ranges, ""),
            other: Controller::default(),
            names: names.collect(),
            born: 0,
        }
    }

    /// The Service, if it is there.
    fn name(&self, which: usize) -> Option<&str> {
        let name = &self.names[which];
        self.scene.api.find(name).map(|_| name.as_str())
    }

    fn take(&mut self, step: Step) {
        let name = |life: &Self, which| life.name(which).map(str::to_owned);
        let address = |last: u8| format!("172.16.0.{last}");
        let scene = &mut self.scene;
        match step {
            Step::Flip(which) => {
                let name = self.names[which].clone();
                if scene.api.find(&name).is_some() {
                    return scene.delete(&name);
                }
                self.born += 1;
                let uid = format!("uid-{:06}", self.born);
                let (_, made) = service(&name);
                self.scene.api.world.services.insert(uid.as_str().into(), made);
            }
            Step::Type(which) => {
                let Some(name) = name(self, which) else { return };
                let service = self.scene.edit(&name);
                service.load_balancer = !service.load_balancer;
                if !service.load_balancer {
                    service.ingress.clear();
                }
            }
            Step::Edit(which) => {
                let Some(name) = name(self, which) else { return };
                self.scene.edit(&name);
            }
            Step::Ask(which, last) => {
                let Some(name) = name(self, which) else { return };
                self.scene.edit(&name).requested = vec![address(last)];
            }
            Step::Write(which, last) => {
                let Some(name) = name(self, which) else { return };
                let service = self.scene.edit(&name);
                if service.load_balancer {
                    service.ingress.iter_mut().for_each(|shown| shown.ip = Some(address(last)));
                }
            }
            Step::External(which, last) => {
                let Some(name) = name(self, which) else { return };
                self.scene.edit(&name).external_ips = vec!["10.0.0.24".into(), address(last)];
            }
            Step::Share(which, does, number) => {
                let Some(name) = name(self, which) else { return };
                let service = self.scene.edit(&name);
                service.share = does.then(|| "key".into());
                service.ports = [Port { protocol: Protocol::Tcp, number }].into();
            }
            Step::Look(first) => self.one(first, |controller, scene| controller.look(&scene.api)),
            Step::Claim(first) => self.one(first, |controller, scene| {
                controller.claim(&mut scene.api);
            }),
            Step::Publish(first) => self.one(first, |controller, scene| {
                controller.publish(&mut scene.api);
            }),
            Step::Restart(first) => {
                self.one(first, |controller, _| *controller = Controller::default())
            }
            Step::Fail(write, answer) => scene.api.fail(write, answer, 1),
            Step::Elapse(seconds) => scene.elapse(seconds),
        }
    }

    fn one(&mut self, first: bool, does: impl FnOnce(&mut Controller, &mut Scene)) {
        let Self { scene, other, .. } = self;
        if first {
            let mut leader = std::mem::take(&mut scene.leader);
            does(&mut leader, scene);
            scene.leader = leader;
        } else {
            does(other, scene);
        }
        let claims = scene.api.world.routers.values().flat_map(|router| router.spec.claims.keys());
        let mut seen = BTreeSet::new();
        assert!(claims.into_iter().all(|address| seen.insert(*address)), "claimed twice");
    }

    /// No more faults; everything settles, and rests.
    fn quiesce(&mut self) {
        self.scene.api.forgive();
        self.scene.settle_with(&mut self.other);
        self.scene.elapse(301);
        self.scene.settle_with(&mut self.other);
        self.scene.elapse(301);
        self.scene.settle_with(&mut self.other);
    }

    fn load_balancers(&self) -> u128 {
        let services = self.scene.api.world.services.values();
        services.filter(|service| service.load_balancer).count() as u128
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn row_44_two_hundred_services_and_two_controllers(
        steps in proptest::collection::vec(everyday(200), 300..600)
    ) {
        let mut life = Life::new("172.16.0.0/24", 200);
        for which in 0..200 {
            life.take(Step::Flip(which));
        }
        for step in steps {
            life.take(step);
        }
        life.quiesce();
        prop_assert_eq!(life.scene.free(), 254 - life.load_balancers());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_people_do_all_ends_well(
        steps in proptest::collection::vec(prop_oneof![4 => everyday(6), 1 => people(6, 8)], 0..80)
    ) {
        let mut life = Life::new("172.16.0.0/29", 6);
        for step in steps {
            life.take(step);
        }
        life.quiesce();
    }
}
