//! The state machine of one virtual router on one machine (RFC 9568 §6.4): adverts and time in,
//! a role and adverts out.
//!
//! Only valid adverts of this very router may come in: whoever calls has parsed them and has
//! matched VRID, family, link and address list. Deadlines are kept as what they count from, so
//! that a change of priority or interval moves a deadline and never restarts it.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use super::packet::Advert;
use super::role::{Cause, Role};
use crate::engine::time::Instant;
use crate::model::{Interval, Preempt, Priority};

/// What the plan, the node's health and the link make of this router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The priority in force: base, health and takeover included.
    pub priority: Priority,
    /// The configured Advertisement_Interval.
    pub interval: Interval,
    /// Whether a lower Active router is replaced.
    pub preempt: Preempt,
    /// Whether priorities 1–31 mean "take it if you are healthy".
    pub health_band: bool,
    /// Silent until an Active router was heard or this is gone.
    pub joining: bool,
    /// The address that adverts leave from; it decides between equal priorities.
    pub source: IpAddr,
    /// Added to a delayed preemption, so that nodes do not move in step.
    pub jitter: Duration,
}

/// What the state machine asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send an advert with this priority; `None` is 0, "I am leaving".
    Advertise(Option<Priority>),
    /// The role is another one now.
    Became(Role, Cause),
    /// Somebody may have been told otherwise: announce the addresses again.
    Reannounce,
    /// No advert was sent for this long, more than the down interval of others.
    Stalled(Duration),
}

/// An Active router that was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Who.
    pub source: IpAddr,
    /// Its priority.
    pub priority: Priority,
    /// Its interval: the Active_Adver_Interval of RFC 9568 §6.1.
    pub interval: Interval,
    /// When it was last heard.
    pub at: Instant,
}

/// A lower router that goes on advertising although this one answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contest {
    /// Who.
    pub source: IpAddr,
    /// The priority it advertises.
    pub priority: Priority,
    /// How many of its adverts were answered, at most one each half interval.
    pub answered: u32,
    /// When the last one was.
    pub at: Instant,
}

impl Contest {
    /// One more losing advert. Copies of one advert count once, and a peer that was silent for
    /// ten intervals begins anew: it yielded.
    fn after(before: Option<Self>, heard: Heard) -> Self {
        let Heard { source, priority, interval, at } = heard;
        let since = before
            .filter(|contest| contest.source == source)
            .map(|contest| (contest, at.since(contest.at)));
        match since {
            Some((contest, since)) if since * 2 < interval.duration() => {
                Self { priority, ..contest }
            }
            Some((contest, since)) if since <= interval.duration() * 10 => {
                Self { source, priority, answered: contest.answered.saturating_add(1), at }
            }
            _ => Self { source, priority, answered: 1, at },
        }
    }
}

/// One virtual router on one machine.
#[derive(Clone, Debug)]
pub struct Router {
    settings: Settings,
    state: State,
    /// Routers that said priority 0, and until when nothing else of theirs counts: a straggler of
    /// the other path must not undo it.
    resigned: Vec<(IpAddr, Instant)>,
    /// The role is not taken before: this one said priority 0 and nobody would listen to it, or
    /// it could not serve.
    not_before: Instant,
    outputs: VecDeque<Output>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Initialize,
    Backup(Backup),
    Active(Active),
}

#[derive(Clone, Copy, Debug)]
struct Backup {
    /// What the down timer counts from.
    down: Down,
    /// The Active router, while there is one.
    heard: Option<Heard>,
    /// Active_Adver_Interval (RFC 9568 §6.1); the own interval until one was learned.
    learned: Option<Interval>,
    /// Since when this router was higher than the Active one without a break.
    higher_since: Option<Instant>,
    /// When an unhealthy Active router was first heard by this healthy one.
    relief_since: Option<Instant>,
}

/// What the down timer counts from.
#[derive(Clone, Copy, Debug)]
enum Down {
    /// Joining: it does not run.
    Never,
    /// Active_Down_Interval from here.
    Silence(Instant),
    /// Skew_Time from here: the Active router said priority 0.
    Resigned(IpAddr, Instant),
}

