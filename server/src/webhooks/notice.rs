//! Webhook notices: turns events of this process into deliveries. Each process handles only its own events, so
//! that each is delivered once; a process that falls far behind drops events and logs it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use punctual::clock::between;
use punctual::model::{HandlerOptions, MessageId, Topic};
use punctual::{Event, Result, Retry};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;

use super::{Filter, WEBHOOK_QUEUE, WEBHOOK_TOPIC, Webhook};
use crate::api::pattern_matches;
use crate::app::App;

/// How long webhooks are cached, so the delay of changes on other nodes.
const AGE: Duration = Duration::from_secs(1);
/// Largest number of attempts of a delivery.
const ATTEMPTS_MAX: u32 = 8;

/// The payload of a delivery.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Notice {
    pub(super) webhook: String,
    pub(super) at: Timestamp,
    /// The event as JSON, with its kind under `event`.
    pub(super) event: Value,
    /// Whether it is a test, which is also delivered to a disabled webhook.
    #[serde(default)]
    pub(super) test: bool,
}

/// Cached webhooks.
#[derive(Default)]
struct WebhookCache {
    webhooks: Vec<Webhook>,
    read_at: Option<Timestamp>,
    change: u64,
}

impl WebhookCache {
    async fn refresh(&mut self, app: &App) -> Result<()> {
        let (now, change) = (app.clock.now(), app.node().webhooks_changed.load(Ordering::Relaxed));
        let is_fresh = self.read_at.is_some_and(|read_at| between(read_at, now) < AGE);
        if is_fresh && change == self.change {
            return Ok(());
        }
        // Also when it fails, so that an unavailable storage is not queried for every event.
        (self.read_at, self.change) = (Some(now), change);
        self.webhooks = super::all(app).await?;
        self.webhooks.retain(|webhook| webhook.enabled);
        Ok(())
    }
}

/// Creates deliveries until the process has stopped.
pub(crate) async fn follow(app: App) {
    if is_disabled(&app) {
        return;
    }
    let mut events = app.punctual.events().listen();
    let mut known = WebhookCache::default();
    loop {
        let event = match events.recv().await {
            Ok(event) => event,
            Err(RecvError::Lagged(missed)) => {
                tracing::warn!(
                    missed,
                    "some events were not delivered to webhooks: too many in a short time"
                );
                continue;
            }
            Err(RecvError::Closed) => return,
        };
        if let Err(error) = notify(&app, &mut known, &event).await {
            tracing::warn!(%error, event = event.name(), "an event could not be queued for webhooks");
        }
        if matches!(*event, Event::ProcessStopped { .. }) {
            return;
        }
    }
}

/// Returns whether the configuration disables webhooks.
fn is_disabled(app: &App) -> bool {
    let settings = app.node().settings.as_ref();
    settings.is_some_and(|settings| settings["webhooks"]["enabled"] == false)
}

async fn notify(app: &App, known: &mut WebhookCache, event: &Arc<Event>) -> Result<()> {
    known.refresh(app).await?;
    let subscribes =
        |webhook: &&Webhook| webhook.events.iter().any(|word| pattern_matches(word, event.name()));
    if !known.webhooks.iter().any(|webhook| subscribes(&webhook)) {
        return Ok(());
    }
    let mut facts = event.to_json();
    if facts["topic"] == WEBHOOK_TOPIC {
        return Ok(());
    }
    let mut event = facts.clone();
    app.redaction().hide_event(&mut event);
    let filtered =
        known.webhooks.iter().filter(subscribes).any(|one| one.filter != Filter::default());
    if filtered {
        complete(app, &mut facts).await?;
    }
    for webhook in known.webhooks.iter().filter(subscribes) {
        if webhook.filter.matches(&facts) {
            let (webhook, event) = (webhook.id.clone(), event.clone());
            send(app, Notice { webhook, at: app.clock.now(), event, test: false }).await?;
        }
    }
    Ok(())
}

/// Adds fields that filters need and the event lacks, from its message.
async fn complete(app: &App, facts: &mut Value) -> Result<()> {
    let id = facts["message"].as_str().and_then(|id| id.parse::<MessageId>().ok());
    let Some(id) = id else { return Ok(()) };
    let Some(record) = app.inspect.message(id).await? else { return Ok(()) };
    let message = &record.message;
    facts["queue"] = message.queue.as_str().into();
    facts["topic"] = message.topic.as_str().into();
    if let Some(occurrence) = &message.occurrence {
        facts["job"] = occurrence.job.as_str().into();
    }
    Ok(())
}

impl Filter {
    fn matches(&self, facts: &Value) -> bool {
        let fits = |value: &Option<String>, name: &str| {
            value.as_deref().is_none_or(|value| facts[name] == value)
        };
        fits(&self.job, "job") && fits(&self.topic, "topic") && fits(&self.queue, "queue")
    }
}

/// Sends a test delivery.
pub(crate) async fn test(app: &App, webhook: &Webhook) -> Result<MessageId> {
    let event = json!({ "event": "webhook.test", "webhook": webhook.id });
    send(app, Notice { webhook: webhook.id.clone(), at: app.clock.now(), event, test: true }).await
}

async fn send(app: &App, notice: Notice) -> Result<MessageId> {
    // A test has only one attempt.
    let retry =
        if notice.test { Retry::none() } else { Retry::exponential().attempts(ATTEMPTS_MAX) };
    let publish =
        app.punctual.publisher().publish(Topic::system(WEBHOOK_TOPIC), &notice).via_storage();
    let handler_options = HandlerOptions::new().retry(retry);
    let published =
        publish.queue(WEBHOOK_QUEUE).key(&notice.webhook).handler_options(handler_options).await?;
    Ok(published.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_filter_must_match() {
        let facts = json!({ "event": "attempt.failed", "job": "nightly", "queue": "slow" });
        let filter = |job: Option<&str>, queue: Option<&str>| Filter {
            job: job.map(ToOwned::to_owned),
            queue: queue.map(ToOwned::to_owned),
            topic: None,
        };
        assert!(filter(None, None).matches(&facts));
        assert!(filter(Some("nightly"), Some("slow")).matches(&facts));
        assert!(!filter(Some("nightly"), Some("fast")).matches(&facts));
        assert!(!filter(Some("hourly"), None).matches(&facts));
    }
}
