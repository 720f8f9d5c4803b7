//! `punctual serve`: runs the server until it is asked to stop. Exit code 0 after a stop in order, 1 when
//! something failed, 2 when the configuration or a flag is wrong, 130 when a second signal ended it.

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
use punctual_server::{Assembly, Running, Secret};
use sd_notify::NotifyState;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::config::wrong;
use crate::terminal::{complain, complaint, tell};

/// The exit code of a process that was interrupted.
const INTERRUPTED: i32 = 130;
/// What the log leaves out unless `log.level` names it: the RabbitMQ client warns with whole messages, bodies included.
const QUIET: &str = "lapin=error";

/// What the server is told. Flags win over the environment, which wins over the file.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The configuration; `punctual.toml` when it is there.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The address and port to listen on, such as `127.0.0.1:8080`; port 0 finds a free one.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Where everything is remembered: `memory:`, `sqlite:path/to/file.db` or
    /// `postgres://user@host/database`.
    #[arg(long, value_name = "ADDRESS")]
    storage: Option<String>,
    /// What this process does: some of scheduler, worker, api and relay.
    #[arg(long, value_name = "ROLES")]
    roles: Option<String>,
    /// How log lines look: text or json.
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Show off with jobs and messages of an example; in memory unless a storage is named.
    #[arg(long)]
    demo: bool,
}

/// Runs the server.
pub(crate) fn run(arguments: &ServeArgs) -> ExitCode {
    let sources = sources(arguments);
    let loaded = match sources.load() {
        Ok(loaded) => loaded,
        Err(problems) => return wrong(&problems),
    };
    if let Err(error) = write_logs(&loaded.config) {
        tell(&format!("error: log.level: {error}; write one such as info, or info,punctual=debug"));
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
                LogFormat::Text => complain(&error),
                LogFormat::Json => tracing::error!("{}", complaint(&error)),
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
    let named = arguments.storage.is_some()
        || sources.variables.iter().any(|(name, _)| name == "PUNCTUAL__STORAGE__ADDRESS");
    if arguments.demo && !named {
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

/// What is logged. A later directive wins over an earlier one for the same module.
fn filter(level: &str) -> Result<EnvFilter> {
    let asked = EnvFilter::try_new(level)?;
    if asked.max_level_hint() == Some(LevelFilter::OFF) {
        return Ok(asked);
    }
    Ok(EnvFilter::try_new(format!("{QUIET},{level}"))?)
}

/// Says how the server stands: to a person, or as one more line of a log in JSON.
fn say(format: LogFormat, text: &str) {
    match format {
        LogFormat::Text => tell(text),
        LogFormat::Json => tracing::info!("{text}"),
    }
}

async fn serve(assembly: Assembly) -> Result<()> {
    let config = assembly.loaded.config.clone();
    let format = config.log.format;
    // One and the same from the start on: a signal between two of them would be heard by nobody. First, because
    // it is heard only from when it is asked for, and who starts at once is not waited for.
    let mut signal = pin!(signalled());
    let running = tokio::select! {
        biased;
        () = &mut signal => return Ok(()),
        running = assembly.start() => running?,
    };
    say(format, &greeting(&config, &running));
    notify(&[NotifyState::Ready]);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    tokio::select! {
        () = &mut signal => {}
        () = watchdog(&*clock) => {}
    }
    notify(&[NotifyState::Stopping]);
    let ending = async {
        say(format, "stopping: what runs may finish; a second signal ends it at once");
        running.shutdown().await
    };
    tokio::select! {
        // First as well: it is heard before it is offered.
        biased;
        () = signalled() => {
            say(format, "ended at once; other processes take over what was not finished");
            std::process::exit(INTERRUPTED);
        }
        stopped = ending => say(format, &stopped.to_string()),
    }
    Ok(())
}

fn greeting(config: &Config, running: &Running) -> String {
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

/// Tells the service manager, when there is one.
fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "the service manager could not be told");
    }
}

/// Says twice per interval that it lives, when the service manager asks for that; else waits for ever.
async fn watchdog(clock: &dyn Clock) {
    let Some(interval) = sd_notify::watchdog_enabled() else {
        return std::future::pending().await;
    };
    let half = (interval / 2).max(Duration::from_millis(100));
    loop {
        notify(&[NotifyState::Watchdog]);
        clock.sleep_until(add(clock.now(), half)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_of_rabbitmq_is_quiet_unless_it_is_named() {
        let shown = |level| filter(level).unwrap().to_string();
        assert!(shown("info").contains("lapin=error"), "{}", shown("info"));
        assert!(shown("info,punctual=debug").contains("lapin=error"));
        let named = shown("info,lapin=debug");
        assert!(named.contains("lapin=debug") && !named.contains("lapin=error"), "{named}");
        assert!(!shown("off").contains("lapin"));
        assert!(filter("loud=maybe").is_err());
    }
}
