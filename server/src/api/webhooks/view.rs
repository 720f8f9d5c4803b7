//! Webhook requests and views; the secret is returned once.

use jiff::Timestamp;
use punctual::model::{IdSource, Ids};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::check_kinds;
use crate::app::App;
use crate::problem::{ApiResult, Problem};
use crate::secret::random;
use crate::webhooks::{Filter, Webhook};

/// Largest number of characters of a URL.
const URL_LEN_MAX: usize = 2_000;
/// Largest number of event kinds.
const EVENTS_MAX: usize = 100;
/// Allowed numbers of characters of a secret.
const SECRET_LEN: std::ops::RangeInclusive<usize> = 16..=200;

/// A webhook.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct WebhookView {
    /// Id of the webhook.
    pub(super) id: String,
    /// URL of deliveries.
    url: String,
    /// Event kinds, such as `message.dead`, `job.*` or `*`.
    events: Vec<String>,
    /// Filter of these events.
    filter: Filter,
    /// Whether it is enabled.
    enabled: bool,
    /// Why it was disabled automatically.
    disabled_reason: Option<String>,
    /// Number of failed deliveries since the last successful one.
    failures: u32,
    /// Creation time.
    created_at: Timestamp,
    /// Time of the last delivery.
    last_at: Option<Timestamp>,
    /// HTTP status of the last delivery; null without a response.
    last_status: Option<u16>,
    /// Error of the last delivery; null when it succeeded.
    last_error: Option<String>,
}

impl From<Webhook> for WebhookView {
    fn from(webhook: Webhook) -> Self {
        let Webhook { id, url, events, filter, secret: _, .. } = webhook;
        Self {
            id,
            url,
            events,
            filter,
            enabled: webhook.enabled,
            disabled_reason: webhook.disabled_reason,
            failures: webhook.failures,
            created_at: webhook.created_at,
            last_at: webhook.last_at,
            last_status: webhook.last_status,
            last_error: webhook.last_error,
        }
    }
}

/// A new webhook with its secret.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct WebhookWithSecret {
    /// The webhook.
    #[serde(flatten)]
    pub(super) webhook: WebhookView,
    /// Secret that signs deliveries; not returned again.
    pub(super) secret: String,
}

/// Result of a test delivery.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct WebhookTestResult {
    /// Id of its message.
    pub(super) message: String,
    /// How it ended, such as `succeeded` or `failed`; null while it has not ended.
    pub(super) ending: Option<&'static str>,
    /// Response of the receiver, or why it was not reached.
    pub(super) note: Option<String>,
    /// Duration of the call in milliseconds.
    pub(super) took_ms: Option<u64>,
}

/// A webhook to create.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WebhookRequest {
    /// URL of deliveries, `http` or `https`.
    url: String,
    /// Event kinds, such as `message.dead`, `job.*` or `*`.
    events: Vec<String>,
    /// Filter of these events. Default: all of them.
    #[serde(default)]
    filter: Filter,
    /// Whether it is enabled. Default: true.
    enabled: Option<bool>,
    /// Secret that signs deliveries, 16 to 200 characters. Default: generated.
    secret: Option<String>,
}

impl WebhookRequest {
    /// Returns the webhook. Fails when a field is invalid.
    pub(super) async fn webhook(self, app: &App) -> ApiResult<Webhook> {
        let now = app.clock.now();
        check_url(app, &self.url).await?;
        check_events(&self.events)?;
        check_secret(self.secret.as_deref())?;
        let secret = self.secret.unwrap_or_else(|| format!("whsec_{}", random()));
        Ok(Webhook {
            id: Ids::random().next(now).to_string(),
            url: self.url,
            events: self.events,
            filter: self.filter,
            secret,
            enabled: self.enabled.unwrap_or(true),
            disabled_reason: None,
            failures: 0,
            created_at: now,
            last_at: None,
            last_status: None,
            last_error: None,
        })
    }
}

/// Changes of a webhook; omitted fields keep their values.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WebhookEdit {
    /// New URL of deliveries.
    url: Option<String>,
    /// New event kinds.
    events: Option<Vec<String>>,
    /// New filter.
    filter: Option<Filter>,
    /// Whether it is enabled.
    enabled: Option<bool>,
    /// New secret.
    secret: Option<String>,
}

impl WebhookEdit {
    pub(super) async fn check(&self, app: &App) -> ApiResult<()> {
        if let Some(url) = &self.url {
            check_url(app, url).await?;
        }
        self.events.as_deref().map_or(Ok(()), check_events)?;
        check_secret(self.secret.as_deref())
    }

    pub(super) fn apply(&self, webhook: &mut Webhook) {
        let Self { url, events, filter, enabled, secret } = self;
        set(&mut webhook.url, url.as_ref());
        set(&mut webhook.events, events.as_ref());
        set(&mut webhook.filter, filter.as_ref());
        set(&mut webhook.secret, secret.as_ref());
        if let Some(enabled) = *enabled {
            webhook.enabled = enabled;
            webhook.disabled_reason = None;
            webhook.failures = 0;
            webhook.last_error = None;
        }
    }
}

fn set<T: Clone>(value: &mut T, given: Option<&T>) {
    if let Some(given) = given {
        value.clone_from(given);
    }
}

fn refused(field: &str, problem: impl Into<String>) -> Problem {
    let problem = problem.into();
    Problem::refused(format!("`{field}` {problem}")).field(field, problem)
}

/// Fails for an invalid URL, and for one that the guard of outgoing calls refuses.
async fn check_url(app: &App, text: &str) -> ApiResult<()> {
    if text.len() > URL_LEN_MAX {
        return Err(refused("url", format!("has more than {URL_LEN_MAX} characters")));
    }
    let url = url::Url::parse(text)
        .map_err(|error| refused("url", format!("{text:?} cannot be read: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(refused("url", "must begin with http:// or https:// and name a host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused("url", "contains credentials; deliveries are signed instead"));
    }
    if let Some(guard) = app.guard() {
        let checked = guard.check_resolved(&url, &*app.clock).await;
        checked.map_err(|error| refused("url", format!("may not be called: {error}")))?;
    }
    Ok(())
}

fn check_events(events: &[String]) -> ApiResult<()> {
    if events.is_empty() || events.len() > EVENTS_MAX {
        return Err(refused("events", format!("must have 1 to {EVENTS_MAX} kinds, or \"*\"")));
    }
    check_kinds("events", events)
}

fn check_secret(secret: Option<&str>) -> ApiResult<()> {
    let fits = secret.is_none_or(|secret| SECRET_LEN.contains(&secret.chars().count()));
    if fits { Ok(()) } else { Err(refused("secret", "must have 16 to 200 characters")) }
}
