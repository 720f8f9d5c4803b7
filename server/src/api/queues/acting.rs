//! Acting on a queue. What is said holds on every node.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual::client::SWEEP_MAX;
use punctual::inspect::MessageFilter;
use punctual::model::{MessageId, MessageState as Stored, Pause, Queue};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::PauseView;
use crate::api::messages::{Act, Swept, Wanted, look, sweep};
use crate::app::App;
use crate::audit::Change;
use crate::caller::{Caller, Role};
use crate::extract::{Body, Path};
use crate::idempotency::Keyed;
use crate::problem::{Answer, Problem};
use crate::queues::{Said, say};

/// The most characters of a reason.
const REASON_LEN_MAX: usize = 1_000;
/// The most messages a process may handle at once.
const CONCURRENCY_MAX: usize = 10_000;

/// Why a queue is paused, and until when.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PauseRequest {
    /// Why.
    reason: String,
    /// When it ends by itself; never when not given.
    until: Option<Timestamp>,
}

/// How many at once.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ConcurrencyRequest {
    /// How many each process that works on the queue handles at once, 1 to 10000.
    max: usize,
}

/// Whether a queue is really emptied.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PurgeRequest {
    /// Only says how many it would be about.
    dry_run: bool,
    /// Why, for the audit trail.
    reason: Option<String>,
}

/// What holds for a queue from now on.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct SaidView {
    /// The queue.
    name: String,
    /// Who paused it, why and until when.
    paused: Option<PauseView>,
    /// How many each process handles at once; null when nothing was said.
    concurrency: Option<usize>,
}

impl SaidView {
    fn new(queue: &Queue, said: &Said, now: Timestamp) -> Json<Self> {
        Json(Self {
            name: queue.to_string(),
            paused: said.pause(now).map(PauseView::new),
            concurrency: said.concurrency,
        })
    }
}

/// The queue of a path; the lines of transports can be steered too.
fn named(name: &str) -> Answer<Queue> {
    match name.strip_prefix('~') {
        Some(rest) => Queue::new(rest).map(|_| Queue::from(name.to_owned())),
        None => Queue::new(name),
    }
    .map_err(|error| Problem::refused(error.to_string()))
}

/// Nothing of a queue is taken any more, on any node; what runs goes on, and messages wait.
#[utoipa::path(post, path = "/queues/{name}/pause", tag = "queues", params(("name" = String, Path)),
    request_body = PauseRequest, responses((status = 200, body = SaidView), (status = 422, body = Problem)))]
pub(super) async fn pause(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(name): Path<String>,
    Body(request): Body<PauseRequest>,
) -> Answer<Json<SaidView>> {
    caller.must_be(Role::Operator)?;
    let (queue, now) = (named(&name)?, app.clock.now());
    let reason = request.reason.trim();
    if reason.is_empty() || reason.chars().count() > REASON_LEN_MAX {
        return Err(Problem::refused(format!(
            "say why the queue {name:?} is paused, in 1 to {REASON_LEN_MAX} characters"
        ))
        .field("reason", "is empty or too long"));
    }
    if let Some(until) = request.until.filter(|until| *until <= now) {
        return Err(Problem::refused(format!(
            "the pause would end at {until}, which is past; it is {now}"
        ))
        .field("until", "lies in the past"));
    }
    let (by, until) = (caller.name.clone(), request.until);
    let pause = Pause { by, reason: reason.to_owned(), at: now, until };
    let change = Change::new("queue.pause", &queue).because(reason);
    keyed.refuse_if_overtaken(&app, &caller, &change).await?;
    let (before, after) = say(&app, &queue, |said| said.paused = Some(pause.clone())).await?;
    app.audit().note(&caller, change.from(&before).to(&after)).await?;
    Ok(SaidView::new(&queue, &after, now))
}

/// Takes from a queue again, on every node.
#[utoipa::path(post, path = "/queues/{name}/resume", tag = "queues", params(("name" = String, Path)),
    responses((status = 200, body = SaidView)))]
pub(super) async fn resume(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(name): Path<String>,
) -> Answer<Json<SaidView>> {
    caller.must_be(Role::Operator)?;
    let queue = named(&name)?;
    let change = Change::new("queue.resume", &queue);
    keyed.refuse_if_overtaken(&app, &caller, &change).await?;
    let (before, after) = say(&app, &queue, |said| said.paused = None).await?;
    app.audit().note(&caller, change.from(&before).to(&after)).await?;
    Ok(SaidView::new(&queue, &after, app.clock.now()))
}

/// Says how many each process that works on a queue handles at once.
#[utoipa::path(post, path = "/queues/{name}/concurrency", tag = "queues", params(("name" = String, Path)),
    request_body = ConcurrencyRequest, responses((status = 200, body = SaidView), (status = 422, body = Problem)))]
pub(super) async fn concurrency(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(name): Path<String>,
    Body(request): Body<ConcurrencyRequest>,
) -> Answer<Json<SaidView>> {
    caller.must_be(Role::Operator)?;
    let queue = named(&name)?;
    let max = request.max;
    if !(1..=CONCURRENCY_MAX).contains(&max) {
        return Err(Problem::refused(format!(
            "{max} at once is not between 1 and {CONCURRENCY_MAX}; pause the queue to stop it"
        ))
        .field("max", format!("must be between 1 and {CONCURRENCY_MAX}")));
    }
    let change = Change::new("queue.concurrency", &queue);
    keyed.refuse_if_overtaken(&app, &caller, &change).await?;
    let (before, after) = say(&app, &queue, |said| said.concurrency = Some(max)).await?;
    app.audit().note(&caller, change.from(&before).to(&after)).await?;
    Ok(SaidView::new(&queue, &after, app.clock.now()))
}

/// Deletes what waits in a queue, at most 10000 messages at once; what runs goes on.
#[utoipa::path(post, path = "/queues/{name}/purge", tag = "queues", params(("name" = String, Path)),
    request_body = PurgeRequest, responses((status = 200, body = Swept), (status = 422, body = Problem)))]
pub(super) async fn purge(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(name): Path<String>,
    Body(request): Body<PurgeRequest>,
) -> Answer<Json<Swept>> {
    caller.must_be(Role::Operator)?;
    let queue = named(&name)?;
    let filter = MessageFilter {
        states: vec![Stored::Pending],
        queue: Some(queue.clone()),
        ..MessageFilter::default()
    };
    let wanted = Wanted::from(filter);
    let found = look(&app, &wanted, None, SWEEP_MAX, |record| keyed.covers(record)).await?;
    let more = found.next.is_some();
    if request.dry_run {
        let count = found.rows.len() as u64;
        return Ok(Json(Swept { count, more, dry_run: true, ..Swept::default() }));
    }
    let ids: Vec<MessageId> = found.rows.iter().map(|record| record.message.id).collect();
    let swept = Swept { more, ..sweep(&app, &Act::Delete, &ids).await? };
    let change = Change::new("queue.purge", &queue).to(&swept);
    app.audit().note(&caller, Change { reason: request.reason, ..change }).await?;
    Ok(Json(swept))
}
