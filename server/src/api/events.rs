//! What happens, as it happens, as server-sent events, of all jobs or of one. A listener that is too slow
//! misses some and is told how many; the process never waits for one. The tick of every second is made once
//! for all of them.

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
use crate::problem::{Answer, Problem};

/// The most messages of a job that one listener remembers, to know later events about them.
const MESSAGES_MAX: usize = 1_000;
/// The most streams of one owner, whatever they listen with.
const STREAMS_MAX: usize = 50;
/// How long a check of a listener counts. The tick of every second is when it is noticed.
const CHECKED_EVERY: Duration = Duration::from_secs(10);

/// What this file answers.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(listen))
}

/// Which events.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct EventQuery {
    /// Only of this job.
    job: Option<String>,
    /// Only of this topic.
    topic: Option<String>,
    /// Only these kinds, with commas between them; `attempt.*` means all that begin so.
    kinds: Option<String>,
}

/// Which events a listener hears.
#[derive(Debug, Default)]
struct Filter {
    job: Option<String>,
    topic: Option<String>,
    kinds: Vec<String>,
    /// Messages of the job, the newest last.
    messages: VecDeque<String>,
}

/// Whether a kind is meant by a word such as `attempt.failed`, `attempt.*` or `*`.
pub(crate) fn means(word: &str, kind: &str) -> bool {
    match word.strip_suffix('*') {
        Some(start) => kind.starts_with(start),
        None => word == kind,
    }
}

/// Refuses words that mean no kind at all.
pub(crate) fn check_kinds(field: &str, words: &[String]) -> Answer<()> {
    let known = |word: &String| Event::LIST.iter().any(|info| means(word, info.name));
    match words.iter().find(|word| !known(word)) {
        None => Ok(()),
        Some(word) => {
            let problem =
                format!("{word:?} is no kind of event, such as attempt.failed or attempt.*");
            Err(Problem::refused(format!("`{field}`: {problem}")).field(field, problem))
        }
    }
}

impl Filter {
    fn new(query: EventQuery) -> Answer<Self> {
        let kinds = query.kinds.unwrap_or_default();
        let kinds = kinds.split(',').map(str::trim).filter(|word| !word.is_empty());
        let kinds: Vec<String> = kinds.map(ToOwned::to_owned).collect();
        check_kinds("kinds", &kinds)?;
        Ok(Self { job: query.job, topic: query.topic, kinds, messages: VecDeque::new() })
    }

    fn takes(&mut self, kind: &str, event: &Value) -> bool {
        let of_job = self.is_of_job(event);
        let of_topic = self.topic.as_deref().is_none_or(|topic| event["topic"] == topic);
        let of_kind = self.kinds.is_empty() || self.kinds.iter().any(|word| means(word, kind));
        of_job && of_topic && of_kind
    }

    /// Whether an event is of the job: it says so, or is about a message of which one said so before.
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

/// One who listens.
struct Listener {
    events: Receiver<Arc<Event>>,
    ticks: watch::Receiver<Arc<str>>,
    filter: Filter,
    count: u64,
    is_over: bool,
    app: App,
    caller: Caller,
    checked: Checked,
    _seat: Seat,
}

/// A place among those who listen.
struct Seat {
    listening: Arc<Mutex<BTreeMap<String, usize>>>,
    owner: String,
    _place: OwnedSemaphorePermit,
}

impl Seat {
    /// A place for a caller, when there is one and the caller has not too many.
    fn take(app: &App, caller: &Caller) -> Answer<Self> {
        let later = |why| Problem::new(StatusCode::SERVICE_UNAVAILABLE, why);
        let place = app.node().listeners.clone().try_acquire_owned();
        let place = place.map_err(|_| later("as many listen as may; come again later"))?;
        let (listening, owner) = (app.node().listening.clone(), caller.counted_as());
        let mut counts = listening.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(owner.clone()).or_default();
        if *count >= STREAMS_MAX {
            return Err(later("you listen as often as one may; end another stream first"));
        }
        *count += 1;
        drop(counts);
        Ok(Self { listening, owner, _place: place })
    }
}

impl Drop for Seat {
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

/// When a listener was last known to be allowed to listen.
struct Checked {
    at: Timestamp,
    /// How many sessions and tokens had ended on this node.
    changes: u64,
}

impl Checked {
    fn new(app: &App) -> Self {
        Self { at: app.clock.now(), changes: app.auth().changes.count() }
    }
}

/// Every event from now on, by the name of its kind; a `tick` with counts and rates every second; `missed`
/// when the listener was too slow. Ends with the process, and with the session or the token of the listener.
#[utoipa::path(get, path = "/events", tag = "events", params(EventQuery),
    responses((status = 200, content_type = "text/event-stream", body = String), (status = 422, body = Problem),
        (status = 503, body = Problem)))]
