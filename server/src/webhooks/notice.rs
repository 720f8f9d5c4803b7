//! Turns events of this process into deliveries. Each process sees to its own events, so that nobody is told
//! twice; who falls far behind misses some, and the log says so.

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
use crate::api::means;
use crate::app::App;

/// How long a process may take to hear of a webhook that was made on another.
const AGE: Duration = Duration::from_secs(1);
/// How often a delivery is tried.
const ATTEMPTS_MAX: u32 = 8;

/// What a webhook is told; the payload of a delivery.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Notice {
    pub(super) webhook: String,
    pub(super) at: Timestamp,
    /// The event as JSON, with its kind under `event`.
    pub(super) event: Value,
    /// Whether somebody wants to see if it arrives, also at a webhook that is off.
    #[serde(default)]
    pub(super) test: bool,
}

/// The webhooks as they were read last.
#[derive(Default)]
struct Known {
    webhooks: Vec<Webhook>,
    read_at: Option<Timestamp>,
    change: u64,
}

impl Known {
    async fn refresh(&mut self, app: &App) -> Result<()> {
        let (now, change) = (app.clock.now(), app.node().webhooks_changed.load(Ordering::Relaxed));
        let is_fresh = self.read_at.is_some_and(|read_at| between(read_at, now) < AGE);
        if is_fresh && change == self.change {
            return Ok(());
        }
        // Also when it fails: a storage that is away is not asked for every event.
        (self.read_at, self.change) = (Some(now), change);
        self.webhooks = super::all(app).await?;
        self.webhooks.retain(|webhook| webhook.enabled);
        Ok(())
    }
}

/// Makes deliveries until the process has stopped.
pub(crate) async fn follow(app: App) {
    if is_off(&app) {
        return;
    }
    let mut events = app.punctual.events().listen();
    let mut known = Known::default();
    loop {
        let event = match events.recv().await {
            Ok(event) => event,
            Err(RecvError::Lagged(missed)) => {
                tracing::warn!(missed, "webhooks were not told of some events: too many at once");
                continue;
            }
            Err(RecvError::Closed) => return,
        };
        if let Err(error) = tell(&app, &mut known, &event).await {
            tracing::warn!(%error, event = event.name(), "webhooks could not be told of an event");
        }
        if matches!(*event, Event::ProcessStopped { .. }) {
            return;
        }
    }
}

/// Whether the configuration says that nobody is told.
fn is_off(app: &App) -> bool {
    let settings = app.node().settings.as_ref();
    settings.is_some_and(|settings| settings["webhooks"]["enabled"] == false)
}

async fn tell(app: &App, known: &mut Known, event: &Arc<Event>) -> Result<()> {
    known.refresh(app).await?;
    let wants = |webhook: &&Webhook| webhook.events.iter().any(|word| means(word, event.name()));
    if !known.webhooks.iter().any(|webhook| wants(&webhook)) {
        return Ok(());
    }
    let mut facts = event.to_json();
    if facts["topic"] == WEBHOOK_TOPIC {
        return Ok(());
    }
    let mut event = facts.clone();
    app.redaction().hide_event(&mut event);
    let filtered = known.webhooks.iter().filter(wants).any(|one| one.filter != Filter::default());
    if filtered {
        complete(app, &mut facts).await?;
    }
    for webhook in known.webhooks.iter().filter(wants) {
        if webhook.filter.takes(&facts) {
            let (webhook, event) = (webhook.id.clone(), event.clone());
            send(app, Notice { webhook, at: app.clock.now(), event, test: false }).await?;
        }
    }
    Ok(())
}

/// Adds what a filter may ask for and the event does not say, from the message it is about.
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
    fn takes(&self, facts: &Value) -> bool {
        let fits = |wanted: &Option<String>, name: &str| {
            wanted.as_deref().is_none_or(|wanted| facts[name] == wanted)
        };
        fits(&self.job, "job") && fits(&self.topic, "topic") && fits(&self.queue, "queue")
    }
}

/// Sends a delivery that says only that somebody wants to see it arrive.
pub(crate) async fn test(app: &App, webhook: &Webhook) -> Result<MessageId> {
    let event = json!({ "event": "webhook.test", "webhook": webhook.id });
    send(app, Notice { webhook: webhook.id.clone(), at: app.clock.now(), event, test: true }).await
}

async fn send(app: &App, notice: Notice) -> Result<MessageId> {
    // What a test finds out is found out at the first attempt.
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
    fn every_part_of_a_filter_must_fit() {
        let facts = json!({ "event": "attempt.failed", "job": "nightly", "queue": "slow" });
        let filter = |job: Option<&str>, queue: Option<&str>| Filter {
            job: job.map(ToOwned::to_owned),
            queue: queue.map(ToOwned::to_owned),
            topic: None,
        };
        assert!(filter(None, None).takes(&facts));
        assert!(filter(Some("nightly"), Some("slow")).takes(&facts));
        assert!(!filter(Some("nightly"), Some("fast")).takes(&facts));
        assert!(!filter(Some("hourly"), None).takes(&facts));
    }
}
