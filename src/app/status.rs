//! `barevip status`: asks the daemons of this machine and shows what they say.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::runtime::runtime;
use crate::io::http::{self, AskError};

mod page;
pub mod state;
mod text;

pub use page::answer;
pub use state::{About, State};
pub use text::write as write_text;

/// Where daemons put their sockets, and this command looks for them.
pub const SOCKETS: &str = "/run/barevip";

/// Asks the daemon on `socket`, or every one that has a socket in [`SOCKETS`].
///
/// As JSON it is an array with one object for each daemon that answered, as it was received, so
/// that a daemon of another version can be read too.
///
/// # Errors
/// Where there is no daemon, or one did not answer: after all others were shown.
pub fn run(socket: Option<&Path>, as_json: bool, out: &mut impl Write) -> anyhow::Result<()> {
    let sockets = match socket {
        Some(socket) => vec![socket.to_owned()],
        None => find_sockets(Path::new(SOCKETS))?,
    };
    let runtime = runtime()?;
    let mut answers = Vec::new();
    let mut silent = Vec::new();
    for socket in sockets {
        match runtime.block_on(http::get(&socket, "/state")) {
            Ok(answer) => answers.push(answer),
            Err(error) => silent.push(format!("{}: {}", socket.display(), explain(&error))),
        }
    }
    if as_json {
        write_json(&answers, out)?;
    } else {
        for (index, answer) in answers.iter().enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            let state: State = serde_json::from_slice(answer).context(
                "the daemon's answer can't be read; it may be of another version: \
                 `--output json` shows it as it is",
            )?;
            text::write(&state, out)?;
        }
    }
    out.flush()?;
    if silent.is_empty() {
        return Ok(());
    }
    bail!("{}", silent.join("\n"))
}

fn write_json<A: AsRef<[u8]>>(answers: &[A], out: &mut impl Write) -> anyhow::Result<()> {
    let states: Vec<serde_json::Value> = answers
        .iter()
        .map(|answer| serde_json::from_slice(answer.as_ref()))
        .collect::<Result<_, _>>()
        .context("the daemon's answer is no JSON")?;
    // Not straight into `out`: its errors would lose their kind, and a closed pipe is none.
    let text = serde_json::to_string_pretty(&states)?;
    writeln!(out, "{text}")?;
    Ok(())
}

/// Every socket of a daemon, in the order of their names.
fn find_sockets(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let shown = directory.display();
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries.collect::<io::Result<Vec<_>>>(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    };
    let mut sockets: Vec<PathBuf> = entries
        .with_context(|| format!("{shown} can't be read; give the daemon's socket with --socket"))?
        .iter()
        .map(std::fs::DirEntry::path)
        .filter(|path| path.extension().is_some_and(|extension| extension == "sock"))
        .collect();
    if sockets.is_empty() {
        bail!(
            "no daemon is running here: there is no socket in {shown}; start one with \
             `systemctl start barevip`, or give its socket with --socket"
        );
    }
    sockets.sort();
    Ok(sockets)
}

fn explain(error: &AskError) -> String {
    let remedy = match error {
        AskError::Connect(cause) if cause.kind() == io::ErrorKind::PermissionDenied => {
            "run this as root, or as a member of the socket's group"
        }
        AskError::Connect(_) => {
            "the daemon is not running; start it with `systemctl start barevip`, and see \
             `journalctl -u barevip` for why it ended"
        }
        AskError::Late | AskError::Status(..) => {
            "it hangs; see `journalctl -u barevip`, and restart it with `systemctl restart barevip`"
        }
        AskError::Exchange(_) => "see whether it is barevip that listens there",
    };
    format!("{error}: {remedy}")
}
