//! The whole cluster as the controller sees it: what the watches show, overlaid with its own
//! writes that they have not shown yet. Everything that `engine::cluster` decides, it decides
//! from one of these.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use ipnet::IpNet;

use crate::model::{AddressRange, Candidate, Family, Interval, Labels, Pool, Preempt, Vrid};

/// Uid of an object; a re-created namesake has another.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(pub Arc<str>);

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Arc<str>> for Uid {
    fn from(text: Arc<str>) -> Self {
        Self(text)
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

/// Wall-clock time in seconds since 1970, as Kubernetes objects carry it. Leaders' clocks differ a
/// little; nothing but cool-downs and orders by age hangs on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// So many seconds later.
    #[must_use]
    pub const fn after(self, seconds: i64) -> Self {
        Self(self.0.saturating_add(seconds))
    }
}

/// Namespace and name of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceKey {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// All that is decided from.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// Every Service, of any type: others' externalIPs are respected.
    pub services: BTreeMap<Uid, Service>,
    /// Pools by name.
    pub pools: BTreeMap<Arc<str>, PoolObject>,
    /// `VirtualRouter`s by name: where the claims are.
    pub routers: BTreeMap<Arc<str>, RouterObject>,
    /// Nodes by name, with what their agents report.
    pub nodes: BTreeMap<Arc<str>, Node>,
    /// Labels of namespaces.
    pub namespaces: BTreeMap<Arc<str>, Labels>,
    /// Ranges that no pool may touch, and whose they are ("pods of node a").
    pub taken: Vec<(AddressRange, String)>,
    /// Claims of this leader that were never published: (address, Service). Such an address needs
    /// no rest.
    pub unpublished: BTreeSet<(IpAddr, Uid)>,
    /// What keeps users from the pools' addresses; none: nobody cares.
    pub protection: Option<Protection>,
    /// What this leader's writes that are not answered yet will make routers say. A Service keeps
    /// what is being claimed for it, whoever comes meanwhile.
    pub under_way: BTreeMap<Arc<str>, RouterSpec>,
    /// What applies to the whole cluster.
    pub settings: Settings,
    /// What the last round remembers.
    pub memory: Memory,
}

/// What no object tells: since when something is so. Every round gives it back renewed, and
/// whoever owns the world keeps it. A new leader begins with none: it waits anew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Since when a node is preferred by at least two routers more than another one.
    pub uneven_since: Option<Timestamp>,
    /// When a router was given another preferred node for that.
    pub evened_at: Option<Timestamp>,
    /// Routers that somebody has moved: they are evened out last.
    pub wished: BTreeSet<Arc<str>>,
    /// Since when a router's Active has not taken up what it states.
    pub behind_since: BTreeMap<Arc<str>, Timestamp>,
    /// Who was asked last to take a router over, and when.
    pub asked: BTreeMap<Arc<str>, (Arc<str>, Timestamp)>,
    /// Since when a router's candidates hear a stranger on its VRID.
    pub disturbed_since: BTreeMap<Arc<str>, Timestamp>,
    /// When a router got another VRID for that.
    pub evaded_at: BTreeMap<Arc<str>, Timestamp>,
    /// The VRIDs that routers had when the world was looked at last.
    pub vrids: BTreeMap<(Family, Vrid), Arc<str>>,
    /// VRIDs that are free again: whose they were, and since when.
    pub freed: BTreeMap<(Family, Vrid), (Arc<str>, Timestamp)>,
}

/// What stands between users and the pools' addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    /// What the ConfigMap shows, merged and sorted; none: there is no ConfigMap.
    pub ranges: Option<Vec<IpNet>>,
    /// Why the ConfigMap can't be written, if it is so.
    pub refused: Option<String>,
    /// The policy.
    pub policy: Guard,
    /// Its binding, without which it does nothing.
    pub binding: Guard,
}

/// How an object of the policy is found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Guard {
    /// Not there.
    #[default]
    Missing,
    /// As it should be.
    Stands,
    /// There, and useless: why, as the end of a sentence that begins with its name.
    Useless(String),
    /// Nobody knows: why.
    Unreadable(String),
}

/// What applies to the whole cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether Services without a class are ours.
    pub default_class: bool,
    /// Whether addresses are written into `spec.externalIPs` too.
    pub mirror: bool,
    /// What VRIDs are hashed with, so that two clusters on a LAN seldom choose the same.
    pub cluster: Arc<str>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { default_class: true, mirror: false, cluster: "".into() }
    }
}

