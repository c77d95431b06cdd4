//! The command line: words in, a [`Command`] out. What the commands do stands in [`crate::app`].

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::app::manifests::NAMESPACE;
use crate::model::{AddressRange, parse_duration};

/// An address that one healthy machine answers for, and another one at once when that one dies.
///
/// barevip is a VRRP daemon (RFC 9568). The machines of a LAN that share virtual addresses
/// elect one of them: it binds the addresses and announces them by gratuitous ARP or neighbour
/// advertisements. When it falls silent, the next one takes over.
#[derive(Debug, Parser)]
#[command(
    name = "barevip",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    verbatim_doc_comment,
    after_help = "\
Examples:
  barevip check --config /etc/barevip/barevip.toml   what is wrong with a file, all at once
  barevip run --config /etc/barevip/barevip.toml     the daemon, in the foreground
  barevip status                                     who serves what, and what is wrong

Exit status: 0 good, 1 failed, 2 wrong usage or configuration."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// How much is logged, on standard error.
    #[command(flatten)]
    pub log: LogOptions,
}

/// What the log says and how.
#[derive(Clone, Copy, Debug, Args)]
pub struct LogOptions {
    /// Least severity of what is logged: error, warn, info or debug
    #[arg(
        long, global = true, value_enum, default_value_t = LogLevel::Info, value_name = "LEVEL",
        hide_possible_values = true, help_heading = "Log"
    )]
    pub log_level: LogLevel,
    /// Form of the log on standard error: text, or json (one object a line)
    #[arg(
        long, global = true, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT",
        hide_possible_values = true, help_heading = "Log"
    )]
    pub log_format: LogFormat,
}

/// Severities, each with those above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// Something failed that barevip can't mend.
    Error,
    /// Something is wrong that a person should know of.
    Warn,
    /// Roles, addresses and links that change.
    Info,
    /// What helps to find a fault of barevip's own.
    Debug,
}

/// Forms of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Sentences.
    Text,
    /// JSON lines.
    Json,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the daemon, in the foreground
    ///
    /// Runs the virtual routers of a configuration file until it is told to stop. Needs
    /// CAP_NET_ADMIN and CAP_NET_RAW.
    ///
    /// SIGTERM and SIGINT are a planned stop: the addresses are handed over to the next machine
    /// before this one lets go, so that nothing is lost. A second signal stops at once.
    #[command(
        verbatim_doc_comment,
        after_help = "\
Examples:
  barevip run --config /etc/barevip/barevip.toml
  barevip run --config web.toml --socket /tmp/web.sock --log-format json"
    )]
    Run {
        /// The configuration file
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// Where `barevip status` finds the daemon [default: /run/barevip/NAME.sock for NAME.toml]
        #[arg(long, value_name = "PATH")]
        socket: Option<PathBuf>,
    },
    /// Give every Service of type LoadBalancer an address
    ///
    /// Runs the allocator of a Kubernetes cluster: Services get their addresses from IngressPools.
    /// Several may run, one leads. The cluster is that of the pod that it runs in, else of the
    /// file that KUBECONFIG names.
    #[command(
        verbatim_doc_comment,
        after_help = "\
Example:
  KUBECONFIG=~/.kube/config barevip controller --namespace barevip-system"
    )]
    Controller(ControllerFlags),
    /// Announce this node's share of the cluster's load-balancer addresses
    ///
    /// Runs on every node: takes part in the elections of the virtual routers that the controller
    /// gives to this node, and answers for their addresses where it wins. Needs CAP_NET_ADMIN and
    /// CAP_NET_RAW in the node's network namespace. The cluster is that of the pod that it runs
    /// in, else of the file that KUBECONFIG names.
    ///
    /// While the API server is away everything goes on, failovers too; a restarted agent goes on
    /// with the plan that it remembers.
    #[command(
        verbatim_doc_comment,
        after_help = "\
Example:
  KUBECONFIG=/etc/barevip/kubeconfig barevip agent --node-name worker-1"
    )]
    Agent(AgentFlags),
    /// Install barevip into a Kubernetes cluster
    ///
    /// Applies definitions, policies, agents and controller, makes a pool of --addresses, and waits
    /// until a Service would get an address that is announced. Says what it did; a second time it
    /// changes nothing, and a newer version upgrades. The image has to be where the nodes find it.
    ///
    /// Where another program already serves Services of type LoadBalancer, only those of class
    /// barevip.io/vip are served, unless --default-class says otherwise.
    #[command(
        verbatim_doc_comment,
        after_help = "\
Examples:
  barevip install --addresses 192.0.2.200-192.0.2.250,2001:db8::200/121
  barevip install --image registry.example/barevip:0.1.0 --dry-run

