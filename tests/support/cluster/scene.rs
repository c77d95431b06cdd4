//! A cluster with one controller, for the rows that need no more.

use barevip::engine::cluster::world::{Service, Timestamp, World};

use super::api::Api;
use super::controller::Controller;
use super::judge::judge;
use super::notation::{read_service, show_all, world};

/// Rounds after which a cluster must be quiet.
const ROUNDS: usize = 8;

/// The API server and the leader.
pub(crate) struct Scene {
    pub(crate) api: Api,
    pub(crate) leader: Controller,
}

/// Services without claims, as a first start finds them.
pub(crate) fn scene(ranges: &str, services: &str) -> Scene {
    Scene::of(world(ranges, services))
}

/// Services with the claims that belong to what they show, and nothing left to do.
pub(crate) fn settled(ranges: &str, services: &str) -> Scene {
    let mut scene = scene(ranges, services);
    scene.settle();
    scene.api.events.clear();
    scene.api.writes.clear();
    assert_eq!(scene.shows(), services, "the row begins so");
    scene
}

impl Scene {
    pub(crate) fn of(world: World) -> Self {
        Self { api: Api::new(world), leader: Controller::default() }
    }

    /// Rounds until nothing is written any more, then I1 to I4; how many rounds it took.
    #[track_caller]
    pub(crate) fn settle(&mut self) -> usize {
        for round in 0..ROUNDS {
            if self.leader.round(&mut self.api) == 0 {
                judge(&self.api);
                return round;
            }
        }
        panic!("still writing after {ROUNDS} rounds: {:#?}", self.api.writes);
    }

    /// Rounds of both in turn, each step of one beside the same step of the other, until nothing
    /// is written any more; then I1 to I4.
    #[track_caller]
    pub(crate) fn settle_with(&mut self, other: &mut Controller) {
        let Self { api, leader } = self;
        for _ in 0..ROUNDS {
            leader.look(api);
            other.look(api);
            let mut tried = leader.claim(api) + other.claim(api);
            tried += other.publish(api) + leader.publish(api);
            if tried == 0 {
                return judge(api);
            }
        }
        panic!("two controllers never end: {:#?}", api.writes);
    }

    /// Settles, and ends as the table says.
    #[track_caller]
    pub(crate) fn ends(&mut self, services: &str) {
        self.settle();
        assert_eq!(self.shows(), services);
    }

    pub(crate) fn shows(&self) -> String {
        show_all(&self.api.world)
    }

    /// The leader dies; another one starts from what the API shows.
    pub(crate) fn restart(&mut self) {
        self.leader = Controller::default();
    }

    pub(crate) fn edit(&mut self, name: &str) -> &mut Service {
        self.api.edit(name)
    }

    /// A user makes a Service.
    pub(crate) fn create(&mut self, text: &str) -> &mut Service {
        let (uid, service) = read_service(text);
        self.api.world.services.insert(uid.clone(), service);
        self.api.world.services.get_mut(&uid).unwrap()
    }

    pub(crate) fn delete(&mut self, name: &str) {
        self.api.delete(name);
    }

    /// Time passes, and no node serves any more what was released before.
    pub(crate) fn elapse(&mut self, seconds: i64) {
        self.api.confirm();
        self.api.now = Timestamp(self.api.now.0 + seconds);
    }

    /// After this every released address is as free as if nobody had ever had it.
    #[track_caller]
    pub(crate) fn rest(&mut self) {
        self.elapse(301);
        self.settle();
    }

    /// Addresses that pool `lan` could give now.
    pub(crate) fn free(&self) -> u128 {
        let mut fresh = Controller::default();
        fresh.look(&self.api);
        fresh.allocate(&self.api).pools["lan"].free
    }

    /// Reasons of the events told about a Service.
    pub(crate) fn told(&self, name: &str) -> Vec<&'static str> {
        self.api.told(name)
    }

    /// What the condition of a Service says: "Reason: message".
    pub(crate) fn says(&self, name: &str) -> String {
        let condition = self.api.service(name).condition.as_ref();
        condition.map_or_else(String::new, |said| format!("{}: {}", said.reason, said.message))
    }
}
