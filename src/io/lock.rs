//! One daemon of an instance in a network namespace at a time.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::engine::node::links::Instance;

/// Held while the instance runs; the kernel lets it go with the process, however that ends.
#[derive(Debug)]
pub struct Lock {
    _name: UnixDatagram,
}

impl Lock {
    /// Takes the lock of an instance; `None` where a process of this network namespace holds it.
    ///
    /// It is a name in the abstract socket namespace: that belongs to the network namespace, as
    /// the addresses do, and leaves no file behind.
    ///
    /// # Errors
    /// Where the kernel gives no socket.
    pub fn take(instance: Instance) -> io::Result<Option<Self>> {
        let name = SocketAddr::from_abstract_name(format!("barevip/{:08x}", instance.0))?;
        match UnixDatagram::bind_addr(&name) {
            Ok(socket) => Ok(Some(Self { _name: socket })),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_held_once_and_free_after_its_holder() {
        let instance = Instance(std::process::id());
        let held = Lock::take(instance).unwrap();
        assert!(held.is_some());
        assert!(Lock::take(instance).unwrap().is_none());
        assert!(
            Lock::take(Instance(instance.0 ^ 0x8000_0000))
                .unwrap()
                .is_some()
        );
        drop(held);
        assert!(Lock::take(instance).unwrap().is_some());
    }
}
