//! Checks of a job definition, field by field; all problems are reported together.

use std::fmt;

use punctual::model::{Body, JobName, PAYLOAD_MAX_DEFAULT, Priority, Queue, Topic};
use punctual::schedule::{Cron, Schedule, Zone};
use serde::Serialize;

use super::{
    Anchor, CommandTarget, HttpTarget, JobSpec, PublishTarget, Secret, Target, Work, duration,
    spread_limit, start_rate,
};
use crate::template::{Template, check_json};
use crate::wording::for_api;

/// Largest number of redirects of a job.
const REDIRECTS_MAX: u8 = 10;
/// Largest `response_bytes_max` of a job in bytes.
const RESPONSE_BYTES_MAX: u32 = 16 * 1024 * 1024;
/// Headers of the connection, which are derived from the URL and the body.
const CONNECTION_HEADERS: [&str; 11] = [
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
/// Largest number of characters of a tag.
const TAG_LEN_MAX: usize = 100;
/// Largest number of tags.
const TAGS_MAX: usize = 50;

/// The keys of schedules.
pub(crate) const SCHEDULE_KEYS: [&str; 3] = ["cron", "every", "at"];
/// The keys of targets.
pub(crate) const TARGET_KEYS: [&str; 4] = ["http", "command", "publish", "topic"];

/// A problem of one field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// The field, with dots, such as `http.url`.
    pub field: String,
    /// The problem and how to fix it.
    pub problem: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

/// Collector of problems.
#[derive(Default)]
struct Findings(Vec<FieldError>);

impl Findings {
    fn add(&mut self, field: &str, problem: impl fmt::Display) {
        self.0.push(FieldError { field: field.to_owned(), problem: problem.to_string() });
    }

    fn check<T, E: fmt::Display>(&mut self, field: &str, result: Result<T, E>) {
        if let Err(error) = result {
            self.add(field, error);
        }
    }
}

impl JobSpec {
    /// Returns all problems of the job under a name; empty when it is valid.
    pub fn check(&self, name: &str) -> Vec<FieldError> {
        let mut found = Findings::default();
        found.check("name", JobName::new(name));
        if let Some(own) = &self.name
            && own != name
        {
            found.add("name", format!("{own:?} differs from {name:?}; leave it out"));
        }
        self.check_schedule(name, &mut found);
        self.check_policies(&mut found);
        let targets = self.targets();
        found.0.extend(targets.iter().flat_map(Target::check));
        found.0.extend(target_count(targets.len()));
        self.check_size(targets, &mut found);
        found.0
    }

    /// Checks the size of the message body of the job.
    fn check_size(&self, mut targets: Vec<Target>, found: &mut Findings) {
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
        found.check(key, checked.map_err(|error| for_api(&error.to_string())));
    }

    fn check_schedule(&self, name: &str, found: &mut Findings) {
        let present = [self.cron.is_some(), self.every.is_some(), self.at.is_some()];
        found.0.extend(schedule_count(present.iter().filter(|present| **present).count()));
        if let Some(cron) = &self.cron
            && let Err(error) = Cron::parse_seeded(cron, name)
        {
            let start: String = cron.chars().take(100).collect();
            found.add("cron", format!("{start:?}: {error}"));
        }
        if let Some(every) = &self.every {
            match duration(every) {
                Ok(every) => {
                    let anchor = jiff::Timestamp::UNIX_EPOCH;
                    found.check("every", Schedule::every(every, anchor));
                }
                Err(error) => found.add("every", error),
            }
        }
        if let Some(anchor) = &self.anchor {
            found.check("anchor", Anchor::read(anchor));
            if self.every.is_none() {
                found.add("anchor", "an anchor needs every; leave it out");
            }
        }
        if let Some(zone) = &self.zone {
            found.check("zone", Zone::named(zone));
            if self.cron.is_none() {
                found.add("zone", "a zone needs cron; leave it out");
            }
        }
        if let Some(jitter) = &self.jitter {
            found.check("jitter", spread_limit(jitter));
        }
    }

    fn check_policies(&self, found: &mut Findings) {
        if let Some(misfire) = &self.misfire {
            found.check("misfire", misfire.check());
        }
        if let Some(overlap) = self.overlap {
            found.check("overlap", overlap.check());
        }
        if let Some(retry) = &self.retry {
            found.check("retry", retry.retry());
        }
        for (field, text) in [("timeout", &self.timeout), ("expires_after", &self.expires_after)] {
            if let Some(text) = text {
                found.check(field, duration(text));
            }
        }
        if let Some(queue) = &self.queue {
            found.check("queue", Queue::new(queue));
        }
        if let Some(level) = self.priority {
            found.check("priority", Priority::new(level));
        }
        if self.concurrency == Some(0) {
            found.add("concurrency", "0 is out of range, use 1 or more");
        }
        if let Some(rate) = &self.rate {
            found.check("rate", start_rate(rate));
        }
        if self.tags.len() > TAGS_MAX {
            found.add(
                "tags",
                format!("{} tags are too many; at most {TAGS_MAX} are allowed", self.tags.len()),
            );
        }
        for tag in &self.tags {
            if tag.trim().is_empty() || tag.chars().count() > TAG_LEN_MAX {
                found.add("tags", format!("a tag must have 1 to {TAG_LEN_MAX} characters"));
            }
        }
    }
}

impl Target {
    /// Returns the key of the target in a job.
    fn key(&self) -> &'static str {
        match self {
            Self::Http(_) => "http",
            Self::Command(_) => "command",
            Self::Publish(_) => "publish",
            Self::Code(_) => "topic",
        }
    }

    /// Returns all problems of the target; empty when it is valid.
    pub fn check(&self) -> Vec<FieldError> {
        let mut found = Findings::default();
        match self {
            Self::Http(http) => check_http(http, &mut found),
            Self::Command(command) => check_command(command, &mut found),
            Self::Publish(publish) => check_publish(publish, &mut found),
            Self::Code(topic) => found.check("topic", Topic::new(topic)),
        }
        found.0
    }
}

