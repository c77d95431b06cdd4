//! Which controller decides: leader election on one Kubernetes Lease, as client-go does it, with
//! what is easily got wrong done right.
//!
//! * Remote clocks are never compared with ours. A lease is expired once it has been seen
//!   unchanged (holder, stamp, resourceVersion) for its duration on our own clock, counted from
//!   when we *first read* it, which is after its holder wrote it.
//! * A leader is deposed at the *sending* time of its last successful renewal + renew deadline, on
//!   its own clock: before any other may take over, as long as the two clocks' rates differ by less
//!   than lease duration / renew deadline.
//! * Every write names the resourceVersion that it was decided from. Of two that find a lease
//!   expired one is refused, and so is a request that arrives long after its sender gave up.
//! * A write without an answer may have been carried out or not, or may still be: nobody leads by
//!   it, and the lease is read before anything else.
//!
//! What this can't do: a leader stopped between asking [`Elector::is_leader`] and a write writes
//! when it goes on, however late. Such a write is refused because it too names the state that it
//! was decided from (a resourceVersion, or a uid and generation): if another leader has touched
//! the object since, that has passed; if none has, the decision still holds.

use std::sync::Arc;
use std::time::Duration;

use super::hash::stable_hash;
use crate::engine::time::Instant;
use crate::model::Invalid;

/// How long a lease holds and how often it is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    lease: Duration,
    renew_deadline: Duration,
    retry: Duration,
}

impl Timing {
    /// `lease`: how long others wait for a silent leader, in whole seconds as the API carries it.
    /// `renew_deadline`: how long a leader goes on without a successful renewal. `retry`: pause
    /// between tries, up to a fifth longer.
    ///
    /// # Errors
    ///
    /// When a leader could outlive its lease, or would not try twice before it is deposed.
    pub fn new(
        lease: Duration,
        renew_deadline: Duration,
        retry: Duration,
    ) -> Result<Self, Invalid> {
        if lease.is_zero() || lease.subsec_nanos() != 0 {
            return Err(Invalid::new(format!(
                "a lease duration of {lease:?} can't be written; use whole seconds, such as 15s"
            )));
        }
        if renew_deadline >= lease {
            return Err(Invalid::new(format!(
                "the renew deadline of {renew_deadline:?} must be below the lease duration of {lease:?}"
            )));
        }
        if retry.is_zero() || retry * 2 >= renew_deadline {
            return Err(Invalid::new(format!(
                "the retry period of {retry:?} must be below half of the renew deadline of {renew_deadline:?}"
            )));
        }
        Ok(Self { lease, renew_deadline, retry })
    }

    /// How long a request may take: what comes later is as good as failed. To be given to the API
    /// server too (`?timeout=`, whole seconds), so that it does not carry it out much later.
    #[must_use]
    pub fn request_timeout(self) -> Duration {
        self.renew_deadline * 3 / 10
    }
}

impl Default for Timing {
    /// client-go's: 15 s, 10 s, 2 s.
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

/// A Lease as it was read. Every field but the resourceVersion may be absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    /// `metadata.resourceVersion`, opaque.
    pub resource_version: Arc<str>,
    /// `spec.holderIdentity`; absent or empty: nobody's.
    pub holder: Option<Arc<str>>,
    /// `spec.leaseDurationSeconds`.
    pub duration: Option<Duration>,
    /// `spec.leaseTransitions`.
    pub transitions: Option<i32>,
    /// `spec.renewTime` as text, only to see it change.
    pub renewed: Option<Arc<str>>,
}

/// What the driver has to do. One at a time: the next one comes after its outcome was handed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read the Lease, as it is in etcd (no `resourceVersion=0`), then [`Elector::handle_read`].
    Read,
    /// Write it, then [`Elector::handle_written`].
    Write {
        /// What it is to say.
        lease: Statement,
        /// The resourceVersion that it must have; `None`: create it.
        precondition: Option<Arc<str>>,
    },
}

/// What a Lease is to say. `renewTime` is the driver's wall clock, and so is `acquireTime` where
/// `acquires` is set; everything else stays as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// `spec.holderIdentity`; empty in a release.
    pub holder: Arc<str>,
    /// `spec.leaseDurationSeconds`.
    pub duration: Duration,
    /// `spec.leaseTransitions`.
    pub transitions: i32,
    /// The holder is a new one.
    pub acquires: bool,
}

/// How a read ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// There it is.
    Found(Lease),
    /// There is none (404).
    Absent,
    /// No answer in time, or another error.
    Failed,
}

/// How a write ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// Carried out; the new resourceVersion.
    Written(Arc<str>),
    /// The precondition did not hold (409): another was faster.
    Conflict,
    /// Another error: not carried out.
    Failed,
    /// No answer in time, or a broken connection: carried out, or not, or not yet.
    TimedOut,
}

