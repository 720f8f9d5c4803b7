//! Delivery of webhooks: signs and sends an event and records the result. A webhook with too many consecutive
//! failures is disabled, with the reason.

use std::sync::Arc;
use std::time::Duration;

use punctual::backend::documents::DocumentStore;
use punctual::model::Topic;
use punctual::{Builder, Clock, Context, Handler, HandlerError, HandlerResult, Outcome};
use serde_json::json;

use super::notice::Notice;
use super::{WEBHOOK_QUEUE, WEBHOOK_TOPIC, Webhook};
use crate::config::WebhooksConfig;
use crate::targets::{PostRequest, TargetServices, lacks_files, sign, snooze_without_files};

/// Header of the signature: `t=SECONDS,v1=HEX`.
const SIGNATURE: &str = "X-Punctual-Signature";
/// Number of concurrent deliveries of a process.
const CONCURRENCY: usize = 10;
/// Largest number of characters of an error that are stored.
const ERROR_LEN_MAX: usize = 500;
/// The status 410 Gone, by which a receiver unsubscribes.
const GONE: u16 = 410;

/// Handler that delivers webhooks.
#[derive(Clone)]
pub struct Webhooks {
    tools: TargetServices,
    documents: Arc<dyn DocumentStore>,
    clock: Arc<dyn Clock>,
    timeout: Duration,
    failures_max: u32,
}

impl Webhooks {
    /// Returns the handler with its HTTP client, its documents and settings.
    pub fn new(
        tools: TargetServices,
        documents: Arc<dyn DocumentStore>,
        clock: Arc<dyn Clock>,
        config: &WebhooksConfig,
    ) -> Self {
        let (timeout, failures_max) = (config.timeout.get(), config.failures_max.max(1));
        Self { tools, documents, clock, timeout, failures_max }
    }

    /// Registers the handler and its queue.
    pub fn register(self, builder: Builder) -> Builder {
        builder.handler(Topic::system(WEBHOOK_TOPIC), self).queue(WEBHOOK_QUEUE, CONCURRENCY)
    }

    /// Records the result of an attempt: its status, or the error that prevented a response.
    async fn record(&self, id: &str, status: Option<u16>, failure: Option<&str>) -> HandlerResult {
        let (now, failures_max) = (self.clock.now(), self.failures_max);
        let write = |webhook: &mut Webhook| {
            webhook.last_at = Some(now);
            webhook.last_status = status;
            webhook.failures =
                if failure.is_some() { webhook.failures.saturating_add(1) } else { 0 };
            webhook.last_error = failure.map(|text| text.chars().take(ERROR_LEN_MAX).collect());
            if let Some(failure) = failure.filter(|_| webhook.enabled) {
                let reason = match status {
                    Some(GONE) => Some("the receiver responded with 410 Gone".to_owned()),
                    _ if webhook.failures >= failures_max => Some(format!(
                        "{} consecutive attempts failed; the last error: {failure}",
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
            context.log("the webhook is disabled or was deleted");
            return Ok(Outcome::Cancel);
        };
        let request = delivery_request(&webhook, &notice, &context, &*self.clock)?;
        match self.tools.post(request, self.timeout).await {
            Ok(response) if (200..300).contains(&response.status) => {
                context.report_success(format!("the response was {}", response.status));
                self.record(&webhook.id, Some(response.status), None).await
            }
            Ok(response) => {
                let failure = format!("the response was {}", response.status);
                self.record(&webhook.id, Some(response.status), Some(&failure)).await?;
                let error = HandlerError::new(failure);
                Err(match response.retry_after {
                    Some(wait) => error.retry_after(wait),
                    None => error,
                })
            }
            // Not a failure of the receiver.
            Err(error) if lacks_files(&error) => snooze_without_files(Err(error), &context),
            Err(error) => {
                self.record(&webhook.id, None, Some(error.text())).await?;
                Err(error)
            }
        }
    }
}

/// Returns the request of a delivery. Equal at every attempt except for the attempt number and the signature.
fn delivery_request(
    webhook: &Webhook,
    notice: &Notice,
    context: &Context,
    clock: &dyn Clock,
) -> Result<PostRequest, HandlerError> {
    let (id, kind) = (context.message_id().to_string(), notice.event["event"].as_str());
    let kind = kind.unwrap_or("unknown").to_owned();
    let body = json!({
        "id": id, "webhook": notice.webhook, "at": notice.at, "event": kind, "data": notice.event,
    });
    let body = body.to_string().into_bytes();
    let signature = sign(webhook.secret.as_bytes(), clock.now(), &body)?;
    Ok(PostRequest {
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
