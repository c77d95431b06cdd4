//! An API server that dies and comes back.

use nix::sys::signal::Signal;

use crate::support::control_plane::ControlPlane;

impl ControlPlane {
    /// Kills the API server, starts it again and waits until it is ready; meanwhile does this again
    /// and again.
    pub(crate) fn restart(&self, meanwhile: impl FnMut()) {
        let mut server = self.server.borrow_mut();
        server.signal(Signal::SIGKILL).unwrap();
        server.wait().unwrap();
        *server = self.launcher.start();
        drop(server);
        self.wait(meanwhile);
    }
}
