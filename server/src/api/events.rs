//! Event stream: live events as server-sent events, of all jobs or of one. A listener that is too slow misses events
//! and receives their number; the process never waits for a listener. The tick of every second is computed once for
//! all listeners.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event as Frame, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt as _;
use futures_util::stream::unfold;
use jiff::Timestamp;
use punctual::Event;
use punctual::clock::between;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, watch};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::caller::{Caller, Role};
use crate::extract::Query;
use crate::problem::{ApiResult, Problem};

/// Largest number of messages of a job that one listener remembers, to recognize later events about them.
const MESSAGES_MAX: usize = 1_000;
/// Largest number of streams of one owner, over all of its credentials.
const STREAMS_MAX: usize = 50;
/// How long an authorization check of a listener is valid; its end is noticed at the next tick.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Returns the routes of this module.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(listen))
}

/// Filter of events.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct EventQuery {
    /// Only events of this job.
    job: Option<String>,
    /// Only events of this topic.
    topic: Option<String>,
    /// Only these kinds, separated by commas; `attempt.*` matches every kind with this prefix.
    kinds: Option<String>,
}

/// Filter of one listener, with the messages it has seen of its job.
#[derive(Debug, Default)]
struct Filter {
    job: Option<String>,
    topic: Option<String>,
    kinds: Vec<String>,
    /// Messages of the job, newest last.
    messages: VecDeque<String>,
}

/// Returns whether a pattern such as `attempt.failed`, `attempt.*` or `*` matches an event kind.
pub(crate) fn pattern_matches(pattern: &str, kind: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => kind.starts_with(prefix),
        None => pattern == kind,
    }
}

/// Fails for a pattern that matches no event kind.
pub(crate) fn check_kinds(field: &str, patterns: &[String]) -> ApiResult<()> {
    let known =
        |pattern: &String| Event::LIST.iter().any(|info| pattern_matches(pattern, info.name));
    match patterns.iter().find(|pattern| !known(pattern)) {
        None => Ok(()),
        Some(pattern) => {
            let problem = format!(
                "{pattern:?} is not an event kind; use one such as attempt.failed or attempt.*"
            );
            Err(Problem::refused(format!("`{field}`: {problem}")).field(field, problem))
        }
    }
}

impl Filter {
    fn new(query: EventQuery) -> ApiResult<Self> {
        let kinds = query.kinds.unwrap_or_default();
        let kinds = kinds.split(',').map(str::trim).filter(|kind| !kind.is_empty());
        let kinds: Vec<String> = kinds.map(ToOwned::to_owned).collect();
        check_kinds("kinds", &kinds)?;
        Ok(Self { job: query.job, topic: query.topic, kinds, messages: VecDeque::new() })
    }

    fn matches(&mut self, kind: &str, event: &Value) -> bool {
        let of_job = self.is_of_job(event);
        let of_topic = self.topic.as_deref().is_none_or(|topic| event["topic"] == topic);
        let of_kind = self.kinds.is_empty()
            || self.kinds.iter().any(|pattern| pattern_matches(pattern, kind));
        of_job && of_topic && of_kind
    }

    /// Returns whether an event belongs to the job: it names the job, or a message that an earlier event linked to it.
    fn is_of_job(&mut self, event: &Value) -> bool {
        let Some(job) = &self.job else { return true };
        let message = event["message"].as_str();
        if event["job"] == job.as_str() {
            if let Some(message) =
                message.filter(|message| !self.messages.iter().any(|known| known == message))
            {
                self.messages.push_back(message.to_owned());
                if self.messages.len() > MESSAGES_MAX {
                    self.messages.pop_front();
                }
            }
            return true;
        }
        message.is_some_and(|message| self.messages.iter().any(|known| known == message))
    }
}

/// An open event stream.
struct Listener {
    events: Receiver<Arc<Event>>,
    ticks: watch::Receiver<Arc<str>>,
    filter: Filter,
    count: u64,
    is_over: bool,
    app: App,
    caller: Caller,
    checked: AuthorizationCheck,
    _slot: ListenerSlot,
}

/// Slot of an open stream in the limits of the node and of its owner.
struct ListenerSlot {
    listening: Arc<Mutex<BTreeMap<String, usize>>>,
    owner: String,
    _permit: OwnedSemaphorePermit,
}

impl ListenerSlot {
    /// Takes a slot for a caller. Fails when the node or the caller has as many streams as allowed.
    fn acquire(app: &App, caller: &Caller) -> ApiResult<Self> {
        let unavailable = |why| Problem::new(StatusCode::SERVICE_UNAVAILABLE, why);
        let permit = app.node().listeners.clone().try_acquire_owned();
        let permit = permit.map_err(|_| {
            unavailable("this server has too many open event streams; try again later")
        })?;
        let (listening, owner) = (app.node().listening.clone(), caller.counted_as());
        let mut counts = listening.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(owner.clone()).or_default();
        if *count >= STREAMS_MAX {
            return Err(unavailable("you have too many open event streams; close one first"));
        }
        *count += 1;
        drop(counts);
        Ok(Self { listening, owner, _permit: permit })
    }
}

