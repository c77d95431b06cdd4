//! Nine candidates: how often more than one of them becomes Active when the first one goes.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use crate::contender::daemon::Contender;
use crate::contender::setting::Setting;
use crate::laboratory::field::Field;
use crate::laboratory::wire::What;
use crate::options::Options;
use crate::report::console::progress;
use crate::report::figures::Figures;
use crate::report::line::{Floor, Line};

const INTERVAL: Duration = Duration::from_millis(100);
/// In this time after the fault every candidate that can wake has woken: three intervals and the
/// longest skew, twice that for good measure.
const WATCHED: Duration = Duration::from_millis(800);

/// How the first one goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Stop,
    Cut,
}

pub(crate) fn measure(options: &Options) -> anyhow::Result<Vec<Line>> {
    let mut lines = Vec::new();
    for fault in [Fault::Stop, Fault::Cut] {
        lines.push(line(fault, "adjacent", 1, Floor::Open, options.trials(15, 2))?);
        lines.push(line(fault, "spaced", 24, Floor::AtMost(0.0), options.trials(50, 4))?);
    }
    Ok(lines)
}

fn line(fault: Fault, name: &str, step: u8, floor: Floor, trials: usize) -> anyhow::Result<Line> {
    let priorities = [0, 1, 2, 3, 4, 5, 6, 7, 8].map(|rank| 254 - step * rank);
    let setting = Setting::new(INTERVAL, &priorities);
    let [keepalived, barevip] = Contender::BOTH.map(|contender| {
        progress(&format!("crowd, {fault:?}, {name} priorities: {contender}"));
        share(Field::start(contender, setting.clone())?, fault, trials)
    });
    let fault = match fault {
        Fault::Stop => "SIGTERM",
        Fault::Cut => "cut",
    };
    Ok(Line {
        measure: "nine nodes: trials in which several became Active",
        setting: format!("{fault}, priorities 254 − {step} × rank, interval {INTERVAL:?}"),
        keepalived: keepalived?,
        barevip: barevip?,
        floor,
    })
}

fn share(mut field: Field, fault: Fault, trials: usize) -> anyhow::Result<Figures> {
    let everybody = field.everybody();
    let mut counts = Vec::with_capacity(trials);
    for _ in 0..trials {
        let victim = field.settle(&everybody)?;
        match fault {
            Fault::Stop => {
                field.wire.heard();
                field.daemon(victim)?.stop()?;
            }
            Fault::Cut => {
                field.cut_after_an_advert(victim)?;
            }
        }
        counts.push(actives(&mut field, victim)?.len());
        match fault {
            Fault::Stop => {
                field.daemon(victim)?.wait_until_ended()?;
                field.start_daemon(victim)?;
            }
            Fault::Cut => {
                field.mend(victim)?;
            }
        }
    }
    field.end()?;
    progress(&format!("so many became Active: {counts:?}"));
    let hits = counts.iter().filter(|count| **count > 1).count();
    Ok(Figures::Share { hits, of: trials })
}

/// Who of the others says from now on that it is Active.
fn actives(field: &mut Field, victim: usize) -> anyhow::Result<BTreeSet<IpAddr>> {
    let gone = IpAddr::V4(field.host(victim)?.ipv4());
    let mut actives = BTreeSet::new();
    field.wire.listen(WATCHED, |seen| {
        if let What::Active(source) = seen.what
            && source != gone
        {
            actives.insert(source);
        }
        None::<()>
    })?;
    Ok(actives)
}
