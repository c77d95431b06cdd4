//! A planned stop: what the client loses while the next node takes over.

use std::time::Duration;

use barevip::io::clock;

use crate::contender::daemon::Contender;
use crate::contender::setting::Setting;
use crate::laboratory::field::Field;
use crate::options::Options;
use crate::report::console::progress;
use crate::report::figures::Figures;
use crate::report::line::{Floor, Line};

pub(crate) fn measure(options: &Options) -> anyhow::Result<Vec<Line>> {
    let mut lines = Vec::new();
    for priorities in [[254, 253], [150, 100]] {
        for (interval, full, quick) in [(1000, 6, 1), (100, 12, 2), (10, 12, 2)] {
            let interval = Duration::from_millis(interval);
            lines.push(line(priorities, interval, options.trials(full, quick))?);
        }
    }
    Ok(lines)
}

fn line(priorities: [u8; 2], interval: Duration, trials: usize) -> anyhow::Result<Line> {
    let setting = Setting::new(interval, &priorities);
    let [first, second] = priorities;
    let described = format!("priorities {first} and {second}, interval {interval:?}");
    let [keepalived, barevip] = Contender::BOTH.map(|contender| {
        progress(&format!("stop, {described}: {contender}"));
        losses(Field::start(contender, setting.clone())?, trials)
    });
    Ok(Line {
        measure: "planned stop (SIGTERM): packets lost",
        setting: described,
        keepalived: keepalived?,
        barevip: barevip?,
        floor: Floor::AtMost(0.0),
    })
}

fn losses(mut field: Field, trials: usize) -> anyhow::Result<Figures> {
    let everybody = field.everybody();
    let mut stretches = Vec::with_capacity(trials);
    for _ in 0..trials {
        let leaving = field.settle(&everybody)?;
        let begin = clock::now();
        field.daemon(leaving)?.stop()?;
        field.daemon(leaving)?.wait_until_ended()?;
        field.settle(&everybody)?;
        stretches.push(begin..clock::now());
        field.start_daemon(leaving)?;
    }
    let lost = field.lost(&stretches)?;
    field.end()?;
    Ok(Figures::new(lost.into_iter().map(|lost| lost as f64)))
}
