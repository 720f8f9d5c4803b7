//! What is wrong with a job, field by field, all of it at once.

use std::fmt;

use punctual::model::{Body, JobName, PAYLOAD_MAX_DEFAULT, Priority, Queue, Topic};
use punctual::schedule::{Cron, Schedule, Zone};
use serde::Serialize;

use super::{
    Anchor, CommandTarget, HttpTarget, JobSpec, PublishTarget, Secret, Target, Work, length, reach,
    starts,
};
use crate::template::{Template, check_json};
use crate::wording::for_api;

/// The most redirects a job may ask for.
const REDIRECTS_MAX: u8 = 10;
/// The most bytes of an answer a job may ask for.
const ANSWER_BYTES_MAX: u32 = 16 * 1024 * 1024;
/// Headers that say how a request is sent and to whom, which follow from the URL and the body.
const HEADERS_OWN: [&str; 11] = [
    "Host",
    "Content-Length",
    "Transfer-Encoding",
    "Connection",
    "Keep-Alive",
    "Upgrade",
    "TE",
    "Trailer",
    "Expect",
    "Proxy-Authorization",
    "Proxy-Connection",
];
/// The most characters of a tag.
const TAG_LEN_MAX: usize = 100;
/// The most tags.
const TAGS_MAX: usize = 50;

/// The keys that say when a job runs.
pub(crate) const SCHEDULE_KEYS: [&str; 3] = ["cron", "every", "at"];
/// The keys that say what a job does.
pub(crate) const TARGET_KEYS: [&str; 4] = ["http", "command", "publish", "topic"];

/// What is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// The field, with dots, such as `http.url`.
    pub field: String,
    /// What is wrong with it, and the way out.
    pub problem: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

/// Collects what is wrong.
#[derive(Default)]
struct Found(Vec<FieldError>);

impl Found {
    fn add(&mut self, field: &str, problem: impl fmt::Display) {
        self.0.push(FieldError { field: field.to_owned(), problem: problem.to_string() });
    }

    fn try_one<T, E: fmt::Display>(&mut self, field: &str, result: Result<T, E>) {
        if let Err(error) = result {
            self.add(field, error);
        }
    }
}

impl JobSpec {
    /// Everything that is wrong with it under a name; empty when nothing is.
    pub fn check(&self, name: &str) -> Vec<FieldError> {
        let mut found = Found::default();
        found.try_one("name", JobName::new(name));
        if let Some(own) = &self.name
            && own != name
        {
            found.add("name", format!("{own:?} is not {name:?}; leave it out"));
        }
        self.check_schedule(name, &mut found);
        self.check_policies(&mut found);
        let targets = self.targets();
        found.0.extend(targets.iter().flat_map(Target::check));
        found.0.extend(target_count(targets.len()));
        self.check_size(targets, &mut found);
        found.0
    }

    /// Checks that what the messages of the job carry is not too large.
    fn check_size(&self, mut targets: Vec<Target>, found: &mut Found) {
        let (Some(target), true) = (targets.pop(), targets.is_empty()) else { return };
        let (key, body) = match (target, self.payload.as_ref()) {
            (Target::Code(_), None) => return,
            (Target::Code(_), Some(payload)) => ("payload", Body::json(payload)),
            (target, payload) => {
                let key = if payload.is_some() { "payload" } else { target.key() };
                (key, Body::json(&Work { target, payload: payload.cloned() }))
            }
        };
        let checked = body.and_then(|body| body.check(PAYLOAD_MAX_DEFAULT));
        found.try_one(key, checked.map_err(|error| for_api(&error.to_string())));
    }

    fn check_schedule(&self, name: &str, found: &mut Found) {
        let given = [self.cron.is_some(), self.every.is_some(), self.at.is_some()];
        found.0.extend(schedule_count(given.iter().filter(|given| **given).count()));
        if let Some(cron) = &self.cron
            && let Err(error) = Cron::parse_seeded(cron, name)
        {
            let start: String = cron.chars().take(100).collect();
            found.add("cron", format!("{start:?}: {error}"));
        }
        if let Some(every) = &self.every {
            match length(every) {
                Ok(every) => {
                    let anchor = jiff::Timestamp::UNIX_EPOCH;
                    found.try_one("every", Schedule::every(every, anchor));
                }
                Err(error) => found.add("every", error),
            }
        }
        if let Some(anchor) = &self.anchor {
            found.try_one("anchor", Anchor::read(anchor));
            if self.every.is_none() {
                found.add("anchor", "only an interval is counted from one; leave it out");
            }
        }
        if let Some(zone) = &self.zone {
            found.try_one("zone", Zone::named(zone));
            if self.cron.is_none() {
                found.add("zone", "only a cron text is read in a zone; leave it out");
            }
        }
        if let Some(jitter) = &self.jitter {
            found.try_one("jitter", reach(jitter));
        }
    }

