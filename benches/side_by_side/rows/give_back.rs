//! A preferred node returns and takes the address back: what the client loses by that.

use std::time::Duration;

use barevip::io::clock;

use anyhow::ensure;

use crate::contender::daemon::Contender;
use crate::contender::setting::{Preempt, Setting};
use crate::laboratory::field::Field;
use crate::laboratory::wait;
use crate::options::Options;
use crate::report::console::progress;
use crate::report::figures::Figures;
use crate::report::line::{Floor, Line};

const INTERVAL: Duration = Duration::from_millis(100);
/// A second of delay, and whatever a daemon adds to it.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn measure(options: &Options) -> anyhow::Result<Vec<Line>> {
    let trials = options.trials(10, 1);
    let [keepalived, barevip] = Contender::BOTH.map(|contender| {
        progress(&format!("give-back: {contender}"));
        let setting = Setting::new(INTERVAL, &[150, 100]).preempt(Preempt::AfterASecond);
        losses(Field::start(contender, setting)?, trials)
    });
    Ok(vec![Line {
        measure: "preferred node returns: packets lost",
        setting: format!("preempts after 1s, priorities 150 and 100, interval {INTERVAL:?}"),
        keepalived: keepalived?,
        barevip: barevip?,
        floor: Floor::AtMost(0.0),
    }])
}

fn losses(mut field: Field, trials: usize) -> anyhow::Result<Figures> {
    const PREFERRED: usize = 0;
    let mut stretches = Vec::with_capacity(trials);
    for _ in 0..trials {
        let everybody = field.everybody();
        let holder = field.settle(&everybody)?;
        ensure!(holder == PREFERRED, "node {holder} serves where the preferred one should");
        field.daemon(PREFERRED)?.stop()?;
        field.daemon(PREFERRED)?.wait_until_ended()?;
        field.settle(&everybody)?;
        let begin = clock::now();
        field.start_daemon(PREFERRED)?;
        wait::until("the preferred node takes the address back", PATIENCE, || {
            Ok((field.settle(&everybody)? == PREFERRED).then_some(()))
        })?;
        stretches.push(begin..clock::now());
    }
    let lost = field.lost(&stretches)?;
    field.end()?;
    Ok(Figures::new(lost.into_iter().map(|lost| lost as f64)))
}
