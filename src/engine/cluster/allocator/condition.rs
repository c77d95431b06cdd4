//! The condition of a Service, in words for somebody who has `kubectl describe` and nothing else.

use std::fmt::{self, Write as _};
use std::net::IpAddr;

use super::ledger::Ledger;
use super::ours::Member;
use super::outcome::{Lack, Outcome};
use super::pools::Source;
use super::requests::opening;
use super::sharing::{Clash, key_of};
use crate::engine::cluster::decision::Notice;
use crate::engine::cluster::world::Condition;
use crate::model::Family;

/// Refusals that a condition tells; whoever asks for more reads of the rest when these are gone.
const TOLD: usize = 5;

/// The condition of a Service that another manager fights for.
pub(super) fn contested() -> Condition {
    Condition {
        met: false,
        reason: "Contested".to_owned(),
        message: "Another controller keeps replacing this status, so it is left alone; the address stays reserved and announced. Set spec.loadBalancerClass, or stop the other controller.".to_owned(),
    }
}

/// The event of that.
pub(super) fn contested_notice() -> Notice {
    let Condition { message, .. } = contested();
    Notice { reason: "Contested", warning: true, note: message }
}

/// What there is to say about a Service.
pub(super) struct Said<'a, 'w> {
    pub(super) member: Member<'w>,
    pub(super) outcome: &'a Outcome<'w>,
    pub(super) ledger: &'a Ledger<'w>,
}

impl<'w> Said<'_, 'w> {
    /// All of it.
    pub(super) fn condition(&self) -> Condition {
        let (met, reason) = self.verdict();
        Condition { met, reason: reason.to_owned(), message: self.to_string() }
    }

    /// Whether `condition` says just that.
    pub(super) fn is(&self, condition: &Condition) -> bool {
        let mut expected = Expected(&condition.message);
        self.verdict() == (condition.met, &*condition.reason)
            && write!(expected, "{self}").is_ok()
            && expected.0.is_empty()
    }

    fn verdict(&self) -> (bool, &'static str) {
        let sources = self.granted().map(|(_, source)| source);
        let (has_any, is_gone) =
            sources.fold((false, false), |(_, gone), source| (true, gone || source.is_none()));
        let reason = self.reason(has_any, is_gone);
        (matches!(reason, "Allocated" | "PoolGone"), reason)
    }

    /// The addresses that it is to have, each with the pool that it lies in.
    fn granted(&self) -> impl Iterator<Item = (IpAddr, Option<Source<'w>>)> + '_ {
        let families = [Family::Ipv4, Family::Ipv6].into_iter();
        families.filter_map(|family| {
            let address = self.outcome.has(family)?;
            Some((address, self.ledger.entry(address).and_then(|entry| entry.source)))
        })
    }

    fn reason(&self, has_any: bool, is_gone: bool) -> &'static str {
        let mut lacks = self.outcome.lacks().map(|(_, lack)| lack);
        match lacks.next() {
            None if is_gone => "PoolGone",
            Some(_) if has_any && !self.member.needs_both() => "Allocated",
            None if has_any => "Allocated",
            None => "NoPool",
            Some(first) => {
                let first = if matches!(first, Lack::Other) {
                    lacks.next().unwrap_or(first)
                } else {
                    first
                };
                let is_full = matches!(first, Lack::Full(_));
                if !is_full && !self.outcome.refusals.is_empty() {
                    "RequestRefused"
                } else {
                    first.reason()
                }
            }
        }
    }

    fn sentences(&self) -> impl Iterator<Item = String> + '_ {
        let lacks =
            self.outcome.lacks().map(|(family, lack)| format!("{}{lack}.", lacking(family)));
        let refusals = self.outcome.refusals.iter().take(TOLD).map(|refusal| format!("{refusal}."));
        let unshared = self.unshared().map(|clash| format!("{UNSHARED}{clash}."));
        lacks.chain(refusals).chain(unshared)
    }

    /// Why it does not share the address that its key has.
    fn unshared(&self) -> Option<Clash<'w>> {
        let member = self.member;
        key_of(&member)?;
        member.families().find_map(|family| {
            let own = self.outcome.has(family)?;
            let entry = self.ledger.entry(own)?;
            let source = entry.source?;
            let (address, first) = self.ledger.shares.first_of_key(source, family, member)?;
            let is_elsewhere = address != own && entry.holders().len() == 1;
            // The older one has nothing to be told.
            if !is_elsewhere || first.rank > member.rank {
                return None;
            }
            self.ledger.shares.fits(address, first, Some(source), member).err()
        })
    }

    /// What is news, given what the condition says already.
    pub(super) fn notices(&self, is_unmet: bool) -> Vec<Notice> {
        let said = self.member.service.condition.as_ref();
        let is_said = |text: &str| said.is_some_and(|said| said.message.contains(text));
        let was_full = |family| {
            is_said(&lacking(family))
                && (!is_unmet || said.is_some_and(|c| c.reason == "RangeFull"))
        };
        let full = self
            .outcome
            .lacks()
            .filter(|(family, lack)| matches!(lack, Lack::Full(_)) && !was_full(*family));
        let full =
            full.map(|(family, lack)| ("IngressIPRangeFull", format!("{}{lack}", lacking(family))));
        let refused = self.outcome.refusals.iter().take(TOLD);
        let refused = refused.filter(|refusal| !is_said(&opening(&refusal.asked)));
        let refused = refused.map(|refusal| ("IngressIPRequestRefused", refusal.to_string()));
        let unshared = self.unshared().filter(|_| !is_said(UNSHARED));
        let unshared =
            unshared.map(|clash| ("IngressIPShareRefused", format!("{UNSHARED}{clash}")));
        let notice = |(reason, note): (&'static str, String)| {
            let note = note.chars().take(1_024).collect();
            Notice { reason, warning: true, note }
        };
        full.chain(refused).chain(unshared).map(notice).collect()
    }
}

impl fmt::Display for Said<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (address, source) in self.granted() {
            match source {
                Some(source) => write!(f, "{separator}{address} from pool {}", source.name)?,
                None => {
                    write!(f, "{separator}{address}, kept although no pool has it any more")?;
                }
            }
            separator = ", ";
        }
        if !separator.is_empty() {
            f.write_str(".")?;
        }
        let mut space = if separator.is_empty() { "" } else { " " };
        for sentence in self.sentences() {
            write!(f, "{space}{sentence}")?;
            space = " ";
        }
        Ok(())
    }
}

/// The rest of a text that is still to be written: another text is an error.
struct Expected<'a>(&'a str);

impl fmt::Write for Expected<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = self.0.strip_prefix(text).ok_or(fmt::Error)?;
        Ok(())
    }
}

const UNSHARED: &str = "The address of its barevip.io/share is not shared with it: ";

fn lacking(family: Family) -> String {
    format!("No {family} address: ")
}
