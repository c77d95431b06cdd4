//! The race table of the allocator against the pure engine: worlds as the table writes them, an
//! API server in memory that holds writes to their preconditions, one or two controllers, and the
//! invariants I1–I4 whenever all is quiet.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support {
    pub(crate) mod cluster {
        pub(crate) mod api;
        pub(crate) mod controller;
        pub(crate) mod judge;
        pub(crate) mod notation;
        pub(crate) mod scene;
    }
}

mod allocation {
    mod full;
    mod life;
    mod pools;
    mod properties;
    mod random;
    mod requests;
    mod sharing;
    mod start;
    mod writes;
}
