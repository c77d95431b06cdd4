//! What kubectl is to print sooner or later.

use crate::support::control_plane::ControlPlane;
use crate::support::netns::patience::{unless, until};

impl ControlPlane {
    /// Waits until kubectl prints this.
    pub(crate) fn until(&self, arguments: &[&str], expected: &str) {
        let printed = || self.try_kubectl(arguments, None).unwrap_or_else(|error| error);
        let what = format!("kubectl {} prints {expected:?}", arguments.join(" "));
        until(&what, || {
            let printed = printed();
            unless(printed == expected, || printed)
        });
    }
}
