//! A model of the LAN between the machines: latency, jitter, loss, duplicates and cuts, each for
//! multicast and for unicast on its own. Each path keeps its order; the two paths do not.

use super::random::Random;
use super::time::{Nanos, SECOND, US};

/// The way that a packet takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// Adverts to the group, ARP and NA to all.
    Multicast,
    /// Adverts to one peer.
    Unicast,
}

#[derive(Clone, Debug)]
pub(crate) struct Wire {
    machines: usize,
    /// What every packet takes, at least.
    pub(crate) latency: [Nanos; 2],
    /// What it takes more, at most.
    pub(crate) jitter: Nanos,
    /// Packets lost, of a thousand.
    pub(crate) loss: u64,
    /// Packets that arrive twice, of a thousand.
    pub(crate) duplicates: u64,
    /// Cuts in force, for each (path, from, to).
    cuts: Vec<u8>,
    /// When the last packet arrived, for each (path, from, to).
    last: Vec<Nanos>,
    /// Until when one machine does not know another one's MAC address, for each (from, to).
    unknown_until: Vec<Nanos>,
}

/// A kernel asks so often for a neighbour that did not answer.
const ASKS_EVERY: Nanos = SECOND;

impl Wire {
    pub(crate) fn new(machines: usize) -> Self {
        let ways = 2 * machines * machines;
        Self {
            machines,
            latency: [50 * US; 2],
            jitter: 0,
            loss: 0,
            duplicates: 0,
            cuts: vec![0; ways],
            last: vec![0; ways],
            unknown_until: vec![0; machines * machines],
        }
    }

    /// The longest that a packet takes.
    pub(crate) fn worst(&self) -> Nanos {
        self.latency[0].max(self.latency[1]) + self.jitter
    }

    /// When a packet sent now arrives; twice where it is duplicated, never where it is lost.
    pub(crate) fn arrivals(
        &mut self,
        path: Path,
        from: usize,
        to: usize,
        now: Nanos,
        random: &mut Random,
    ) -> [Option<Nanos>; 2] {
        let way = self.way(path, from, to);
        let is_unknown =
            path == Path::Unicast && self.unknown_until[from * self.machines + to] > now;
        if is_unknown || self.cuts[way] > 0 || random.permille(self.loss) {
            return [None, None];
        }
        let first = self.arrival(path, way, now, random);
        let second = random.permille(self.duplicates).then(|| self.arrival(path, way, now, random));
        [Some(first), second]
    }

    fn arrival(&mut self, path: Path, way: usize, now: Nanos, random: &mut Random) -> Nanos {
        let delay = self.latency[path as usize] + random.below(self.jitter + 1);
        let at = (now + delay).max(self.last[way]);
        self.last[way] = at;
        at
    }

    /// A machine is back that did not answer its neighbours: each asks again in its own time.
    pub(crate) fn forget(&mut self, machine: usize, now: Nanos) {
        for from in 0..self.machines {
            self.unknown_until[from * self.machines + machine] = now + ASKS_EVERY;
        }
    }

    /// A machine was told another one's MAC address.
    pub(crate) fn learn(&mut self, machine: usize, other: usize) {
        self.unknown_until[machine * self.machines + other] = 0;
    }

    /// Cuts the way from one machine to another; cuts add up.
    pub(crate) fn cut(&mut self, path: Path, from: usize, to: usize) {
        let way = self.way(path, from, to);
        self.cuts[way] += 1;
    }

    /// Takes back one cut.
    pub(crate) fn heal(&mut self, path: Path, from: usize, to: usize) {
        let way = self.way(path, from, to);
        self.cuts[way] -= 1;
    }

    fn way(&self, path: Path, from: usize, to: usize) -> usize {
        (path as usize * self.machines + from) * self.machines + to
    }
}
