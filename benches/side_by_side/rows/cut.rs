//! The Active node falls silent right after an advert: the longest time without an answer.

use std::time::Duration;

use barevip::io::clock;

use crate::contender::daemon::Contender;
use crate::contender::setting::Setting;
use crate::laboratory::field::Field;
use crate::laboratory::wait;
use crate::options::Options;
use crate::report::console::progress;
use crate::report::figures::Figures;
use crate::report::line::{Floor, Line};

/// What scheduling, binding and announcing may take beyond the down interval.
const GRACE: Duration = Duration::from_millis(2);
const PRIORITIES: [u8; 2] = [254, 253];

pub(crate) fn measure(options: &Options) -> anyhow::Result<Vec<Line>> {
    // The interval in milliseconds, and trials in a full and in a quick run.
    [(1000, 7, 1), (100, 25, 4), (10, 50, 6)]
        .map(|(interval, full, quick)| {
            let interval = Duration::from_millis(interval);
            line(interval, options.trials(full, quick))
        })
        .into_iter()
        .collect()
}

fn line(interval: Duration, trials: usize) -> anyhow::Result<Line> {
    let setting = Setting::new(interval, &PRIORITIES);
    let [keepalived, barevip] = Contender::BOTH.map(|contender| {
        progress(&format!("cut, {interval:?}: {contender}"));
        gaps(Field::start(contender, setting.clone())?, trials)
    });
    let limit = setting.down_interval() + GRACE;
    Ok(Line {
        measure: "node cut right after an advert: longest gap, ms",
        setting: format!("priorities 254 and 253, interval {interval:?}"),
        keepalived: keepalived?,
        barevip: barevip?,
        floor: Floor::AtMostAndNoWorse(limit.as_secs_f64() * 1000.0),
    })
}

fn gaps(mut field: Field, trials: usize) -> anyhow::Result<Figures> {
    let everybody = field.everybody();
    let mut gaps = Vec::with_capacity(trials);
    for _ in 0..trials {
        let victim = field.settle(&everybody)?;
        let cut = field.cut_after_an_advert(victim)?;
        let what = "another node answers the client";
        let patience = field.setting().down_interval() * 2 + Duration::from_secs(20);
        let name = field.host(victim)?.name();
        wait::until(what, patience, || {
            Ok(field.probe.look(|record| {
                record
                    .last_answer()
                    .filter(|last| last.at > cut && record.name(last.node) != name)
                    .map(|_| ())
            }))
        })?;
        field.settle(&field.everybody_but(victim))?;
        let within = cut - field.setting().interval / 2..clock::now();
        gaps.push(Some(field.probe.look(|record| record.longest_gap(&within))));
        field.mend(victim)?;
    }
    field.end()?;
    Ok(Figures::milliseconds(gaps))
}
