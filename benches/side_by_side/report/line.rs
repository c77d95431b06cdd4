//! One line of the table: both contenders' figures and the floor.

use std::fmt;

use super::figures::{Figures, Value};

/// What was measured in one setting.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// What, with its unit.
    pub(crate) measure: &'static str,
    /// Under which conditions.
    pub(crate) setting: String,
    pub(crate) keepalived: Figures,
    pub(crate) barevip: Figures,
    pub(crate) floor: Floor,
}

/// What barevip must show.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Floor {
    /// No value is above this.
    AtMost(f64),
    /// The same, and the median is not above keepalived's.
    AtMostAndNoWorse(f64),
    /// Nothing: it is shown as information.
    Open,
}

impl Line {
    /// What is wrong with barevip's figures, if anything.
    pub(crate) fn misses(&self) -> Option<String> {
        let limit = match self.floor {
            Floor::AtMost(limit) | Floor::AtMostAndNoWorse(limit) => limit,
            Floor::Open => return None,
        };
        let Some(worst) = self.barevip.worst() else {
            return Some("nothing was measured".to_owned());
        };
        if worst > limit {
            return Some(format!("{} where at most {} is allowed", Value(worst), Value(limit)));
        }
        let (Floor::AtMostAndNoWorse(_), Some(ours), Some(theirs)) =
            (self.floor, self.barevip.median(), self.keepalived.median())
        else {
            return None;
        };
        (ours > theirs).then(|| format!("a median of {ours:.2} where keepalived has {theirs:.2}"))
    }

    /// The last column.
    pub(crate) fn verdict(&self) -> &'static str {
        match (self.floor, self.misses()) {
            (Floor::Open, _) => "–",
            (_, None) => "good",
            (_, Some(_)) => "missed",
        }
    }
}

impl fmt::Display for Floor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(0.0) => f.write_str("0"),
            Self::AtMost(limit) => write!(f, "≤ {}", Value(*limit)),
            Self::AtMostAndNoWorse(limit) => write!(f, "≤ {}, median no worse", Value(*limit)),
            Self::Open => f.write_str("–"),
        }
    }
}
