//! `barevip demo`: a LAN of three machines inside this one. Machines die and come back, and a
//! client that asks their address a thousand times a second sees who answers and what is lost.

mod curtain;
mod scene;
mod stage;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use anyhow::bail;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Interval, MissedTickBehavior, interval};

use self::curtain::Curtain;
use self::scene::{Act, ActResult, Allowed, Machine, Scene, strip};
use self::stage::{ADDRESS, Stage};
use super::runtime::runtime;
use crate::engine::time::Instant;
use crate::engine::vrrp::role::Role;
use crate::io::clock::now;
use crate::io::lab::privilege;

/// How often the stage is looked at.
const FRAME: Duration = Duration::from_millis(50);

/// By then an act is settled, or has failed.
const PATIENCE: Duration = Duration::from_secs(6);

/// How long a settled act is shown. It is longer than the second after which an unanswered
/// question counts as lost, so that every act knows its losses.
const APPLAUSE: Duration = Duration::from_millis(1300);

/// Starting three processes takes its time too.
const ELECTION: Allowed = Allowed::Silence(Duration::from_secs(2));

/// Three intervals and the skew are 310 ms, the rest is for a busy machine.
const TAKEOVER: Allowed = Allowed::Silence(Duration::from_millis(500));

/// Two machines that both believe to be Active hear each other within an interval.
const REUNION: Allowed = Allowed::Silence(Duration::from_millis(200));

/// Shows failovers on a LAN of network namespaces.
///
/// # Errors
/// Where namespaces are not allowed, with the setting that would allow them; where an act cost
/// more than it may; when interrupted.
pub fn run() -> anyhow::Result<()> {
    // Only a process of one thread may: before anything else.
    privilege::become_root_of_a_user_namespace()?;
    let runtime = runtime()?;
    let is_terminal = io::stdout().is_terminal();
    let mut out = io::stdout().lock();
    runtime.block_on(async {
        let mut stage = Stage::new()?;
        let mut stop = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()]
            .map(signal)
            .into_iter()
            .collect::<io::Result<Vec<_>>>()?;
        let interrupted = std::future::poll_fn(|context| {
            let ready = stop.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
            if ready { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        });
        let play = Play::new(&mut stage, Curtain::open(&mut out, is_terminal)?);
        tokio::select! {
            biased;
            () = interrupted => bail!("interrupted; nothing of the demo is left"),
            result = play.perform() => result,
        }
    })
}

/// A performance.
struct Play<'a> {
    stage: &'a mut Stage,
    curtain: Curtain<'a>,
    scene: Scene,
    frames: Interval,
    /// Since when losses count: before, there was nobody to answer.
    served_since: Option<Instant>,
}

impl<'a> Play<'a> {
    fn new(stage: &'a mut Stage, curtain: Curtain<'a>) -> Self {
        let mut frames = interval(FRAME);
        frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let scene = Scene {
            address: ADDRESS,
            machines: Vec::new(),
            strip: Vec::new(),
            asked: 0,
            lost: 0,
            acts: Vec::new(),
        };
        Self { stage, curtain, scene, frames, served_since: None }
    }

    async fn perform(mut self) -> anyhow::Result<()> {
        self.acts().await?;
        let failed = self.scene.acts.iter().filter(|act| act.kept() != Some(true)).count();
        self.curtain.close(&self.scene)?;
        if failed > 0 {
            bail!(
                "{failed} act(s) cost more than allowed; a busy machine may be the reason. The \
                 daemons said last:\n{}",
                self.stage.last_words()
            );
        }
        Ok(())
    }

