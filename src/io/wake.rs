//! Waking a thread that waits for sockets: an eventfd that it waits for too.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::eventfd::{EfdFlags, EventFd};

/// A bell. Rung any number of times before it is heard, it is heard once.
#[derive(Debug)]
pub struct Wake(EventFd);

impl Wake {
    /// A bell that was not rung.
    ///
    /// # Errors
    /// The kernel's: too many open files.
    pub fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        Ok(Self(EventFd::from_flags(flags)?))
    }

    /// Wakes whoever waits, or will wait next.
    pub fn ring(&self) {
        // It fails where it was rung 2⁶⁴ times and not heard yet.
        self.0.write(1).ok();
    }

    /// Waits for the next ring. Look at what was told only after this.
    pub fn hush(&self) {
        // It fails where it was not rung.
        self.0.read().ok();
    }

    /// What to wait for.
    #[must_use]
    pub fn readable(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
