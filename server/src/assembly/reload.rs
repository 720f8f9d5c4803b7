//! Reload of job definitions when the file changes, and on SIGHUP. A wrong file is reported, and the definitions stay
//! unchanged. A process without the role `scheduler` declares its jobs as well; jobs that are missing in its file are
//! retired by the processes that have the role.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use punctual::clock::{Clock, add};
use punctual::{JobBuilder, Punctual, Result};

use crate::alerts::{RefusedConfiguration, configuration_refused};
use crate::app::App;
use crate::config::{Config, ConfigError, LoadedConfig, ServerRole, Sources};
use crate::targets::TargetServices;
use crate::wording::for_operators;

use super::CONCURRENCY_DEFAULT;

/// Owner name under which jobs of the configuration are declared.
pub const SOURCE: &str = "punctual.toml";
/// How often the modification time of the file is checked.
pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Largest number of characters of a configuration problem in health and events.
const PROBLEM_LEN_MAX: usize = 1_000;

/// Declares the jobs of the configuration at the start and after every change.
pub(super) struct Reloader {
    sources: Sources,
    file: Option<PathBuf>,
    modified_at: Option<SystemTime>,
    /// The configuration at the start without its jobs; a change of it needs a restart.
    base: Config,
    /// Warnings that were logged, by key and text.
    warned: BTreeSet<(String, String)>,
    /// Whether declaring failed because the storage was unavailable, and is to be retried.
    is_declare_pending: bool,
    punctual: Arc<Punctual>,
    services: TargetServices,
    app: App,
}

impl Reloader {
    pub(super) fn new(
        loaded: &LoadedConfig,
        sources: Sources,
        app: App,
        services: TargetServices,
    ) -> Self {
        let punctual = app.punctual.clone();
        let file = loaded.file.clone();
        let mut reloader = Self {
            sources,
            file,
            modified_at: None,
            base: without_jobs(&loaded.config),
            warned: keyed(loaded.warnings(app.clock.now())).into_keys().collect(),
            is_declare_pending: false,
            punctual,
            services,
            app,
        };
        reloader.modified_at = reloader.read_modified_at();
        reloader
    }

    /// Declares the jobs at the start; when the storage is unavailable, this is retried later.
    pub(super) async fn first(&mut self, config: &Config) -> Result<()> {
        match self.declare(config).await {
            Err(error) if error.is_temporary() => {
                tracing::warn!(%error, "the jobs of the configuration could not be declared; this is retried");
                self.is_declare_pending = true;
                Ok(())
            }
            declared => declared,
        }
    }

    /// Polls the file until `stopped` resolves.
    pub(super) async fn watch(mut self, clock: Arc<dyn Clock>, stopped: impl Future<Output = ()>) {
        let mut stopped = std::pin::pin!(stopped);
        let mut hangups = HangupSignals::listen();
        loop {
            let forced = tokio::select! {
                () = &mut stopped => return,
                () = hangups.next() => true,
                () = clock.sleep_until(add(clock.now(), POLL_INTERVAL)) => false,
            };
            let modified_at = self.read_modified_at();
            if forced || self.is_declare_pending || modified_at != self.modified_at {
                self.modified_at = modified_at;
                self.reload().await;
            }
        }
    }

    async fn reload(&mut self) {
        let loaded = match self.sources.load() {
            Ok(loaded) => loaded,
            Err(problems) => {
                for problem in &problems.0 {
                    tracing::error!(%problem, "the configuration is invalid; the jobs stay unchanged");
                }
                let all: Vec<String> = problems.0.iter().map(ToString::to_string).collect();
                return self.refused(&all.join("; "));
            }
        };
        self.warn(&loaded);
        let config = loaded.config;
        if without_jobs(&config) != self.base {
            tracing::warn!(
                "only changes of jobs apply while the server runs; restart it for the others"
            );
        }
        self.services.vault().update(&config);
        let declared = self.declare(&config).await.map_err(for_operators);
        self.is_declare_pending = matches!(&declared, Err(error) if error.is_temporary());
        match declared {
            Ok(()) => {
                self.serve_queues(&config);
                configuration_refused(&self.app, None);
            }
            Err(error) => {
                tracing::error!(%error, "the jobs of the configuration were not declared; the jobs stay unchanged");
                // A temporary error is retried at the next poll.
                if !error.is_temporary() {
                    self.refused(&error.to_string());
                }
            }
        }
    }