async fn listen(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<EventQuery>,
) -> Answer<Response> {
    caller.must_be(Role::Viewer)?;
    let filter = Filter::new(query)?;
    let seat = Seat::take(&app, &caller)?;
    // Listened to before it is asked, so that the end of a process cannot fall between.
    let (events, mut ticks) = (app.punctual.events().listen(), app.node().live.ticks());
    if app.punctual.is_stopping() {
        return Err(Problem::stopping());
    }
    ticks.mark_unchanged();
    let checked = Checked::new(&app);
    let (count, is_over) = (0, false);
    let listener =
        Listener { events, ticks, filter, count, is_over, app, caller, checked, _seat: seat };
    Ok(Sse::new(unfold(listener, next).fuse()).keep_alive(KeepAlive::default()).into_response())
}

async fn next(mut listener: Listener) -> Option<(Result<Frame, Infallible>, Listener)> {
    if listener.is_over {
        return None;
    }
    let (name, data) = listener.heard().await?;
    if !listener.is_allowed().await {
        return None;
    }
    listener.count += 1;
    let frame = Frame::default().event(name).id(listener.count.to_string()).data(data);
    Some((Ok(frame), listener))
}

impl Listener {
    /// Whether it may still listen: checked every ten seconds, and at once when a session or a token ended.
    async fn is_allowed(&mut self) -> bool {
        let now = Checked::new(&self.app);
        let is_fresh = between(self.checked.at, now.at) < CHECKED_EVERY;
        if is_fresh && self.checked.changes == now.changes {
            return true;
        }
        self.checked = now;
        // A storage that does not answer ends no stream; the next check decides.
        self.app.auth().still_lets_in(&self.caller).await.unwrap_or(true)
    }

    /// The next thing that this listener hears; nothing when there will be no more.
    async fn heard(&mut self) -> Option<(&'static str, String)> {
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
                    if self.is_over || self.filter.takes(event.name(), &json) {
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
    fn a_job_is_followed_through_events_that_do_not_name_it() {
        let query = EventQuery { job: Some("nightly".to_owned()), ..EventQuery::default() };
        let mut filter = Filter::new(query).unwrap();
        let dead = json!({"event": "message.dead", "message": "m1", "topic": "t"});
        assert!(!filter.takes("message.dead", &dead));
        let failed = json!({"event": "attempt.failed", "message": "m1", "job": "nightly"});
        assert!(filter.takes("attempt.failed", &failed));
        assert!(filter.takes("message.dead", &dead));
        let other = json!({"event": "attempt.failed", "message": "m2", "job": "hourly"});
        assert!(!filter.takes("attempt.failed", &other));
    }

    #[test]
    fn kinds_are_words_or_beginnings() {
        let query =
            |kinds: &str| EventQuery { kinds: Some(kinds.to_owned()), ..EventQuery::default() };
        let mut filter = Filter::new(query("job.*, message.dead")).unwrap();
        assert!(filter.takes("job.fired", &Value::Null));
        assert!(filter.takes("message.dead", &Value::Null));
        assert!(!filter.takes("message.enqueued", &Value::Null));
        let problem = Filter::new(query("job.exploded")).unwrap_err();
        assert!(problem.detail().contains("job.exploded"), "{}", problem.detail());
    }
}
