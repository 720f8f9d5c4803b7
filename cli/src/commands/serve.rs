//! `punctual serve`: runs the server until a signal stops it. Exit code 0 after a graceful shutdown, 1 after a failure,
//! 2 when the configuration or a flag is invalid, 130 when a second signal ended it.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use punctual::clock::{Clock, SystemClock, add};
use punctual::{ErrorKind, signalled};
use punctual_server::config::{Config, LogFormat, Sources};
use punctual_server::{Assembly, RunningServer, Secret};
use sd_notify::NotifyState;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::config::invalid_config;
use crate::terminal::{error_text, notice, print_error};

/// The exit code of a process that was interrupted.
const INTERRUPTED: i32 = 130;
/// Default log directive: the RabbitMQ client logs whole messages, bodies included, as warnings.
const DEFAULT_DIRECTIVE: &str = "lapin=error";

/// Settings of the server. Flags override the environment, which overrides the file.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Configuration file; `punctual.toml` when it exists.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address and port to listen on, such as `127.0.0.1:8080`; port 0 selects a free port.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Storage to use: `memory:`, `sqlite:path/to/file.db` or `postgres://user@host/database`.
    #[arg(long, value_name = "ADDRESS")]
    storage: Option<String>,
    /// Roles of this process, separated by commas: scheduler, worker, api, relay.
    #[arg(long, value_name = "ROLES")]
    roles: Option<String>,
    /// Format of the log: text or json.
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Add example jobs and messages; the default storage is then in memory.
    #[arg(long)]
    demo: bool,
}

/// Runs the server.
pub(crate) fn run(arguments: &ServeArgs) -> ExitCode {
    let sources = sources(arguments);
    let loaded = match sources.load() {
        Ok(loaded) => loaded,
        Err(problems) => return invalid_config(&problems),
    };
    if let Err(error) = write_logs(&loaded.config) {
        notice(&format!(
            "error: log.level: {error}; write one such as info, or info,punctual=debug"
        ));
        return ExitCode::from(2);
    }
    let assembly = Assembly { loaded, sources, demo: arguments.demo };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let format = assembly.loaded.config.log.format;
    let outcome = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(serve(assembly)));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            match format {
                LogFormat::Text => print_error(&error),
                LogFormat::Json => tracing::error!("{}", error_text(&error)),
            }
            let kind = error.downcast_ref::<punctual::Error>().map(punctual::Error::kind);
            if kind == Some(ErrorKind::Invalid) { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

fn sources(arguments: &ServeArgs) -> Sources {
    let mut sources = Sources::of_process(arguments.config.clone());
    let flags = [
        ("--listen", "server.listen", &arguments.listen),
        ("--storage", "storage.address", &arguments.storage),
        ("--roles", "server.roles", &arguments.roles),
        ("--log-format", "log.format", &arguments.log_format),
    ];
    for (flag, key, value) in flags {
        sources.flags.extend(value.clone().map(|value| (flag, key, value)));
    }
    let has_storage = arguments.storage.is_some()
        || sources.variables.iter().any(|(name, _)| name == "PUNCTUAL__STORAGE__ADDRESS");
    if arguments.demo && !has_storage {
        sources.flags.push(("--demo", "storage.address", "memory:".to_owned()));
    }
    sources
}

fn write_logs(config: &Config) -> Result<()> {
    let filter = filter(&config.log.level)?;
    let colour = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colour);
    let lines = lines.with_writer(std::io::stderr);
    match config.log.format {
        LogFormat::Text => lines.init(),
        LogFormat::Json => lines.json().init(),
    }
    Ok(())
}

/// Returns the log filter. A later directive overrides an earlier one for the same module.
fn filter(level: &str) -> Result<EnvFilter> {
    let filter = EnvFilter::try_new(level)?;
    if filter.max_level_hint() == Some(LevelFilter::OFF) {
        return Ok(filter);
    }
    Ok(EnvFilter::try_new(format!("{DEFAULT_DIRECTIVE},{level}"))?)
}

/// Reports the state of the server as text, or as a line of the JSON log.
fn report(format: LogFormat, text: &str) {
    match format {
        LogFormat::Text => notice(text),
        LogFormat::Json => tracing::info!("{text}"),
    }
}

async fn serve(assembly: Assembly) -> Result<()> {
    let config = assembly.loaded.config.clone();
    let format = config.log.format;
    // One future for the whole run: a signal between two futures would be lost. First in the select, because signals
    // are caught only after the first poll.
    let mut signal = pin!(signalled());
    let running = tokio::select! {
        biased;
        () = &mut signal => return Ok(()),
        running = assembly.start() => running?,
    };
    report(format, &greeting(&config, &running));
    notify_manager(&[NotifyState::Ready]);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    tokio::select! {
        () = &mut signal => {}
        () = watchdog(&*clock) => {}
    }
    notify_manager(&[NotifyState::Stopping]);
    let ending = async {
        report(
            format,
            "stopping: waiting for running messages; a second signal ends the process immediately",
        );
        running.shutdown().await
    };
    tokio::select! {
        // First as well, so that the signal is caught before the message that mentions it.
        biased;
        () = signalled() => {
            report(format, "ended immediately; other processes take over the unfinished messages");
            std::process::exit(INTERRUPTED);
        }
        stopped = ending => report(format, &stopped.to_string()),
    }
    Ok(())
}

/// Returns the message of a started server.
fn greeting(config: &Config, running: &RunningServer) -> String {
    let storage = match config.hidden().storage.address {
        Secret::Plain(address) => address,
        other => format!("{other:?}"),
    };
    let version = env!("CARGO_PKG_VERSION");
    match running.address() {
        Some(address) => {
            let prefix = &config.server.url_prefix;
            let scheme = if config.server.tls.is_some() { "https" } else { "http" };
            format!(
                "Punctual {version} listens on {scheme}://{address}{prefix} (storage {storage}); Ctrl-C stops it"
            )
        }
        None => format!(
            "Punctual {version} runs without the role api (storage {storage}); Ctrl-C stops it"
        ),
    }
}

/// Notifies the service manager, if there is one.
fn notify_manager(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "the service manager could not be notified");
    }
}

/// Notifies the watchdog of the service manager twice per interval; without a watchdog, never returns.
async fn watchdog(clock: &dyn Clock) {
    let Some(interval) = sd_notify::watchdog_enabled() else {
        return std::future::pending().await;
    };
    let half = (interval / 2).max(Duration::from_millis(100));
    loop {
        notify_manager(&[NotifyState::Watchdog]);
        clock.sleep_until(add(clock.now(), half)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_of_the_rabbitmq_client_are_off_by_default() {
        let shown = |level| filter(level).unwrap().to_string();
        assert!(shown("info").contains("lapin=error"), "{}", shown("info"));
        assert!(shown("info,punctual=debug").contains("lapin=error"));
        let named = shown("info,lapin=debug");
        assert!(named.contains("lapin=debug") && !named.contains("lapin=error"), "{named}");
        assert!(!shown("off").contains("lapin"));
        assert!(filter("loud=maybe").is_err());
    }
}
