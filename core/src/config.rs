//! Configuration of jobs: cron texts that the environment and files set instead of the declared ones. Reading
//! is pure: pairs of key and value, or the text of a file, become a [`Configuration`]; the builder gets them
//! from the environment and the disk.
//!
//! A key is `Messaging:Scheduling:Jobs:{Name}:CronExpression`, or `Punctual:Jobs:{Name}:Cron` for short; in
//! environment variables `__` replaces the colon. Only the cron text can be configured: zone, retries and all
//! other options belong to the code and to operators. A value that cannot be used is listed with its reason and
//! never prevents a start.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use crate::error::{Error, Result};
use crate::event::{Event, Events};
use crate::model::Job;

/// Largest size of a configuration file in bytes.
pub(crate) const FILE_BYTES_MAX: usize = 1024 * 1024;
/// Largest number of values read from one source.
const VALUES_MAX: usize = 10_000;
/// Largest depth of a file; deeper than any key.
const DEPTH_MAX: usize = 16;

/// Prefixes of keys, and the separators of their parts.
const SPELLINGS: [(&str, &str); 4] = [
    ("Messaging:Scheduling:Jobs:", ":"),
    ("Messaging__Scheduling__Jobs__", "__"),
    ("Punctual:Jobs:", ":"),
    ("PUNCTUAL_JOBS__", "__"),
];
/// The one field that can be configured, in both spellings.
const FIELDS: [&str; 2] = ["CronExpression", "Cron"];

/// Cron texts of some jobs, from one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    crons: Vec<ConfiguredCron>,
    ignored: Vec<ConfigProblem>,
}

/// Cron text of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ConfiguredCron {
    key: String,
    job: String,
    text: String,
}

/// Value in the configuration that is not used, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConfigProblem {
    /// The key as it was written.
    pub key: String,
    /// Job it is about, when there is one of that name.
    pub job: Option<String>,
    /// The value.
    pub text: String,
    /// Reason why it is not used.
    pub problem: String,
}

impl Configuration {
    /// Reads pairs of key and value, such as the variables of the environment. Keys that are not about jobs
    /// are ignored; an empty value is no value.
    pub fn from_pairs<K: AsRef<str>, V: AsRef<str>>(
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let mut configuration = Self::default();
        for (key, value) in pairs.into_iter().take(VALUES_MAX) {
            configuration.take(key.as_ref(), value.as_ref());
        }
        configuration
    }

    /// Reads a JSON file, nested as people write it:
    /// `{"Messaging": {"Scheduling": {"Jobs": {"nightly-report": {"CronExpression": "0 3 * * *"}}}}}`.
    /// The file may hold anything else besides.
    pub fn from_json(text: &str) -> Result<Self> {
        if text.len() > FILE_BYTES_MAX {
            return Err(Error::invalid(format!(
                "the configuration has {} bytes; at most {FILE_BYTES_MAX} are read",
                text.len()
            )));
        }
        let value: serde_json::Value = serde_json::from_str(text).map_err(|error| {
            Error::invalid(format!("the configuration is not JSON: {error}")).caused_by(error)
        })?;
        let mut configuration = Self::default();
        let mut pairs = Vec::new();
        flatten(String::new(), &value, 0, &mut pairs);
        for (key, value) in pairs {
            match value {
                serde_json::Value::String(text) => configuration.take(&key, text),
                serde_json::Value::Null => {}
                other => {
                    if split(&key).is_some() {
                        let text = other.to_string();
                        configuration.ignore(&key, &text, "a cron text must be a string");
                    }
                }
            }
        }
        Ok(configuration)
    }

    fn take(&mut self, key: &str, text: &str) {
        let Some((job, field)) = split(key) else { return };
        if !FIELDS.iter().any(|known| known.eq_ignore_ascii_case(field)) {
            let problem = format!(
                "{field} cannot be configured, only CronExpression; change it in the code, or let an operator edit the job"
            );
            self.ignore(key, text, &problem);
        } else if !text.trim().is_empty() {
            let (key, job, text) = (key.to_owned(), job.to_owned(), text.to_owned());
            self.crons.push(ConfiguredCron { key, job, text });
        }
    }

    fn ignore(&mut self, key: &str, text: &str, problem: &str) {
        let (key, text, problem) = (key.to_owned(), text.to_owned(), problem.to_owned());
        self.ignored.push(ConfigProblem { key, job: None, text, problem });
    }
}

/// Configured values that a process cannot use; the list changes when jobs are declared later.
pub(crate) struct MisconfiguredList {
    list: Mutex<Vec<ConfigProblem>>,
    /// Whether configured names without a job were reported.
    unknown_reported: AtomicBool,
}

impl MisconfiguredList {
    /// Creates the list. With `more_jobs` names without a job are reported by a later reconciliation.
    pub(crate) fn new(list: Vec<ConfigProblem>, more_jobs: bool) -> Self {
        Self { list: Mutex::new(list), unknown_reported: AtomicBool::new(!more_jobs) }
    }