/// One contender for the Lease. It asks for one request at a time:
///
/// ```text
/// loop {
///     match elector.poll(now()) {
///         Some(Action::Read) => elector.handle_read(read().await, now()),
///         Some(Action::Write { .. }) => elector.handle_written(write().await, now()),
///         None if elector.is_finished() => break,
///         None => sleep until elector.poll_timeout(), or handle_shutdown when asked to stop,
///     }
/// }
/// ```
///
/// `now` is a clock that counts the time that a machine sleeps (`CLOCK_BOOTTIME`): one that stands
/// still meanwhile would keep a leader that has long been replaced.
#[derive(Clone, Debug)]
pub struct Elector {
    identity: Arc<str>,
    timing: Timing,
    seed: u64,
    turns: u64,
    next: Next,
    /// What was last read or written, and since when it has been so on our clock.
    seen: Option<(Lease, Instant)>,
    /// The Lease that `seen` shows was gone when last read.
    is_absent: bool,
    leader_until: Option<Instant>,
    /// A holder with our name may be us.
    has_written: bool,
    /// Shutting down, and no longer than until then.
    stops_at: Option<Instant>,
}

/// What comes next.
#[derive(Clone, Debug)]
enum Next {
    Read { at: Instant },
    Write { at: Instant },
    Reading { sent: Instant },
    Writing { sent: Instant, lease: Statement },
    Finished,
}

impl Elector {
    /// A contender that has read nothing yet. `identity` is not empty and is of this *process*,
    /// not only of its pod: a restarted one must not take the lease of its frozen predecessor for
    /// its own. `seed` spreads the pauses.
    #[must_use]
    pub fn new(identity: impl Into<Arc<str>>, timing: Timing, seed: u64) -> Self {
        Self {
            identity: identity.into(),
            timing,
            seed,
            turns: 0,
            next: Next::Read { at: Instant::ZERO },
            seen: None,
            is_absent: false,
            leader_until: None,
            has_written: false,
            stops_at: None,
        }
    }

    /// Whether this process leads at `now`.
    #[must_use]
    pub fn is_leader(&self, now: Instant) -> bool {
        self.leader_until.is_some_and(|until| now < until)
    }

    /// When its leadership ends if no further renewal succeeds; `None` while another leads.
    #[must_use]
    pub const fn leader_until(&self) -> Option<Instant> {
        self.leader_until
    }

