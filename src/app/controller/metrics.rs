//! What monitoring asks of a controller (OpenMetrics text).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use super::queue::{Object, Written};
use crate::engine::cluster::decision::PoolReport;
use crate::engine::cluster::world::Timestamp;

/// Whole and large: an IPv6 pool has more addresses than an integer counts.
type Amount = Gauge<f64, AtomicU64>;

/// All metrics of this process.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    leader: Gauge,
    addresses: Family<OfPool, Amount>,
    waiting: Family<Waiting, Amount>,
    oldest: Family<Waiting, Amount>,
    writes: Family<Writes, Counter>,
    watches: Family<Watch, Counter>,
    allocation: Histogram,
    decision: Histogram,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfPool {
    pool: String,
    state: AddressState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[expect(non_camel_case_types, reason = "label values as monitoring shows them")]
enum AddressState {
    total,
    used,
    free,
    resting,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Waiting {
    pool: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Writes {
    object: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Watch {
    resource: &'static str,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let mut registry = Registry::with_prefix("barevip");
        let metrics = Self {
            leader: Gauge::default(),
            addresses: Family::default(),
            waiting: Family::default(),
            oldest: Family::default(),
            writes: Family::default(),
            watches: Family::default(),
            // 1 ms to 65 s.
            allocation: Histogram::new(exponential_buckets(0.001, 2.0, 17)),
            // 10 µs to 0.65 s.
            decision: Histogram::new(exponential_buckets(0.000_01, 2.0, 17)),
            registry: Registry::default(),
        };
        registry.register("leader", "Whether this controller leads", metrics.leader.clone());
        registry.register("pool_addresses", "Addresses of a pool", metrics.addresses.clone());
        registry.register(
            "pool_waiting_services",
            "Services that wait for an address of a pool",
            metrics.waiting.clone(),
        );
        registry.register_with_unit(
            "pool_oldest_waiting",
            "Age of the oldest Service that waits for an address of a pool",
            Unit::Seconds,
            metrics.oldest.clone(),
        );
        registry.register(
            "writes",
            "Writes to the API server; stale: the object had changed meanwhile",
            metrics.writes.clone(),
        );
        registry.register(
            "watch_failures",
            "Watches that failed and were started anew",
            metrics.watches.clone(),
        );
        registry.register_with_unit(
            "allocation",
            "From a Service's appearance to its address in its status",
            Unit::Seconds,
            metrics.allocation.clone(),
        );
        registry.register_with_unit(
            "decision",
            "Time that a decision took",
            Unit::Seconds,
            metrics.decision.clone(),
        );
        Self { registry, ..metrics }
    }

    pub(super) fn allocated(&self, after: Duration) {
        self.allocation.observe(after.as_secs_f64());
    }

    pub(super) fn decided(&self, within: Duration) {
        self.decision.observe(within.as_secs_f64());
    }

    pub(super) fn wrote(&self, object: &Object, result: Written) {
        let labels = Writes { object: object.kind(), result: result.name() };
        self.writes.get_or_create(&labels).inc();
    }

    pub(super) fn watch_failed(&self, resource: &'static str) {
        self.watches.get_or_create(&Watch { resource }).inc();
    }

    /// The page, with what is true at this moment.
    pub(super) fn page(
        &self,
        leads: bool,
        pools: &BTreeMap<Arc<str>, PoolReport>,
        now: Timestamp,
    ) -> String {
        self.leader.set(leads.into());
        for family in [&self.waiting, &self.oldest] {
            family.clear();
        }
        self.addresses.clear();
        for (name, report) in pools {
            self.show_pool(name, report, now);
        }
        let mut page = String::new();
        // Writing to a string does not fail.
        let _written = encode(&mut page, &self.registry);
        page
    }

    #[expect(clippy::cast_precision_loss, reason = "monitoring counts in floating point")]
    fn show_pool(&self, name: &str, report: &PoolReport, now: Timestamp) {
        let states = [
            (AddressState::total, report.total as f64),
            (AddressState::used, report.used as f64),
            (AddressState::free, report.free as f64),
            (AddressState::resting, report.resting as f64),
        ];
        for (state, amount) in states {
            let labels = OfPool { pool: name.to_owned(), state };
            self.addresses.get_or_create(&labels).set(amount);
        }
        let labels = Waiting { pool: name.to_owned() };
        self.waiting.get_or_create(&labels).set(report.waiting as f64);
        let age = report.waiting_since.map_or(0, |since| (now.0 - since.0).max(0));
        self.oldest.get_or_create(&labels).set(age as f64);
    }
}
