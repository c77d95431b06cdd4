//! The node's news in the log.

use std::time::Duration;

use tracing::field::display;

use super::observed::{News, Told};
use crate::engine::node::event::EventKind;
use crate::io::clock::Moment;

/// A log line that is later than this says when it was true.
const LAG: Duration = Duration::from_millis(100);

/// One sentence; with the time at which it was true where the log lags behind.
pub(super) fn log(told: &Told) {
    let lag = Moment::read().wall().duration_since(told.at).unwrap_or_default();
    let at = (lag > LAG).then(|| humantime::format_rfc3339_millis(told.at)).map(display);
    let router = match &told.news {
        News::Event(event) => event.router.as_deref(),
        News::Trouble(_) => None,
    };
    if is_worrying(&told.news) {
        tracing::warn!(router, at, "{}", told.news);
    } else {
        tracing::info!(router, at, "{}", told.news);
    }
}

/// Whether a person should look at it.
const fn is_worrying(news: &News) -> bool {
    let event = match news {
        News::Trouble(_) => return true,
        News::Event(event) => &event.kind,
    };
    match event {
        EventKind::LinkLost(_)
        | EventKind::AddressLost { .. }
        | EventKind::AddressExpired { .. }
        | EventKind::Began(_)
        | EventKind::Stalled { .. } => true,
        EventKind::Released { unclaimed, .. } => *unclaimed > 0,
        EventKind::BecameActive { .. }
        | EventKind::Serving { .. }
        | EventKind::BecameBackup { .. }
        | EventKind::LeftElection { .. }
        | EventKind::LinkBack { .. }
        | EventKind::Ended(_)
        | EventKind::Slept { .. } => false,
    }
}
