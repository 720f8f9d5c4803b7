//! Warnings: valid settings that are probably a mistake. Pure; the caller passes the time and prints the
//! warnings. Topics without a handler are not reported: code and HTTP workers name their topics when they
//! connect, so the file cannot tell.

use std::collections::BTreeSet;

use jiff::Timestamp;
use punctual::schedule::Cron;
use punctual_backends::StorageNeed;

use super::problem::ConfigError;
use super::{Config, LoadedConfig, ServerRole};
use crate::schedule_warnings::{cron_warnings, restricts_both_days, restricts_month_days};
use crate::spec::JobSpec;

/// The queue of a job that names none.
const QUEUE_DEFAULT: &str = "default";

/// A valid setting that is probably a mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigWarning {
    /// The parts of the key.
    pub key: Vec<String>,
    /// The mistake and how to fix it.
    pub warning: String,
}

impl ConfigWarning {
    fn new(key: &[&str], warning: impl Into<String>) -> Self {
        Self { key: key.iter().map(ToString::to_string).collect(), warning: warning.into() }
    }
}

impl LoadedConfig {
    /// Returns the warnings with their places.
    pub fn warnings(&self, now: Timestamp) -> Vec<ConfigError> {
        let warnings = self.config.warnings(now).into_iter();
        warnings.map(|one| self.places.problem(&one.key, one.warning)).collect()
    }
}

impl Config {
    /// Returns the warnings.
    pub fn warnings(&self, now: Timestamp) -> Vec<ConfigWarning> {
        let passwords = self.plain_passwords();
        let mut warnings: Vec<ConfigWarning> = passwords
            .map(|text| ConfigWarning::new(&["server", "listen"], text))
            .into_iter()
            .collect();
        warnings.extend(self.delays_in_memory());
        let day_jobs: BTreeSet<String> = self
            .enabled_jobs()
            .filter_map(|(_, spec)| common(spec, restricts_month_days))
            .collect();
        for (name, spec) in self.enabled_jobs() {
            // With a second job for the days of the month alone it means either day, as `import crontab` writes it.
            let half = common(spec, restricts_both_days);
            let is_half = half.is_some_and(|half| day_jobs.contains(&half));
            if !is_half {
                warnings.extend(cron_of(name, spec));
            }
            warnings.extend(past(name, spec, now));
            warnings.extend(self.queue_of(name, spec));
        }
        warnings
    }

    /// Returns the warning about a broker that may keep messages while the storage in memory loses their delays;
    /// only the broker knows.
    fn delays_in_memory(&self) -> Option<ConfigWarning> {
        let name = self.transport_beside_memory(StorageNeed::BrokerDecides)?;
        let text = format!(
            "if the broker of the transport {name:?} keeps messages over a restart, as Redis does with an append-only file, the server will not start, because delays in the memory of this process would be lost; use a durable storage, such as \"sqlite:punctual.db\""
        );
        Some(ConfigWarning::new(&["storage", "address"], text))
    }

    fn enabled_jobs(&self) -> impl Iterator<Item = (&String, &JobSpec)> {
        self.jobs.iter().filter(|(_, spec)| spec.enabled)
    }

    /// Returns the warning about a job with a server target in a queue that this server does not work on.
    fn queue_of(&self, name: &str, spec: &JobSpec) -> Option<ConfigWarning> {
        let queue = spec.queue.as_deref().unwrap_or(QUEUE_DEFAULT);
        let is_unserved = spec.topic.is_none()
            && self.server.roles.contains(&ServerRole::Worker)
            && !self.queues.is_empty()
            && !self.queues.contains_key(queue);
        let known: Vec<&str> = self.queues.keys().map(String::as_str).collect();
        is_unserved.then(|| {
            let text = format!(
                "this server does not work on the queue {queue:?}, only on {}; add [queues.{queue}], unless another server works on it",
                known.join(", ")
            );
            ConfigWarning::new(&["jobs", name, "queue"], text)
        })
    }
}

fn cron_of(name: &str, spec: &JobSpec) -> Vec<ConfigWarning> {
    let cron = spec.cron.as_deref().and_then(|text| Cron::parse_seeded(text, name).ok());
    let texts = cron.as_ref().map(cron_warnings).unwrap_or_default();
    texts.into_iter().map(|text| ConfigWarning::new(&["jobs", name, "cron"], text)).collect()
}

