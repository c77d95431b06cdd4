//! A table of the file, read key by key; what nobody asked for is unknown and refused.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::diagnostic::Findings;
use super::values::with_article;
use crate::model::Invalid;

/// Reads one value.
pub(super) type Read<T> = fn(&DeValue<'_>) -> Result<T, Invalid>;

pub(super) struct Section<'t, 'i> {
    table: &'t DeTable<'i>,
    /// Where it begins.
    place: Range<usize>,
    known: Vec<&'static str>,
}

impl<'t, 'i> Section<'t, 'i> {
    pub(super) const fn new(table: &'t DeTable<'i>, place: Range<usize>) -> Self {
        Self { table, place, known: Vec::new() }
    }

    /// The value of a key, which is known from now on.
    pub(super) fn get(&mut self, key: &'static str) -> Option<&'t Spanned<DeValue<'i>>> {
        self.known.push(key);
        self.find(key)
    }

    fn find(&self, key: &str) -> Option<&'t Spanned<DeValue<'i>>> {
        let mut entries = self.table.iter();
        let entry = entries.find(|(name, _)| name.get_ref() == key)?;
        Some(entry.1)
    }

    /// Reports a key that is missing, or that holds an empty list.
    pub(super) fn require(&self, key: &str, example: &str, findings: &mut Findings<'_>) {
        let (place, problem) = match self.find(key) {
            None => (self.place.clone(), "missing"),
            Some(value) if value.get_ref().as_array().is_some_and(|list| list.is_empty()) => {
                (value.span(), "empty")
            }
            Some(_) => return,
        };
        let text = format!("{key} is {problem}; write {key} = {example}");
        findings.add(Some(place), text);
    }

    /// A single value: `None` where the key is missing, or its value was found to be wrong.
    pub(super) fn value<T>(
        &mut self,
        key: &'static str,
        read: Read<T>,
        findings: &mut Findings<'_>,
    ) -> Option<Spanned<T>> {
        let value = self.get(key)?;
        read_at(key, value, read, findings)
    }

    /// A list, empty where the key is missing; its wrong elements are reported and left out.
    pub(super) fn list<T>(
        &mut self,
        key: &'static str,
        read: Read<T>,
        findings: &mut Findings<'_>,
    ) -> Vec<Spanned<T>> {
        let Some(value) = self.get(key) else {
            return Vec::new();
        };
        let Some(array) = value.get_ref().as_array() else {
            let other = with_article(value.get_ref());
            let text = format!("{key}: a list in brackets, not {other}; put it in [ ]");
            findings.add(Some(value.span()), text);
            return Vec::new();
        };
        array.iter().filter_map(|element| read_at(key, element, read, findings)).collect()
    }

    /// A table within this one.
    pub(super) fn section(
        &mut self,
        key: &'static str,
        example: &str,
        findings: &mut Findings<'_>,
    ) -> Option<Self> {
        let value = self.get(key)?;
        let Some(table) = value.get_ref().as_table() else {
            let other = with_article(value.get_ref());
            let text = format!("{key}: a table, not {other}; write {key} = {example}");
            findings.add(Some(value.span()), text);
            return None;
        };
        Some(Self::new(table, value.span()))
    }

    /// Ends the reading: every key that was not asked for is an error. `explain` may know better
    /// than "unknown".
    pub(super) fn refuse_the_rest(
        self,
        findings: &mut Findings<'_>,
        explain: impl Fn(&str) -> Option<String>,
    ) {
        for key in self.table.keys() {
            let name = key.get_ref().as_ref();
            if self.known.contains(&name) {
                continue;
            }
            let text = explain(name).unwrap_or_else(|| match closest(name, &self.known) {
                Some(meant) => format!("unknown key {name:?}; did you mean `{meant}`?"),
                None => format!("unknown key {name:?}; known here: {}", self.known.join(", ")),
            });
            findings.add(Some(key.span()), text);
        }
    }
}

fn read_at<T>(
    key: &str,
    value: &Spanned<DeValue<'_>>,
    read: Read<T>,
    findings: &mut Findings<'_>,
) -> Option<Spanned<T>> {
    match read(value.get_ref()) {
        Ok(good) => Some(Spanned::new(value.span(), good)),
        Err(error) => {
            findings.add(Some(value.span()), format!("{key}: {error}"));
            None
        }
    }
}

/// The known key that `name` was probably meant to be.
fn closest(name: &str, known: &[&'static str]) -> Option<&'static str> {
    known
        .iter()
        .map(|candidate| (distance(name, candidate), *candidate))
        .filter(|(distance, candidate)| *distance <= 2 && *distance < candidate.len() / 2 + 1)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Insertions, removals and replacements that make one word of the other (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (done, letter) in one.chars().enumerate() {
        let mut left = done + 1;
        let mut next = vec![left];
        for (pair, target) in row.windows(2).zip(other.chars()) {
            let &[diagonal, above] = pair else { continue };
            left = (diagonal + usize::from(letter != target)).min(above.min(left) + 1);
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_understood_and_a_foreign_word_is_not() {
        let known = ["name", "vrid", "interface", "addresses", "peers"];
        for (typed, meant) in [
            ("vird", Some("vrid")),
            ("adresses", Some("addresses")),
            ("inteface", Some("interface")),
            ("peer", Some("peers")),
            ("authentication", None),
            ("xx", None),
            ("", None),
        ] {
            assert_eq!(closest(typed, &known), meant, "{typed}");
        }
    }

    #[test]
    fn distance_counts_edits_both_ways() {
        for (one, other, edits) in [("", "", 0), ("", "abc", 3), ("kitten", "sitting", 3)] {
            assert_eq!(distance(one, other), edits);
            assert_eq!(distance(other, one), edits);
        }
    }
}
