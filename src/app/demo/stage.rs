//! A LAN of three machines, a real daemon on each, and a client that asks their address.

use std::fs::{self, DirBuilder, File};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use nix::ifaddrs::getifaddrs;
use nix::sys::signal::Signal;

use super::scene::{Colour, Fate, Machine};
use crate::app::status::State;
use crate::engine::vrrp::role::Role;
use crate::io::http;
use crate::io::lab::lan::{Host, Lan};
use crate::io::lab::namespace::Namespace;
use crate::io::lab::probe::{Probe, Responder};
use crate::io::lab::process::Process;
use crate::model::Priority;

/// The address that the machines share.
pub(super) const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 50));

/// Machines with different initials, which the strip shows.
const MACHINES: [(&str, Colour); 3] =
    [("amber", Colour::Amber), ("blue", Colour::Blue), ("crimson", Colour::Crimson)];

/// 100 ms: a failover in about 0.3 s.
const INTERVAL: &str = "100ms";

/// Pace of the client.
const PERIOD: Duration = Duration::from_millis(1);

/// Lines of each daemon's log that tell why something failed.
const LAST_WORDS: usize = 6;

/// The stage. What is on it goes with it: first the daemons, last their files.
pub(super) struct Stage {
    daemons: Vec<Daemon>,
    _responders: Vec<Responder>,
    pub(super) probe: Probe,
    lan: Lan,
    _directory: Directory,
}

/// A machine's daemon.
struct Daemon {
    name: &'static str,
    colour: Colour,
    priority: Priority,
    fate: Fate,
    config: PathBuf,
    socket: PathBuf,
    log: PathBuf,
    process: Option<Process>,
}

impl Stage {
    /// Everything but the daemons at work.
    pub(super) fn new() -> anyhow::Result<Self> {
        let lan = Lan::new(&MACHINES.map(|(name, _)| name))?;
        let directory = Directory::new()?;
        let daemons = (0..)
            .zip(MACHINES)
            .map(|(rank, (name, colour))| Daemon::new(rank, name, colour, &directory.0))
            .collect::<anyhow::Result<_>>()?;
        let responders = lan.nodes().iter().map(Responder::start).collect::<anyhow::Result<_>>()?;
        let probe = Probe::start(lan.client(), ADDRESS, PERIOD)?;
        Ok(Self { daemons, _responders: responders, probe, lan, _directory: directory })
    }

    /// The place of the machine of this name.
    pub(super) fn number(name: &str) -> Option<usize> {
        MACHINES.iter().position(|(known, _)| *known == name)
    }

    /// Starts all daemons.
    pub(super) fn start(&mut self) -> anyhow::Result<()> {
        for (daemon, host) in self.daemons.iter_mut().zip(self.lan.nodes()) {
            daemon.start(host.namespace())?;
        }
        Ok(())
    }

    /// Breaks the network between the switch and a machine.
    pub(super) fn cut(&mut self, name: &str) -> anyhow::Result<()> {
        self.daemon(name)?.fate = Fate::CutOff;
        self.lan.cut(self.host(name)?)
    }

    /// Repairs it.
    pub(super) fn mend(&mut self, name: &str) -> anyhow::Result<()> {
        self.daemon(name)?.fate = Fate::Running;
        self.lan.mend(self.host(name)?)
    }

    /// Asks a machine's daemon to stop.
    pub(super) fn stop(&mut self, name: &str) -> anyhow::Result<()> {
        self.end(name, Fate::Stopped, Signal::SIGTERM)
    }

    /// Kills a machine's daemon.
    pub(super) fn kill(&mut self, name: &str) -> anyhow::Result<()> {
        self.end(name, Fate::Killed, Signal::SIGKILL)
    }

    fn end(&mut self, name: &str, fate: Fate, signal: Signal) -> anyhow::Result<()> {
        let daemon = self.daemon(name)?;
        daemon.fate = fate;
        daemon.process.as_mut().map_or(Ok(()), |process| process.signal(signal))
    }

    fn daemon(&mut self, name: &str) -> anyhow::Result<&mut Daemon> {
        let found = self.daemons.iter_mut().find(|daemon| daemon.name == name);
        found.with_context(|| format!("there is no machine {name}"))
    }

