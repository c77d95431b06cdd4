//! A daemon's state as a table in plain ASCII, what is wrong below it.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::state::{Address, Machine, Router, State};
use crate::engine::node::status::Counters;

/// Addresses of a router that are written out; JSON has all of them.
const SHOWN_ADDRESSES: usize = 8;

/// Writes the whole state.
///
/// # Errors
/// Those of `out`.
pub fn write(state: &State, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}: {}", state.node, state.summary())?;
    writeln!(out, "{}, barevip {}, {}\n", state.at, state.version, state.config.display())?;
    write_table(&state.routers, out)?;
    write_addresses(&state.routers, out)?;
    write_problems(&state.routers, out)?;
    write_counters(&state.counters, out)?;
    write_machine(&state.machine, &state.counters, out)?;
    writeln!(
        out,
        "  fence: if this daemon dies or hangs, the kernel removes its addresses within {} s",
        state.fence_bound_s,
    )
}

const HEADER: [&str; 10] = [
    "ROUTER",
    "VRID",
    "FAMILY",
    "LINK",
    "ROLE",
    "FOR",
    "PRIORITY",
    "ACTIVE",
    "BOUND",
    "LAST FAILOVER HERE",
];

fn write_table(routers: &[Router], out: &mut impl Write) -> io::Result<()> {
    let mut rows = vec![HEADER.map(str::to_owned)];
    rows.extend(routers.iter().map(row));
    let mut widths = [0; HEADER.len()];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    for row in &rows {
        let cells = row.iter().zip(widths);
        let line: Vec<String> = cells.map(|(cell, width)| format!("{cell:width$}")).collect();
        writeln!(out, "{}", line.join("  ").trim_end())?;
    }
    Ok(())
}

fn row(router: &Router) -> [String; HEADER.len()] {
    let or_dash = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
    let bound = router.addresses.iter().filter(|a| a.bound).count();
    [
        router.name.clone(),
        router.vrid.to_string(),
        router.family.to_string(),
        or_dash(router.link.clone()),
        router.role.to_string(),
        age(router.age_ms),
        or_dash(router.priority.map(|priority| priority.to_string())),
        match &router.active {
            None => "nobody known".to_owned(),
            Some(active) if active.here => "this machine".to_owned(),
            Some(active) => format!("{} ({})", active.address, active.priority),
        },
        format!("{bound} of {}", router.addresses.len()),
        or_dash(router.last_failover.as_ref().map(|failover| {
            format!("{} ago, took {}", age(failover.age_ms), brief(failover.took_ms))
        })),
    ]
}

fn write_addresses(routers: &[Router], out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\nAddresses")?;
    for router in routers {
        for (bound, word) in [(true, "bound here"), (false, "not bound here")] {
            let list: Vec<&Address> =
                router.addresses.iter().filter(|address| address.bound == bound).collect();
            if list.is_empty() {
                continue;
            }
            let shown: Vec<String> = list
                .iter()
                .take(SHOWN_ADDRESSES)
                .map(|address| address.address.to_string())
                .collect();
            let more = match list.len().saturating_sub(SHOWN_ADDRESSES) {
                0 => String::new(),
                more => format!(" and {more} more (--output json shows all)"),
            };
            let shown = shown.join(", ");
            writeln!(out, "  {}, {word}: {shown}{more}", router.name)?;
        }
    }
    Ok(())
}

fn write_problems(routers: &[Router], out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\nProblems")?;
    let mut none = true;
    for router in routers {
        let name = &router.name;
        if let Some(fault) = &router.fault {
            none = false;
            writeln!(out, "  {name} takes no part: {}", fault.text)?;
            writeln!(out, "    what to do: {}", fault.remedy)?;
        }
        for problem in &router.problems {
            none = false;
            let since = age(problem.age_ms);
            writeln!(out, "  {name}: {} (for {since})", problem.text)?;
            if let Some(remedy) = &problem.remedy {
                writeln!(out, "    what to do: {remedy}")?;
            }
        }
    }
    if none {
        writeln!(out, "  none")?;
    }
    Ok(())
}

fn write_counters(counters: &Counters, out: &mut impl Write) -> io::Result<()> {
    let refused: u64 = counters.adverts_refused.values().sum();
    let reasons = in_brackets(&counters.adverts_refused);
    writeln!(out, "\nSince the start")?;
    writeln!(
        out,
        "  adverts: {} sent, {} heard ({} of them by multicast), {refused} refused{reasons}",
        counters.adverts_sent, counters.adverts_heard, counters.adverts_heard_multicast,
    )?;
    writeln!(
        out,
        "  strangers: {} adverts of other VRIDs, {} of our VRID for other addresses, {} from our own address",
        counters.foreign_vrid, counters.foreign_router, counters.own_source,
    )?;
    writeln!(
        out,
        "  addresses: {} announcements sent, {} changes, {} failed, {} removed by others, {} expired",
        counters.announcements_sent,
        counters.address_changes,
        counters.command_failures,
        counters.addresses_lost,
        counters.addresses_expired,
    )
}

fn write_machine(machine: &Machine, counters: &Counters, out: &mut impl Write) -> io::Result<()> {
    let refused: u64 = machine.packets_refused.values().sum();
    let reasons = in_brackets(&machine.packets_refused);
    writeln!(
        out,
        "  packets: {} sent, {refused} refused by the kernel{reasons}, {} lost unread",
        machine.packets_sent, machine.packets_overflowed,
    )?;
    let realtime = match &machine.realtime_refused {
        None => "yes".to_owned(),
        Some(reason) => format!("no ({reason})"),
    };
    writeln!(
        out,
        "  time: {} stalls longer than a down interval, timers at most {:.1}ms late, real-time priority: {realtime}",
        counters.stalls, machine.timers_late_max_ms,
    )
}

/// " (one 1, two 2)"; nothing of nothing.
fn in_brackets(counts: &BTreeMap<String, u64>) -> String {
    let counts: Vec<String> =
        counts.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    match counts.as_slice() {
        [] => String::new(),
        counts => format!(" ({})", counts.join(", ")),
    }
}

/// The two largest units: "12s", "5m 3s", "3h 2m", "4d 7h".
fn age(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {}m", minutes % 60),
        _ => format!("{days}d {}h", hours % 24),
    }
}

fn brief(milliseconds: f64) -> String {
    if milliseconds < 1000.0 {
        format!("{milliseconds:.0}ms")
    } else {
        format!("{:.1}s", milliseconds / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_show_their_two_largest_units() {
        let second = 1000;
        for (milliseconds, text) in [
            (0, "0s"),
            (59 * second, "59s"),
            (303 * second, "5m 3s"),
            (10_925 * second, "3h 2m"),
            (371_000 * second, "4d 7h"),
        ] {
            assert_eq!(age(milliseconds), text);
        }
    }
}
