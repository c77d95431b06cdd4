//! The kernel's side for real: netlink, packet and raw sockets, and the engine's thread on top of
//! them, each test in network namespaces of its own.

#![cfg(test)]

mod support {
    pub(crate) mod host;
}

mod on_linux {
    mod links;
    mod node_loop;
    mod sockets;
}