#[derive(Clone, Copy, Debug)]
struct Active {
    /// When the next advert is due.
    advert_at: Instant,
    /// When the last one was due and tried.
    tried_at: Instant,
    /// When the last one left, and the one before it.
    sent_at: Instant,
    sent_before: Instant,
    /// The interval that the last one carried: what Backups wait by.
    carried: Interval,
    /// The interval between adverts. After the plan made it longer, the old one is kept for
    /// `hurry` adverts: Backups that miss the news still wait by the old one.
    pace: Interval,
    hurry: u8,
    /// When the answer to a losing advert is due: a flood of them is not answered by one.
    reassert_at: Option<Instant>,
    contest: Option<Contest>,
}

/// Adverts leave in at most this many phases of an interval: routers share wake-ups.
const PHASES: u32 = 10;
/// Adverts at the old pace after the interval became longer.
const HURRY: u8 = 3;
/// Routers whose priority 0 is remembered.
const RESIGNED_KEPT: usize = 16;

impl Router {
    /// A router that takes no part yet.
    #[must_use]
    pub const fn new(settings: Settings) -> Self {
        Self {
            settings,
            state: State::Initialize,
            resigned: Vec::new(),
            not_before: Instant::ZERO,
            outputs: VecDeque::new(),
        }
    }

    /// The role now.
    #[must_use]
    pub const fn role(&self) -> Role {
        match self.state {
            State::Initialize => Role::Initialize,
            State::Backup(_) => Role::Backup,
            State::Active(_) => Role::Active,
        }
    }

    /// The settings in force.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The Active router that this Backup last heard.
    #[must_use]
    pub const fn heard(&self) -> Option<Heard> {
        match self.state {
            State::Backup(Backup { heard, .. }) => heard,
            State::Initialize | State::Active(_) => None,
        }
    }

    /// The lower router that does not yield to this Active one.
    #[must_use]
    pub const fn contest(&self) -> Option<Contest> {
        match self.state {
            State::Active(Active { contest, .. }) => contest,
            State::Initialize | State::Backup(_) => None,
        }
    }

    /// Whether this router is Active and its adverts have left lately: else nobody owes it
    /// anything.
    #[must_use]
    pub fn is_vouched_for(&self, now: Instant) -> bool {
        match self.state {
            State::Active(Active { sent_at, carried, .. }) => {
                now.since(sent_at) <= carried.duration() * 4
            }
            State::Initialize | State::Backup(_) => false,
        }
    }

    /// The next thing asked for.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Takes part from now on (RFC 9568 §6.4.1): an owner as Active, others as Backup.
    pub fn start(&mut self, settings: Settings, now: Instant) {
        self.settings = settings;
        if settings.priority == Priority::OWNER && self.not_before <= now {
            self.become_active(Cause::Owner, now);
        } else {
            let down = if settings.joining { Down::Never } else { Down::Silence(now) };
            self.become_backup(down, None, Cause::Started);
        }
    }

    /// New settings. A running down timer is moved, never restarted.
    pub fn configure(&mut self, settings: Settings, now: Instant) {
        let joined = self.settings.joining && !settings.joining;
        self.settings = settings;
        match &mut self.state {
            State::Initialize => {}
            State::Backup(backup) => {
                if joined && matches!(backup.down, Down::Never) {
                    backup.down = Down::Silence(now);
                }
                if settings.priority.in_health_band() {
                    backup.relief_since = None;
                }
                if backup.heard.is_some_and(|heard| heard.priority >= settings.priority) {
                    backup.higher_since = None;
                }
            }
            State::Active(active) if settings.interval > active.pace => {
                if active.hurry == 0 {
                    active.hurry = HURRY;
                }
            }
            State::Active(active) => {
                active.pace = settings.interval;
                active.hurry = 0;
                let next = next_phase(active.tried_at, active.pace);
                active.advert_at = active.advert_at.min(next);
            }
        }
    }

    /// The last advert did not leave this machine.
    pub fn unsent(&mut self) {
        if let State::Active(active) = &mut self.state {
            active.sent_at = active.sent_before;
        }
    }

