//! Alerts: problems that need a person although the process works. Failing jobs, new dead letters, failing
//! webhooks, queues whose messages wait, a refused configuration. Computed in bounded steps and cached for a few
//! seconds; health, the overview, `doctor`, metrics and events report the same alerts.

mod failing_jobs;
mod refused_configurations;
mod waiting_queues;
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use punctual::Result;
use serde::Serialize;
use utoipa::ToSchema;

pub(crate) use failing_jobs::FailingJob;
pub(crate) use refused_configurations::{RefusedConfiguration, configuration_refused};
pub(crate) use watch::follow;

use crate::app::App;
use crate::webhooks::{self, Webhook};

/// How long computed alerts are cached.
const AGE: Duration = Duration::from_secs(5);
/// How many attempts in a row must have failed before a webhook is an alert; a single failure is retried soon.
const WEBHOOK_FAILURES_MIN: u32 = 2;
/// Largest number of names in a sentence about several subjects.
const NAMES_MAX: usize = 3;

/// The kind of an alert, most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AlertKind {
    /// The process or its storage does not work as it should.
    Server,
    /// A reloaded configuration was refused.
    ConfigurationRefused,
    /// The last run of a job failed.
    JobFailing,
    /// Messages of a queue are due, and no process works on it.
    QueueWithoutWorker,
    /// Messages of a paused queue are due.
    QueuePaused,
    /// Messages of a queue have been due for too long.
    QueueLate,
    /// Messages became dead letters within the last hour.
    DeadLetters,
    /// Deliveries of a webhook fail.
    WebhookFailing,
}

impl AlertKind {
    /// Returns the stable name.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::ConfigurationRefused => "configuration_refused",
            Self::JobFailing => "job_failing",
            Self::QueueWithoutWorker => "queue_without_worker",
            Self::QueuePaused => "queue_paused",
            Self::QueueLate => "queue_late",
            Self::DeadLetters => "dead_letters",
            Self::WebhookFailing => "webhook_failing",
        }
    }

    /// Returns how to fix it.
    fn fix(self) -> &'static str {
        match self {
            Self::Server => "read the log of the server; check that its storage is reachable",
            Self::ConfigurationRefused => {
                "run `punctual config check`, correct the file and save it again"
            }
            Self::JobFailing => "list its last runs with `punctual jobs history NAME`",
            Self::QueueWithoutWorker => "start a process that works on it",
            Self::QueuePaused => "resume it with `punctual queues resume NAME`",
            Self::QueueLate => {
                "add workers or a larger concurrency; `punctual messages why ID` says what it waits for"
            }
            Self::DeadLetters => {
                "list them with `punctual dead list`, then redrive or discard them"
            }
            Self::WebhookFailing => "list its deliveries with `punctual webhooks deliveries ID`",
        }
    }

    /// Returns the sentence about several subjects of this kind; `count` may end in "or more".
    fn many(self, count: &str, names: &str) -> String {
        match self {
            Self::JobFailing => format!("{count} jobs fail: {names}"),
            Self::QueueWithoutWorker => format!("no process works on {count} queues: {names}"),
            Self::QueuePaused => format!("messages are due in {count} paused queues: {names}"),
            Self::QueueLate => format!("messages of {count} queues are overdue: {names}"),
            Self::WebhookFailing => format!("deliveries of {count} webhooks fail: {names}"),
            Self::Server | Self::ConfigurationRefused | Self::DeadLetters => {
                format!("{count} problems: {names}")
            }
        }
    }
}

/// A problem that needs a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Alert {
    pub(crate) kind: AlertKind,
    /// The job, the queue or the id of the webhook.
    pub(crate) subject: Option<String>,
    /// Name of the subject in a sentence about several.
    name: String,
    /// What is wrong, in a sentence.
    pub(crate) text: String,
}

impl Alert {
    /// Returns an alert whose subject is also its name.
    fn about(kind: AlertKind, subject: &str, text: String) -> Self {
        Self { kind, subject: Some(subject.to_owned()), name: subject.to_owned(), text }
    }

    /// Returns an alert without a subject.
    fn general(kind: AlertKind, text: String) -> Self {
        Self { kind, subject: None, name: text.clone(), text }
    }
}

/// All alerts of one kind, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct AlertView {
    /// The kind.
    pub(crate) kind: AlertKind,
    /// What is wrong, in a sentence.
    pub(crate) text: String,
    /// Number of subjects.
    pub(crate) count: usize,
    /// Whether there may be more subjects: not everything was checked.
    pub(crate) more: bool,
    /// The first subjects: jobs, queues or ids of webhooks.
    pub(crate) subjects: Vec<String>,
    /// How to fix it.
    pub(crate) fix: &'static str,
}

impl AlertView {
    /// Returns an alert about the process itself.
    pub(crate) fn of_server(text: &str) -> Self {
        let kind = AlertKind::Server;
        let (text, subjects) = (text.to_owned(), Vec::new());
        Self { kind, text, count: 1, more: false, subjects, fix: kind.fix() }
    }
}

/// All alerts at one instant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Alerts {
    /// By kind, the most urgent first.
    pub(crate) list: Vec<Alert>,
    /// Failing jobs, most failures first.
    pub(crate) failing: Vec<FailingJob>,
    /// Whether more jobs may fail than were checked.
    pub(crate) more_failing: bool,
    /// When each job last succeeded, as far as known.
    pub(crate) successes: BTreeMap<String, Timestamp>,
}