Exit status: 0 it works, 1 it does not (yet), 2 wrong usage."
    )]
    Install(InstallFlags),
    /// Print the Kubernetes manifests
    ///
    /// Prints what deploy/ holds, for kubectl apply -f -: all of it in the order of installation,
    /// or one part.
    #[command(
        verbatim_doc_comment,
        after_help = "\
Examples:
  barevip manifests | kubectl apply --server-side -f -
  barevip manifests policies | kubectl diff -f -"
    )]
    Manifests {
        /// Which part [default: all]
        #[arg(value_enum)]
        part: Option<Manifests>,
    },
    /// Check a configuration file
    ///
    /// Reads a configuration file as `run` does and prints everything that is wrong with it, each
    /// with its place and a remedy. Nothing is changed on this machine. Needs no privileges.
    #[command(
        verbatim_doc_comment,
        after_help = "\
Example:
  barevip check --config /etc/barevip/barevip.toml && systemctl restart barevip"
    )]
    Check {
        /// The configuration file
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Show who serves what, and what is wrong
    ///
    /// Asks the daemons that run on this machine and shows their virtual routers, addresses and
    /// problems. The exit status is 0 if every daemon that was asked has answered.
    #[command(
        verbatim_doc_comment,
        after_help = "\
Examples:
  barevip status
  barevip status --output json | jq '.[].routers[] | {name, role}'

The JSON form is an array with one object for each daemon, also if there is only one. Keys are
added, never renamed; times are RFC 3339 in UTC, and durations have their unit in the key."
    )]
    Status {
        /// The daemon's socket [default: every socket in /run/barevip]
        #[arg(long, value_name = "PATH")]
        socket: Option<PathBuf>,
        /// Form of the answer: text for people, or json for programs
        #[arg(
            long, value_enum, default_value_t = OutputFormat::Text, value_name = "FORMAT",
            hide_possible_values = true
        )]
        output: OutputFormat,
    },
    /// Remove addresses that a killed daemon left behind
    ///
    /// Addresses of a killed daemon vanish by themselves after some seconds; this removes them
    /// now, and never anybody else's. Does nothing, successfully, where none is left. Needs
    /// CAP_NET_ADMIN. Do not use it while the daemon runs: it would have to bind them again.
    #[command(
        verbatim_doc_comment,
        after_help = "\
Examples:
  barevip cleanup --config /etc/barevip/barevip.toml   as the systemd unit does after a stop
  barevip cleanup --all"
    )]
    Cleanup(CleanupTarget),
    /// See it work: a LAN of three machines inside this one
    ///
    /// Builds a small LAN in network namespaces, runs three real daemons on it, shows who holds
    /// the address while machines die and come back, and ends by itself in under 30 seconds. The
    /// network of this machine is not touched.
    #[command(verbatim_doc_comment)]
    Demo,
}

/// Whose addresses are removed.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
pub struct CleanupTarget {
    /// The configuration file of the daemon whose addresses are removed; it need not exist any more
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The addresses of every barevip daemon of this machine
    #[arg(long)]
    pub all: bool,
}

/// Forms of what is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// A table.
    Text,
    /// JSON.
    Json,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}

/// Parts of the Kubernetes manifests, in the order of installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Manifests {
    /// The custom resource definitions
    Crds,
    /// The namespace of all that runs
    Namespace,
    /// The admission policies that keep users from others' addresses
    Policies,
    /// The agents and their rights
    Agent,
    /// The controller and its rights
    Controller,
}