fn past(name: &str, spec: &JobSpec, now: Timestamp) -> Option<ConfigWarning> {
    let at = spec.at.filter(|at| *at < now)?;
    let text = format!(
        "{at} is in the past, so the job never runs unless it was declared before; set a later time, or remove the job"
    );
    Some(ConfigWarning::new(&["jobs", name, "at"], text))
}

/// Returns the key shared by two jobs that together mean either day field.
fn common(spec: &JobSpec, is_half: impl Fn(&Cron) -> bool) -> Option<String> {
    let cron = Cron::parse(spec.cron.as_deref()?).ok().filter(is_half)?;
    let fields: Vec<&str> = cron.resolved().split_whitespace().collect();
    let [times @ .., _, month, _] = fields.as_slice() else { return None };
    let target = serde_json::to_string(&spec.target().ok()?).ok()?;
    Some(format!("{times:?} {month} {:?} {target}", spec.zone))
}

#[cfg(test)]
mod tests {
    use crate::config::{EXAMPLE, Sources};

    fn warnings(text: &str) -> Vec<String> {
        let loaded = Sources::default().load_text("punctual.toml", text).unwrap();
        let now = "2026-03-01T12:00:00Z".parse().unwrap();
        loaded.warnings(now).iter().map(ToString::to_string).collect()
    }

    // Finding P16 of the newcomer's review: these cases had no warning.
    #[test]
    fn each_warning_names_its_line_its_key_and_the_fix() {
        let http = "http = { url = \"https://example.com\" }";
        for (text, line, key, words) in [
            (
                "[jobs.a]\ncron = \"0 0 31 2 *\"\ntopic = \"t\"",
                2,
                "jobs.a.cron",
                "never runs; choose",
            ),
            (
                "[jobs.a]\ncron = \"0 0 13 * 5\"\ntopic = \"t\"",
                2,
                "jobs.a.cron",
                "only if it is a Friday",
            ),
            (
                "[jobs.a]\nat = \"2020-01-01T00:00:00Z\"\ntopic = \"t\"",
                2,
                "jobs.a.at",
                "set a later time",
            ),
            (
                &format!("[queues.fast]\n[jobs.a]\nevery = \"5m\"\nqueue = \"slow\"\n{http}"),
                4,
                "jobs.a.queue",
                "add [queues.slow]",
            ),
            (
                &format!("[queues.fast]\n[jobs.a]\nevery = \"5m\"\n{http}"),
                2,
                "jobs.a.queue",
                "add [queues.default]",
            ),
            (
                "[server]\nlisten = \"0.0.0.0:80\"\n[auth]\nmode = \"password\"",
                2,
                "server.listen",
                "set [server.tls]",
            ),
            #[cfg(feature = "redis")]
            (
                "[storage]\naddress = \"memory:\"\n[transports.a]\naddress = \"redis://127.0.0.1\"",
                2,
                "storage.address",
                "sqlite:punctual.db",
            ),
        ] {
            let found = warnings(text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].starts_with(&format!("punctual.toml:{line}: {key}: ")), "{found:?}");
            assert!(found[0].contains(words), "{found:?}");
        }
    }

    #[test]
    fn usual_and_undecidable_settings_have_no_warning() {
        let http = "http = { url = \"https://example.com\" }";
        for text in [
            EXAMPLE,
            "[jobs.a]\ncron = \"0 0 31 2 *\"\ntopic = \"t\"\nenabled = false",
            "[jobs.a]\nat = \"2026-03-01T12:00:00Z\"\ntopic = \"t\"",
            // Workers over HTTP name their queues and topics when they connect.
            "[queues.fast]\n[jobs.a]\nevery = \"5m\"\nqueue = \"slow\"\ntopic = \"t\"",
            &format!("[jobs.a]\nevery = \"5m\"\nqueue = \"slow\"\n{http}"),
            &format!(
                "[server]\nroles = [\"scheduler\"]\n[queues.fast]\n[jobs.a]\nevery = \"5m\"\n{http}"
            ),
            // Two jobs for either day, which share no day.
            "[jobs.a]\ncron = \"0 0 13 * *\"\ntopic = \"t\"\n[jobs.b]\ncron = \"0 0 1-12,14-31 * 5\"\ntopic = \"t\"",
        ] {
            assert_eq!(warnings(text), [""; 0], "{text}");
        }
        let other = "[jobs.a]\ncron = \"0 0 13 * *\"\ntopic = \"t\"\n[jobs.b]\ncron = \"0 0 1-12 * 5\"\ntopic = \"u\"";
        assert_eq!(warnings(other).len(), 1, "another job at the same time");
    }
}
