//! Delivers: signs what a webhook is told, sends it, and writes down how that went. Who fails too often in a
//! row is switched off, with the reason.

use std::sync::Arc;
use std::time::Duration;

use punctual::documents::DocumentStore;
use punctual::model::Topic;
use punctual::{Builder, Clock, Context, Handler, HandlerError, HandlerResult, Outcome};
use serde_json::json;

use super::notice::Notice;
use super::{WEBHOOK_QUEUE, WEBHOOK_TOPIC, Webhook};
use crate::config::WebhooksConfig;
use crate::targets::{Posted, Tools, lacks_files, not_now, sign};

/// The header a signature travels in: `t=SECONDS,v1=HEX`.
const SIGNATURE: &str = "X-Punctual-Signature";
/// How many deliveries a process sends at once.
const CONCURRENCY: usize = 10;
/// The most characters of a failure that are remembered.
const ERROR_LEN_MAX: usize = 500;
/// The status by which a receiver says that it wants no more.
const GONE: u16 = 410;

/// Sends webhooks out: the handler of their topic.
#[derive(Clone)]
pub struct Webhooks {
    tools: Tools,
    documents: Arc<dyn DocumentStore>,
    clock: Arc<dyn Clock>,
    timeout: Duration,
    failures_max: u32,
}

impl Webhooks {
    /// Sends with these tools what these documents say.
    pub fn new(
        tools: Tools,
        documents: Arc<dyn DocumentStore>,
        clock: Arc<dyn Clock>,
        config: &WebhooksConfig,
    ) -> Self {
        let (timeout, failures_max) = (config.timeout.get(), config.failures_max.max(1));
        Self { tools, documents, clock, timeout, failures_max }
    }

    /// Gives a builder the handler and its queue.
    pub fn register(self, builder: Builder) -> Builder {
        builder.handler(Topic::system(WEBHOOK_TOPIC), self).queue(WEBHOOK_QUEUE, CONCURRENCY)
    }

    /// How a delivery went, by its status or what kept it from having one.
    async fn note(&self, id: &str, status: Option<u16>, failure: Option<&str>) -> HandlerResult {
        let (now, failures_max) = (self.clock.now(), self.failures_max);
        let write = |webhook: &mut Webhook| {
            webhook.last_at = Some(now);
            webhook.last_status = status;
            webhook.failures =
                if failure.is_some() { webhook.failures.saturating_add(1) } else { 0 };
            webhook.last_error = failure.map(|text| text.chars().take(ERROR_LEN_MAX).collect());
            if let Some(failure) = failure.filter(|_| webhook.enabled) {
                let reason = match status {
                    Some(GONE) => Some("the receiver answered that it is gone".to_owned()),
                    _ if webhook.failures >= failures_max => Some(format!(
                        "{} attempts in a row failed; the last one: {failure}",
                        webhook.failures
                    )),
                    _ => None,
                };
                webhook.enabled = reason.is_none();
                webhook.disabled_reason = reason;
            }
        };
        super::change(&*self.documents, id, now, write).await.map_err(HandlerError::from)?;
        Ok(Outcome::Done)
    }
}

impl Handler<Notice> for Webhooks {
    async fn handle(&self, notice: Notice, context: Context) -> HandlerResult {
        let found = super::get(&*self.documents, &notice.webhook, self.clock.now()).await?;
        let Some(webhook) = found.filter(|webhook| webhook.enabled || notice.test) else {
            context.log("the webhook is off or was deleted");
            return Ok(Outcome::Cancel);
        };
        let posted = posted(&webhook, &notice, &context, &*self.clock)?;
        match self.tools.post(posted, self.timeout).await {
            Ok(answer) if (200..300).contains(&answer.status) => {
                context.report_success(format!("the answer was {}", answer.status));
                self.note(&webhook.id, Some(answer.status), None).await
            }
            Ok(answer) => {
                let failure = format!("the answer was {}", answer.status);
                self.note(&webhook.id, Some(answer.status), Some(&failure)).await?;
                let error = HandlerError::new(failure);
                Err(match answer.retry_after {
                    Some(wait) => error.retry_after(wait),
                    None => error,
                })
            }
            // Nothing is wrong with the receiver.
            Err(error) if lacks_files(&error) => not_now(Err(error), &context),
            Err(error) => {
                self.note(&webhook.id, None, Some(error.text())).await?;
                Err(error)
            }
        }
    }
}

/// What is sent. The same at every attempt, but for the time of its signature.
fn posted(
    webhook: &Webhook,
    notice: &Notice,
    context: &Context,
    clock: &dyn Clock,
) -> Result<Posted, HandlerError> {
    let (id, kind) = (context.message_id().to_string(), notice.event["event"].as_str());
    let kind = kind.unwrap_or("unknown").to_owned();
    let body = json!({
        "id": id, "webhook": notice.webhook, "at": notice.at, "event": kind, "data": notice.event,
    });
    let body = body.to_string().into_bytes();
    let signature = sign(webhook.secret.as_bytes(), clock.now(), &body)?;
    Ok(Posted {
        url: webhook.url.clone(),
        headers: vec![
            ("Content-Type", "application/json".to_owned()),
            ("Idempotency-Key", id.clone()),
            ("X-Punctual-Delivery", id),
            ("X-Punctual-Event", kind),
            ("X-Punctual-Attempt", context.attempt().to_string()),
            (SIGNATURE, signature),
        ],
        body: body.into(),
    })
}