    /// The machine slept: others may have taken over, and no queue tells. Listens first.
    pub fn wake(&mut self, now: Instant) {
        match &mut self.state {
            State::Initialize | State::Backup(Backup { down: Down::Never, .. }) => {}
            State::Backup(backup) => {
                *backup = Backup { learned: backup.learned, ..Backup::new(Down::Silence(now)) };
            }
            State::Active(_) => self.become_backup(Down::Silence(now), None, Cause::Slept),
        }
    }

    /// Becomes Active now: the only candidate after its probe, or the plan's wish. Not within a
    /// down interval of its own priority 0.
    pub fn take_over(&mut self, cause: Cause, now: Instant) {
        if matches!(self.state, State::Backup(_)) && self.not_before <= now {
            self.become_active(cause, now);
        }
    }

    /// Becomes Active now if [`Self::preempt_due`] has passed.
    pub fn preempt(&mut self, now: Instant) {
        let heard = self.heard();
        if let (Some(due), Some(heard)) = (self.preempt_due(), heard)
            && due <= now
        {
            self.become_active(Cause::Preempts { from: heard.source }, now);
        }
    }

    /// Takes no part from now on (RFC 9568 §6.4.2, §6.4.3). An Active router that can still send
    /// says so (`farewell`).
    pub fn stop(&mut self, cause: Cause, farewell: bool, now: Instant) {
        let role = self.role();
        if role == Role::Active && farewell {
            self.resign(now);
        }
        self.state = State::Initialize;
        if role != Role::Initialize {
            self.outputs.push_back(Output::Became(Role::Initialize, cause));
        }
    }

    /// Gives the role away and does not take it back for `hold` and a down interval, whatever
    /// speaks for it; `farewell` as in [`Self::stop`].
    pub fn step_back(&mut self, cause: Cause, farewell: bool, hold: Duration, now: Instant) {
        if !matches!(self.state, State::Active(_)) {
            return;
        }
        if farewell {
            self.resign(now);
        }
        let down = self.settings.interval.down(self.settings.priority);
        self.not_before = self.not_before.max(now + hold + down);
        self.become_backup(Down::Silence(now), None, cause);
    }

    /// Says priority 0 once more, unless the role is back: the last address was let go.
    pub fn part(&mut self, now: Instant) {
        if !matches!(self.state, State::Active(_)) {
            self.resign(now);
        }
    }

    /// Priority 0. It is final for its sender for a down interval, so the sender keeps to it too.
    fn resign(&mut self, now: Instant) {
        let down = self.settings.interval.down(self.settings.priority);
        self.not_before = self.not_before.max(now + down);
        self.outputs.push_back(Output::Advertise(None));
    }

    /// A valid advert of this router from somebody else. What it asks for at once is due in
    /// [`Self::handle_timeout`].
    pub fn handle_advert(&mut self, advert: &Advert, source: IpAddr, received_at: Instant) {
        self.resigned.retain(|(_, until)| *until > received_at);
        let Some(priority) = advert.priority else {
            return self.handle_resignation(source, received_at);
        };
        if self.resigned.iter().any(|(resigned, _)| *resigned == source) {
            return;
        }
        let heard = Heard { source, priority, interval: advert.interval, at: received_at };
        match self.state {
            State::Initialize => {}
            State::Backup(backup) => self.state = State::Backup(self.backup_heard(backup, heard)),
            State::Active(active) => self.active_heard(active, heard),
        }
    }

