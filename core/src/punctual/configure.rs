//! Configuration sources of a process: the application itself, the environment, files. The environment overrides
//! files, and the application overrides both. An invalid value never prevents a start; an unreadable file does,
//! because its values are unknown.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use super::Builder;
use crate::client::schedules;
use crate::config::{ConfigProblem, Configuration, FILE_BYTES_MAX, NO_SUCH_JOB, resolve};
use crate::error::{Error, Result};
use crate::event::{Event, Events};
use crate::model::{Job, JobName};
use crate::schedule::Schedule;

/// Precedence of a source, the highest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Precedence {
    Application,
    Environment,
    File,
}

impl Builder {
    /// Overrides the declared cron expression of a job. An invalid expression is reported by an event, in the
    /// status and in the health, and the declared one is used.
    pub fn cron_override(mut self, job: impl Into<String>, expression: impl Into<String>) -> Self {
        self.cron_overrides.push((job.into(), expression.into()));
        self
    }

    /// Expects that [`Admin::reconcile`](crate::Admin::reconcile) declares more jobs after the start. A configured
    /// cron expression of an unknown job is then reported by the first reconciliation without the job, and not
    /// by [`Builder::build`].
    pub fn expect_more_jobs(mut self) -> Self {
        self.more_jobs = true;
        self
    }

    /// Adds cron expressions of the application itself. They override the environment and files.
    pub fn configure(mut self, configuration: Configuration) -> Self {
        self.configurations.push((Precedence::Application, Ok(configuration)));
        self
    }

    /// Adds cron expressions from the current environment variables
    /// `Messaging__Scheduling__Jobs__{Name}__CronExpression` or `PUNCTUAL_JOBS__{NAME}__CRON`. The name of a job is
    /// case-insensitive, and `_` stands for every character that a variable name cannot have. They override files.
    pub fn configure_from_env(mut self) -> Self {
        let pairs = std::env::vars_os()
            .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)));
        let configuration = Configuration::from_pairs(pairs);
        self.configurations.push((Precedence::Environment, Ok(configuration)));
        self
    }

    /// Adds cron expressions from a JSON file, which is read now; see [`Configuration::from_json`]. A later file
    /// overrides an earlier one. [`Builder::build`] reports a file that is missing or not JSON.
    pub fn configure_file(mut self, path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        let configuration = read(path).and_then(|text| {
            Configuration::from_json(&text).map_err(|error| error.with("file", path.display()))
        });
        // Later ones first.
        self.configurations.insert(0, (Precedence::File, configuration));
        self
    }
}

fn read(path: &Path) -> Result<String> {
    let unreadable = |error: std::io::Error| {
        Error::invalid(format!("the configuration file {} cannot be read: {error}", path.display()))
            .caused_by(error)
    };
    let mut text = String::new();
    // One byte more than allowed, to distinguish a file that is too large from one of the largest size.
    let limit = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    File::open(path)
        .and_then(|file| file.take(limit).read_to_string(&mut text))
        .map_err(unreadable)?;
    Ok(text)
}

/// Returns every source, the highest precedence first.
pub(super) fn sources(
    overrides: &[(String, String)],
    mut given: Vec<(Precedence, Result<Configuration>)>,
) -> Result<Vec<Configuration>> {
    for (job, _) in overrides {
        JobName::new(job)?;
    }
    given.sort_by_key(|(precedence, _)| *precedence);
    let own = overrides.iter().map(|(job, text)| (format!("Punctual:Jobs:{job}:Cron"), text));
    let mut sources = vec![Configuration::from_pairs(own)];
    for (_, configuration) in given {
        sources.push(configuration?);
    }
    Ok(sources)
}

/// Returns the configured schedule of each job, and the problems of the configuration.
pub(super) fn configured(
    jobs: &[Job],
    sources: &[Configuration],
    events: &Events,
    more_jobs: bool,
) -> (Vec<Option<Schedule>>, Vec<ConfigProblem>) {
    let mut resolved = resolve(sources, jobs);
    let reported =
        resolved.ignored.iter().filter(|wrong| !more_jobs || wrong.problem != NO_SUCH_JOB);
    for ConfigProblem { key, problem, .. } in reported {
        let (key, problem) = (key.clone(), problem.clone());
        events.emit(Event::ConfigurationIgnored { key, problem });
    }
    let (schedules, wrong) = schedules(jobs, resolved.texts, events);
    resolved.ignored.extend(wrong);
    (schedules, resolved.ignored)
}
