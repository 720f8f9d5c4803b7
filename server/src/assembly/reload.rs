//! Reads job definitions again when the file changes, and on a hang-up signal. A file that is wrong is
//! reported, and the definitions stay as they were. A process without the role `scheduler` declares its jobs as well; what is
//! missing in its file is retired by those that have the role.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use punctual::clock::{Clock, add};
use punctual::{JobBuilder, Punctual, Result};

use crate::alerts::{Refused, configuration_refused};
use crate::app::App;
use crate::config::{Config, ConfigProblem, Loaded, ServerRole, Sources};
use crate::targets::Tools;
use crate::wording::for_operators;

use super::CONCURRENCY_DEFAULT;

/// Whose jobs those of a configuration are.
pub const SOURCE: &str = "punctual.toml";
/// How often the file is looked at.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// The most characters of what is wrong with a configuration, in health and events.
const PROBLEM_LEN_MAX: usize = 1_000;

/// Declares what the configuration says, now and whenever it changes.
pub(super) struct Reloader {
    sources: Sources,
    file: Option<PathBuf>,
    seen: Option<SystemTime>,
    /// Without jobs: what a change of needs a new start.
    base: Config,
    /// The warnings that were logged, by key.
    warned: BTreeSet<(String, String)>,
    /// Whether the last attempt to declare came to nothing because the storage was away.
    owes: bool,
    punctual: Arc<Punctual>,
    tools: Tools,
    app: App,
}

impl Reloader {
    pub(super) fn new(loaded: &Loaded, sources: Sources, app: App, tools: Tools) -> Self {
        let punctual = app.punctual.clone();
        let file = loaded.file.clone();
        let mut reloader = Self {
            sources,
            file,
            seen: None,
            base: without_jobs(&loaded.config),
            warned: keyed(loaded.warnings(app.clock.now())).into_keys().collect(),
            owes: false,
            punctual,
            tools,
            app,
        };
        reloader.seen = reloader.changed_at();
        reloader
    }

    /// Declares the jobs of the start. A storage that is away is waited for later.
    pub(super) async fn first(&mut self, config: &Config) -> Result<()> {
        match self.declare(config).await {
            Err(error) if error.is_temporary() => {
                tracing::warn!(%error, "the jobs of the configuration are declared later");
                self.owes = true;
                Ok(())
            }
            declared => declared,
        }
    }

    /// Looks at the file until it is told to stop.
    pub(super) async fn watch(mut self, clock: Arc<dyn Clock>, stopped: impl Future<Output = ()>) {
        let mut stopped = std::pin::pin!(stopped);
        let mut hangups = Hangups::listen();
        loop {
            let forced = tokio::select! {
                () = &mut stopped => return,
                () = hangups.next() => true,
                () = clock.sleep_until(add(clock.now(), LOOK_INTERVAL)) => false,
            };
            let changed_at = self.changed_at();
            if forced || self.owes || changed_at != self.seen {
                self.seen = changed_at;
                self.reload().await;
            }
        }
    }

    async fn reload(&mut self) {
        let loaded = match self.sources.load() {
            Ok(loaded) => loaded,
            Err(problems) => {
                for problem in &problems.0 {
                    tracing::error!(%problem, "the configuration is wrong; the old jobs stay");
                }
                let all: Vec<String> = problems.0.iter().map(ToString::to_string).collect();
                return self.refused(&all.join("; "));
            }
        };
        self.warn(&loaded);
        let config = loaded.config;
        if without_jobs(&config) != self.base {
            tracing::warn!("only jobs are taken over while it runs; start anew for the rest");
        }
        self.tools.vault().learn(&config);
        let declared = self.declare(&config).await.map_err(for_operators);
        self.owes = matches!(&declared, Err(error) if error.is_temporary());
        match declared {
            Ok(()) => {
                self.serve_queues(&config);
                configuration_refused(&self.app, None);
            }
            Err(error) => {
                tracing::error!(%error, "the jobs of the configuration were not declared; the old ones stay");
                // What is temporary is tried again by itself.
                if !error.is_temporary() {
                    self.refused(&error.to_string());
                }
            }
        }
    }

    /// Works on the queues of new jobs, as the start does where the file names no queues; where it names some,
    /// others wait for a new start. What [`Config::warnings`] tells is not told twice.
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
                tracing::warn!(%job, %queue, "this server works on the queue of the job only after a new start");
            }
        }
    }

    /// Logs the warnings that were not logged before.
    fn warn(&mut self, loaded: &Loaded) {
        let warnings = keyed(loaded.warnings(self.app.clock.now()));
        for (_, warning) in warnings.iter().filter(|(key, _)| !self.warned.contains(*key)) {
            tracing::warn!("{warning}");
        }
        self.warned = warnings.into_keys().collect();
    }

    /// Lets health, the dashboard and webhooks know that the configuration was refused.
    fn refused(&self, problem: &str) {
        let file = self.file.as_ref().map(|file| file.display().to_string());
        let source = file.unwrap_or_else(|| SOURCE.to_owned());
        let problem = problem.chars().take(PROBLEM_LEN_MAX).collect();
        let refused = Refused { at: self.app.clock.now(), source, problem };
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
        let came = if self.base.server.roles.contains(&ServerRole::Scheduler) {
            admin.reconcile(SOURCE, jobs).await?
        } else {
            admin.declare_all(SOURCE, jobs).await?
        };
        tracing::info!(
            created = came.created.len(),
            changed = came.changed.len(),
            unchanged = came.unchanged.len(),
            retired = came.retired.len(),
            "the jobs of the configuration are declared"
        );
        Ok(())
    }

    fn changed_at(&self) -> Option<SystemTime> {
        std::fs::metadata(self.file.as_ref()?).and_then(|facts| facts.modified()).ok()
    }
}

/// Warnings without their lines, which change with every edit of the file.
fn keyed(warnings: Vec<ConfigProblem>) -> BTreeMap<(String, String), ConfigProblem> {
    warnings.into_iter().map(|one| ((one.key.clone(), one.problem.clone()), one)).collect()
}

fn without_jobs(config: &Config) -> Config {
    Config { jobs: BTreeMap::new(), ..config.clone() }
}

/// Signals to read the configuration again, where the system knows them.
pub(super) struct Hangups {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl Hangups {
    pub(super) fn listen() -> Self {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let signal = signal(SignalKind::hangup());
            if let Err(error) = &signal {
                tracing::warn!(%error, "SIGHUP cannot be heard");
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