impl Memory {
    /// Forgets the routers that are gone.
    pub(super) fn forget(&mut self, is_gone: impl Fn(&str) -> bool) {
        self.wished.retain(|name| !is_gone(name));
        self.behind_since.retain(|name, _| !is_gone(name));
        self.asked.retain(|name, _| !is_gone(name));
        self.disturbed_since.retain(|name, _| !is_gone(name));
        self.evaded_at.retain(|name, _| !is_gone(name));
    }
}

/// An `IngressPool`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolObject {
    /// Its uid.
    pub uid: Uid,
    /// Its generation.
    pub generation: i64,
    /// When it was made.
    pub created: Timestamp,
    /// What it says; or why that can't be read.
    pub pool: Result<Pool, String>,
}

/// A Service, pruned to what allocation needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Its name.
    pub key: ServiceKey,
    /// The precondition of writes to it.
    pub resource_version: Arc<str>,
    /// When it was made.
    pub created: Timestamp,
    /// Has a deletionTimestamp: it keeps what it has, and gets nothing.
    pub deleting: bool,
    /// `spec.type` is LoadBalancer.
    pub load_balancer: bool,
    /// `spec.loadBalancerClass`.
    pub class: Option<Arc<str>>,
    /// `spec.ipFamilies`, in its order.
    pub families: Vec<Family>,
    /// `spec.ipFamilyPolicy` is RequireDualStack: both families or none.
    pub requires_both: bool,
    /// Ports that it listens on.
    pub ports: BTreeSet<Port>,
    /// `spec.externalTrafficPolicy` is Local.
    pub local: bool,
    /// `spec.publishNotReadyAddresses`: its pods count before they are ready.
    pub publish_not_ready: bool,
    /// The pods it selects; sharers of policy Local need the same.
    pub selector: Labels,
    /// Its labels.
    pub labels: Labels,
    /// `spec.loadBalancerIP` and the annotation `barevip.io/addresses`: each as written.
    pub requested: Vec<String>,
    /// The annotation `barevip.io/pool`.
    pub pool: Option<Arc<str>>,
    /// The annotation `barevip.io/share`.
    pub share: Option<Arc<str>>,
    /// `spec.externalIPs`, as written.
    pub external_ips: Vec<String>,
    /// `status.loadBalancer.ingress`, as written.
    pub ingress: Vec<Ingress>,
    /// Our condition `barevip.io/Allocated`, if it has one.
    pub condition: Option<Condition>,
    /// Another manager keeps replacing our status: hands off.
    pub contested: bool,
}

/// A port that a Service listens on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port {
    /// TCP, UDP or SCTP.
    pub protocol: Protocol,
    /// Its number.
    pub number: u16,
}

/// Protocols of Service ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// RFC 9293.
    Tcp,
    /// RFC 768.
    Udp,
    /// RFC 9260.
    Sctp,
}

/// One entry of `status.loadBalancer.ingress`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ingress {
    /// `ip`, as written.
    pub ip: Option<String>,
    /// `hostname`.
    pub hostname: Option<String>,
}

/// Our condition on a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// "True" or "False".
    pub met: bool,
    /// One word.
    pub reason: String,
    /// One sentence.
    pub message: String,
}

/// A `VirtualRouter` of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterObject {
    /// Its uid.
    pub uid: Uid,
    /// Its generation: the precondition of writes to it.
    pub generation: i64,
    /// What it says.
    pub spec: RouterSpec,
    /// The annotation `barevip.io/move-to`: the node that somebody wants it to be served by.
    pub move_to: Option<Arc<str>>,
}

/// What a `VirtualRouter` says, as far as the cluster decides it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterSpec {
    /// The pool that it was made for.
    pub pool: Arc<str>,
    /// The family of all its addresses.
    pub family: Family,
    /// Its identifier on the LAN.
    pub vrid: Vrid,
    /// Its addresses and who has them.
    pub claims: Claims,
    /// Claims that other routers serve: those of Services of policy Local.
    pub elsewhere: BTreeMap<IpAddr, Elsewhere>,
    /// Other routers' claims that it serves.
    pub guests: BTreeMap<IpAddr, Guest>,
    /// Who may become Active.
    pub candidates: Vec<Candidate>,
    /// The candidate that is asked to take over.
    pub takeover: Option<Arc<str>>,
    /// How it is announced.
    pub manner: Manner,
}

/// How a router is announced: copied from its pool, so that its nodes need nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manner {
    /// Links that may carry it; empty: the one with an own address in the addresses' subnet.
    pub interfaces: Vec<String>,
    /// How often the Active node advertises.
    pub interval: Interval,
    /// Whether a higher candidate takes over from a lower one.
    pub preempt: Preempt,
    /// To the VRRP group besides each candidate's address.
    pub multicast: bool,
    /// Each candidate's own address on the router's link, as far as it is known.
    pub peers: BTreeMap<String, IpAddr>,
}