impl Drop for ListenerSlot {
    fn drop(&mut self) {
        let mut counts = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.owner) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.owner);
            }
        }
    }
}

/// Last successful authorization check of a listener.
struct AuthorizationCheck {
    at: Timestamp,
    /// Number of sessions and tokens that had ended on this node.
    changes: u64,
}

impl AuthorizationCheck {
    fn new(app: &App) -> Self {
        Self { at: app.clock.now(), changes: app.auth().changes.count() }
    }
}

/// Streams events as server-sent events, named by their kind. Sends a `tick` with counts and rates every second, and
/// `missed` with the number of events that a slow listener missed. The stream ends when the server stops and when the
/// session or token of the caller ends.
#[utoipa::path(get, path = "/events", tag = "events", params(EventQuery),
    responses((status = 200, content_type = "text/event-stream", body = String), (status = 422, body = Problem),
        (status = 503, body = Problem)))]
async fn listen(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<EventQuery>,
) -> ApiResult<Response> {
    caller.must_be(Role::Viewer)?;
    let filter = Filter::new(query)?;
    let slot = ListenerSlot::acquire(&app, &caller)?;
    // Subscribed before the check, so that a stop of the process between the two is not missed.
    let (events, mut ticks) = (app.punctual.events().listen(), app.node().live.ticks());
    if app.punctual.is_stopping() {
        return Err(Problem::stopping());
    }
    ticks.mark_unchanged();
    let checked = AuthorizationCheck::new(&app);
    let (count, is_over) = (0, false);
    let listener =
        Listener { events, ticks, filter, count, is_over, app, caller, checked, _slot: slot };
    Ok(Sse::new(unfold(listener, next).fuse()).keep_alive(KeepAlive::default()).into_response())
}

async fn next(mut listener: Listener) -> Option<(Result<Frame, Infallible>, Listener)> {
    if listener.is_over {
        return None;
    }
    let (name, data) = listener.next_event().await?;
    if !listener.is_allowed().await {
        return None;
    }
    listener.count += 1;
    let frame = Frame::default().event(name).id(listener.count.to_string()).data(data);
    Some((Ok(frame), listener))
}

impl Listener {
    /// Returns whether the caller may still listen; checked every ten seconds, and immediately when a session or
    /// token ended.
    async fn is_allowed(&mut self) -> bool {
        let now = AuthorizationCheck::new(&self.app);
        let is_fresh = between(self.checked.at, now.at) < CHECK_INTERVAL;
        if is_fresh && self.checked.changes == now.changes {
            return true;
        }
        self.checked = now;
        // A storage that is unavailable ends no stream; the next check decides.
        self.app.auth().is_still_authorized(&self.caller).await.unwrap_or(true)
    }

    /// Returns the name and data of the next event; `None` when the stream has ended.
    async fn next_event(&mut self) -> Option<(&'static str, String)> {
        loop {
            let event = tokio::select! {
                event = self.events.recv() => event,
                changed = self.ticks.changed() => {
                    changed.ok()?;
                    return Some(("tick", self.ticks.borrow_and_update().to_string()));
                }
            };
            match event {
                Ok(event) => {
                    self.is_over = matches!(*event, Event::ProcessStopped { .. });
                    let mut json = event.to_json();
                    if self.is_over || self.filter.matches(event.name(), &json) {
                        self.app.redaction().hide_event(&mut json);
                        return Some((event.name(), json.to_string()));
                    }
                }
                Err(RecvError::Lagged(missed)) => {
                    return Some((
                        "missed",
                        json!({ "event": "missed", "missed": missed }).to_string(),
                    ));
                }
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: C-8
    #[test]
    fn a_job_filter_includes_events_that_name_only_its_messages() {
        let query = EventQuery { job: Some("nightly".to_owned()), ..EventQuery::default() };
        let mut filter = Filter::new(query).unwrap();
        let dead = json!({"event": "message.dead", "message": "m1", "topic": "t"});
        assert!(!filter.matches("message.dead", &dead));
        let failed = json!({"event": "attempt.failed", "message": "m1", "job": "nightly"});
        assert!(filter.matches("attempt.failed", &failed));
        assert!(filter.matches("message.dead", &dead));
        let other = json!({"event": "attempt.failed", "message": "m2", "job": "hourly"});
        assert!(!filter.matches("attempt.failed", &other));
    }

    #[test]
    fn kinds_match_by_name_or_prefix() {
        let query =
            |kinds: &str| EventQuery { kinds: Some(kinds.to_owned()), ..EventQuery::default() };
        let mut filter = Filter::new(query("job.*, message.dead")).unwrap();
        assert!(filter.matches("job.fired", &Value::Null));
        assert!(filter.matches("message.dead", &Value::Null));
        assert!(!filter.matches("message.enqueued", &Value::Null));
        let problem = Filter::new(query("job.exploded")).unwrap_err();
        assert!(problem.detail().contains("job.exploded"), "{}", problem.detail());
    }
}
