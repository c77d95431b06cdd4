//! Real `Node` engines on a simulated LAN, in virtual time: directed scenarios, each exact, and
//! thousands of random schedules of faults. See `tests/support/lan/` for the simulator and its
//! invariants.
//!
//! A failure of a random schedule names its seed. To see what happened:
//! `BAREVIP_LAN_SEED=7 cargo test --test lan random -- --nocapture`.
//! `BAREVIP_LAN_SCHEDULES=100000` runs more of them.

#![cfg(test)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::wildcard_enum_match_arm,
    reason = "simulated numbers are small, and a judge looks at some of many events"
)]

mod support {
    pub(crate) mod lan {
        pub(crate) mod audit;
        pub(crate) mod client;
        pub(crate) mod faults;
        pub(crate) mod happened;
        pub(crate) mod host;
        pub(crate) mod judge;
        pub(crate) mod kernel;
        pub(crate) mod machine;
        pub(crate) mod packets;
        pub(crate) mod plans;
        pub(crate) mod random;
        pub(crate) mod scene;
        pub(crate) mod schedule;
        pub(crate) mod stranger;
        pub(crate) mod time;
        pub(crate) mod wire;
        pub(crate) mod world;
    }
}

mod scenarios {
    mod addresses;
    mod claims;
    mod election;
    mod failures;
    mod handover;
    mod preemption;
    mod random;
}