    /// Works on the queues of new jobs when the file names no queues, as at the start; when it names some, new
    /// ones need a restart. Does not repeat warnings of [`Config::warnings`].
    fn serve_queues(&self, config: &Config) {
        if !self.base.server.roles.contains(&ServerRole::Worker) {
            return;
        }
        let queues = self.punctual.queues();
        let served: BTreeSet<String> = queues
            .list()
            .into_iter()
            .filter(|status| status.concurrency > 0)
            .map(|status| status.queue.to_string())
            .collect();
        for (job, spec) in config.jobs.iter().filter(|(_, spec)| spec.enabled) {
            let Some(queue) = spec.queue.as_deref().filter(|queue| !served.contains(*queue)) else {
                continue;
            };
            if self.base.queues.is_empty() {
                if let Err(error) = queues.serve(queue, CONCURRENCY_DEFAULT).map_err(for_operators)
                {
                    tracing::warn!(%error, %job, %queue, "this server cannot work on the queue of the job");
                }
            } else if spec.topic.is_none() && config.queues.contains_key(queue) {
                tracing::warn!(%job, %queue, "this server works on the queue of the job only after a restart");
            }
        }
    }

    /// Logs warnings that were not logged before.
    fn warn(&mut self, loaded: &LoadedConfig) {
        let warnings = keyed(loaded.warnings(self.app.clock.now()));
        for (_, warning) in warnings.iter().filter(|(key, _)| !self.warned.contains(*key)) {
            tracing::warn!("{warning}");
        }
        self.warned = warnings.into_keys().collect();
    }

    /// Reports the refused configuration to health, the dashboard and webhooks.
    fn refused(&self, problem: &str) {
        let file = self.file.as_ref().map(|file| file.display().to_string());
        let source = file.unwrap_or_else(|| SOURCE.to_owned());
        let problem = problem.chars().take(PROBLEM_LEN_MAX).collect();
        let refused = RefusedConfiguration { at: self.app.clock.now(), source, problem };
        configuration_refused(&self.app, Some(refused));
    }

    async fn declare(&self, config: &Config) -> Result<()> {
        let jobs: Result<Vec<JobBuilder>> = config
            .jobs
            .iter()
            .filter(|(_, spec)| spec.enabled)
            .map(|(name, spec)| spec.builder(name))
            .collect();
        let (jobs, admin) = (jobs?, self.punctual.admin());
        let result = if self.base.server.roles.contains(&ServerRole::Scheduler) {
            admin.reconcile(SOURCE, jobs).await?
        } else {
            admin.declare_all(SOURCE, jobs).await?
        };
        tracing::info!(
            created = result.created.len(),
            changed = result.changed.len(),
            unchanged = result.unchanged.len(),
            retired = result.retired.len(),
            "the jobs of the configuration are declared"
        );
        Ok(())
    }

    fn read_modified_at(&self) -> Option<SystemTime> {
        std::fs::metadata(self.file.as_ref()?).and_then(|metadata| metadata.modified()).ok()
    }
}

/// Returns warnings by key and text; not by line, which changes with every edit of the file.
fn keyed(warnings: Vec<ConfigError>) -> BTreeMap<(String, String), ConfigError> {
    warnings.into_iter().map(|one| ((one.key.clone(), one.problem.clone()), one)).collect()
}

fn without_jobs(config: &Config) -> Config {
    Config { jobs: BTreeMap::new(), ..config.clone() }
}

/// SIGHUP signals; none where the system has no signals.
pub(super) struct HangupSignals {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl HangupSignals {
    pub(super) fn listen() -> Self {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let signal = signal(SignalKind::hangup());
            if let Err(error) = &signal {
                tracing::warn!(%error, "cannot listen to SIGHUP");
            }
            Self { signal: signal.ok() }
        }
        #[cfg(not(unix))]
        Self {}
    }

    pub(super) async fn next(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal
            && signal.recv().await.is_some()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}