impl Alerts {
    /// Returns one view per kind, most urgent first.
    pub(crate) fn views(&self) -> Vec<AlertView> {
        self.list
            .chunk_by(|one, other| one.kind == other.kind)
            .filter_map(|of_kind| {
                let (first, count) = (of_kind.first()?, of_kind.len());
                let more = first.kind == AlertKind::JobFailing && self.more_failing;
                let text = if count == 1 { first.text.clone() } else { together(of_kind, more) };
                let subjects = of_kind.iter().filter_map(|alert| alert.subject.clone());
                let subjects = subjects.take(NAMES_MAX).collect();
                let fix = first.kind.fix();
                Some(AlertView { kind: first.kind, text, count, more, subjects, fix })
            })
            .collect()
    }

    /// Counts the alerts of a kind.
    pub(crate) fn count(&self, kind: AlertKind) -> usize {
        self.list.iter().filter(|alert| alert.kind == kind).count()
    }
}

/// Returns the sentence about several alerts of a kind; `more` when there may be others.
fn together(of_kind: &[Alert], more: bool) -> String {
    let names: Vec<&str> =
        of_kind.iter().take(NAMES_MAX).map(|alert| alert.name.as_str()).collect();
    let or_more = if more { " or more" } else { "" };
    let others = match of_kind.len().saturating_sub(NAMES_MAX) {
        0 => String::new(),
        _ if more => " and others".to_owned(),
        others => format!(" and {others} more"),
    };
    let names = format!("{}{others}", names.join(", "));
    let count = format!("{}{or_more}", of_kind.len());
    of_kind.first().map_or(String::new(), |first| first.kind.many(&count, &names))
}

/// Returns the alerts, at most a few seconds old.
pub(crate) async fn current(app: &App) -> Result<Arc<Alerts>> {
    let find = Box::pin(async { find(app).await.map(Arc::new) });
    app.node().alerts.get(&*app.clock, AGE, find).await
}

/// Returns the alerts that are known without the storage.
pub(crate) fn without_storage(app: &App) -> Alerts {
    Alerts { list: refused_configurations::of_node(app).into_iter().collect(), ..Alerts::default() }
}

async fn find(app: &App) -> Result<Alerts> {
    let mut list = refused_configurations::find(app).await?;
    let failing_jobs::JobFailures { failing, more, successes } = failing_jobs::find(app).await?;
    list.extend(failing.iter().map(FailingJob::alert));
    list.extend(waiting_queues::find(app).await?);
    list.extend(dead_letters(app).await?);
    list.extend(webhooks::all(app).await?.iter().filter_map(of_webhook));
    list.sort_by_key(|alert| alert.kind);
    Ok(Alerts { list, failing, more_failing: more, successes })
}

async fn dead_letters(app: &App) -> Result<Option<Alert>> {
    let groups = crate::api::dead_groups(app).await?;
    let count = groups.in_the_last_hour();
    let letters =
        if count == 1 { "message became a dead letter" } else { "messages became dead letters" };
    let text = format!("{count} {letters} in the last hour");
    Ok((count > 0).then(|| Alert::general(AlertKind::DeadLetters, text)))
}

fn of_webhook(webhook: &Webhook) -> Option<Alert> {
    // The rest of the address may be a secret.
    let host =
        url::Url::parse(&webhook.url).ok().and_then(|url| url.host().map(|host| host.to_string()));
    let host = host.unwrap_or_else(|| webhook.id.clone());
    let last = webhook.last_error.as_deref().unwrap_or("unknown error");
    let text = match (&webhook.disabled_reason, webhook.enabled) {
        (Some(reason), false) => format!("the webhook to {host} was switched off: {reason}"),
        (_, true) if webhook.failures >= WEBHOOK_FAILURES_MIN => {
            format!("{} attempts in a row to deliver to {host} failed: {last}", webhook.failures)
        }
        _ => return None,
    };
    let subject = Some(webhook.id.clone());
    Some(Alert { kind: AlertKind::WebhookFailing, subject, name: host, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_of_a_kind_are_one_sentence() {
        let job = |name: &str| Alert::about(AlertKind::JobFailing, name, format!("{name} fails"));
        let dead =
            Alert::general(AlertKind::DeadLetters, "2 messages became dead letters".to_owned());
        let alerts = Alerts {
            list: vec![job("a"), job("b"), job("c"), job("d"), dead],
            ..Alerts::default()
        };
        let views = alerts.views();
        assert_eq!(views.len(), 2);
        assert_eq!(views[0].text, "4 jobs fail: a, b, c and 1 more");
        assert_eq!((views[0].count, views[0].subjects.len()), (4, NAMES_MAX));
        assert_eq!((views[1].text.as_str(), views[1].count), ("2 messages became dead letters", 1));
        let alerts = Alerts { list: vec![job("a")], ..Alerts::default() };
        assert_eq!(alerts.views()[0].text, "a fails");
        let list = vec![job("a"), job("b"), job("c"), job("d")];
        let alerts = Alerts { list, more_failing: true, ..Alerts::default() };
        assert_eq!(alerts.views()[0].text, "4 or more jobs fail: a, b, c and others");
    }
}