    async fn acts(&mut self) -> anyhow::Result<()> {
        let title = "three machines elect one";
        let Some(first) = self.act(title.to_owned(), ELECTION, Stage::start).await? else {
            return Ok(());
        };
        let title = format!("the cable of {first} breaks");
        self.act(title, TAKEOVER, |stage| stage.cut(first)).await?;
        let title = format!("the cable of {first} is mended");
        let Some(second) = self.act(title, REUNION, |stage| stage.mend(first)).await? else {
            return Ok(());
        };
        let title = format!("{second} is stopped (SIGTERM)");
        let handover = self.act(title, Allowed::NoLoss, |stage| stage.stop(second)).await?;
        let Some(third) = handover else { return Ok(()) };
        let title = format!("{third} is killed (SIGKILL)");
        self.act(title, TAKEOVER, |stage| stage.kill(third)).await?;
        Ok(())
    }

    /// Changes something and watches until one machine serves again; returns which, `None` if
    /// that takes too long.
    async fn act(
        &mut self,
        title: String,
        allowed: Allowed,
        change: impl FnOnce(&mut Stage) -> anyhow::Result<()>,
    ) -> anyhow::Result<Option<&'static str>> {
        self.scene.acts.push(Act { title, allowed, result: None });
        let begin = now();
        change(self.stage)?;
        let mut settled = None;
        loop {
            self.frame().await?;
            let sole = self.sole_server(begin);
            settled = sole
                .map(|name| settled.filter(|(known, _)| *known == name).unwrap_or((name, now())));
            match settled {
                Some((_, since)) if now().since(since) >= APPLAUSE => break,
                None if now().since(begin) >= PATIENCE => break,
                _ => {}
            }
        }
        let result = self.result(begin, settled);
        if let Some(act) = self.scene.acts.last_mut() {
            act.result = Some(result);
        }
        Ok(settled.map(|(name, _)| name))
    }

    /// Looks, and shows what there is to see.
    async fn frame(&mut self) -> anyhow::Result<()> {
        self.frames.tick().await;
        self.scene.machines = self.stage.look().await?;
        let now = now();
        let served_since = self.served_since;
        let (strip, asked, lost) = self.stage.probe.look(|record| {
            let since = served_since.unwrap_or(now);
            let served = since..now;
            let strip = strip(record, now, Stage::number);
            (strip, record.questions(&served).len(), record.lost(&served, now))
        });
        (self.scene.strip, self.scene.asked, self.scene.lost) = (strip, asked, lost);
        self.curtain.show(&self.scene)
    }

    /// The one machine that serves: it says so, no other one does, only its kernel has the
    /// address, and the last answer came from it. What is cut off does not count.
    fn sole_server(&self, since: Instant) -> Option<&'static str> {
        let serves = |machine: &Machine| machine.role == Some(Role::Active) || machine.holds;
        let connected = self.scene.machines.iter().filter(|machine| !machine.is_cut_off());
        let mut servers = connected.filter(|machine| serves(machine));
        let (server, None) = (servers.next()?, servers.next()) else { return None };
        let is_whole = server.takes_part() && server.role == Some(Role::Active) && server.holds;
        let answers = self.stage.probe.look(|record| {
            record
                .last_answer()
                .is_some_and(|answer| answer.at > since && record.name(answer.node) == server.name)
        });
        (is_whole && answers).then_some(server.name)
    }

    /// What an act cost that began at `begin` and has one machine serving since some time.
    fn result(&mut self, begin: Instant, settled: Option<(&'static str, Instant)>) -> ActResult {
        let end = now();
        let until = settled.map_or(end, |(_, since)| since);
        let successor = settled.map(|(name, _)| name);
        self.stage.probe.look(|record| match self.served_since {
            // The election: from nothing to the first answer.
            None => {
                let first = record.reigns(&(Instant::ZERO..end)).first().map(|reign| reign.first);
                self.served_since = first;
                ActResult { successor, silence: first.unwrap_or(end).since(begin), lost: None }
            }
            // The last answer before the silence may have been asked a moment before the act.
            Some(_) => ActResult {
                successor,
                silence: record.longest_gap(&(begin - FRAME..until)),
                lost: Some(record.lost(&(begin - FRAME..until), end)),
            },
        })
    }
}