    /// Who held the Lease when it was last seen, for logs and status.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        let (lease, _) = self.seen.as_ref().filter(|_| !self.is_absent)?;
        lease.holder.as_deref().filter(|holder| !holder.is_empty())
    }

    /// The next request, if it is time for one and none is under way.
    pub fn poll(&mut self, now: Instant) -> Option<Action> {
        self.leader_until = self.leader_until.filter(|until| now < *until);
        match self.next {
            Next::Read { .. } | Next::Write { .. } if self.stops_at.is_some_and(|at| at <= now) => {
                self.next = Next::Finished;
                None
            }
            Next::Read { at } if at <= now => {
                self.next = Next::Reading { sent: now };
                Some(Action::Read)
            }
            Next::Write { at } if at <= now => {
                let lease = self.statement();
                self.has_written = true;
                self.next = Next::Writing { sent: now, lease: lease.clone() };
                Some(Action::Write { lease, precondition: self.precondition() })
            }
            Next::Read { .. }
            | Next::Write { .. }
            | Next::Reading { .. }
            | Next::Writing { .. }
            | Next::Finished => None,
        }
    }

    /// When to poll again, or when leadership ends; `None` where only an outcome can change
    /// anything.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let next = match self.next {
            Next::Read { at } | Next::Write { at } => Some(at),
            Next::Reading { .. } | Next::Writing { .. } | Next::Finished => None,
        };
        next.into_iter().chain(self.leader_until).min()
    }

    /// A read has ended.
    pub fn handle_read(&mut self, outcome: ReadOutcome, now: Instant) {
        let Next::Reading { sent } = self.next else { return };
        let retry_at = self.retry_after(sent, now);
        match outcome {
            ReadOutcome::Failed => self.next = Next::Read { at: retry_at },
            ReadOutcome::Absent => {
                self.is_absent = true;
                self.decide(retry_at, now);
            }
            ReadOutcome::Found(lease) => {
                let is_known = self.seen.as_ref().is_some_and(|(known, _)| *known == lease);
                if !is_known || self.is_absent {
                    self.seen = Some((lease, now));
                }
                self.is_absent = false;
                self.decide(retry_at, now);
            }
        }
    }

    /// A write has ended.
    pub fn handle_written(&mut self, outcome: WriteOutcome, now: Instant) {
        let Next::Writing { sent, ref lease } = self.next else { return };
        let retry_at = sent + self.timing.retry;
        let WriteOutcome::Written(resource_version) = outcome else {
            self.next = Next::Read { at: self.retry_after(sent, now) };
            return;
        };
        let is_release = lease.holder.is_empty();
        let lease = Lease {
            resource_version,
            holder: Some(Arc::clone(&lease.holder)),
            duration: Some(lease.duration),
            transitions: Some(lease.transitions),
            renewed: None,
        };
        self.seen = Some((lease, now));
        self.is_absent = false;
        self.next = match self.stops_at {
            Some(_) if is_release => Next::Finished,
            Some(_) => Next::Write { at: now },
            None => {
                let until = sent + self.timing.renew_deadline;
                // An answer that comes later than that says nothing of now.
                self.leader_until = (now < until).then_some(until);
                if now < until { Next::Write { at: retry_at } } else { Next::Read { at: now } }
            }
        };
    }

    /// The process stops: it leads no longer, and gives the Lease back if it has it, so that the
    /// next one need not wait. Everything that was written as leader must have ended before. It
    /// tries for at most one renew deadline; see [`Self::is_finished`].
    pub fn handle_shutdown(&mut self, now: Instant) {
        self.leader_until = None;
        self.stops_at.get_or_insert(now + self.timing.renew_deadline);
        self.next = match self.next {
            Next::Write { .. } if self.is_mine() => Next::Write { at: now },
            // A write without an answer may have made it the holder.
            Next::Read { .. } if self.has_written => Next::Read { at: now },
            Next::Read { .. } | Next::Write { .. } => Next::Finished,
            // What is under way ends first.
            Next::Reading { .. } | Next::Writing { .. } | Next::Finished => return,
        };
    }

    /// Whether nothing is left to be done after a shutdown.
    #[must_use]
    pub const fn is_finished(&self) -> bool {
        matches!(self.next, Next::Finished)
    }

    /// What follows from what was just read.
    fn decide(&mut self, retry_at: Instant, now: Instant) {
        let is_mine = self.is_mine();
        if !is_mine {
            self.leader_until = None;
        }
        self.next = match (self.stops_at, self.others_until()) {
            (Some(_), _) if is_mine => Next::Write { at: now },
            (Some(_), _) => Next::Finished,
            (None, Some(until)) if now < until => Next::Read { at: retry_at.min(until) },
            (None, _) => Next::Write { at: now },
        };
    }

    /// Until when another may hold the Lease, also one that has since been deleted.
    fn others_until(&self) -> Option<Instant> {
        let (lease, since) = self.seen.as_ref()?;
        let is_free = lease.holder.as_ref().is_none_or(|holder| holder.is_empty());
        let duration = lease.duration.unwrap_or(self.timing.lease);
        (!is_free && !self.says_me(lease)).then(|| *since + duration)
    }

    fn is_mine(&self) -> bool {
        !self.is_absent && self.seen.as_ref().is_some_and(|(lease, _)| self.says_me(lease))
    }

    /// A namesake of a process that has never written is another.
    fn says_me(&self, lease: &Lease) -> bool {
        self.has_written && lease.holder.as_ref() == Some(&self.identity)
    }

    fn precondition(&self) -> Option<Arc<str>> {
        let (lease, _) = self.seen.as_ref().filter(|_| !self.is_absent)?;
        Some(Arc::clone(&lease.resource_version))
    }

    /// What the Lease is to say: that it is ours, or nobody's.
    fn statement(&self) -> Statement {
        let seen = self.seen.as_ref().map(|(lease, _)| lease);
        let transitions = seen.and_then(|lease| lease.transitions);
        if self.stops_at.is_some() {
            return Statement {
                holder: "".into(),
                duration: Duration::from_secs(1),
                transitions: transitions.unwrap_or(0),
                acquires: false,
            };
        }
        let acquires = !self.is_mine();
        let transitions = match seen {
            Some(_) if acquires => transitions.unwrap_or(0).saturating_add(1),
            Some(_) => transitions.unwrap_or(0),
            None => 0,
        };
        Statement {
            holder: Arc::clone(&self.identity),
            duration: self.timing.lease,
            transitions,
            acquires,
        }
    }

    /// When to try again after a request that was sent at `sent`: a retry period, with up to a
    /// fifth of jitter, later.
    fn retry_after(&mut self, sent: Instant, now: Instant) -> Instant {
        self.turns = self.turns.wrapping_add(1);
        let hash = stable_hash(&[&self.seed.to_be_bytes(), &self.turns.to_be_bytes()]);
        let share = u32::try_from(hash >> 44).unwrap_or(0);
        let jitter = self.timing.retry / 5 * share / (1 << 20);
        (sent + self.timing.retry + jitter).max(now)
    }
}
