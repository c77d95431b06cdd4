//! What each Service's status, condition and externalIPs are to say. An address is published only
//! when the world shows its claim, so that no client is sent where somebody else may be.

use std::borrow::Cow;
use std::net::IpAddr;

use super::condition;
use super::few::Few;
use super::ledger::{Ledger, State};
use super::ours::{Member, Standing, address_of};
use super::outcome::{Outcome, Share};
use super::pools::Pools;
use crate::engine::cluster::decision::{Notice, ServiceChange};
use crate::engine::cluster::world::Ingress;
use crate::model::Family;

/// All that publication looks at.
pub(super) struct Publisher<'a, 'w> {
    pub(super) pools: &'a Pools<'w>,
    pub(super) ledger: &'a Ledger<'w>,
    pub(super) mirror: bool,
}

/// How far an address of one family is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The world shows the claim.
    Shown(IpAddr),
    /// The claim is being written: what is published stays.
    Claimed,
    /// There is none.
    Without,
}

impl<'w> Publisher<'_, 'w> {
    /// What is to change on a Service; whether it gains an address.
    pub(super) fn change(
        &self,
        member: Member<'w>,
        outcome: &Outcome<'w>,
    ) -> Option<(bool, ServiceChange)> {
        let mut change = match member.standing {
            Standing::Served => self.served(member, outcome)?,
            Standing::Contested => ServiceChange {
                condition: Some(Some(condition::contested())),
                notices: vec![condition::contested_notice()],
                ..unchanged(member)
            },
            Standing::Leaving => return None,
            Standing::Foreign => self.cleaned(member)?,
        };
        let service = member.service;
        change.ingress = change.ingress.filter(|ingress| *ingress != service.ingress);
        change.condition = change.condition.filter(|condition| *condition != service.condition);
        change.external_ips = change.external_ips.filter(|ips| *ips != service.external_ips);
        if change.condition.is_none() && change.ingress.is_none() {
            change.notices.clear();
        }
        let is_empty =
            change.ingress.is_none() && change.condition.is_none() && change.external_ips.is_none();
        let gains = change
            .ingress
            .as_ref()
            .is_some_and(|to| to.iter().any(|ingress| !service.ingress.contains(ingress)));
        (!is_empty).then_some((gains, change))
    }

    fn step(&self, member: Member<'w>, outcome: &Outcome<'w>, family: Family) -> Step {
        let Share::Has(address) = *outcome.of(family) else { return Step::Without };
        let entry = self.ledger.entry(address);
        match entry.is_some_and(|entry| entry.is_shown_for(member)) {
            true => Step::Shown(address),
            false => Step::Claimed,
        }
    }

    fn served(&self, member: Member<'w>, outcome: &Outcome<'w>) -> Option<ServiceChange> {
        let steps: Few<_> = member.families().map(|f| (f, self.step(member, outcome, f))).collect();
        let is_waiting = steps.iter().any(|(_, step)| *step == Step::Claimed);
        let is_published = |(_, step): &(Family, Step)| match step {
            Step::Shown(address) => member.publishes(*address),
            Step::Claimed | Step::Without => false,
        };
        if is_waiting && member.needs_both() && !steps.iter().any(is_published) {
            return None;
        }
        let ingress = self.ingress(member, &steps);
        let external_ips = self.mirror.then(|| self.external_ips(member, &steps));
        let said = condition::Said { member, outcome, ledger: self.ledger };
        let is_said = is_waiting || member.service.condition.as_ref().is_some_and(|c| said.is(c));
        if ingress.is_none() && external_ips.is_none() && is_said {
            return None;
        }
        let mut change = unchanged(member);
        if !is_said {
            let condition = said.condition();
            change.notices = said.notices(condition.reason == "RangeFull");
            change.condition = Some(Some(condition));
        }
        if ingress.is_some() {
            self.tell_moves(member, &steps, &mut change.notices);
        }
        Some(ServiceChange { ingress, external_ips, ..change })
    }

    /// Whether a status entry of one of our Services is for us to write.
    fn is_ours(&self, ingress: &Ingress) -> bool {
        match address_of(ingress) {
            Some(address) => self.concerns_us(address),
            None => match ingress.ip.as_deref() {
                None | Some("") => ingress.hostname.is_none(),
                Some(_) => true,
            },
        }
    }

    fn concerns_us(&self, address: IpAddr) -> bool {
        self.pools.of(address).is_some() || self.ledger.entry(address).is_some()
    }

    /// Whether our entries are the ones that are shown, and all claims are shown.
    fn is_right(&self, member: Member<'w>, steps: &[(Family, Step)]) -> bool {
        let ours = || member.service.ingress.iter().filter(|ingress| self.is_ours(ingress));
        let mut count = 0;
        let is_there = |(_, step): &(Family, Step)| match *step {
            Step::Shown(address) => {
                count += 1;
                ours().any(|ingress| address_of(ingress) == Some(address))
            }
            Step::Claimed => false,
            Step::Without => true,
        };
        steps.iter().all(is_there) && ours().count() == count
    }

    /// Our entries in the order of the families, then the others' as they were; nothing where our
    /// entries are right.
    fn ingress(&self, member: Member<'w>, steps: &[(Family, Step)]) -> Option<Vec<Ingress>> {
        if self.is_right(member, steps) {
            return None;
        }
        let (ours, others): (Vec<&Ingress>, Vec<&Ingress>) =
            member.service.ingress.iter().partition(|ingress| self.is_ours(ingress));
        let mut wanted: Vec<Cow<'_, Ingress>> = Vec::with_capacity(steps.len());
        for (family, step) in steps {
            let is_of_family = |a: IpAddr| Family::of(a) == *family;
            match *step {
                Step::Shown(address) => {
                    let existing = ours.iter().find(|i| address_of(i) == Some(address));
                    wanted.push(existing.map_or_else(
                        || Cow::Owned(Ingress { ip: Some(address.to_string()), hostname: None }),
                        |existing| Cow::Borrowed(*existing),
                    ));
                }
                Step::Claimed => {
                    let stay = ours.iter().filter(|i| address_of(i).is_some_and(is_of_family));
                    wanted.extend(stay.map(|stays| Cow::Borrowed(*stays)));
                }
                Step::Without => {}
            }
        }
        if steps.iter().any(|(_, step)| *step == Step::Claimed) {
            let unreadable = ours.iter().filter(|ingress| address_of(ingress).is_none());
            wanted.extend(unreadable.map(|stays| Cow::Borrowed(*stays)));
        }
        let is_right = wanted.len() == ours.len() && wanted.iter().all(|i| ours.contains(&&**i));
        let others = others.into_iter().map(Cow::Borrowed);
        (!is_right).then(|| wanted.into_iter().chain(others).map(Cow::into_owned).collect())
    }

    /// Ours exactly once, others' and their order as they were.
    fn external_ips(&self, member: Member<'w>, steps: &[(Family, Step)]) -> Vec<String> {
        let mut seen = Vec::new();
        let stays = |text: &&String| {
            let Ok(address) = text.parse::<IpAddr>() else { return true };
            if !self.concerns_us(address) {
                return true;
            }
            let step = steps.iter().find(|(family, _)| *family == Family::of(address));
            match step.map(|(_, step)| *step) {
                Some(Step::Shown(wanted)) => {
                    let is_first = wanted == address && !seen.contains(&address);
                    seen.push(address);
                    is_first
                }
                Some(Step::Claimed) => true,
                Some(Step::Without) | None => false,
            }
        };
        let mut list: Vec<String> =
            member.service.external_ips.iter().filter(stays).cloned().collect();
        for (_, step) in steps {
            if let Step::Shown(address) = step
                && !list.iter().any(|text| text.parse() == Ok(*address))
            {
                list.push(address.to_string());
            }
        }
        list
    }

    /// Tells of every address of ours that the status loses to another one.
    fn tell_moves(&self, member: Member<'w>, steps: &[(Family, Step)], notices: &mut Vec<Notice>) {
        let gained = |(_, step): &(Family, Step)| match *step {
            Step::Shown(address) if !member.publishes(address) => Some(address),
            Step::Shown(_) | Step::Claimed | Step::Without => None,
        };
        let gained: Vec<_> = steps.iter().filter_map(gained).collect();
        for ingress in member.service.ingress.iter().filter(|ingress| self.is_ours(ingress)) {
            let old = address_of(ingress);
            let of_family = |new: &&IpAddr| old.is_none_or(|o| Family::of(o) == Family::of(**new));
            let Some(new) = gained.iter().find(of_family).copied() else { continue };
            let is_own = old.is_some_and(|old| {
                self.ledger.entry(old).is_some_and(|entry| entry.is_shown_for(member))
            });
            let shown = ingress.ip.as_deref().unwrap_or_default();
            let shown: String = shown.chars().take(60).collect();
            let why = self.why_moved(member, old);
            notices.push(Notice {
                reason: "IngressIPReallocated",
                warning: !(is_own
                    && old.is_some_and(|o| self.ledger.displaced(member, o).is_none())),
                note: format!("{shown:?} is replaced by {new}: {why}"),
            });
        }
    }

    fn why_moved(&self, member: Member<'w>, old: Option<IpAddr>) -> String {
        let Some(old) = old else { return "it is no address".to_owned() };
        if let Some(clash) = self.ledger.displaced(member, old) {
            return clash.to_string();
        }
        let Some(entry) = self.ledger.entry(old) else {
            return "the Service has another address".to_owned();
        };
        match &entry.state {
            State::Held(holders) => match holders.first() {
                Some(_) if holders.contains(&member) => "the Service asks for it".to_owned(),
                Some(first) => {
                    let clash = self.ledger.shares.fits(old, *first, entry.source, member);
                    clash.err().map_or_else(
                        || format!("{} has it", first.service.key),
                        |clash| clash.to_string(),
                    )
                }
                None => "nobody has it".to_owned(),
            },
            State::Resting(release) => format!("it rests since {} had it", release.by),
            State::Pinned => "its pool pins it".to_owned(),
        }
    }

    /// What has to go from a Service that is not ours any more.
    fn cleaned(&self, member: Member<'w>) -> Option<ServiceChange> {
        let service = member.service;
        let held = self.ledger.taken_from(member);
        let mut former = self.ledger.former(&service.key).peekable();
        let was_ours = !held.is_empty() || service.condition.is_some();
        if !was_ours && (former.peek().is_none() || !self.mirror) {
            return None;
        }
        let former: Vec<_> = former.collect();
        let had = |address: IpAddr| held.contains(&address) || former.contains(&address);
        let is_of_pool = |address| service.condition.is_some() && self.pools.of(address).is_some();
        let stays = |ingress: &&Ingress| !address_of(ingress).is_some_and(had);
        let ingress = service.ingress.iter().filter(stays).cloned().collect();
        let external = service
            .external_ips
            .iter()
            .filter(|text| !text.parse().is_ok_and(|address| had(address) || is_of_pool(address)));
        let external_ips: Vec<_> = external.cloned().collect();
        // The condition marks what is still to be cleaned: it goes last.
        let is_clean = !self.mirror || external_ips == service.external_ips;
        Some(ServiceChange {
            ingress: was_ours.then_some(ingress),
            condition: is_clean.then_some(None),
            external_ips: self.mirror.then_some(external_ips),
            ..unchanged(member)
        })
    }
}

fn unchanged(member: Member<'_>) -> ServiceChange {
    ServiceChange {
        uid: member.uid.clone(),
        ingress: None,
        condition: None,
        external_ips: None,
        notices: Vec::new(),
    }
}
