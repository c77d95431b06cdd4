//! What 255 virtual routers cost, serving and standing by.

use std::time::Duration;

use barevip::io::clock;

use crate::contender::daemon::Contender;
use crate::contender::setting::{Setting, ipv4_addresses};
use crate::laboratory::field::Field;
use crate::laboratory::processes::processor_time;
use crate::laboratory::wait::pause;
use crate::options::Options;
use crate::report::console::progress;
use crate::report::figures::Figures;
use crate::report::line::{Floor, Line};

const INTERVAL: Duration = Duration::from_millis(100);

pub(crate) fn measure(options: &Options) -> anyhow::Result<Vec<Line>> {
    let observed = Duration::from_secs(if options.quick { 4 } else { 20 });
    let routers: Vec<_> = ipv4_addresses(255).map(|address| vec![address]).collect();
    let setting = Setting::new(INTERVAL, &[254, 253]).routers(routers);
    let [keepalived, barevip] = Contender::BOTH.map(|contender| {
        progress(&format!("load: {contender}"));
        shares(Field::start(contender, setting.clone())?, observed)
    });
    let roles = ["Active", "Backup"];
    let lines = roles.into_iter().zip(keepalived?).zip(barevip?);
    Ok(lines
        .map(|((role, keepalived), barevip)| Line {
            measure: "255 virtual routers: % of a core",
            setting: format!("{role} of all, interval {INTERVAL:?}, over {} s", observed.as_secs()),
            keepalived: Figures::new([keepalived]),
            barevip: Figures::new([barevip]),
            floor: Floor::Open,
        })
        .collect())
}

/// Of each node, in percent of a core.
fn shares(mut field: Field, observed: Duration) -> anyhow::Result<Vec<f64>> {
    let begin = clock::now();
    let before = times(&mut field)?;
    pause(observed);
    let elapsed = clock::now().since(begin);
    let after = times(&mut field)?;
    field.end()?;
    let used = before.into_iter().zip(after).map(|(before, after)| after.saturating_sub(before));
    Ok(used.map(|used| used.as_secs_f64() / elapsed.as_secs_f64() * 100.0).collect())
}

fn times(field: &mut Field) -> anyhow::Result<Vec<Duration>> {
    let nodes = field.everybody();
    nodes
        .into_iter()
        .map(|node| field.daemon(node)?.processes().into_iter().map(processor_time).sum())
        .collect()
}