    pub(crate) fn list(&self) -> Vec<ConfigProblem> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the problems of these jobs by the present ones; keys whose job is known now are removed.
    pub(crate) fn replace(&self, jobs: &[Job], keys: &[String], wrong: Vec<ConfigProblem>) {
        let is_of_these = |known: &ConfigProblem| {
            let of = known.job.as_deref();
            keys.contains(&known.key) || jobs.iter().any(|job| Some(job.name.as_str()) == of)
        };
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.retain(|known| !is_of_these(known));
        list.extend(wrong);
    }

    /// Emits an event for each configured name without a job, once.
    pub(crate) fn report_unknown_names(&self, events: &Events) {
        if self.unknown_reported.swap(true, Ordering::AcqRel) {
            return;
        }
        let unknown = self.list().into_iter().filter(|wrong| wrong.problem == NO_SUCH_JOB);
        for ConfigProblem { key, problem, .. } in unknown {
            events.emit(Event::ConfigurationIgnored { key, problem });
        }
    }
}

/// Problem of a key whose job is not declared.
pub(crate) const NO_SUCH_JOB: &str = "no job of this name is declared here; check its spelling";

/// Returns the name and the field of a key that is about a job.
fn split(key: &str) -> Option<(&str, &str)> {
    SPELLINGS.iter().find_map(|(prefix, separator)| {
        let (start, rest) = key.split_at_checked(prefix.len())?;
        let (job, field) = rest.rsplit_once(separator)?;
        (start.eq_ignore_ascii_case(prefix) && !job.is_empty()).then_some((job, field))
    })
}

fn flatten<'v>(
    key: String,
    value: &'v serde_json::Value,
    depth: usize,
    pairs: &mut Vec<(String, &'v serde_json::Value)>,
) {
    match value {
        serde_json::Value::Object(members) if depth < DEPTH_MAX => {
            for (name, member) in members {
                let key = if key.is_empty() { name.clone() } else { format!("{key}:{name}") };
                flatten(key, member, depth + 1, pairs);
            }
        }
        _ if pairs.len() < VALUES_MAX => pairs.push((key, value)),
        _ => {}
    }
}

/// Configuration of the jobs of a process, from several sources.
#[derive(Debug, Default)]
pub(crate) struct ResolvedConfiguration {
    /// Index of the job in the list of jobs, key, and cron text.
    pub(crate) texts: Vec<(usize, String, String)>,
    /// Values that are not used.
    pub(crate) ignored: Vec<ConfigProblem>,
}

/// Finds the job of every configured text; the first source that names a job wins.
///
/// A name matches a job when it is equal, or equal apart from case and from characters that the name of a
/// variable cannot have: `NIGHTLY_REPORT` is `nightly-report`. A name that matches two jobs in this way is not
/// used.
pub(crate) fn resolve(sources: &[Configuration], jobs: &[Job]) -> ResolvedConfiguration {
    let mut resolved = ResolvedConfiguration::default();
    for source in sources {
        resolved.ignored.extend(source.ignored.iter().cloned());
        let before = resolved.texts.len();
        for ConfiguredCron { key, job, text } in &source.crons {
            let ignore = |problem: String| {
                let (key, text) = (key.clone(), text.clone());
                ConfigProblem { key, job: None, text, problem }
            };
            let index = match find(job, jobs) {
                Ok(index) => index,
                Err(problem) => {
                    resolved.ignored.push(ignore(problem));
                    continue;
                }
            };
            match resolved.texts.iter().position(|(taken, _, _)| *taken == index) {
                // An earlier source wins; twice in one source is a mistake.
                Some(earlier) if earlier >= before => {
                    let problem = format!("{:?} sets it already", resolved.texts[earlier].1);
                    resolved.ignored.push(ignore(problem));
                }
                Some(_) => {}
                None => resolved.texts.push((index, key.clone(), text.clone())),
            }
        }
    }
    resolved
}

fn find(name: &str, jobs: &[Job]) -> Result<usize, String> {
    if let Some(index) = jobs.iter().position(|job| job.name.as_str() == name) {
        return Ok(index);
    }
    let folded_name = folded(name);
    let alike: Vec<usize> =
        (0..jobs.len()).filter(|index| folded(jobs[*index].name.as_str()) == folded_name).collect();
    match alike.as_slice() {
        [index] => Ok(*index),
        [] => Err(NO_SUCH_JOB.to_owned()),
        [first, second, ..] => Err(format!(
            "it could mean {:?} or {:?}; write the name exactly, in a file",
            jobs[*first].name, jobs[*second].name
        )),
    }
}

/// Returns a name with only the characters that the name of a variable can have.
fn folded(name: &str) -> String {
    let letter = |c: char| if c.is_alphanumeric() { c } else { '_' };
    name.chars().map(letter).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests;
