//! The command as its users meet it: help, exit statuses, and what it says of wrong files.
//!
//! What is printed stands in `snapshots/`; `INSTA_UPDATE=always cargo test --test cli` renews it.
#![cfg(test)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use insta::assert_snapshot;

/// An empty directory of this test's own, which is also where the command runs.
fn directory(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli").join(test);
    if path.exists() {
        fs::remove_dir_all(&path).unwrap();
    }
    fs::create_dir_all(&path).unwrap();
    path
}

fn barevip(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_barevip"))
        .current_dir(directory)
        .args(arguments)
        .stdin(Stdio::null())
        .env_remove("JOURNAL_STREAM")
        .env_remove("NOTIFY_SOCKET")
        .output()
        .unwrap()
}

/// Everything that the command said, and how it ended.
fn told(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut told = format!("exit status: {}\n", output.status.code().expect("not killed"));
    for (name, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
        if !bytes.is_empty() {
            told += &format!("--- {name}\n{}", text(bytes));
        }
    }
    told
}

/// What `check` says of a file with this text.
fn check(test: &str, text: impl AsRef<[u8]>) -> String {
    let directory = directory(test);
    fs::write(directory.join("bad.toml"), text).unwrap();
    told(&barevip(&directory, &["check", "--config", "bad.toml"]))
}

#[test]
fn help_says_what_each_command_does() {
    let directory = directory("help");
    assert_snapshot!("help", told(&barevip(&directory, &["--help"])));
    for command in ["run", "check", "status", "cleanup", "install", "demo"] {
        let output = barevip(&directory, &[command, "--help"]);
        assert_snapshot!(format!("help-{command}"), told(&output));
    }
}

#[test]
fn the_version_is_the_crates() {
    let output = barevip(&directory("version"), &["--version"]);
    let expected = format!("barevip {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}

#[test]
fn wrong_usage_ends_with_2() {
    let directory = directory("usage");
    for wrong in [
        &[][..],
        &["serve"],
        &["run"],
        &["check"],
        &["cleanup"],
        &["cleanup", "--all", "--config", "x"],
        &["status", "--output", "xml"],
        &["status", "--log-level", "loud"],
    ] {
        let output = barevip(&directory, wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
        assert!(!output.stderr.is_empty(), "{wrong:?}");
    }
}

#[test]
fn the_example_is_good() {
    let systemd = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd");
    assert_snapshot!("example", told(&barevip(&systemd, &["check", "--config", "barevip.toml"])));
}

/// Whoever removes the `#` in front of the example's optional keys gets a good file too.
#[test]
fn the_example_is_good_with_every_optional_key() {
    let systemd = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd");
    let text = fs::read_to_string(systemd.join("barevip.toml")).unwrap();
    let is_key =
        |line: &str| line.starts_with('#') && line.contains(" = ") && !line.starts_with("# ");
    let all: Vec<&str> = text
        .lines()
        .map(|line| if is_key(line) { line.trim_start_matches('#') } else { line })
        .collect();
    let told = check("example-all", all.join("\n"));
    assert!(told.starts_with("exit status: 0"), "{told}");
    assert!(told.contains("unicast to 2 peers"), "{told}");
}

#[test]
fn files_that_are_no_configuration() {
    assert_snapshot!("bad-empty", check("empty", ""));
    assert_snapshot!("bad-comments-only", check("comments", "# soon\n"));
    assert_snapshot!("bad-encoding", check("encoding", b"vrid = 1\nname = \"\xff\"\n"));
    assert_snapshot!("bad-syntax", check("syntax", "[[virtual_router]]\nvrid = \naddresses = 1\n"));
    assert_snapshot!(
        "bad-duplicate-key",
        check("duplicate-key", "[[virtual_router]]\nvrid = 1\nvrid = 2\n")
    );
    assert_snapshot!("bad-not-a-list", check("not-a-list", "[virtual_router]\nvrid = 1\n"));
    assert_snapshot!("bad-shape", check("shape", "virtual_router = 51\n"));
    assert_snapshot!("bad-top-level-keys", check("top-level", "vrid = 51\naddreses = []\n"));
    let directory = directory("missing");
    let output = barevip(&directory, &["check", "--config", "nowhere.toml"]);
    assert_snapshot!("bad-missing", told(&output));
    let output = barevip(&directory, &["check", "--config", "."]);
    assert_snapshot!("bad-directory", told(&output));
}

#[test]
fn values_that_are_wrong_by_themselves() {
    let text = r#"[[virtual_router]]
name = "web site"
interface = "a-very-long-link-name"
vrid = 256
priority = "high"
interval = 100
preempt = "sometimes"
adresses = ["192.0.2.1"]
addresses = ["192.0.2.300", 7, "224.0.0.18", "192.0.2.0/24"]
peers = "192.0.2.3"
announce = { rounds = 21, spacing = "1ms", refresh = "2h", pause = 1 }
checksum = "md5"

[[virtual_router]]
name = ""
	vrid = 0
interval = "15ms"
preempt = "after lunch"
addresses = []
peers = ["192.0.2.3/24"]
announce = 5
password = "secret"

[[virtual_router]]
"#;
    assert_snapshot!("bad-values", check("values", text));
}

#[test]
fn values_that_contradict_each_other() {
    let text = r#"[[virtual_router]]
name = "web"
interface = "eth0"
vrid = 51
addresses = ["192.0.2.200", "192.0.2.200/24", "2001:db8::200"]
peers = ["192.0.2.210", "192.0.2.3", "192.0.2.3", "2001:db8::3"]

[[virtual_router]]
name = "web"
interface = "eth0"
vrid = 51
addresses = ["192.0.2.210"]

[[virtual_router]]
vrid = 51
addresses = ["192.0.2.200"]

[[virtual_router]]
interface = "eth0"
vrid = 52
checksum = "rfc9568"
addresses = ["2001:db8::52"]

[[virtual_router]]
interface = "eth1"
vrid = 52
addresses = ["2001:db8::53"]
"#;
    assert_snapshot!("bad-contradictions", check("contradictions", text));
}

/// `run` refuses what `check` refuses, and makes nothing before.
#[test]
fn run_does_not_start_with_a_wrong_file() {
    let directory = directory("run-wrong");
    fs::write(directory.join("bad.toml"), "[[virtual_router]]\nvrid = 1\n").unwrap();
    let arguments = ["run", "--config", "bad.toml", "--socket", "run/x.sock"];
    let output = barevip(&directory, &arguments);
    assert_snapshot!("run-wrong", told(&output));
    assert!(!directory.join("run").exists());
}

#[test]
fn status_says_what_to_do_where_nothing_runs() {
    let directory = directory("status");
    let output = barevip(&directory, &["status", "--socket", "nowhere.sock"]);
    assert_snapshot!("status-nowhere", told(&output));
    // The file of a daemon that was killed.
    drop(std::os::unix::net::UnixListener::bind(directory.join("dead.sock")).unwrap());
    let output = barevip(&directory, &["status", "--output", "json", "--socket", "dead.sock"]);
    assert_snapshot!("status-dead", told(&output));
}

#[test]
fn whoever_reads_only_the_beginning_is_no_error() {
    let directory = directory("pipe");
    let list: Vec<String> = (1..=254)
        .map(|vrid| format!("[[virtual_router]]\nvrid = {vrid}\naddresses = [\"10.0.0.{vrid}\"]\n"))
        .collect();
    fs::write(directory.join("many.toml"), list.concat()).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_barevip"))
        .current_dir(&directory)
        .args(["check", "--config", "many.toml"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(told(&output), "exit status: 0\n");
}
