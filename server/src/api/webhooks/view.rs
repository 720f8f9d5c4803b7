//! Webhooks as they are asked for and shown; the secret is shown once.

use jiff::Timestamp;
use punctual::model::{IdSource, Ids};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::check_kinds;
use crate::app::App;
use crate::problem::{Answer, Problem};
use crate::secret::random;
use crate::webhooks::{Filter, Webhook};

/// The most characters of a URL.
const URL_LEN_MAX: usize = 2_000;
/// The most kinds of events.
const EVENTS_MAX: usize = 100;
/// How many characters a secret has at least and at most.
const SECRET_LENGTH: std::ops::RangeInclusive<usize> = 16..=200;

/// Who is told of which events.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct WebhookView {
    /// Its id.
    pub(super) id: String,
    /// Where deliveries go.
    url: String,
    /// The kinds of events, such as `message.dead`, `job.*` or `*`.
    events: Vec<String>,
    /// Which of them.
    filter: Filter,
    /// Whether it is told.
    enabled: bool,
    /// Why it was switched off, when nobody did it by hand.
    disabled_reason: Option<String>,
    /// Deliveries that failed since the last one that did not.
    failures: u32,
    /// When it was made.
    created_at: Timestamp,
    /// When it was last told.
    last_at: Option<Timestamp>,
    /// What it answered then; null when it did not.
    last_status: Option<u16>,
    /// Why that failed; null when it did not.
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

/// A webhook that was just made.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Created {
    /// The webhook.
    #[serde(flatten)]
    pub(super) webhook: WebhookView,
    /// What deliveries are signed with. Not shown again.
    pub(super) secret: String,
}

/// A delivery that was sent to try a webhook, and what came of it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Tested {
    /// Its message.
    pub(super) message: String,
    /// How it ended, such as `succeeded` or `failed`; null when it has not ended yet.
    pub(super) ending: Option<&'static str>,
    /// What the receiver answered, or why it was not reached.
    pub(super) note: Option<String>,
    /// How long the call took.
    pub(super) took_ms: Option<u64>,
}

/// A webhook to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WebhookRequest {
    /// Where deliveries go, by `http` or `https`.
    url: String,
    /// The kinds of events, such as `message.dead`, `job.*` or `*`.
    events: Vec<String>,
    /// Which of them; all when not given.
    #[serde(default)]
    filter: Filter,
    /// Whether it is told; it is when not given.
    enabled: Option<bool>,
    /// What deliveries are signed with, 16 to 200 characters; made up when not given.
    secret: Option<String>,
}

impl WebhookRequest {
    /// The webhook, when it can be one.
    pub(super) async fn webhook(self, app: &App) -> Answer<Webhook> {
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

/// What of a webhook is to be another.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WebhookEdit {
    /// Where deliveries go.
    url: Option<String>,
    /// The kinds of events.
    events: Option<Vec<String>>,
    /// Which of them.
    filter: Option<Filter>,
    /// Whether it is told.
    enabled: Option<bool>,
    /// What deliveries are signed with.
    secret: Option<String>,
}

impl WebhookEdit {
    pub(super) async fn check(&self, app: &App) -> Answer<()> {
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

/// Refuses what is no address, and what the guard of outgoing calls refuses.
async fn check_url(app: &App, text: &str) -> Answer<()> {
    if text.len() > URL_LEN_MAX {
        return Err(refused("url", format!("has more than {URL_LEN_MAX} characters")));
    }
    let url = url::Url::parse(text)
        .map_err(|error| refused("url", format!("{text:?} cannot be read: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(refused("url", "must begin with http:// or https:// and name a host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused("url", "holds a name or a password; deliveries are signed instead"));
    }
    if let Some(guard) = app.guard() {
        let checked = guard.check_resolved(&url, &*app.clock).await;
        checked.map_err(|error| refused("url", format!("may not be called: {error}")))?;
    }
    Ok(())
}

fn check_events(events: &[String]) -> Answer<()> {
    if events.is_empty() || events.len() > EVENTS_MAX {
        return Err(refused("events", format!("must have 1 to {EVENTS_MAX} kinds, or \"*\"")));
    }
    check_kinds("events", events)
}

fn check_secret(secret: Option<&str>) -> Answer<()> {
    let fits = secret.is_none_or(|secret| SECRET_LENGTH.contains(&secret.chars().count()));
    if fits { Ok(()) } else { Err(refused("secret", "must have 16 to 200 characters")) }
}
