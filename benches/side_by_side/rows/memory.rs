//! Resident memory after a while of serving and standing by.

use std::time::Duration;

use crate::contender::daemon::{Contender, Daemon};
use crate::contender::setting::Setting;
use crate::laboratory::field::Field;
use crate::laboratory::processes::resident_megabytes;
use crate::laboratory::wait::pause;
use crate::options::Options;
use crate::report::console::progress;
use crate::report::figures::Figures;
use crate::report::line::{Floor, Line};

const INTERVAL: Duration = Duration::from_millis(100);
const FLOOR: f64 = 8.0;

pub(crate) fn measure(options: &Options) -> anyhow::Result<Vec<Line>> {
    let steady = Duration::from_secs(if options.quick { 3 } else { 30 });
    let [keepalived, barevip] = Contender::BOTH.map(|contender| {
        progress(&format!("memory: {contender}"));
        sizes(Field::start(contender, Setting::new(INTERVAL, &[254, 253]))?, steady)
    });
    let (keepalived, barevip) = (keepalived?, barevip?);
    let line = |what: &str, keepalived, barevip, floor| Line {
        measure: "resident memory of Active and Backup, MB",
        setting: format!("{what}, after {} s", steady.as_secs()),
        keepalived,
        barevip,
        floor,
    };
    Ok(vec![
        line("the process that speaks", keepalived.speaker, barevip.speaker, Floor::AtMost(FLOOR)),
        line("all processes together", keepalived.all, barevip.all, Floor::AtMost(FLOOR)),
    ])
}

struct Sizes {
    speaker: Figures,
    all: Figures,
}

fn sizes(mut field: Field, steady: Duration) -> anyhow::Result<Sizes> {
    pause(steady);
    let (mut speakers, mut alls) = (Vec::new(), Vec::new());
    for node in field.everybody() {
        let daemon: &Daemon = field.daemon(node)?;
        let sizes = daemon
            .processes()
            .into_iter()
            .map(resident_megabytes)
            .collect::<anyhow::Result<Vec<_>>>()?;
        speakers.extend(sizes.last());
        alls.push(sizes.iter().sum());
    }
    field.end()?;
    Ok(Sizes { speaker: Figures::new(speakers), all: Figures::new(alls) })
}
