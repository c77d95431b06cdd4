//! Finds the paths that a Rust source text names: what it imports, and what it spells out in full.
//! A careful token scanner, not a parser: comments, strings and test modules are passed over.

/// A path that a file names, resolved to `crate::…` or to an external crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// The line it stands on, from 1.
    pub(crate) line: usize,
    /// Its segments. A glob import ends with `*`.
    pub(crate) segments: Vec<String>,
}

/// Every path of `text` that leads to this crate or to one of `crates`. `module` is the module
/// that the file is, such as `["crate", "engine", "time"]`.
pub(crate) fn named_paths(text: &str, module: &[&str], crates: &[String]) -> Vec<Named> {
    let mut walker = Walker {
        tokens: tokens(text),
        at: 0,
        modules: vec![module.iter().map(|s| (*s).to_owned()).collect()],
        braces: Vec::new(),
        crates,
        found: Vec::new(),
    };
    walker.walk();
    walker.found
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Token {
    line: usize,
    /// An identifier or number, `::`, or a single character.
    text: String,
}

struct Walker<'a> {
    tokens: Vec<Token>,
    at: usize,
    /// The module at this point, outermost first.
    modules: Vec<Vec<String>>,
    /// For each open brace, whether it opened a module.
    braces: Vec<bool>,
    crates: &'a [String],
    found: Vec<Named>,
}

impl Walker<'_> {
    fn walk(&mut self) {
        while self.at < self.tokens.len() {
            match self.text(0) {
                "#" => self.attribute(),
                "mod" if self.text(2) == "{" => {
                    let mut inner = self.module().to_vec();
                    inner.push(self.text(1).to_owned());
                    self.modules.push(inner);
                    self.braces.push(true);
                    self.at += 3;
                }
                "use" if self.text(1) != "<" => self.import(),
                "extern" if self.text(1) == "crate" => {
                    self.record(self.at + 2, vec![self.text(2).to_owned()]);
                    self.at += 3;
                }
                "{" => {
                    self.braces.push(false);
                    self.at += 1;
                }
                "}" => {
                    if self.braces.pop() == Some(true) {
                        self.modules.pop();
                    }
                    self.at += 1;
                }
                _ => self.path(),
            }
        }
    }

    /// An attribute; one that says "only in tests" takes its item with it.
    fn attribute(&mut self) {
        let is_inner = self.text(1) == "!";
        let open = self.at + 1 + usize::from(is_inner);
        if self.tokens.get(open).is_none_or(|t| t.text != "[") {
            self.at += 1;
            return;
        }
        let close = self.closing(open);
        let words: Vec<&str> =
            self.tokens[open + 1..close].iter().map(|t| t.text.as_str()).collect();
        let is_test_only = words.first() == Some(&"cfg")
            && words.contains(&"test")
            && !words.contains(&"not")
            && !words.contains(&"any");
        match (is_test_only, is_inner) {
            (true, true) => self.at = self.tokens.len(),
            (true, false) => {
                self.at = close + 1;
                self.skip_item();
            }
            // The paths inside an attribute are read as any others.
            (false, _) => self.at = open + 1,
        }
    }

    /// Passes over the item that starts here, further attributes included.
    fn skip_item(&mut self) {
        while self.at < self.tokens.len() {
            match self.text(0) {
                ";" => {
                    self.at += 1;
                    return;
                }
                "{" => {
                    self.at = self.closing(self.at) + 1;
                    return;
                }
                "(" | "[" => self.at = self.closing(self.at) + 1,
                // A field or variant: it ends with its list.
                "," => {
                    self.at += 1;
                    return;
                }
                "}" => return,
                _ => self.at += 1,
            }
        }
    }

    /// Where the bracket that opens at `open` closes.
    fn closing(&self, open: usize) -> usize {
        let mut depth = 0usize;
        for (index, token) in self.tokens.iter().enumerate().skip(open) {
            match token.text.as_str() {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => {
                    depth -= 1;
                    if depth == 0 {
                        return index;
                    }
                }
                _ => {}
            }
        }
        self.tokens.len() - 1
    }

    /// `use a::{b, c::d as e};`
    fn import(&mut self) {
        self.at += 1;
        if self.text(0) == "::" {
            self.at += 1;
        }
        self.import_tree(&[]);
        while self.at < self.tokens.len() && self.text(0) != ";" {
            self.at += 1;
        }
    }

    fn import_tree(&mut self, prefix: &[String]) {
        let mut path = prefix.to_vec();
        let start = self.at;
        loop {
            match self.text(0) {
                "::" => self.at += 1,
                "{" => {
                    self.at += 1;
                    while self.at < self.tokens.len() && self.text(0) != "}" {
                        self.import_tree(&path);
                        if self.text(0) == "," {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return;
                }
                "as" => self.at += 2,
                "," | "}" | ";" | "" => {
                    if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
                        path.pop();
                    }
                    self.record(start, path);
                    return;
                }
                segment => {
                    path.push(segment.to_owned());
                    self.at += 1;
                }
            }
        }
    }

    /// `a::b::c` in the middle of code.
    fn path(&mut self) {
        let start = self.at;
        let is_continued = start > 0 && matches!(self.tokens[start - 1].text.as_str(), ".");
        if !is_word(self.text(0)) || self.text(1) != "::" || is_continued {
            self.at += 1;
            return;
        }
        let mut path = vec![self.text(0).to_owned()];
        self.at += 1;
        while self.text(0) == "::" && is_word(self.text(1)) {
            path.push(self.text(1).to_owned());
            self.at += 2;
        }
        self.record(start, path);
    }

    /// Keeps `path` if it leads to this crate or to another one.
    fn record(&mut self, at: usize, path: Vec<String>) {
        let Some(first) = path.first() else { return };
        let mut rest = path.as_slice();
        let mut segments = match first.as_str() {
            "crate" | "barevip" => vec!["crate".to_owned()],
            "self" | "super" => self.module().to_vec(),
            name if self.crates.iter().any(|known| known == name) => vec![name.to_owned()],
            // A type, or a module beside this one.
            _ => return,
        };
        if first == "super" {
            while rest.first().is_some_and(|s| s == "super") {
                segments.pop();
                rest = &rest[1..];
            }
        } else {
            rest = &rest[1..];
        }
        segments.extend_from_slice(rest);
        self.found.push(Named { line: self.tokens[at.min(self.tokens.len() - 1)].line, segments });
    }

    fn module(&self) -> &[String] {
        self.modules.last().unwrap()
    }

    fn text(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).map_or("", |token| token.text.as_str())
    }
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Splits a source text; comments and the contents of literals are gone.
fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut at = 0;
    while at < chars.len() {
        let (next, token) = token(&chars, at);
        if let Some(text) = token {
            tokens.push(Token { line, text });
        }
        line += chars[at..next].iter().filter(|c| **c == '\n').count();
        at = next;
    }
    tokens
}

