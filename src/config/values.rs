//! Single values of the file: what each key accepts, and the words for what it does not.

use std::net::IpAddr;
use std::time::Duration;

use toml::de::DeValue;

use crate::model::{ChecksumForm, Interval, Invalid, Preempt, Priority, Vip, Vrid, parse_duration};

/// Octets of a link name in the kernel, IFNAMSIZ without the closing zero.
const MAX_LINK_NAME: usize = 15;
/// Names end up in log lines and table columns.
const MAX_NAME: usize = 63;

/// "a string", "an integer": what a value is instead of what was expected.
pub(super) fn with_article(value: &DeValue<'_>) -> String {
    let kind = value.type_str();
    let article = if kind.starts_with(['a', 'i']) { "an" } else { "a" };
    format!("{article} {kind}")
}

pub(super) fn name(value: &DeValue<'_>) -> Result<String, Invalid> {
    let text = quoted(value, "a name", "web")?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if text.is_empty() || text.len() > MAX_NAME || !text.chars().all(allowed) {
        return Err(Invalid::new(format!(
            "{text:?} is no name; write 1 to {MAX_NAME} letters, digits, '-', '_' or '.', such as \"web\""
        )));
    }
    Ok(text.to_owned())
}

pub(super) fn interface(value: &DeValue<'_>) -> Result<String, Invalid> {
    let text = quoted(value, "the name of a link", "eth0")?;
    let forbidden = |c: char| c.is_whitespace() || c.is_control() || "/:".contains(c);
    if text.is_empty()
        || text.len() > MAX_LINK_NAME
        || [".", ".."].contains(&text)
        || text.contains(forbidden)
    {
        return Err(Invalid::new(format!(
            "{text:?} can't be the name of a link (1 to {MAX_LINK_NAME} characters, no blanks, '/' or ':'); `ip link` shows the names"
        )));
    }
    Ok(text.to_owned())
}

pub(super) fn vrid(value: &DeValue<'_>) -> Result<Vrid, Invalid> {
    number(value, "a VRID", 1, 255, 51)?.try_into()
}

pub(super) fn priority(value: &DeValue<'_>) -> Result<Priority, Invalid> {
    number(value, "a priority", 1, 255, 100)?.try_into()
}

pub(super) fn interval(value: &DeValue<'_>) -> Result<Interval, Invalid> {
    quoted(value, "an interval", "200ms")?.parse()
}

pub(super) fn preempt(value: &DeValue<'_>) -> Result<Preempt, Invalid> {
    quoted(value, "a preempt mode", "after 300s")?.parse()
}

pub(super) fn vip(value: &DeValue<'_>) -> Result<Vip, Invalid> {
    quoted(value, "an address", "192.0.2.200")?.parse()
}

pub(super) fn peer(value: &DeValue<'_>) -> Result<IpAddr, Invalid> {
    let text = quoted(value, "a peer's address", "192.0.2.3")?;
    let address: IpAddr = text.parse().map_err(|_| {
        Invalid::new(format!(
            "{text:?} is no address; write a peer's own address without a length, such as \"192.0.2.3\""
        ))
    })?;
    // What no machine can hold is no peer either.
    Vip::try_from(address).map(Vip::address)
}

pub(super) fn checksum(value: &DeValue<'_>) -> Result<ChecksumForm, Invalid> {
    match quoted(value, "a checksum form", "auto")? {
        "auto" => Ok(ChecksumForm::Auto),
        "rfc9568" => Ok(ChecksumForm::Rfc9568),
        "pseudo-header" => Ok(ChecksumForm::PseudoHeader),
        other => Err(Invalid::new(format!(
            "{other:?} is no checksum form; write \"auto\", \"rfc9568\" or \"pseudo-header\""
        ))),
    }
}

pub(super) fn rounds(value: &DeValue<'_>) -> Result<u8, Invalid> {
    number(value, "the count of rounds", 1, 20, 5)
}

pub(super) fn spacing(value: &DeValue<'_>) -> Result<Duration, Invalid> {
    let limits = Duration::from_millis(10)..=Duration::from_secs(10);
    duration(value, "the time between rounds", limits, "250ms")
}

pub(super) fn refresh(value: &DeValue<'_>) -> Result<Duration, Invalid> {
    let limits = Duration::from_secs(1)..=Duration::from_secs(3600);
    duration(value, "the time between refreshes", limits, "60s")
}

fn duration(
    value: &DeValue<'_>,
    what: &str,
    limits: std::ops::RangeInclusive<Duration>,
    example: &str,
) -> Result<Duration, Invalid> {
    let text = quoted(value, what, example)?;
    let duration = parse_duration(text)?;
    if limits.contains(&duration) {
        return Ok(duration);
    }
    Err(Invalid::new(format!(
        "{text:?} is out of bounds; {what} is {} to {}, such as {example:?}",
        humantime::format_duration(*limits.start()),
        humantime::format_duration(*limits.end()),
    )))
}

fn quoted<'v>(value: &'v DeValue<'_>, what: &str, example: &str) -> Result<&'v str, Invalid> {
    value.as_str().ok_or_else(|| {
        Invalid::new(format!("{what} in quotes, such as {example:?}, not {}", with_article(value)))
    })
}

fn number(
    value: &DeValue<'_>,
    what: &str,
    least: u8,
    most: u8,
    example: u8,
) -> Result<u8, Invalid> {
    let refuse = |found: String| {
        Invalid::new(format!(
            "{what} is a number from {least} to {most}, not {found}; write {example}, for example"
        ))
    };
    let integer = value.as_integer().ok_or_else(|| refuse(with_article(value)))?;
    u8::from_str_radix(integer.as_str(), integer.radix())
        .ok()
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| refuse(integer.to_string()))
}
