//! Errors with their place in the file, printed as toml prints its own: file, line and column,
//! the source line, a caret under the value, and what to write instead.

use std::fmt;
use std::ops::Range;

use crate::model::Plan;

/// Characters of a source line that are shown; a longer line is cut around the caret.
const WIDTH: usize = 100;

/// What was found so far in a text.
pub(super) struct Findings<'t> {
    text: &'t str,
    errors: Vec<Diagnostic>,
}

/// One error, and the octets of the text that it is about.
struct Diagnostic {
    span: Option<Range<usize>>,
    message: String,
}

/// Where an octet stands, each counted from 0, the column in characters.
struct Place<'t> {
    line: usize,
    column: usize,
    source: &'t str,
}

/// Why a configuration file was refused: all that is wrong with it, ready to print.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected(String);

impl<'t> Findings<'t> {
    pub(super) const fn new(text: &'t str) -> Self {
        Self { text, errors: Vec::new() }
    }

    pub(super) fn add(&mut self, span: Option<Range<usize>>, message: impl Into<String>) {
        self.errors.push(Diagnostic { span, message: message.into() });
    }

    /// The line of a span as people count, for a message that names a second place.
    pub(super) fn line(&self, span: &Range<usize>) -> usize {
        Place::of(self.text, span.start).line + 1
    }

    /// The plan where nothing was found, and all that was found, in the file's order.
    pub(super) fn into_result(mut self, plan: Plan, file: &str) -> Result<Plan, Rejected> {
        if self.errors.is_empty() {
            return Ok(plan);
        }
        self.errors.sort_by_key(|error| error.span.as_ref().map(|span| span.start));
        let mut blocks: Vec<String> =
            self.errors.iter().map(|error| error.render(self.text, file)).collect();
        if let errors @ 2.. = blocks.len() {
            blocks.push(format!("{errors} errors in {file}"));
        }
        Err(Rejected(blocks.join("\n\n")))
    }
}

impl Diagnostic {
    fn render(&self, text: &str, file: &str) -> String {
        let Some(span) = &self.span else {
            return format!("{file}: {}", self.message);
        };
        let place = Place::of(text, span.start);
        let (source, indent) = place.excerpt();
        let number = (place.line + 1).to_string();
        let gutter = " ".repeat(number.len());
        let rest = source.chars().count().saturating_sub(indent.chars().count());
        let marked = text.get(span.clone()).map_or(0, |value| value.chars().count());
        let carets = "^".repeat(marked.min(rest).max(1));
        format!(
            "{file}: error at line {number}, column {}\n\
             {gutter} |\n\
             {number} | {source}\n\
             {gutter} | {indent}{carets}\n\
             {}",
            place.column + 1,
            self.message
        )
    }
}

impl<'t> Place<'t> {
    fn of(text: &'t str, octet: usize) -> Self {
        let before = text.get(..octet).unwrap_or(text);
        let line = before.matches('\n').count();
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            line,
            column: before.get(start..).map_or(0, |part| part.chars().count()),
            source: text.get(start..).and_then(|rest| rest.lines().next()).unwrap_or_default(),
        }
    }

    /// The source line, cut to a readable width, and the blanks that stand under what precedes
    /// the value. A terminal must not obey a file, so control characters are shown as `?`.
    fn excerpt(&self) -> (String, String) {
        let from = if self.source.chars().count() > WIDTH {
            self.column.saturating_sub(WIDTH / 2)
        } else {
            0
        };
        let source: String = self
            .source
            .chars()
            .skip(from)
            .take(WIDTH)
            .map(|c| if c.is_control() && c != '\t' { '?' } else { c })
            .collect();
        let indent = source
            .chars()
            .take(self.column - from)
            .map(|c| if c == '\t' { '\t' } else { ' ' })
            .collect();
        (source, indent)
    }
}

impl Rejected {
    /// A file of which nothing can be said but this.
    pub(super) const fn unreadable(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Rejected {}
