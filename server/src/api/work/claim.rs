//! Claims of HTTP workers, with long polling.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use punctual::Result;
use punctual::client::{
    AssignedMessage, HTTP_WORKER_LEASE_MAX, HTTP_WORKER_TOPICS_MAX, HttpWorkerClaim,
};
use punctual::clock::add;
use punctual::model::{Queue, Topic};
use serde::Deserialize;
use tokio::sync::oneshot;
use utoipa::ToSchema;

use super::view::{AssignedView, ClaimView};
use super::{LEASE_DEFAULT, duration, identity, too_many_workers};
use crate::app::App;
use crate::caller::Caller;
use crate::extract::Body;
use crate::problem::{ApiResult, Problem};
use crate::process_registry::{self, HttpWorkerEntry};

/// Longest wait of a claim.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Largest number of messages in one claim.
const LIMIT_MAX: usize = 100;

/// Request of a worker for messages.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimRequest {
    /// Queue to claim from.
    queue: String,
    /// Topics that the worker handles, 1 to 100. Default: every topic of the queue. Messages of the server's own topics
    /// (`punctual.*`) are never claimed.
    topics: Option<Vec<String>>,
    /// The worker: a UUID chosen once per process, or a name.
    worker: String,
    /// Largest number of messages, 1 to 100. Default: 1.
    limit: Option<usize>,
    /// Lease duration, `1s` to `24h`. Default: `60s`.
    lease: Option<String>,
    /// How long to wait for messages, such as `20s`, at most `60s`. Default: no wait.
    wait: Option<String>,
}

/// Claims due messages of a queue, and waits for them when there are none. Returns no messages while the queue
/// is paused or the worker is quiet.
#[utoipa::path(post, path = "/work/claim", tag = "work", request_body = ClaimRequest,
    responses((status = 200, body = ClaimView), (status = 403, body = Problem), (status = 409, body = Problem),
        (status = 422, body = Problem), (status = 503, body = Problem)))]
pub(super) async fn claim(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<ClaimRequest>,
) -> ApiResult<Json<ClaimView>> {
    caller.must_work()?;
    let (ask, wait) = checked(&request)?;
    caller.must_work_on(ask.queue.as_str())?;
    // An immediate empty response would make the worker poll in a loop.
    if app.punctual.is_stopping() {
        return Err(Problem::stopping());
    }
    let _permit = app.node().waiting.clone().try_acquire_owned().map_err(|_| too_many_workers())?;
    let worker = ask.worker;
    process_registry::record_http_worker(
        &app,
        HttpWorkerEntry::new(&request.worker, &ask, &caller),
    )
    .await?;
    let assigned = if process_registry::is_quiet(&app, worker).await? {
        // Waits as well, so that a quiet worker does not poll in a loop.
        app.clock.sleep_until(add(app.clock.now(), wait)).await;
        Vec::new()
    } else {
        claim_or_release(app.clone(), ask, wait).await?
    };
    let now = app.clock.now();
    let items = assigned.iter().map(|one| AssignedView::new(one, now)).collect();
    Ok(Json(ClaimView { worker: worker.to_string(), items }))
}

/// Claims in a separate task, because a dropped claim may leave messages without a worker. Messages that arrive
/// after the worker has disconnected are released immediately.
async fn claim_or_release(
    app: App,
    ask: HttpWorkerClaim,
    wait: Duration,
) -> Result<Vec<AssignedMessage>> {
    let (sender, receiver) = oneshot::channel();
    tokio::spawn(async move {
        let (worker, workers) = (ask.worker, app.punctual.http_workers());
        let claimed = match wait {
            Duration::ZERO => workers.claim(ask).await,
            _ => workers.claim_within(ask, add(app.clock.now(), wait)).await,
        };
        if let Err(Ok(unsent)) = sender.send(claimed) {
            for assigned in unsent {
                if let Err(error) = workers.release(worker, assigned.ticket).await {
                    tracing::warn!(%error, "cannot release a message of a disconnected worker; it is due again when its lease expires");
                }
            }
        }
    });
    receiver
        .await
        .unwrap_or_else(|_| Err(punctual::Error::internal("a claim ended without a result")))
}

fn checked(request: &ClaimRequest) -> ApiResult<(HttpWorkerClaim, Duration)> {
    let queue = Queue::new(&request.queue).map_err(|error| {
        Problem::refused(format!("`queue`: {error}")).field("queue", error.to_string())
    })?;
    let topics = request.topics.as_deref().map(topics).transpose()?;
    let limit = request.limit.unwrap_or(1);
    if !(1..=LIMIT_MAX).contains(&limit) {
        let problem = format!("must be between 1 and {LIMIT_MAX}");
        return Err(Problem::refused(format!("`limit` {limit} {problem}")).field("limit", problem));
    }
    let lease = lease(request.lease.as_deref())?;
    let wait = match request.wait.as_deref() {
        Some(text) => duration("wait", text)?,
        None => Duration::ZERO,
    };
    if wait > WAIT_MAX {
        let problem = format!("is longer than {} s; claim again after that", WAIT_MAX.as_secs());
        return Err(Problem::refused(format!("`wait` {problem}")).field("wait", problem));
    }
    let worker = identity(&request.worker)?;
    Ok((HttpWorkerClaim { queue, topics, worker, limit, lease }, wait))
}

/// Parses the topics of a worker.
fn topics(names: &[String]) -> ApiResult<Vec<Topic>> {
    if !(1..=HTTP_WORKER_TOPICS_MAX).contains(&names.len()) {
        let problem = format!(
            "name 1 to {HTTP_WORKER_TOPICS_MAX}, or leave it out for every topic of the queue"
        );
        return Err(Problem::refused(format!("`topics`: {problem}")).field("topics", problem));
    }
    let named = names.iter().enumerate().map(|(place, name)| {
        let field = format!("topics[{place}]");
        Topic::new(name).map_err(|error| {
            Problem::refused(format!("`{field}`: {error}")).field(field, error.to_string())
        })
    });
    named.collect()
}

/// Parses a lease duration.
pub(super) fn lease(text: Option<&str>) -> ApiResult<Duration> {
    let Some(text) = text else { return Ok(LEASE_DEFAULT) };
    let lease = duration("lease", text)?;
    if lease < Duration::from_secs(1) || lease > HTTP_WORKER_LEASE_MAX {
        let problem = "must be between 1s and 24h";
        return Err(Problem::refused(format!("`lease` {text:?} {problem}")).field("lease", problem));
    }
    Ok(lease)
}