    fn host(&self, name: &str) -> anyhow::Result<&Host> {
        let found = self.lan.nodes().iter().find(|host| host.name() == name);
        found.with_context(|| format!("there is no machine {name}"))
    }

    /// What all machines are now.
    pub(super) async fn look(&mut self) -> anyhow::Result<Vec<Machine>> {
        let mut machines = Vec::with_capacity(self.daemons.len());
        for (daemon, host) in self.daemons.iter_mut().zip(self.lan.nodes()) {
            daemon.check()?;
            machines.push(Machine {
                name: daemon.name,
                colour: daemon.colour,
                address: host.ipv4().into(),
                priority: daemon.priority,
                fate: daemon.fate,
                role: daemon.role().await,
                holds: holds(host.namespace(), ADDRESS)?,
            });
        }
        Ok(machines)
    }

    /// The ends of the daemons' logs.
    pub(super) fn last_words(&self) -> String {
        let ends = self.daemons.iter().map(|daemon| {
            let log = fs::read_to_string(&daemon.log).unwrap_or_default();
            let lines: Vec<_> = log.lines().rev().take(LAST_WORDS).collect();
            let lines: String = lines.iter().rev().map(|line| format!("    {line}\n")).collect();
            format!("  {}\n{lines}", daemon.name)
        });
        ends.collect()
    }
}

impl Daemon {
    fn new(rank: u8, name: &'static str, colour: Colour, directory: &Path) -> anyhow::Result<Self> {
        let priority = Priority::for_rank(rank).unwrap_or_default();
        let file = |extension: &str| directory.join(name).with_extension(extension);
        let daemon = Self {
            name,
            colour,
            priority,
            fate: Fate::Running,
            config: file("toml"),
            socket: file("sock"),
            log: file("log"),
            process: None,
        };
        let config = format!(
            "[[virtual_router]]\nvrid = 50\naddresses = [\"{ADDRESS}\"]\npriority = {priority}\n\
             interval = \"{INTERVAL}\"\npreempt = \"never\"\n"
        );
        fs::write(&daemon.config, config)
            .with_context(|| format!("cannot write {}", daemon.config.display()))?;
        Ok(daemon)
    }

    fn start(&mut self, namespace: &Namespace) -> anyhow::Result<()> {
        let log = File::create(&self.log)
            .with_context(|| format!("cannot write {}", self.log.display()))?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("run").arg("--config").arg(&self.config).arg("--socket").arg(&self.socket);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        // Ctrl-C is for the demo: what becomes of its daemons is its business.
        command.process_group(0);
        self.process = Some(namespace.spawn(command)?);
        Ok(())
    }

    /// A daemon that has ended by itself is a failure.
    fn check(&mut self) -> anyhow::Result<()> {
        let Some(process) = &mut self.process else { return Ok(()) };
        let ended = process.ended()?;
        if let (Fate::Running | Fate::CutOff, Some(status)) = (self.fate, ended) {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            anyhow::bail!("the daemon of {} ended ({status}):\n{log}", self.name);
        }
        Ok(())
    }

    /// What the daemon says that it is.
    async fn role(&self) -> Option<Role> {
        let answer = http::get(&self.socket, "/state").await.ok()?;
        let state: State = serde_json::from_slice(&answer).ok()?;
        state.routers.first().map(|router| router.role)
    }
}

/// Whether the kernel of a namespace has an address.
fn holds(namespace: &Namespace, address: IpAddr) -> anyhow::Result<bool> {
    namespace.run(|| {
        Ok(getifaddrs()?.filter_map(|link| link.address).any(|found| match address {
            IpAddr::V4(v4) => found.as_sockaddr_in().is_some_and(|found| found.ip() == v4),
            IpAddr::V6(v6) => found.as_sockaddr_in6().is_some_and(|found| found.ip() == v6),
        }))
    })
}

/// A directory of our own that goes with everything in it.
struct Directory(PathBuf);

impl Directory {
    fn new() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("barevip-demo-{}", std::process::id()));
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("cannot make the directory {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}
