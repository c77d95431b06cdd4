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
//!
//! Watches of an API server become a [`engine::cluster::world::World`];
//! [`engine::cluster::decide::decide`] says what is to be written, and [`app::controller`] does.

pub mod cli;
pub mod config;
pub mod model;

/// Wires: one file for each command and role.
pub mod app {
    pub mod agent;
    pub mod check;
    pub mod cleanup;
    pub mod controller;
    pub mod demo;
    pub mod install;
    mod journal;
    pub mod manifests;
    pub mod node_loop;
    pub mod observed;
    mod runtime;
    pub mod standalone;
    pub mod status;
    mod stop;
}

/// Decides: values in, values out.
pub mod engine {
    pub mod plan;
    pub mod time;

    /// The protocol: bytes, timers, and the states of one virtual router (RFC 9568).
    pub mod vrrp {
        pub mod frames;
        pub mod packet;
        pub mod role;
        pub mod router;
    }

    /// The whole cluster: who gets what, who may serve it.
    pub mod cluster {
        pub mod allocator;
        mod candidates;
        pub mod contest;
        pub mod decide;
        pub mod decision;
        pub mod election;
        mod evenness;
        mod groups;
        mod hash;
        pub mod home;
        mod manner;
        pub mod placement;
        pub mod protection;
        mod standing;
        mod succession;
        mod vrids;
        pub mod warnings;
        pub mod world;
    }

    /// One machine: roles × plan against what the kernel shows.
    pub mod node {
        mod addresses;
        mod announcements;
        pub mod command;
        mod elsewhere;
        pub mod event;
        pub mod identity;
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

/// Touches the world, decides nothing.
pub mod io {
    pub mod clock;
    pub mod http;
    pub mod service_manager;
    pub mod store;
    pub mod wake;

    /// The kernel's network: links, addresses, packets.
    pub mod kernel {
        mod filter;
        mod group;
        pub mod netlink;
        mod picture;
        pub mod receive;
        mod route_socket;
        pub mod scheduler;
        pub mod send;
    }

    /// The API server: what it shows, and how it is written to.
    pub mod kubernetes {
        pub mod announcer;
        pub mod apply;
        pub mod client;
        pub mod delta;
        pub mod event;
        mod follow;
        pub mod lease;
        pub mod plan;
        pub mod pool_status;
        pub mod protection;
        pub mod reading;
        pub mod resources;
        pub mod routers;
        pub mod watch;
        pub mod write;
    }

    /// A LAN in network namespaces, for the demonstration, the tests and the benchmarks.
    pub mod lab {
        pub mod lan;
        pub mod namespace;
        pub mod privilege;
        pub mod probe;
        pub mod process;
        pub mod record;
    }
}