/// Returns the problem of a job with `count` schedules, unless it is one.
pub(crate) fn schedule_count(count: usize) -> Option<FieldError> {
    let problem = match count {
        0 => "it has no schedule; set one of cron, every and at",
        1 => return None,
        _ => "it has several schedules; set only one of cron, every and at",
    };
    Some(FieldError { field: "schedule".to_owned(), problem: problem.to_owned() })
}

/// Returns the problem of a job with `count` targets, unless it is one.
pub(crate) fn target_count(count: usize) -> Option<FieldError> {
    let problem = match count {
        0 => "it has no target; set one of http, command, publish and topic",
        1 => return None,
        _ => "it has several targets; set only one of http, command, publish and topic",
    };
    Some(FieldError { field: "target".to_owned(), problem: problem.to_owned() })
}

/// Checks texts that may be templates.
fn check_texts<'a>(
    field: &str,
    texts: impl IntoIterator<Item = Option<&'a str>>,
    found: &mut Findings,
) {
    for text in texts.into_iter().flatten() {
        found.check(field, Template::parse(text));
    }
}

fn check_http(http: &HttpTarget, found: &mut Findings) {
    check_texts("http.url", [Some(http.url.as_str())], found);
    check_texts("http.headers", http.headers.values().map(Secret::plain), found);
    let is_connection_header =
        |name: &&String| CONNECTION_HEADERS.iter().any(|header| header.eq_ignore_ascii_case(name));
    if let Some(name) = http.headers.keys().find(is_connection_header) {
        let problem = format!("{name:?} is set by the connection; leave it out");
        found.add("http.headers", problem);
    }
    if let Some(body) = &http.body {
        found.check("http.body", check_json(body));
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
        found.check("http.timeout", duration(timeout));
    }
    if let Some(max) = http.redirects_max.filter(|max| *max > REDIRECTS_MAX) {
        found.add("http.redirects_max", format!("{max} is out of range, use 0 to {REDIRECTS_MAX}"));
    }
    if let Some(max) = http.response_bytes_max.filter(|max| *max > RESPONSE_BYTES_MAX) {
        let problem = format!("{max} bytes is out of range, use at most {RESPONSE_BYTES_MAX}");
        found.add("http.response_bytes_max", problem);
    }
}

fn check_command(command: &CommandTarget, found: &mut Findings) {
    if command.program.trim().is_empty() {
        found.add("command.program", "it is empty; name a program");
    }
    check_texts("command.args", command.args.iter().map(|arg| Some(arg.as_str())), found);
    check_texts("command.env", command.env.values().map(Secret::plain), found);
    check_texts("command.input", [command.input.as_deref()], found);
    if command.shell && command.program.contains("{{") {
        found.add("command.program", "a shell would interpret template values; use env instead");
    }
    if command.shell && !command.args.is_empty() {
        found.add("command.args", "a shell takes no args; put them into program");
    }
}

fn check_publish(publish: &PublishTarget, found: &mut Findings) {
    found.check("publish.topic", Topic::new(&publish.topic));
    check_texts("publish.key", [publish.key.as_deref()], found);
    let headers = publish.headers.values().map(|value| Some(value.as_str()));
    check_texts("publish.headers", headers, found);
    if let Some(body) = &publish.body {
        found.check("publish.body", check_json(body));
    }
    if let Some(queue) = &publish.queue {
        found.check("publish.queue", Queue::new(queue));
    }
}
