//! barevip gives bare-metal Kubernetes, and any two machines, what a cloud gives: an address that
//! one healthy node answers for, and that another takes over in well under a second.
//!
//! ```text
//!   cli, main      parse, log, dispatch, exit code
//!      │
//!   app/           wires: one loop per role
//!      │
//!   io/            touches the world: netlink, raw sockets, HTTP, files, clocks. Decides nothing
//!      │
//!   engine/        decides: no clock, no async, no sockets. Everything is a value in, a value out
//!      │
//!   model          the vocabulary as types
//! ```
//!
//! Imports run downward only; `tests/layers.rs` holds that.
//!
//! A configuration file becomes a [`model::Plan`]; [`engine::node::node::Node`] holds the plan
//! against what it hears on the wire and what the kernel shows, and asks for the difference.

pub mod model;

/// Decides: values in, values out.
pub mod engine {
    pub mod time;

    /// The protocol: bytes, timers, and the states of one virtual router (RFC 9568).
    pub mod vrrp {
        pub mod frames;
        pub mod packet;
        pub mod role;
        pub mod router;
    }

    /// One machine: roles × plan against what the kernel shows.
    pub mod node {
        mod addresses;
        mod announcements;
        pub mod command;
        pub mod event;
        mod leaving;
        pub mod links;
        mod machine;
        mod member;
        #[allow(
            clippy::module_inception,
            reason = "the folder is the machine, the file its engine"
        )]
        pub mod node;
        mod problems;
        pub mod status;
    }
}
