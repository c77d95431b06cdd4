//! `barevip controller` against a real API server and etcd, with faults at exact points: the rows
//! of the race table that involve the API, lost objects, restored backups, frozen leaders.

#![cfg(test)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints what it has counted"
)]

mod support {
    pub(crate) mod api_proxy;
    pub(crate) mod backup;
    pub(crate) mod control_plane;
    pub(crate) mod lan {
        #[allow(
            dead_code,
            clippy::cast_possible_truncation,
            reason = "the simulated LAN needs more of it"
        )]
        pub(crate) mod random;
    }
    pub(crate) mod live;
    pub(crate) mod netns {
        pub(crate) mod patience;
    }
    pub(crate) mod scratch;
}

mod adversity {
    pub(crate) mod invariants;

    mod arriving;
    mod contested;
    mod failing_writes;
    mod leaders;
    mod lost_objects;
    mod mirrored;
    mod restored;
    mod storm;
    mod watches;
}
