//! What a row measured of one contender.

use std::fmt;
use std::time::Duration;

/// The outcome of some trials.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Figures {
    /// A value each, in ascending order; infinite is what did not happen while it was watched.
    Spread(Vec<f64>),
    /// How often something happened.
    Share { hits: usize, of: usize },
    /// The contender has no such thing.
    Absent,
}

impl Figures {
    pub(crate) fn new(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Self::Spread(values)
    }

    /// Durations in milliseconds; `None` is never.
    pub(crate) fn milliseconds(values: impl IntoIterator<Item = Option<Duration>>) -> Self {
        Self::new(
            values.into_iter().map(|value| {
                value.map_or(f64::INFINITY, |duration| duration.as_secs_f64() * 1000.0)
            }),
        )
    }

    /// The worst value, or how often the unwanted happened.
    pub(crate) fn worst(&self) -> Option<f64> {
        match self {
            Self::Spread(values) => values.last().copied(),
            Self::Share { hits, .. } => Some(*hits as f64),
            Self::Absent => None,
        }
    }

    /// The value in the middle; of two in the middle their mean.
    pub(crate) fn median(&self) -> Option<f64> {
        let Self::Spread(values) = self else {
            return None;
        };
        let upper = values.get(values.len() / 2)?;
        let lower = values.get((values.len() - 1) / 2)?;
        Some(if lower == upper { *upper } else { f64::midpoint(*lower, *upper) })
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spread(values) => match (values.first(), self.median(), values.last()) {
                (Some(least), Some(median), Some(most)) if least < most => {
                    write!(f, "{} / {} / {}", Value(*least), Value(median), Value(*most))
                }
                (Some(only), ..) => Value(*only).fmt(f),
                _ => f.write_str("–"),
            },
            Self::Share { hits, of } => write!(f, "{hits} of {of}"),
            Self::Absent => f.write_str("–"),
        }
    }
}

/// A number with as many digits as it deserves.
pub(crate) struct Value(pub(crate) f64);

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0;
        let whole = value.fract() == 0.0 || value.abs() >= 100.0;
        if value.is_infinite() {
            f.pad("never")
        } else if whole {
            f.pad(&format!("{value:.0}"))
        } else {
            f.pad(&format!("{value:.1}"))
        }
    }
}
