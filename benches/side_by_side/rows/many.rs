//! Failover of many addresses: until the last of them was announced by its new home.

use std::time::Duration;

use anyhow::Context as _;

use crate::contender::daemon::Contender;
use crate::contender::setting::{Setting, ipv4_addresses};
use crate::laboratory::field::Field;
use crate::laboratory::wire::What;
use crate::options::Options;
use crate::report::console::progress;
use crate::report::figures::Figures;
use crate::report::line::{Floor, Line};

const INTERVAL: Duration = Duration::from_millis(100);
const ADDRESSES: u32 = 200;
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn measure(options: &Options) -> anyhow::Result<Vec<Line>> {
    let trials = options.trials(10, 2);
    let setting =
        Setting::new(INTERVAL, &[254, 253]).routers(vec![ipv4_addresses(ADDRESSES).collect()]);
    let [keepalived, barevip] = Contender::BOTH.map(|contender| {
        progress(&format!("many: {contender}"));
        times(Field::start(contender, setting.clone())?, trials)
    });
    Ok(vec![Line {
        measure: "node cut: last address announced after, ms",
        setting: format!("{ADDRESSES} addresses, interval {INTERVAL:?}"),
        keepalived: keepalived?,
        barevip: barevip?,
        floor: Floor::Open,
    }])
}

fn times(mut field: Field, trials: usize) -> anyhow::Result<Figures> {
    let everybody = field.everybody();
    let mut times = Vec::with_capacity(trials);
    for _ in 0..trials {
        let victim = field.settle(&everybody)?;
        let cut = field.cut_after_an_advert(victim)?;
        let mut missing = field.addresses().clone();
        let last = field
            .wire
            .listen(PATIENCE, |seen| {
                if let What::Announced(address) = seen.what
                    && seen.at > cut
                {
                    missing.remove(&address);
                }
                missing.is_empty().then_some(seen.at)
            })?
            .with_context(|| format!("{} addresses were never announced", missing.len()))?;
        times.push(Some(last.since(cut)));
        field.settle(&field.everybody_but(victim))?;
        field.mend(victim)?;
    }
    field.end()?;
    Ok(Figures::milliseconds(times))
}