/// What stands at `at`, and where the next thing stands.
fn token(chars: &[char], at: usize) -> (usize, Option<String>) {
    let peek = |ahead: usize| chars.get(at + ahead).copied().unwrap_or('\0');
    match chars[at] {
        c if c.is_whitespace() => (at + 1, None),
        '/' if peek(1) == '/' => (position(chars, at, |c| c == '\n'), None),
        '/' if peek(1) == '*' => (after_block_comment(chars, at), None),
        '"' => (after_string(chars, at), None),
        '\'' if peek(1) == '\\' => (position(chars, at + 3, |c| c == '\'') + 1, None),
        '\'' if peek(2) == '\'' => (at + 3, None),
        ':' if peek(1) == ':' => (at + 2, Some("::".to_owned())),
        c if c.is_alphanumeric() || c == '_' => word(chars, at),
        c => (at + 1, Some(c.to_string())),
    }
}

/// A word; or a literal that starts like one: `r"…"`, `br#"…"#`, `b'…'`; or `r#word`.
fn word(chars: &[char], at: usize) -> (usize, Option<String>) {
    let end = position(chars, at, |c| !(c.is_alphanumeric() || c == '_'));
    let text: String = chars[at..end].iter().collect();
    let is_prefix = matches!(text.as_str(), "r" | "b" | "br" | "c" | "cr");
    let hashes = position(chars, end, |c| c != '#') - end;
    match chars.get(end + hashes) {
        Some('"') if is_prefix && text.contains('r') => {
            (after_raw_string(chars, end + hashes, hashes), None)
        }
        Some('"') if is_prefix && hashes == 0 => (after_string(chars, end), None),
        Some('\'') if text == "b" && hashes == 0 => (token(chars, end).0, None),
        Some(c) if text == "r" && hashes == 1 && is_word(&c.to_string()) => word(chars, end + 1),
        _ => (end, Some(text)),
    }
}

fn position(chars: &[char], from: usize, found: impl Fn(char) -> bool) -> usize {
    (from..chars.len()).find(|at| found(chars[*at])).unwrap_or(chars.len())
}

fn after_string(chars: &[char], open: usize) -> usize {
    let mut at = open + 1;
    while at < chars.len() && chars[at] != '"' {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

fn after_raw_string(chars: &[char], open: usize, hashes: usize) -> usize {
    (open + 1..chars.len())
        .find(|at| chars[*at] == '"' && position(chars, at + 1, |c| c != '#') - at > hashes)
        .map_or(chars.len(), |at| at + 1 + hashes)
}

fn after_block_comment(chars: &[char], open: usize) -> usize {
    let mut depth = 0;
    let mut at = open;
    while at + 1 < chars.len() {
        match (chars[at], chars[at + 1]) {
            ('/', '*') => (depth, at) = (depth + 1, at + 2),
            ('*', '/') if depth == 1 => return at + 2,
            ('*', '/') => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    chars.len()
}
