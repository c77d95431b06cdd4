//! The kernel's side for real: netlink, packet and raw sockets, and the engine's thread on top of
//! them, each test in network namespaces of its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support {
    pub(crate) mod host;
}

mod on_linux {
    mod links;
    mod node_loop;
    mod sockets;
}