    /// Priority 0 (RFC 9568 §6.4.2, §6.4.3).
    fn handle_resignation(&mut self, source: IpAddr, received_at: Instant) {
        // Less than any router's down interval: its sender may come back after one.
        let final_until = received_at + self.active_interval().duration() * 3;
        self.resigned.retain(|(resigned, _)| *resigned != source);
        if self.resigned.len() < RESIGNED_KEPT {
            self.resigned.push((source, final_until));
        }
        match &mut self.state {
            State::Initialize => {}
            State::Backup(backup) => {
                // Only the Active router can give the role away: the second priority 0 of one
                // that has left must not wake the Backups of its successor.
                let from_active = backup.heard.is_none_or(|heard| heard.source == source);
                let known = matches!(backup.down, Down::Resigned(by, _) if by == source);
                if from_active && !known && !matches!(backup.down, Down::Never) {
                    let learned = backup.learned;
                    *backup = Backup::new(Down::Resigned(source, received_at));
                    backup.learned = learned;
                }
            }
            State::Active(active) => {
                let at = received_at.max(active.tried_at + active.pause());
                active.advert_at = next_phase(*active.reassert_at.get_or_insert(at), active.pace);
                self.outputs.push_back(Output::Reannounce);
            }
        }
    }

    /// RFC 9568 §6.4.2: an advert heard as Backup.
    fn backup_heard(&self, mut backup: Backup, heard: Heard) -> Backup {
        let own = self.settings.priority;
        let is_lower = heard.priority < own;
        let preempts_by_timer = is_lower
            && (self.settings.preempt == Preempt::Now || own == Priority::OWNER)
            && !matches!(backup.down, Down::Never);
        if backup.heard.is_some_and(|before| before.at > heard.at) {
            return backup;
        }
        backup.heard = Some(heard);
        if !preempts_by_timer {
            backup.down = Down::Silence(heard.at);
            backup.learned = Some(heard.interval);
        }
        backup.higher_since = is_lower.then(|| backup.higher_since.unwrap_or(heard.at));
        let relieves =
            self.settings.health_band && heard.priority.in_health_band() && !own.in_health_band();
        backup.relief_since = relieves.then(|| backup.relief_since.unwrap_or(heard.at));
        backup
    }

    /// RFC 9568 §6.4.3: an advert heard as Active.
    fn active_heard(&mut self, mut active: Active, heard: Heard) {
        let own = (self.settings.priority, self.settings.source);
        let silent_for = heard.at.since(active.sent_at);
        if silent_for >= active.carried.duration() * 3 {
            // By then every Backup had the right to take over: whatever the priorities, the one
            // that did is Active, and this one learns of it late.
            let cause = Cause::Replaced { by: heard.source };
            return self.become_backup(Down::Silence(heard.at), Some(heard), cause);
        }
        if (heard.priority, heard.source) > own {
            let cause = Cause::Outranked { by: heard.source, priority: heard.priority };
            return self.become_backup(Down::Silence(heard.at), Some(heard), cause);
        }
        active.contest = Some(Contest::after(active.contest, heard));
        // "Discard and send an ADVERTISEMENT immediately"; the advert timer runs on. It leaves
        // from the timeout, which is at once: after a stall the rest of the queue may say that
        // this router is Active no longer.
        let reassert_at = heard.at.max(active.tried_at + active.pause());
        active.reassert_at.get_or_insert(reassert_at);
        self.state = State::Active(active);
        self.outputs.push_back(Output::Reannounce);
    }

    /// A deadline of [`Self::poll_timeout`] has passed. All adverts received until `now` must
    /// have been handled.
    pub fn handle_timeout(&mut self, now: Instant) {
        match self.state {
            State::Initialize => {}
            State::Backup(backup) => {
                if self.down_at(&backup).is_some_and(|at| at <= now) {
                    let alive = backup
                        .heard
                        .filter(|heard| now.since(heard.at) < heard.interval.duration() * 3);
                    let cause = match (backup.down, backup.relief_since, alive) {
                        (Down::Resigned(by, _), _, _) => Cause::Resigned { by },
                        (_, Some(_), Some(heard)) => Cause::Relieves { from: heard.source },
                        (_, None, Some(heard)) => Cause::Preempts { from: heard.source },
                        (_, _, None) => Cause::Silence,
                    };
                    self.become_active(cause, now);
                }
            }
            State::Active(active) => self.advertise_if_due(active, now),
        }
    }

