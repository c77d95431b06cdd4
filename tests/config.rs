//! The configuration file: what it means, and that no text whatever makes reading it fail in
//! another way than by saying why.
#![cfg(test)]

use std::time::Duration;

use barevip::config::parse;
use barevip::model::{
    Announce, Candidates, ChecksumForm, Family, Interval, LinkSelector, Plan, Preempt,
};
use proptest::prelude::*;

const FULL: &str = r#"
[[virtual_router]]
name      = "web"
interface = "eth0"
vrid      = 51
priority  = 150
interval  = "100ms"
preempt   = "after 300s"
addresses = ["192.0.2.200", "192.0.2.201/24"]
peers     = ["192.0.2.3"]
announce  = { rounds = 3, spacing = "100ms", refresh = "30s" }
checksum  = "pseudo-header"

[[virtual_router]]
vrid      = 51
addresses = ["2001:db8::200"]
"#;

fn good(text: &str) -> Plan {
    parse(text, "test.toml").unwrap_or_else(|error| panic!("{error}"))
}

fn errors(text: &str) -> String {
    parse(text, "test.toml").expect_err("refused").to_string()
}

#[test]
fn every_key_reaches_the_plan() {
    let plan = good(FULL);
    let web = &plan[0];
    assert_eq!(web.name, "web");
    assert_eq!(web.link, LinkSelector::Name("eth0".into()));
    assert_eq!(web.vrid.get(), 51);
    assert_eq!(web.family, Family::Ipv4);
    let Candidates::Open { priority } = web.candidates else {
        panic!("a file lists no candidates");
    };
    assert_eq!(priority.get(), 150);
    assert_eq!(web.interval.centiseconds(), 10);
    assert_eq!(web.preempt, Preempt::After(Duration::from_secs(300)));
    let served: Vec<String> = web.served().map(|vip| vip.to_string()).collect();
    assert_eq!(served, ["192.0.2.200", "192.0.2.201/24"]);
    assert!(!web.transport.multicast);
    assert_eq!(web.transport.peers, ["192.0.2.3".parse::<std::net::IpAddr>().unwrap()]);
    let announce = Announce {
        rounds: 3,
        spacing: Duration::from_millis(100),
        refresh: Duration::from_secs(30),
    };
    assert_eq!(web.announce, announce);
    assert_eq!(web.checksum, ChecksumForm::PseudoHeader);
    assert!(!web.health_band);
}

#[test]
fn what_is_left_out_takes_the_default() {
    let plan = good(FULL);
    let bare = &plan[1];
    assert_eq!(bare.name, "vrid-51-ipv6");
    assert_eq!(bare.link, LinkSelector::Subnet);
    assert_eq!(bare.interval, Interval::DEFAULT);
    assert_eq!(bare.preempt, Preempt::default());
    assert_eq!(bare.announce, Announce::default());
    assert_eq!(bare.checksum, ChecksumForm::Auto);
    assert!(bare.transport.multicast && bare.transport.peers.is_empty());
}

#[test]
fn one_vrid_may_stand_on_two_links_and_in_two_families() {
    good(
        r#"
        [[virtual_router]]
        name = "a"
        interface = "eth0"
        vrid = 1
        addresses = ["192.0.2.1", "192.0.2.2/24", "192.0.2.3/24"]
        [[virtual_router]]
        name = "b"
        interface = "eth1"
        vrid = 1
        addresses = ["198.51.100.1"]
        [[virtual_router]]
        name = "c"
        interface = "eth0"
        vrid = 1
        addresses = ["fe80::1", "2001:db8::1"]
        [[virtual_router]]
        name = "d"
        interface = "eth1"
        vrid = 1
        addresses = ["fe80::1"]
        "#,
    );
}

#[test]
fn more_addresses_than_an_advert_lists_are_no_error() {
    let list = |form: fn(u32) -> String| (1..=300).map(form).collect::<Vec<_>>().join(", ");
    let v4 = list(|n| format!("\"10.0.{}.{}\"", n / 200, n % 200 + 1));
    let v6 = list(|n| format!("\"2001:db8::{n:x}\""));
    for addresses in [v4, v6] {
        let plan = good(&format!("[[virtual_router]]\nvrid = 9\naddresses = [{addresses}]"));
        assert_eq!(plan[0].served().count(), 300);
    }
}

