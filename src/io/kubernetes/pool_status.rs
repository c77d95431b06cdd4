//! A pool's status as the API has it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff;

use super::resources::IngressPoolStatus;
use crate::engine::cluster::decision::PoolReport;
use crate::engine::cluster::world;

/// What the status of a pool is to say; times of transitions are kept from `before`.
#[must_use]
pub fn pool_status(
    report: &PoolReport,
    generation: i64,
    before: Option<&IngressPoolStatus>,
) -> IngressPoolStatus {
    let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let conditions = report.conditions.iter().map(|(kind, met)| {
        let same = before.and_then(|status| status.conditions.iter().find(|c| c.type_ == *kind));
        condition(kind, met, generation, same)
    });
    IngressPoolStatus {
        total: report.total.to_string(),
        used: count(report.used),
        free: report.free.to_string(),
        resting: count(report.resting),
        waiting: count(report.waiting),
        networks: report.networks.iter().map(ToString::to_string).collect(),
        observed_generation: Some(generation),
        conditions: conditions.collect(),
    }
}

fn condition(
    kind: &str,
    condition: &world::Condition,
    generation: i64,
    before: Option<&Condition>,
) -> Condition {
    let status = if condition.met { "True" } else { "False" };
    let since = before.filter(|before| before.status == status).map_or_else(
        // Of seconds, as the API server keeps it: else it never looks the same again.
        || {
            Time(
                jiff::Timestamp::from_second(jiff::Timestamp::now().as_second())
                    .unwrap_or_default(),
            )
        },
        |before| before.last_transition_time.clone(),
    );
    Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: condition.reason.clone(),
        message: condition.message.clone(),
        last_transition_time: since,
        observed_generation: Some(generation),
    }
}