    fn check_policies(&self, found: &mut Found) {
        if let Some(misfire) = &self.misfire {
            found.try_one("misfire", misfire.check());
        }
        if let Some(overlap) = self.overlap {
            found.try_one("overlap", overlap.check());
        }
        if let Some(retry) = &self.retry {
            found.try_one("retry", retry.retry());
        }
        for (field, text) in [("timeout", &self.timeout), ("expires_after", &self.expires_after)] {
            if let Some(text) = text {
                found.try_one(field, length(text));
            }
        }
        if let Some(queue) = &self.queue {
            found.try_one("queue", Queue::new(queue));
        }
        if let Some(level) = self.priority {
            found.try_one("priority", Priority::new(level));
        }
        if self.concurrency == Some(0) {
            found.add("concurrency", "0 lets none run at all; allow at least 1");
        }
        if let Some(rate) = &self.rate {
            found.try_one("rate", starts(rate));
        }
        if self.tags.len() > TAGS_MAX {
            found.add("tags", format!("{} are too many; at most {TAGS_MAX}", self.tags.len()));
        }
        for tag in &self.tags {
            if tag.trim().is_empty() || tag.chars().count() > TAG_LEN_MAX {
                found.add("tags", format!("a tag has 1 to {TAG_LEN_MAX} characters"));
            }
        }
    }
}

impl Target {
    /// The key of a job that says it.
    fn key(&self) -> &'static str {
        match self {
            Self::Http(_) => "http",
            Self::Command(_) => "command",
            Self::Publish(_) => "publish",
            Self::Code(_) => "topic",
        }
    }

    /// Everything that is wrong with it; empty when nothing is.
    pub fn check(&self) -> Vec<FieldError> {
        let mut found = Found::default();
        match self {
            Self::Http(http) => check_http(http, &mut found),
            Self::Command(command) => check_command(command, &mut found),
            Self::Publish(publish) => check_publish(publish, &mut found),
            Self::Code(topic) => found.try_one("topic", Topic::new(topic)),
        }
        found.0
    }
}

/// Returns what is wrong with so many schedules of one job.
pub(crate) fn schedule_count(count: usize) -> Option<FieldError> {
    let problem = match count {
        0 => "it has none; say one of cron, every and at",
        1 => return None,
        _ => "there are several; say only one of cron, every and at",
    };
    Some(FieldError { field: "schedule".to_owned(), problem: problem.to_owned() })
}

/// Returns what is wrong with so many targets of one job.
pub(crate) fn target_count(count: usize) -> Option<FieldError> {
    let problem = match count {
        0 => "it does nothing; say one of http, command, publish and topic",
        1 => return None,
        _ => "it does several things; say only one of http, command, publish and topic",
    };
    Some(FieldError { field: "target".to_owned(), problem: problem.to_owned() })
}

/// Checks texts that may be templates.
fn check_texts<'a>(
    field: &str,
    texts: impl IntoIterator<Item = Option<&'a str>>,
    found: &mut Found,
) {
    for text in texts.into_iter().flatten() {
        found.try_one(field, Template::parse(text));
    }
}

fn check_http(http: &HttpTarget, found: &mut Found) {
    check_texts("http.url", [Some(http.url.as_str())], found);
    check_texts("http.headers", http.headers.values().map(Secret::plain), found);
    let own = |name: &&String| HEADERS_OWN.iter().any(|own| own.eq_ignore_ascii_case(name));
    if let Some(name) = http.headers.keys().find(own) {
        let problem = format!("{name:?} belongs to the connection and cannot be set; leave it out");
        found.add("http.headers", problem);
    }
    if let Some(body) = &http.body {
        found.try_one("http.body", check_json(body));
    }
    if let Some(method) = &http.method {
        const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
        if !METHODS.contains(&method.to_ascii_uppercase().as_str()) {
            let known = METHODS.join(", ");
            found.add("http.method", format!("{method:?} is unknown; use one of {known}"));
        }
    }
    if !http.url.starts_with("http://") && !http.url.starts_with("https://") {
        found.add("http.url", "it must begin with http:// or https://");
    }
    if let Some(timeout) = &http.timeout {
        found.try_one("http.timeout", length(timeout));
    }
    if let Some(most) = http.redirects_max.filter(|most| *most > REDIRECTS_MAX) {
        found.add("http.redirects_max", format!("{most} are too many; at most {REDIRECTS_MAX}"));
    }
    if let Some(most) = http.answer_max.filter(|most| *most > ANSWER_BYTES_MAX) {
        let problem = format!("{most} bytes are too many; at most {ANSWER_BYTES_MAX}");
        found.add("http.answer_max", problem);
    }
}

fn check_command(command: &CommandTarget, found: &mut Found) {
    if command.program.trim().is_empty() {
        found.add("command.program", "it is empty; name a program");
    }
    check_texts("command.args", command.args.iter().map(|arg| Some(arg.as_str())), found);
    check_texts("command.env", command.env.values().map(Secret::plain), found);
    check_texts("command.input", [command.input.as_deref()], found);
    if command.shell && command.program.contains("{{") {
        found.add("command.program", "a shell would read what a template brings; use env instead");
    }
    if command.shell && !command.args.is_empty() {
        found.add("command.args", "a shell reads one line; put them into program");
    }
}

fn check_publish(publish: &PublishTarget, found: &mut Found) {
    found.try_one("publish.topic", Topic::new(&publish.topic));
    check_texts("publish.key", [publish.key.as_deref()], found);
    let headers = publish.headers.values().map(|value| Some(value.as_str()));
    check_texts("publish.headers", headers, found);
    if let Some(body) = &publish.body {
        found.try_one("publish.body", check_json(body));
    }
    if let Some(queue) = &publish.queue {
        found.try_one("publish.queue", Queue::new(queue));
    }
}