    fn advertise_if_due(&mut self, mut active: Active, now: Instant) {
        let is_due = active.advert_at <= now;
        if !is_due && active.reassert_at.is_none_or(|at| at > now) {
            return;
        }
        let gap = now.since(active.tried_at);
        if gap > active.carried.duration() * 3 {
            self.outputs.push_back(Output::Stalled(gap));
            self.outputs.push_back(Output::Reannounce);
        }
        active.reassert_at = None;
        active.tried_at = now;
        active.sent_before = active.sent_at;
        active.sent_at = now;
        active.carried = self.settings.interval;
        if is_due {
            active.hurry = active.hurry.saturating_sub(1);
            if active.hurry == 0 {
                active.pace = self.settings.interval;
            }
            // From deadline to deadline, so that lateness does not add up (no drift).
            active.advert_at = active.advert_at + active.pace.duration();
            if active.advert_at <= now {
                active.advert_at = next_phase(now, active.pace);
            }
        }
        self.state = State::Active(active);
        self.outputs.push_back(Output::Advertise(Some(self.settings.priority)));
    }

    /// When to call [`Self::handle_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        match &self.state {
            State::Initialize => None,
            State::Backup(backup) => self.down_at(backup),
            State::Active(active) => {
                Some(active.reassert_at.map_or(active.advert_at, |at| at.min(active.advert_at)))
            }
        }
    }

    /// When a delayed preemption is due; the caller paces them and calls [`Self::preempt`].
    #[must_use]
    pub fn preempt_due(&self) -> Option<Instant> {
        let State::Backup(backup) = &self.state else {
            return None;
        };
        match self.settings.preempt {
            Preempt::After(delay) => {
                Some((backup.higher_since? + delay + self.settings.jitter).max(self.not_before))
            }
            Preempt::Now | Preempt::Never => None,
        }
    }

    /// When the down timer fires, or an unhealthy Active router is relieved if that is earlier.
    fn down_at(&self, backup: &Backup) -> Option<Instant> {
        let interval = self.active_interval();
        let down = match backup.down {
            Down::Never => None,
            Down::Silence(from) => Some(from + interval.down(self.settings.priority)),
            Down::Resigned(_, from) => Some(from + interval.skew(self.settings.priority)),
        };
        let relief = backup.relief_since.map(|from| from + interval.skew(self.settings.priority));
        let first = match (down, relief) {
            (Some(down), Some(relief)) => Some(down.min(relief)),
            (down, relief) => down.or(relief),
        };
        first.map(|at| at.max(self.not_before))
    }

    /// Active_Adver_Interval: the learned one, at first the own (RFC 9568 §6.1).
    const fn active_interval(&self) -> Interval {
        match self.state {
            State::Backup(Backup { learned: Some(learned), .. }) => learned,
            State::Initialize | State::Backup(_) | State::Active(_) => self.settings.interval,
        }
    }

    fn become_active(&mut self, cause: Cause, now: Instant) {
        self.outputs.push_back(Output::Advertise(Some(self.settings.priority)));
        self.outputs.push_back(Output::Became(Role::Active, cause));
        let interval = self.settings.interval;
        self.state = State::Active(Active {
            advert_at: next_phase(now, interval),
            tried_at: now,
            sent_at: now,
            sent_before: now,
            carried: interval,
            pace: interval,
            hurry: 0,
            reassert_at: None,
            contest: None,
        });
    }

    fn become_backup(&mut self, down: Down, heard: Option<Heard>, cause: Cause) {
        self.outputs.push_back(Output::Became(Role::Backup, cause));
        let backup = Backup::new(down);
        self.state = State::Backup(match heard {
            Some(heard) => self.backup_heard(backup, heard),
            None => backup,
        });
    }
}

impl Backup {
    const fn new(down: Down) -> Self {
        Self { down, heard: None, learned: None, higher_since: None, relief_since: None }
    }
}

impl Active {
    /// Between an advert and an answer to others, at least.
    fn pause(&self) -> Duration {
        self.pace.duration() / PHASES
    }
}

/// The next advert after one sent at `sent`: an interval later, or up to a phase earlier, so that
/// all routers of an interval leave in the same few phases.
fn next_phase(sent: Instant, interval: Interval) -> Instant {
    (sent + interval.duration()).floor_to(interval.duration() / PHASES)
}

#[cfg(test)]
mod tests;
