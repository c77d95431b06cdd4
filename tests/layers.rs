//! The layers of the house hold: imports run downward only, and what decides touches nothing.
//!
//! Reads `src/**/*.rs` as text. A path counts wherever it stands, in a `use` or in the middle of
//! a function; test modules may import what they like.

#![cfg(test)]

use std::fs;
use std::path::{Path, PathBuf};

mod support {
    pub(crate) mod layers {
        pub(crate) mod paths;
    }
}

use support::layers::paths::{Named, named_paths};

/// What the modules under one path may name.
struct Layer {
    /// The modules it holds for; the longest match counts.
    within: &'static str,
    /// What of this crate they may name.
    may_use: &'static [&'static str],
    /// Whether they decide: values in, values out, nothing touched.
    is_pure: bool,
}

const fn pure(within: &'static str, may_use: &'static [&'static str]) -> Layer {
    Layer { within, may_use, is_pure: true }
}

const fn touching(within: &'static str, may_use: &'static [&'static str]) -> Layer {
    Layer { within, may_use, is_pure: false }
}

const LAYERS: &[Layer] = &[
    pure("crate::model", &["crate::model"]),
    pure("crate::engine", &["crate::model", "crate::engine"]),
    pure("crate::engine::time", &["crate::engine::time"]),
    pure("crate::engine::vrrp", &["crate::model", "crate::engine::time", "crate::engine::vrrp"]),
    pure(
        "crate::engine::node",
        &["crate::model", "crate::engine::time", "crate::engine::vrrp", "crate::engine::node"],
    ),
    pure(
        "crate::engine::cluster",
        &["crate::model", "crate::engine::time", "crate::engine::vrrp", "crate::engine::cluster"],
    ),
    touching("crate::config", &["crate::model", "crate::config"]),
    touching("crate::io", &["crate::model", "crate::engine", "crate::io"]),
    touching(
        "crate::app",
        &["crate::model", "crate::engine", "crate::io", "crate::config", "crate::app"],
    ),
    // The top may use everything: cli, main, and lib.rs, which is the map.
    touching("crate", &["crate"]),
];

/// The external crates that a deciding layer may name, or the part of one.
const PURE_CRATES: &[&str] = &[
    "std",
    "core",
    "alloc",
    "serde",
    "ipnet",
    "thiserror",
    "humantime",
    "pnet::packet",
    "pnet::util",
];

/// What of the standard library touches the world.
const TOUCHING_STD: &[&str] = &[
    "env",
    "fs",
    "io",
    "os",
    "process",
    "thread",
    "time::Instant",
    "time::SystemTime",
    "time::UNIX_EPOCH",
    "net::TcpListener",
    "net::TcpStream",
    "net::UdpSocket",
    "net::ToSocketAddrs",
    "sync::atomic",
    "sync::mpsc",
    "sync::mpmc",
    "sync::nonpoison",
    "sync::poison",
    "sync::Barrier",
    "sync::Condvar",
    "sync::LazyLock",
    "sync::Mutex",
    "sync::Once",
    "sync::OnceLock",
    "sync::OnceState",
    "sync::RwLock",
];

/// Which rule `path`, named in `module`, breaks.
fn broken_rule(module: &str, path: &[String]) -> Option<String> {
    let layer = LAYERS
        .iter()
        .filter(|layer| is_within(module, layer.within))
        .max_by_key(|layer| layer.within.len())?;
    let path = path.join("::");
    let holder = layer.within.trim_start_matches("crate::");
    if is_within(&path, "crate") {
        let is_allowed = layer.may_use.iter().any(|allowed| is_within(&path, allowed));
        return (!is_allowed).then(|| {
            format!(
                "{path}: {holder} may use only {} (imports run downward)",
                layer.may_use.join(", ")
            )
        });
    }
    if !layer.is_pure {
        return None;
    }
    if !PURE_CRATES.iter().any(|allowed| is_within(&path, allowed)) {
        return Some(format!(
            "{path}: {holder} decides and touches nothing; of other crates it may use only {}",
            PURE_CRATES.join(", ")
        ));
    }
    TOUCHING_STD
        .iter()
        .map(|part| format!("std::{part}"))
        .find(|part| {
            let path = path.strip_suffix("::*").unwrap_or(&path);
            // Naming all of `std::time` opens a door to its clock.
            is_within(path, part) || is_within(part, path)
        })
        .map(|part| {
            format!("{path}: {holder} decides and touches nothing, so {part} is not for it; take it as an argument")
        })
}

/// Whether `path` is `place` or something in it.
fn is_within(path: &str, place: &str) -> bool {
    path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// The module that a file of `src` is.
fn module_of(file: &Path) -> Vec<String> {
    let inner = file.with_extension("");
    let mut module = vec!["crate".to_owned()];
    module.extend(inner.components().map(|part| part.as_os_str().to_string_lossy().into_owned()));
    if module.len() == 2 && matches!(module[1].as_str(), "lib" | "main") {
        module.pop();
    }
    module
}

/// `file:line: what is wrong`, for a text that stands in `file` of `src`.
fn broken_rules(file: &Path, text: &str, crates: &[String]) -> Vec<String> {
    let module = module_of(file);
    let segments: Vec<&str> = module.iter().map(String::as_str).collect();
    let place = module.join("::");
    named_paths(text, &segments, crates)
        .into_iter()
        .filter_map(|Named { line, segments }| {
            let rule = broken_rule(&place, &segments)?;
            Some(format!("src/{}:{line}: {rule}", file.display()))
        })
        .collect()
}

/// The crates that a source text can name: the dependencies of Cargo.toml, and the built-in ones.
fn known_crates() -> Vec<String> {
    let manifest: toml::Table =
        fs::read_to_string(root().join("Cargo.toml")).unwrap().parse().unwrap();
    let mut crates: Vec<String> = ["std", "core", "alloc"].map(str::to_owned).into();
    for section in ["dependencies", "dev-dependencies"] {
        let names = manifest[section].as_table().unwrap().keys();
        crates.extend(names.map(|name| name.replace('-', "_")));
    }
    crates
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn source_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            source_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn imports_run_downward_only_and_what_decides_touches_nothing() {
    let source = root().join("src");
    let crates = known_crates();
    let mut files = Vec::new();
    source_files(&source, &mut files);
    files.sort();
    assert!(files.len() > 5, "the sources are not in {source:?}");
    let broken: Vec<String> = files
        .iter()
        .flat_map(|file| {
            let text = fs::read_to_string(file).unwrap();
            broken_rules(file.strip_prefix(&source).unwrap(), &text, &crates)
        })
        .collect();
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

#[test]
fn files_are_named_by_what_they_hold() {
    let mut files = Vec::new();
    source_files(&root().join("src"), &mut files);
    let leftovers: Vec<&PathBuf> = files
        .iter()
        .filter(|file| {
            let name = file.file_stem().unwrap().to_string_lossy();
            ["mod", "utils", "util", "helpers", "common", "misc", "manager"]
                .contains(&name.as_ref())
        })
        .collect();
    assert!(leftovers.is_empty(), "name these after what they hold: {leftovers:?}");
}

#[cfg(test)]
mod the_checker {
    use super::*;

    fn check(file: &str, text: &str) -> Vec<String> {
        broken_rules(Path::new(file), text, &known_crates())
    }

    /// The text breaks exactly one rule, on this line, and the message has this in it.
    fn refuses(file: &str, text: &str, line: usize, part: &str) {
        let broken = check(file, text);
        assert_eq!(broken.len(), 1, "{text}: {broken:?}");
        assert!(
            broken[0].starts_with(&format!("src/{file}:{line}: ")) && broken[0].contains(part),
            "{text}: {broken:?}"
        );
    }

    fn accepts(file: &str, text: &str) {
        assert_eq!(check(file, text), Vec::<String>::new(), "{text}");
    }

    #[test]
    fn refuses_an_import_that_runs_upward() {
        refuses(
            "model.rs",
            "\nuse crate::engine::time::Instant;",
            2,
            "crate::engine::time::Instant: model may use",
        );
        refuses("engine/time.rs", "use crate::io::clock;", 1, "crate::io::clock");
        refuses(
            "engine/vrrp/router.rs",
            "use crate::engine::node::links::LinkId;",
            1,
            "engine::vrrp may use",
        );
        refuses("engine/node/node.rs", "use crate::engine::cluster::world::World;", 1, "cluster");
        refuses("engine/cluster/world.rs", "use crate::engine::node::node::Node;", 1, "node");
        refuses("io/store.rs", "use crate::app::agent::run;", 1, "io may use");
        refuses("io/store.rs", "use crate::config::File;", 1, "io may use");
        refuses("config.rs", "use crate::engine::node::node::Node;", 1, "config may use");
        refuses("app/agent.rs", "use crate::cli::Arguments;", 1, "app may use");
    }

    #[test]
    fn accepts_an_import_that_runs_downward() {
        accepts(
            "engine/vrrp/router.rs",
            "use crate::model::{Family, Vip};\nuse super::packet::Advert;\nuse crate::engine::time::Instant;",
        );
        accepts(
            "engine/node/node.rs",
            "use super::links::LinkId;\nuse super::super::vrrp::router::Role;",
        );
        accepts(
            "io/kernel/sockets.rs",
            "use crate::engine::node::command::Command;\nuse std::net::UdpSocket;\nuse std::time::Instant;",
        );
        accepts("app/agent.rs", "use crate::{config, engine, io, model};\nuse tokio::sync::mpsc;");
        accepts("cli.rs", "use crate::app::agent;");
        accepts("main.rs", "fn main() { barevip::cli::run() }");
    }

    #[test]
    fn follows_super_through_inline_modules() {
        refuses(
            "engine/vrrp/packet.rs",
            "use super::super::node::links::LinkId;",
            1,
            "crate::engine::node::links::LinkId",
        );
        accepts("model.rs", "mod text { pub(super) fn f() { super::parse() } }");
        refuses(
            "model.rs",
            "mod text {\n fn f() { super::super::io::read() }\n}",
            2,
            "crate::io::read",
        );
        accepts("model.rs", "mod text { mod inner {} }\nmod more { fn f() { super::parse() } }");
    }

    #[test]
    fn sees_paths_in_the_middle_of_code() {
        refuses(
            "engine/time.rs",
            "fn f() -> u64 {\n let x = 1;\n crate::io::clock::now(x)\n}",
            3,
            "crate::io::clock::now",
        );
        refuses("engine/time.rs", "fn f() { std::thread::sleep(x) }", 1, "std::thread");
        refuses("engine/time.rs", "fn f() { ::std::fs::read(x); }", 1, "std::fs");
        refuses("engine/node/node.rs", "fn f() { tracing::info!(\"x\") }", 1, "tracing::info");
        refuses("engine/node/node.rs", "#[derive(clap::Parser)] struct A;", 1, "clap::Parser");
        refuses("engine/time.rs", "extern crate tokio;", 1, "tokio");
    }

    #[test]
    fn refuses_a_clock_a_thread_or_a_socket_in_an_engine() {
        refuses(
            "engine/time.rs",
            "use std::{fmt, time::{Duration,\n Instant}};",
            2,
            "std::time::Instant",
        );
        refuses(
            "engine/time.rs",
            "use std::time::SystemTime as Clock;",
            1,
            "std::time::SystemTime",
        );
        refuses("engine/time.rs", "use std::time;", 1, "std::time:");
        refuses("engine/time.rs", "use std::net::*;", 1, "std::net::*");
        refuses("engine/time.rs", "use std::net::{IpAddr, UdpSocket};", 1, "std::net::UdpSocket");
        refuses("engine/time.rs", "use std::sync::Mutex;", 1, "std::sync::Mutex");
        refuses("engine/time.rs", "use std::fs::{self};", 1, "std::fs");
        refuses("model.rs", "use std::process::Command;", 1, "std::process");
        refuses("engine/vrrp/packet.rs", "use pnet::datalink;", 1, "pnet::datalink");
        refuses("engine/node/node.rs", "use tokio::time::Instant;", 1, "tokio::time::Instant");
    }

    #[test]
    fn accepts_what_an_engine_needs() {
        accepts(
            "engine/vrrp/packet.rs",
            "use std::{collections::BTreeMap, fmt, net::{IpAddr, Ipv4Addr}, time::Duration};\n\
             use pnet::{packet::arp::ArpPacket, util::checksum};\nuse serde::Serialize;\n\
             use ipnet::IpNet;\nfn f(d: std::time::Duration) -> std::net::IpAddr { humantime::parse_duration(d) }",
        );
    }

    #[test]
    fn passes_over_comments_strings_and_tests() {
        accepts(
            "model.rs",
            "//! [`crate::engine::vrrp`]\n/// crate::io::x\nfn f() {} /* crate::io::x /* std::fs::read() */ tokio::spawn() */",
        );
        accepts(
            "model.rs",
            r###"const A: &str = "crate::io::\"x\""; const B: &str = r#"crate::io::"x"#; const C: &[u8] = b"std::fs::x";"###,
        );
        accepts(
            "model.rs",
            "#[cfg(test)]\nmod tests { use crate::engine::time::Instant; fn f() { std::fs::read(x); } }",
        );
        accepts(
            "model.rs",
            "#[cfg(test)] #[allow(dead_code)] use std::fs;\n#[cfg(all(test, unix))] fn f() { std::fs::read(x) }",
        );
        accepts(
            "model.rs",
            "fn f<'a>(x: &'a str) -> char { let c = '\"'; let d = '\\''; let e = '\\u{41}'; c }",
        );
    }

    #[test]
    fn goes_on_after_comments_strings_and_tests() {
        for before in [
            "/* a /* b */ c */ ",
            "const A: &str = \"\\\"\"; ",
            "const A: &str = r#\"\"\"#; ",
            "const A: char = '\"'; ",
            "const A: char = '\\''; ",
            "const A: u8 = b'\"'; ",
            "fn f<'a>() {} ",
            "#[cfg(test)] mod tests { fn f() { g(\"}\") } } ",
            "#[cfg(test)] use std::fs; ",
            "struct A { #[cfg(test)] b: u8, } ",
            "mod a { mod b {} } ",
            "#[cfg(not(test))] ",
        ] {
            refuses("model.rs", &format!("{before}use crate::io::x;"), 1, "crate::io::x");
        }
    }
}
