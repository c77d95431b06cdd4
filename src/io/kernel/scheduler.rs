//! What a thread asks of the scheduler so that its timers are on time.

use thread_priority::unix::{
    RealtimeThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};
use thread_priority::{Error, ThreadPriority};

/// Has this thread's timers fire when they are due: the default is up to 50 µs late, so that
/// wake-ups of several timers fall together.
///
/// # Errors
/// The kernel's words. Everything works all the same.
pub fn sharpen_timers() -> nix::Result<()> {
    nix::sys::prctl::set_timerslack(1)
}

/// Has this thread run before all ordinary ones (SCHED_RR, lowest priority).
///
/// # Errors
/// Why not, for an operator. It is often refused in containers, and everything works all the
/// same while the machine is not overloaded.
pub fn run_first() -> Result<(), String> {
    set_thread_priority_and_policy(
        thread_native_id(),
        ThreadPriority::Min,
        ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::RoundRobin),
    )
    .map_err(|error| {
        if let Error::OS(code) = error {
            nix::errno::Errno::from_raw(code).desc().to_owned()
        } else {
            error.to_string()
        }
    })
}
