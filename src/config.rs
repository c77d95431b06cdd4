//! The configuration file: TOML in, a [`Plan`] out, or *everything* that is wrong with it.
//!
//! ```toml
//! [[virtual_router]]
//! vrid      = 51                                   # with `addresses` a whole working file
//! addresses = ["192.0.2.200", "192.0.2.201/24"]    # no length: /32 or /128
//! name      = "web"                                # default "vrid-51-ipv4"
//! interface = "eth0"                               # default: the link in the addresses' subnet
//! priority  = 150                                  # default 100
//! interval  = "100ms"                              # default 200ms
//! preempt   = "after 300s"                         # "now" | "never" | "after DURATION"
//! peers     = ["192.0.2.3"]                        # not empty: unicast
//! announce  = { rounds = 5, spacing = "250ms", refresh = "60s" }
//! checksum  = "auto"                               # "auto" | "rfc9568" | "pseudo-header"
//! ```
//!
//! The document is walked with the place of each value rather than deserialised whole, because
//! serde stops at the first error, and whoever repairs a file wants to see all of them.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::model::Plan;

mod checks;
mod diagnostic;
mod draft;
mod section;
mod values;

pub use diagnostic::Rejected;

use diagnostic::Findings;
use draft::Draft;
use section::Section;

/// The shortest file that works, shown where a file says nothing.
const EXAMPLE: &str = r#"
  [[virtual_router]]
  interface = "eth0"
  vrid      = 51
  addresses = ["192.0.2.200"]"#;

/// A file is refused beyond this many octets: it is no configuration.
const MAX_OCTETS: u64 = 4 << 20;

/// Reads a configuration file.
///
/// # Errors
/// All that is wrong with it, or why it can't be read.
pub fn load(path: &Path) -> Result<Plan, Rejected> {
    let file = path.display().to_string();
    let octets = read(path).map_err(|error| {
        Rejected::unreadable(format!(
            "{file} can't be read: {error}; give the path of the configuration file with --config"
        ))
    })?;
    match String::from_utf8(octets) {
        Ok(text) => parse(&text, &file),
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            let line = error.as_bytes().iter().take(valid).filter(|&&octet| octet == b'\n');
            Err(Rejected::unreadable(format!(
                "{file} is no UTF-8 text at line {}; save it as UTF-8",
                line.count() + 1
            )))
        }
    }
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut octets = Vec::new();
    File::open(path)?.take(MAX_OCTETS + 1).read_to_end(&mut octets)?;
    if u64::try_from(octets.len()).is_ok_and(|len| len <= MAX_OCTETS) {
        Ok(octets)
    } else {
        Err(std::io::Error::other("it is larger than 4 MiB"))
    }
}

/// Reads the text of a configuration file; `file` is what errors call it.
///
/// # Errors
/// All that is wrong with it.
pub fn parse(text: &str, file: &str) -> Result<Plan, Rejected> {
    let mut findings = Findings::new(text);
    let mut plan = Plan::new();
    match DeTable::parse(text) {
        // What follows a syntax error can't be told from what it breaks: it stands alone.
        Err(syntax) => findings.add(syntax.span(), syntax.message()),
        Ok(document) => {
            let drafts = read_document(document.get_ref(), &mut findings);
            checks::check(&drafts, &mut findings);
            plan = drafts.into_iter().filter_map(Draft::finish).collect();
        }
    }
    findings.into_result(plan, file)
}

fn read_document(document: &DeTable<'_>, findings: &mut Findings<'_>) -> Vec<Draft> {
    let mut top = Section::new(document, 0..0);
    let value = top.get("virtual_router");
    if value.is_none() && document.is_empty() {
        let text = format!("no virtual router; the shortest file is{EXAMPLE}");
        findings.add(None, text);
    }
    let drafts = value.map_or_else(Vec::new, |value| read_routers(value, findings));
    top.refuse_the_rest(findings, |key| {
        draft::KEYS
            .contains(&key)
            .then(|| format!("unknown key `{key}` here; write it below [[virtual_router]]"))
    });
    drafts
}

fn read_routers(value: &Spanned<DeValue<'_>>, findings: &mut Findings<'_>) -> Vec<Draft> {
    let Some(array) = value.get_ref().as_array() else {
        let text = if value.get_ref().is_table() {
            "virtual_router is a list: write [[virtual_router]], in two brackets".to_owned()
        } else {
            let other = values::with_article(value.get_ref());
            format!(
                "virtual_router is a table in two brackets, not {other}; the shortest file is{EXAMPLE}"
            )
        };
        findings.add(Some(value.span()), text);
        return Vec::new();
    };
    if array.is_empty() {
        let text = format!("no virtual router; the shortest file is{EXAMPLE}");
        findings.add(Some(value.span()), text);
    }
    let mut drafts = Vec::new();
    for element in array {
        if let Some(table) = element.get_ref().as_table() {
            drafts.push(Draft::read(table, element.span(), findings));
        } else {
            let text = "a virtual router is a table: write [[virtual_router]] above its keys";
            findings.add(Some(element.span()), text);
        }
    }
    drafts
}
