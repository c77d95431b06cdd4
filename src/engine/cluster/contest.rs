//! Who fights for a Service's status: another controller that keeps replacing what we publish.
//! Measured: with one that restores its own address this went on at 37 writes a second, for ever.
//! So whoever has replaced ours three times in a minute wins, and we say so.

use std::collections::BTreeMap;
use std::time::Duration;

use super::world::{Ingress, Service, Uid};
use crate::engine::time::Instant;

/// So many replacements within [`WITHIN`] are a fight.
const TOO_MANY: usize = 3;
const WITHIN: Duration = Duration::from_secs(60);
/// Then the other one may have gone, and it is tried once more.
const REST: Duration = Duration::from_secs(600);

/// What we published, and what became of it.
#[derive(Clone, Debug, Default)]
pub struct Contests {
    services: BTreeMap<Uid, Contest>,
}

#[derive(Clone, Debug, Default)]
struct Contest {
    /// What we wrote last and before that: of the last it is not known yet whether it was taken.
    sent: [Option<Vec<Ingress>>; 2],
    /// The status showed what we wrote, when it was seen last.
    is_ours: bool,
    /// When it was replaced, the last three times.
    replaced: Vec<Instant>,
    /// It is left alone until then.
    until: Option<Instant>,
}

impl Contests {
    /// We are about to publish this.
    pub fn send(&mut self, uid: &Uid, ingress: &[Ingress]) {
        let contest = self.services.entry(uid.clone()).or_default();
        let [last, _] = std::mem::take(&mut contest.sent);
        contest.sent = [Some(ingress.to_vec()), last];
    }

    /// A Service was seen at this time. Whether its status is to be left alone.
    ///
    /// A new leader leaves alone what the old one did: the condition says so.
    pub fn see(&mut self, uid: &Uid, service: &Service, now: Instant) -> bool {
        if !service.load_balancer {
            // The API server clears the status: nobody's fight.
            self.forget(uid);
            return false;
        }
        let was_left =
            service.condition.as_ref().is_some_and(|condition| condition.reason == "Contested");
        let contest = match self.services.get_mut(uid) {
            Some(contest) => contest,
            None if was_left => {
                let contest = self.services.entry(uid.clone()).or_default();
                contest.until = Some(now + REST);
                contest
            }
            None => return false,
        };
        contest.see(&service.ingress, now)
    }

    /// It is gone.
    pub fn forget(&mut self, uid: &Uid) {
        self.services.remove(uid);
    }

    /// Services that have been left alone long enough.
    pub fn ended(&mut self, now: Instant) -> Vec<Uid> {
        let is_over = |contest: &Contest| contest.until.is_some_and(|until| until <= now);
        let ended = self.services.iter_mut().filter(|(_, contest)| is_over(contest));
        ended
            .map(|(uid, contest)| {
                contest.until = None;
                uid.clone()
            })
            .collect()
    }
}

impl Contest {
    fn see(&mut self, ingress: &[Ingress], now: Instant) -> bool {
        let is_ours = self.sent.iter().flatten().any(|sent| sent == ingress);
        if self.is_ours && !is_ours {
            self.replaced.retain(|at| now.since(*at) < WITHIN);
            self.replaced.push(now);
            if self.replaced.len() >= TOO_MANY {
                self.replaced.clear();
                self.until = Some(now + REST);
            }
        }
        self.is_ours = is_ours;
        self.until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::cluster::world::{Condition, ServiceKey};
    use crate::model::Family;

    fn shows(ip: &str) -> Service {
        Service {
            key: ServiceKey { namespace: "default".into(), name: "web".into() },
            load_balancer: true,
            families: vec![Family::Ipv4],
            ingress: entry(ip),
            ..Service::default()
        }
    }

    fn entry(ip: &str) -> Vec<Ingress> {
        vec![Ingress { ip: Some(ip.to_owned()), hostname: None }]
    }

    fn at(second: u64) -> Instant {
        Instant::after_origin(Duration::from_secs(second))
    }

    /// We publish at each of these times, and another replaces it a second later.
    fn fight(contests: &mut Contests, times: &[u64]) -> Vec<bool> {
        let web = Uid::from("web");
        let fought = times.iter().map(|time| {
            contests.send(&web, &entry("192.0.2.1"));
            assert!(!contests.see(&web, &shows("192.0.2.1"), at(*time)));
            contests.see(&web, &shows("10.9.9.9"), at(time + 1))
        });
        fought.collect()
    }

    #[test]
    fn three_in_a_minute_are_a_fight_and_it_is_tried_again_later() {
        let mut contests = Contests::default();
        assert_eq!(fight(&mut contests, &[0, 10, 20]), [false, false, true]);
        let web = Uid::from("web");
        assert!(contests.see(&web, &shows("10.9.9.8"), at(500)), "whatever it shows");
        assert!(contests.ended(at(600)).is_empty());
        assert_eq!(contests.ended(at(621)), [web]);
        assert_eq!(fight(&mut contests, &[700, 701, 702]), [false, false, true]);
    }

    #[test]
    fn now_and_then_is_no_fight() {
        let mut contests = Contests::default();
        assert_eq!(fight(&mut contests, &[0, 50, 100, 150]), [false; 4]);
    }

    #[test]
    fn one_replacement_that_is_seen_often_is_one() {
        let mut contests = Contests::default();
        fight(&mut contests, &[0]);
        let web = Uid::from("web");
        for second in 2..9 {
            assert!(!contests.see(&web, &shows("10.9.9.9"), at(second)));
        }
    }

    #[test]
    fn a_service_that_is_no_load_balancer_meanwhile_is_not_fought_for() {
        let mut contests = Contests::default();
        let web = Uid::from("web");
        for second in 0..9 {
            contests.send(&web, &entry("192.0.2.1"));
            assert!(!contests.see(&web, &shows("192.0.2.1"), at(second)));
            let cluster_ip =
                Service { load_balancer: false, ingress: Vec::new(), ..shows("192.0.2.1") };
            assert!(!contests.see(&web, &cluster_ip, at(second)));
        }
    }

    #[test]
    fn the_next_leader_does_not_begin_anew() {
        let mut contests = Contests::default();
        let condition =
            Condition { met: false, reason: "Contested".to_owned(), message: String::new() };
        let service = Service { condition: Some(condition), ..shows("10.9.9.9") };
        assert!(contests.see(&Uid::from("web"), &service, at(0)));
        assert_eq!(contests.ended(at(600)), [Uid::from("web")]);
    }
}
