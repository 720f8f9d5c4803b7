//! Claims for workers elsewhere, with long polling.

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
use super::{LEASE_DEFAULT, crowded, identity, length};
use crate::app::App;
use crate::caller::Caller;
use crate::extract::Body;
use crate::problem::{Answer, Problem};
use crate::register::{self, Elsewhere};

/// The longest wait for something to do.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The most messages in one claim over HTTP.
const LIMIT_MAX: usize = 100;

/// What a worker asks for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimRequest {
    /// The queue.
    queue: String,
    /// The topics that the worker handles, 1 to 100; every topic of the queue when not given. Messages of the
    /// server's own topics (`punctual.*`) are never handed out.
    topics: Option<Vec<String>>,
    /// Who asks: a UUID chosen once per process, or a name.
    worker: String,
    /// The most messages it can start now: 1 to 100, 1 when not given.
    limit: Option<usize>,
    /// How long it has without extending, such as `60s`, which it is when not given; a day at most.
    lease: Option<String>,
    /// How long to wait for something to do, such as `20s`: not at all when not given, 60 s at most.
    wait: Option<String>,
}

/// Hands out due messages of a queue, or waits for some. Nothing while the queue is paused, or the worker
/// was told to be quiet.
#[utoipa::path(post, path = "/work/claim", tag = "work", request_body = ClaimRequest,
    responses((status = 200, body = ClaimView), (status = 403, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem), (status = 503, body = Problem)))]
pub(super) async fn claim(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<ClaimRequest>,
) -> Answer<Json<ClaimView>> {
    caller.must_work()?;
    let (ask, wait) = checked(&request)?;
    caller.must_work_on(ask.queue.as_str())?;
    // It would come back empty at once, and a worker would ask in a circle.
    if app.punctual.is_stopping() {
        return Err(Problem::stopping());
    }
    let _place = app.node().waiting.clone().try_acquire_owned().map_err(|_| crowded())?;
    let worker = ask.worker;
    register::met(&app, Elsewhere::new(&request.worker, &ask, &caller)).await?;
    let assigned = if register::is_quiet(&app, worker).await? {
        // It waits all the same, so that a quiet worker does not ask in a circle.
        app.clock.sleep_until(add(app.clock.now(), wait)).await;
        Vec::new()
    } else {
        within_reach(app.clone(), ask, wait).await?
    };
    let now = app.clock.now();
    let items = assigned.iter().map(|one| AssignedView::new(one, now)).collect();
    Ok(Json(ClaimView { worker: worker.to_string(), items }))
}

/// Claims in a task of its own, because a claim that is dropped may leave messages with nobody. What comes
/// when the worker no longer waits is given back at once.
async fn within_reach(
    app: App,
    ask: HttpWorkerClaim,
    wait: Duration,
) -> Result<Vec<AssignedMessage>> {
    let (sender, receiver) = oneshot::channel();
    tokio::spawn(async move {
        let (worker, remote) = (ask.worker, app.punctual.http_workers());
        let claimed = match wait {
            Duration::ZERO => remote.claim(ask).await,
            _ => remote.claim_within(ask, add(app.clock.now(), wait)).await,
        };
        if let Err(Ok(unsent)) = sender.send(claimed) {
            for assigned in unsent {
                if let Err(error) = remote.release(worker, assigned.ticket).await {
                    tracing::warn!(%error, "a message whose worker went away waits for its lease to end");
                }
            }
        }
    });
    receiver
        .await
        .unwrap_or_else(|_| Err(punctual::Error::internal("a claim ended without an answer")))
}

fn checked(request: &ClaimRequest) -> Answer<(HttpWorkerClaim, Duration)> {
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
        Some(text) => length("wait", text)?,
        None => Duration::ZERO,
    };
    if wait > WAIT_MAX {
        let problem = format!("is longer than {} s; ask again after that", WAIT_MAX.as_secs());
        return Err(Problem::refused(format!("`wait` {problem}")).field("wait", problem));
    }
    let worker = identity(&request.worker)?;
    Ok((HttpWorkerClaim { queue, topics, worker, limit, lease }, wait))
}

/// The topics that a worker names.
fn topics(names: &[String]) -> Answer<Vec<Topic>> {
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

/// The length of a lease.
pub(super) fn lease(text: Option<&str>) -> Answer<Duration> {
    let Some(text) = text else { return Ok(LEASE_DEFAULT) };
    let lease = length("lease", text)?;
    if lease < Duration::from_secs(1) || lease > HTTP_WORKER_LEASE_MAX {
        let problem = "must be between 1s and 24h";
        return Err(Problem::refused(format!("`lease` {text:?} {problem}")).field("lease", problem));
    }
    Ok(lease)
}
