//! Target `publish`: publishes a message through the storage or a transport.

use punctual::model::Body;
use punctual::{Context, Handler, HandlerError, HandlerResult, Outcome, Result};
use serde_json::{Value, json};

use super::{checked, misdirected};
use crate::spec::{PUBLISH_TOPIC, PublishTarget, Target, Work};
use crate::template::{Escape, Facts, Template, render_json};

/// Handler that publishes messages.
pub(super) struct PublishRunner;

impl Handler<Work> for PublishRunner {
    async fn handle(&self, work: Work, context: Context) -> HandlerResult {
        checked(&work.target)?;
        let Work { target: Target::Publish(target), payload } = work else {
            return Err(misdirected(PUBLISH_TOPIC));
        };
        let facts = Facts::of(&context, payload.as_ref());
        let permanent = |error: punctual::Error| HandlerError::from(error).permanent();
        let body = body(&target, payload, &facts, &context).map_err(permanent)?;
        let mut publish = context.publisher().publish_body(&target.topic, body);
        if let Some(transport) = &target.transport {
            publish = publish.via(transport);
        }
        if let Some(queue) = &target.queue {
            publish = publish.queue(queue);
        }
        if let Some(key) = &target.key {
            let key = text(key, &facts).map_err(permanent)?;
            if !key.is_empty() {
                publish = publish.key(key);
            }
        }
        for (name, value) in &target.headers {
            publish = publish.header(name, text(value, &facts).map_err(permanent)?);
        }
        let published = publish.await?;
        context.report_success(format!("published {} to {}", published.id, target.topic));
        Ok(Outcome::Done)
    }
}

fn text(template: &str, facts: &Facts) -> Result<String> {
    Template::parse(template)?.render(facts, Escape::None)
}

/// Returns the body: that of the target, else the payload of the job, else the job and its nominal time.
fn body(
    target: &PublishTarget,
    payload: Option<Value>,
    facts: &Facts,
    context: &Context,
) -> Result<Body> {
    match (&target.body, payload) {
        (Some(Value::String(template)), _) => {
            let kind = target.content_type.clone().unwrap_or_else(|| "text/plain".to_owned());
            let escape = if kind.contains("json") { Escape::Json } else { Escape::None };
            Ok(Body::raw(Template::parse(template)?.render(facts, escape)?, kind))
        }
        (Some(body), _) => Body::json(&render_json(body, facts)?),
        (None, Some(payload)) => Body::json(&payload),
        (None, None) => {
            let job = context.job().map(ToString::to_string);
            Body::json(&json!({"job": job, "nominal": context.nominal()}))
        }
    }
}
