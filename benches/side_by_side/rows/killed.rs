//! A daemon that is killed or hangs: until its node no longer holds the address that another one
//! has taken over.

use std::process::Stdio;
use std::time::Duration;

use ::barevip::engine::time::Instant;
use ::barevip::io::clock;
use anyhow::Context as _;
use nix::sys::signal::Signal;

use crate::contender::barevip;
use crate::contender::daemon::Contender;
use crate::contender::setting::Setting;
use crate::laboratory::addresses::held_here;
use crate::laboratory::field::Field;
use crate::laboratory::wait;
use crate::options::Options;
use crate::report::console::progress;
use crate::report::figures::Figures;
use crate::report::line::{Floor, Line};

const INTERVAL: Duration = Duration::from_millis(100);
/// Beyond this it is called never.
const WATCHED: Duration = Duration::from_secs(10);

/// What befalls the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Killed,
    Stopped,
    KilledAndCleanedUp,
}

impl Fate {
    const ALL: [Self; 3] = [Self::Killed, Self::Stopped, Self::KilledAndCleanedUp];

    const fn setting(self) -> &'static str {
        match self {
            Self::Killed => "SIGKILL, watched for 10s",
            Self::Stopped => "SIGSTOP for ever, watched for 10s",
            Self::KilledAndCleanedUp => "SIGKILL, then at once `barevip cleanup`",
        }
    }

    /// In milliseconds.
    const fn floor(self) -> f64 {
        match self {
            Self::Killed | Self::Stopped => 3100.0,
            Self::KilledAndCleanedUp => 50.0,
        }
    }
}

pub(crate) fn measure(options: &Options) -> anyhow::Result<Vec<Line>> {
    Fate::ALL.map(|fate| line(fate, options)).into_iter().collect()
}

fn line(fate: Fate, options: &Options) -> anyhow::Result<Line> {
    let [keepalived, barevip] = Contender::BOTH.map(|contender| {
        progress(&format!("killed, {}: {contender}", fate.setting()));
        match contender {
            // Nothing removes what it left behind, and never takes long.
            Contender::Keepalived if fate == Fate::KilledAndCleanedUp => Ok(Figures::Absent),
            Contender::Keepalived => times(contender, fate, options.trials(2, 1)),
            Contender::Barevip => times(contender, fate, options.trials(10, 3)),
        }
    });
    Ok(Line {
        measure: "dead daemon: its node holds the address for, ms",
        setting: fate.setting().to_owned(),
        keepalived: keepalived?,
        barevip: barevip?,
        floor: Floor::AtMost(fate.floor()),
    })
}

fn times(contender: Contender, fate: Fate, trials: usize) -> anyhow::Result<Figures> {
    let times = (0..trials).map(|_| time(contender, fate)).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Figures::milliseconds(times))
}

/// Each time on a LAN of its own: what a killed daemon leaves behind is in nobody's way then.
fn time(contender: Contender, fate: Fate) -> anyhow::Result<Option<Duration>> {
    let mut field = Field::start(contender, Setting::new(INTERVAL, &[254, 253]))?;
    let victim = field.settle(&field.everybody())?;
    let daemon = field.daemon(victim)?;
    let configuration = daemon.configuration();
    let struck = clock::now();
    daemon.strike(if fate == Fate::Stopped { Signal::SIGSTOP } else { Signal::SIGKILL })?;
    if fate == Fate::KilledAndCleanedUp {
        let mut cleanup = barevip::cleanup(&configuration);
        cleanup.stdin(Stdio::null());
        field.host(victim)?.namespace().output(cleanup)?;
    }
    let gone = gone(&field, victim)?.map(|gone| gone.since(struck));
    field.end().context("after a daemon was struck")?;
    Ok(gone)
}

/// When the node held the address no longer.
fn gone(field: &Field, node: usize) -> anyhow::Result<Option<Instant>> {
    field.host(node)?.namespace().run(|| {
        wait::patiently(WATCHED, || Ok((held_here(field.addresses())? == 0).then(clock::now)))
    })
}