/// Every error of a file is told, in the file's order: one word of each, by line.
#[test]
fn all_errors_are_told_at_once_each_with_its_place() {
    let text = r#"
[[virtual_router]]
vrid = 256
priority = 0
intervall = "1s"
preempt = 3
addresses = ["192.0.2.1", "192.0.2.300", "2001:db8::1", "192.0.2.1/24"]
peers = ["192.0.2.1"]
[[virtual_router]]
"#;
    let told = errors(text);
    let places: Vec<&str> =
        told.lines().filter_map(|line| line.strip_prefix("test.toml: error at line ")).collect();
    let expected = [
        "3, column 8",
        "4, column 12",
        "5, column 1",
        "6, column 11",
        "7, column 27",
        "7, column 42",
        "7, column 57",
        "8, column 10",
        "9, column 1",
        "9, column 1",
    ];
    assert_eq!(places, expected, "{told}");
    assert!(told.ends_with("\n10 errors in test.toml"), "{told}");
}

#[test]
fn a_file_can_not_command_the_terminal_that_shows_it() {
    let told = errors("[[virtual_router]]\nname = \"\u{9b}31m\" # \u{85}\nvrid = 1\n");
    let commands = |c: char| c.is_control() && c != '\n';
    assert!(!told.contains(commands), "{told:?}");
}

#[test]
fn a_caret_stands_under_the_value_also_in_a_long_line() {
    let many: Vec<String> = (1..200).map(|n| format!("\"192.0.2.{n}\"")).collect();
    let text =
        format!("[[virtual_router]]\nvrid = 1\naddresses = [{}, \"nonsense\"]", many.join(", "));
    let told = errors(&text);
    let lines: Vec<&str> = told.lines().collect();
    let source = lines.iter().find(|line| line.contains("nonsense")).unwrap();
    let carets = lines.iter().find(|line| line.contains('^')).unwrap();
    assert!(source.len() < 120, "{told}");
    assert_eq!(carets.find('^'), source.find("\"nonsense\""), "{told}");
}

/// A valid file with a few octets replaced, inserted or cut.
fn mutated() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "",
        "\"",
        "[",
        "]",
        "{",
        "}",
        "=",
        ",",
        "\n",
        "\t",
        "#",
        "0",
        "-1",
        "256",
        "1e9",
        "0x1f",
        "vrid",
        "addresses = []",
        "[[virtual_router]]",
        "[virtual_router]",
        "true",
        "::1",
        "/",
        "é",
        "\u{0}",
        "1979-05-27",
        "inf",
        "'''",
        "after 9999999999999999999s",
        ".",
    ]);
    prop::collection::vec((0..FULL.len(), 0..12_usize, pieces), 1..6).prop_map(|edits| {
        let mut text = FULL.as_bytes().to_vec();
        for (at, cut, piece) in edits {
            let start = at.min(text.len());
            let end = (start + cut).min(text.len());
            text.splice(start..end, piece.bytes());
        }
        String::from_utf8_lossy(&text).into_owned()
    })
}

/// Whatever was read is a plan that holds what checks promise; whatever was refused has a text.
fn read_without_panic(text: &str) -> Result<(), TestCaseError> {
    match parse(text, "test.toml") {
        Ok(plan) => {
            prop_assert!(!plan.is_empty());
            for router in &plan {
                prop_assert!(router.served().count() > 0);
                prop_assert!(router.served().all(|vip| vip.family() == router.family));
            }
        }
        Err(error) => prop_assert!(error.to_string().starts_with("test.toml: ")),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_it_panic(text in any::<String>()) {
        read_without_panic(&text)?;
    }

    #[test]
    fn no_mutation_of_a_good_file_makes_it_panic(text in mutated()) {
        read_without_panic(&text)?;
    }
}
