//! Where the configuration of a process comes from: the application itself, the environment, files. What
//! the environment says wins over files, and what the application says wins over both. A value that
//! cannot be used never keeps a process from starting; a file that cannot be read does, because nobody
//! can tell what it would have said.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use super::Builder;
use crate::config::{ConfigProblem, Configuration, FILE_BYTES_MAX, NO_SUCH_JOB, resolve};
use crate::error::{Error, Result};
use crate::event::{Event, Events};
use crate::model::{Job, JobName};
use crate::policy::configured_schedule;
use crate::schedule::Schedule;

/// Whose word counts more; the first one wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Application,
    Environment,
    File,
}

impl Builder {
    /// The cron expression that the configuration gives a job instead of the declared one. One that
    /// cannot be read is reported as an event, in status and in health, and the declared one is used.
    pub fn cron_override(mut self, job: impl Into<String>, expression: impl Into<String>) -> Self {
        self.cron_overrides.push((job.into(), expression.into()));
        self
    }

    /// More jobs are declared after the start, by [`Admin::reconcile`](crate::Admin::reconcile). A configured
    /// cron expression whose job is not known yet is not reported by [`Builder::build`] but by the first
    /// reconciliation that does not bring the job.
    pub fn expect_more_jobs(mut self) -> Self {
        self.more_jobs = true;
        self
    }

    /// Cron expressions from a place of the application's own. They win over the environment and files.
    pub fn configure(mut self, configuration: Configuration) -> Self {
        self.configurations.push((Rank::Application, Ok(configuration)));
        self
    }

    /// Cron expressions from the variables of the environment, as they are now:
    /// `Messaging__Scheduling__Jobs__{Name}__CronExpression` or `PUNCTUAL_JOBS__{NAME}__CRON`. In the
    /// name of a job, case does not count, and `_` stands for every character that a variable cannot
    /// have. They win over files.
    pub fn configure_from_env(mut self) -> Self {
        let pairs = std::env::vars_os()
            .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)));
        let configuration = Configuration::from_pairs(pairs);
        self.configurations.push((Rank::Environment, Ok(configuration)));
        self
    }

    /// Cron expressions from a JSON file, read now; see [`Configuration::from_json`]. A file given later
    /// wins over one given before. One that is missing or is no JSON is reported by
    /// [`Builder::build`].
    pub fn configure_file(mut self, path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        let configuration = read(path).and_then(|text| {
            Configuration::from_json(&text).map_err(|error| error.with("file", path.display()))
        });
        // Later ones first.
        self.configurations.insert(0, (Rank::File, configuration));
        self
    }
}

fn read(path: &Path) -> Result<String> {
    let unreadable = |error: std::io::Error| {
        Error::invalid(format!("the configuration file {} cannot be read: {error}", path.display()))
            .caused_by(error)
    };
    let mut text = String::new();
    // One byte more than allowed, so that too large a file is told from one that just fits.
    let most = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    File::open(path)
        .and_then(|file| file.take(most).read_to_string(&mut text))
        .map_err(unreadable)?;
    Ok(text)
}

/// Every source, the one that counts most first.
pub(super) fn sources(
    overrides: &[(String, String)],
    mut given: Vec<(Rank, Result<Configuration>)>,
) -> Result<Vec<Configuration>> {
    for (job, _) in overrides {
        JobName::new(job)?;
    }
    given.sort_by_key(|(rank, _)| *rank);
    let own = overrides.iter().map(|(job, text)| (format!("Punctual:Jobs:{job}:Cron"), text));
    let mut sources = vec![Configuration::from_pairs(own)];
    for (_, configuration) in given {
        sources.push(configuration?);
    }
    Ok(sources)
}

/// The schedule that the configuration gives each job, and what of the configuration is not used.
pub(super) fn configured(
    jobs: &[Job],
    sources: &[Configuration],
    events: &Events,
    more_jobs: bool,
) -> (Vec<Option<Schedule>>, Vec<ConfigProblem>) {
    let mut resolved = resolve(sources, jobs);
    let told = resolved.ignored.iter().filter(|wrong| !more_jobs || wrong.problem != NO_SUCH_JOB);
    for ConfigProblem { key, problem, .. } in told {
        let (key, problem) = (key.clone(), problem.clone());
        events.emit(Event::ConfigurationIgnored { key, problem });
    }
    let (schedules, wrong) = schedules(jobs, resolved.texts, events);
    resolved.ignored.extend(wrong);
    (schedules, resolved.ignored)
}

/// The schedule that each configured text makes of its job, and those that make none.
pub(crate) fn schedules(
    jobs: &[Job],
    texts: Vec<(usize, String, String)>,
    events: &Events,
) -> (Vec<Option<Schedule>>, Vec<ConfigProblem>) {
    let (mut schedules, mut wrong) = (vec![None; jobs.len()], Vec::new());
    for (place, key, text) in texts {
        match configured_schedule(&jobs[place], &text) {
            Ok(schedule) => schedules[place] = Some(schedule),
            Err(error) => {
                let (job, problem) = (&jobs[place].name, error.to_string());
                events.emit(Event::JobConfigurationInvalid {
                    job: job.clone(),
                    text: text.clone(),
                    error: problem.clone(),
                });
                let job = Some(job.as_str().to_owned());
                wrong.push(ConfigProblem { key, job, text, problem });
            }
        }
    }
    (schedules, wrong)
}
