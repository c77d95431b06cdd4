//! An API server that is gone.

use nix::sys::signal::Signal;

use crate::support::control_plane::ControlPlane;

impl ControlPlane {
    /// Kills the API server.
    pub(crate) fn kill(&self) {
        let mut server = self.server.borrow_mut();
        server.signal(Signal::SIGKILL).unwrap();
        server.wait().unwrap();
    }
}