/// How the agent runs.
#[derive(Clone, Debug, Args)]
pub struct AgentFlags {
    /// This node's name in the cluster
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    pub node_name: String,
    /// Where the last plan is remembered
    #[arg(long, default_value = "/var/lib/barevip", value_name = "DIRECTORY")]
    pub state_dir: PathBuf,
    /// Where `barevip status` finds the agent
    #[arg(long, default_value = "/run/barevip/cluster.sock", value_name = "PATH")]
    pub socket: PathBuf,
    /// Where it answers /healthz and /state besides [default: nowhere]
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<SocketAddr>,
    /// About how often everything is listed anew, besides being watched
    #[arg(long, default_value = "10m", value_parser = parse_duration, value_name = "DURATION")]
    pub relist_period: Duration,
}

/// How the controller runs.
#[derive(Clone, Debug, Args)]
pub struct ControllerFlags {
    /// The namespace of the lease that says who leads
    #[arg(long, env = "POD_NAMESPACE", default_value = "barevip-system", value_name = "NAME")]
    pub namespace: String,
    /// Where it answers /healthz, /readyz, /metrics and /state, e.g. 0.0.0.0:8470 [default: nowhere]
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<SocketAddr>,
    /// Whether Services without a loadBalancerClass are served; those of barevip.io/vip are
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    pub default_class: bool,
    /// Whether addresses are written into spec.externalIPs too, for what reads only those
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, value_name = "BOOL")]
    pub mirror_external_ips: bool,
    /// How long others wait for a leader that says nothing, in whole seconds
    #[arg(long, default_value = "15s", value_parser = parse_duration, value_name = "DURATION")]
    pub lease_duration: Duration,
    /// Pause between renewals of the lease
    #[arg(long, default_value = "2s", value_parser = parse_duration, value_name = "DURATION")]
    pub retry_period: Duration,
    /// About how often everything is listed anew: what tells of an etcd that was restored
    #[arg(long, default_value = "10m", value_parser = parse_duration, value_name = "DURATION")]
    pub relist_period: Duration,
}

/// Which cluster, as kubectl names it.
#[derive(Clone, Debug, Args)]
pub struct ClusterFlags {
    /// The kubeconfig file [default: those of KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    pub kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig file [default: its current one]
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    pub context: Option<String>,
    /// The namespace of all that runs
    #[arg(
        long, default_value = NAMESPACE, value_parser = parse_namespace, value_name = "NAME",
        help_heading = "Cluster"
    )]
    pub namespace: String,
}

/// How barevip is installed.
#[derive(Clone, Debug, Args)]
pub struct InstallFlags {
    /// What the pool "default" gives out: networks, FIRST-LAST ranges and addresses, by commas
    /// [default: pools stay as they are]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub addresses: Vec<AddressRange>,
    /// The image of agents and controller
    #[arg(long, default_value = concat!("barevip:", env!("CARGO_PKG_VERSION")), value_name = "NAME")]
    pub image: String,
    /// When a node pulls the image [default: as Kubernetes does by itself]
    #[arg(long, value_enum, value_name = "POLICY")]
    pub image_pull_policy: Option<PullPolicy>,
    /// Whether Services without a loadBalancerClass are served [default: unless others do]
    #[arg(long, value_name = "BOOL")]
    pub default_class: Option<bool>,
    /// Change nothing, say what would be changed
    #[arg(long)]
    pub dry_run: bool,
    /// How long it may take until it works; 0s: don't wait
    #[arg(long, default_value = "2m", value_parser = parse_duration, value_name = "DURATION")]
    pub wait: Duration,
    /// Where to.
    #[command(flatten)]
    pub cluster: ClusterFlags,
}

/// When a node pulls an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum PullPolicy {
    /// Whenever a pod starts
    Always,
    /// Where the node has none of this name
    IfNotPresent,
    /// Never: the node has it already
    Never,
}

/// A namespace's name (RFC 1123 label).
fn parse_namespace(text: &str) -> Result<String, String> {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_name = (1..=63).contains(&text.len())
        && text.chars().all(is_inner)
        && !text.starts_with('-')
        && !text.ends_with('-');
    if is_name {
        Ok(text.to_owned())
    } else {
        Err("a namespace has 1 to 63 small letters, digits and inner dashes".to_owned())
    }
}
