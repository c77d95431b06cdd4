//! The `barevip` command: parses, starts the log, dispatches, and ends with an exit status.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use barevip::app;
use barevip::app::manifests::Part;
use barevip::cli::{
    Cli, ClusterFlags, Command, InstallFlags, LogFormat, LogLevel, LogOptions, Manifests,
    OutputFormat,
};
use barevip::config::Rejected;
use barevip::engine::cluster::election::Timing;
use clap::{Parser, ValueEnum};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Something failed; 2 is wrong usage, as clap has it, or a wrong configuration.
const FAILED: u8 = 1;
const WRONG_INPUT: u8 = 2;

fn main() -> ExitCode {
    let cli = Cli::parse();
    start_log(cli.log);
    match dispatch(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn dispatch(command: Command) -> anyhow::Result<()> {
    // Not one lock for all: other threads of `run` and `demo` may print too.
    let mut out = io::stdout();
    match command {
        Command::Run { config, socket } => app::standalone::run(&config, socket),
        Command::Controller(flags) => {
            let deadline = flags.lease_duration * 2 / 3;
            app::controller::run(&app::controller::Options {
                namespace: flags.namespace,
                http: flags.http,
                default_class: flags.default_class,
                mirror: flags.mirror_external_ips,
                timing: Timing::new(flags.lease_duration, deadline, flags.retry_period)?,
                relist: flags.relist_period,
            })
        }
        Command::Agent(flags) => app::agent::run(&app::agent::Options {
            node: flags.node_name,
            state_dir: flags.state_dir,
            socket: flags.socket,
            http: flags.http,
            relist: flags.relist_period,
        }),
        Command::Install(flags) => install(flags, &mut out),
        Command::Manifests { part } => print_manifests(part, &mut out),
        Command::Check { config } => app::check::run(&config, &mut out),
        Command::Status { socket, output } => {
            app::status::run(socket.as_deref(), output == OutputFormat::Json, &mut out)
        }
        Command::Cleanup(target) => app::cleanup::run(target.config.as_deref(), &mut out),
        Command::Demo => app::demo::run(),
    }
}

fn install(flags: InstallFlags, out: &mut impl Write) -> anyhow::Result<()> {
    let policy = flags.image_pull_policy.and_then(|policy| policy.to_possible_value());
    app::install::run(
        &app::install::Options {
            addresses: flags.addresses,
            image: flags.image,
            pull_policy: policy.map(|policy| policy.get_name().to_owned()),
            namespace: flags.cluster.namespace.clone(),
            default_class: flags.default_class,
            dry: flags.dry_run,
            wait: flags.wait,
            cluster: cluster(flags.cluster),
        },
        out,
    )
}

fn cluster(flags: ClusterFlags) -> app::install::Cluster {
    app::install::Cluster { kubeconfig: flags.kubeconfig, context: flags.context }
}

fn print_manifests(part: Option<Manifests>, out: &mut impl Write) -> anyhow::Result<()> {
    let all = Manifests::value_variants();
    for part in part.as_ref().map_or(all, std::slice::from_ref) {
        let part = match part {
            Manifests::Crds => Part::Crds,
            Manifests::Namespace => Part::Namespace,
            Manifests::Policies => Part::Policies,
            Manifests::Agent => Part::Agent,
            Manifests::Controller => Part::Controller,
        };
        app::manifests::print(part, out)?;
    }
    Ok(())
}

/// Sentences on standard error, or JSON lines.
fn start_log(options: LogOptions) {
    let level = match options.log_level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    // A router's sentences begin with its name already; in JSON the field is there to search by.
    let sentence = debug_fn(|out, field, value| match field.name() {
        "router" => Ok(()),
        "message" => write!(out, "{value:?}"),
        name => write!(out, " {name}={value:?}"),
    });
    // What libraries say of a failed request is said by us, with what follows from it.
    let others = if level == LevelFilter::DEBUG { level } else { LevelFilter::OFF };
    let who = Targets::new().with_default(others).with_target("barevip", level);
    let log = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(io::stderr)
        // It would tell errors of the log on standard error, and end the process where that is gone.
        .log_internal_errors(false)
        .with_ansi(io::stderr().is_terminal())
        .with_target(options.log_level == LogLevel::Debug);
    match options.log_format {
        LogFormat::Json => log.json().flatten_event(true).finish().with(who).init(),
        // The journal notes the time by itself.
        LogFormat::Text if std::env::var_os("JOURNAL_STREAM").is_some() => {
            log.fmt_fields(sentence).without_time().finish().with(who).init();
        }
        LogFormat::Text => log.fmt_fields(sentence).finish().with(who).init(),
    }
}

/// Says what went wrong, on standard error.
fn fail(error: &anyhow::Error) -> ExitCode {
    let mut out = io::stderr().lock();
    let (text, code) = if let Some(rejected) = error.downcast_ref::<Rejected>() {
        (rejected.to_string(), WRONG_INPUT)
    } else if is_closed_pipe(error) {
        // Whoever read our output has seen enough.
        return ExitCode::SUCCESS;
    } else {
        (format!("barevip: {error:#}"), FAILED)
    };
    // Where standard error is closed there is nobody left to tell; the exit status does.
    let _told = writeln!(out, "{text}");
    ExitCode::from(code)
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
