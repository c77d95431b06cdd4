//! Keeping addresses of finite lifetime alive: how long one round over all of them takes.
//! keepalived's addresses live for ever, so it has no such rounds.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::Context as _;

use crate::contender::daemon::Contender;
use crate::contender::setting::{Setting, ipv4_addresses, ipv6_addresses};
use crate::laboratory::address_events::AddressEvents;
use crate::laboratory::field::Field;
use crate::options::Options;
use crate::report::console::progress;
use crate::report::figures::Figures;
use crate::report::line::{Floor, Line};

const INTERVAL: Duration = Duration::from_millis(200);
/// Between two rounds lie at least half a second and twenty times what one takes.
const BETWEEN_ROUNDS: Duration = Duration::from_millis(200);
/// Until the next event at the latest; a round that takes a second comes every twenty.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn measure(options: &Options) -> anyhow::Result<Vec<Line>> {
    let trials = options.trials(10, 2);
    // No router lists more than 255 or 88 addresses.
    let ipv4: Vec<IpAddr> = ipv4_addresses(4000).collect();
    let ipv6: Vec<IpAddr> = ipv6_addresses(500).collect();
    [("500 IPv6 addresses", ipv6.chunks(84)), ("4000 IPv4 addresses", ipv4.chunks(250))]
        .map(|(setting, routers)| {
            progress(&format!("refresh, {setting}: {}", Contender::Barevip));
            let routers = routers.map(<[IpAddr]>::to_vec).collect();
            Ok(Line {
                measure: "one round of refreshing all addresses, ms",
                setting: setting.to_owned(),
                keepalived: Figures::Absent,
                barevip: rounds(Setting::new(INTERVAL, &[254]).routers(routers), trials)?,
                floor: Floor::Open,
            })
        })
        .into_iter()
        .collect()
}

fn rounds(setting: Setting, trials: usize) -> anyhow::Result<Figures> {
    let field = Field::start(Contender::Barevip, setting)?;
    let mut events = AddressEvents::open(field.host(0)?)?;
    let mut last = events.next(PATIENCE)?.context("no address was ever refreshed")?;
    let mut begun = None;
    let mut rounds = Vec::with_capacity(trials);
    while rounds.len() < trials {
        let event = events.next(PATIENCE)?.context("the addresses are refreshed no more")?;
        if event.since(last) > BETWEEN_ROUNDS {
            // The first round was perhaps not seen from its beginning.
            rounds.extend(begun.replace(event).map(|begun| Some(last.since(begun))));
        }
        last = event;
    }
    field.end()?;
    Ok(Figures::milliseconds(rounds))
}