impl Default for Manner {
    fn default() -> Self {
        Self {
            interfaces: Vec::new(),
            interval: Interval::DEFAULT,
            preempt: Preempt::default(),
            multicast: true,
            peers: BTreeMap::new(),
        }
    }
}

/// Who serves a claim that its home does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// The router.
    pub router: Arc<str>,
    /// The home has served it, and it is not known yet that its Active does so no more: that
    /// router has to wait.
    pub leaving: bool,
}

/// How a router serves another one's claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guest {
    /// It announces it.
    Served,
    /// It does not any more, which its Active may not have taken up.
    Leaving,
    /// No node serves it here any more.
    Left,
}

/// The claims of one router. Copies share them until one is changed: nearly all rounds change none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims(Arc<BTreeMap<IpAddr, Claim>>);

impl Deref for Claims {
    type Target = BTreeMap<IpAddr, Claim>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Claims {
    fn deref_mut(&mut self) -> &mut Self::Target {
        Arc::make_mut(&mut self.0)
    }
}

impl From<BTreeMap<IpAddr, Claim>> for Claims {
    fn from(claims: BTreeMap<IpAddr, Claim>) -> Self {
        Self(claims.into())
    }
}

impl FromIterator<(IpAddr, Claim)> for Claims {
    fn from_iter<I: IntoIterator<Item = (IpAddr, Claim)>>(claims: I) -> Self {
        claims.into_iter().collect::<BTreeMap<_, _>>().into()
    }
}

/// An address that somebody has or had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Announced for these Services, oldest holder first; several share it. Never empty.
    Held(Vec<Holder>),
    /// Nobody's any more, resting.
    Released(Release),
    /// Announced for no Service: its pool pins it.
    Pinned,
}

/// A Service that has an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// Its uid.
    pub uid: Uid,
    /// Its name, so that a re-created one gets its address back.
    pub service: ServiceKey,
}

/// How an address was given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// When.
    pub at: Timestamp,
    /// Who had it last.
    pub by: ServiceKey,
    /// No node serves it any more.
    pub confirmed: bool,
}

/// A node of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its uid.
    pub uid: Uid,
    /// Its labels.
    pub labels: Labels,
    /// Annotated `barevip.io/drain: "true"`: it hands over and takes nothing.
    pub drained: bool,
    /// Tainted `node.kubernetes.io/out-of-service`.
    pub out_of_service: bool,
    /// Its Ready condition is Unknown: its kubelet is not heard.
    pub unknown: bool,
    /// Whether there is an `Announcer` for its agent to report in.
    pub has_announcer: bool,
    /// What its agent said last; none: there is no agent.
    pub report: Option<Report>,
}

/// What an agent reports in its `Announcer`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// When.
    pub at: Timestamp,
    /// Links that can carry addresses (up, carrier, no bridge or bond master), and their own
    /// addresses.
    pub links: BTreeMap<Arc<str>, Vec<IpNet>>,
    /// Routers that it is Active for.
    pub active: BTreeMap<Arc<str>, Reign>,
    /// VRIDs that others use on its links: no router of ours lists their addresses.
    pub foreign: BTreeSet<(Family, Vrid)>,
}

/// What an agent says of a router that it is Active for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reign {
    /// The object that it has taken up.
    pub uid: Uid,
    /// Its generation.
    pub generation: i64,
    /// The VRID that it announces it with; `None` from agents that do not tell.
    pub vrid: Option<Vrid>,
}

impl RouterSpec {
    /// Whether there is anything to announce.
    #[must_use]
    pub fn serves(&self) -> bool {
        self.served() > 0
    }

    /// How many addresses it announces.
    #[must_use]
    pub fn served(&self) -> usize {
        let own = self.claims.iter().filter(|(_, claim)| !matches!(claim, Claim::Released(_)));
        let own = own.filter(|(address, _)| !self.elsewhere.contains_key(*address));
        own.count() + self.guests.values().filter(|guest| **guest == Guest::Served).count()
    }

    /// Whether nothing lives in it, nor visits it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.guests.is_empty()
    }

    /// Addresses that Services have.
    pub fn held(&self) -> impl Iterator<Item = (IpAddr, &[Holder])> {
        self.claims.iter().filter_map(|(address, claim)| match claim {
            Claim::Held(holders) => Some((*address, holders.as_slice())),
            Claim::Released(_) | Claim::Pinned => None,
        })
    }
}
