//! Leases of HTTP workers: extend them, report progress, save checkpoints.

use axum::Json;
use axum::extract::State;
use punctual::backend::storage::ExtendResult;
use punctual::client::HTTP_WORKER_BATCH_MAX;
use punctual::handler::ProgressReport;
use punctual::model::{Body as Content, LeaseRef, MessageId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use utoipa::ToSchema;

use super::claim::lease;
use super::{StateView, must_work_on_messages, state, ticket, worker};
use crate::app::App;
use crate::caller::Caller;
use crate::extract::Body;
use crate::page::Listing;
use crate::problem::{ApiResult, Problem};

/// Largest number of characters of a note.
const NOTE_LEN_MAX: usize = 1_000;

/// Leases to extend.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExtendRequest {
    /// The worker.
    worker: String,
    /// Leases, 1 to 1000.
    leases: Vec<LeaseToken>,
    /// New lease duration from now. Default: `60s`.
    lease: Option<String>,
}

/// A lease of a message.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct LeaseToken {
    /// Id of the message.
    message: String,
    /// Lease token of the message.
    token: String,
}

/// State of a lease after a call.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct ExtendedView {
    /// Id of the message.
    message: String,
    /// `held`; `cancel_requested`: held, and the worker is asked to stop; or `lost`: stop, another process may have the
    /// message.
    state: &'static str,
}

/// Extends leases. A worker calls this before the leases of its messages expire.
#[utoipa::path(post, path = "/work/extend", tag = "work", request_body = ExtendRequest,
    responses((status = 200, body = Listing<ExtendedView>), (status = 403, body = Problem),
        (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(super) async fn extend(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<ExtendRequest>,
) -> ApiResult<Json<Listing<ExtendedView>>> {
    caller.must_work()?;
    let (worker, count) = (worker(&app, &request.worker).await?, request.leases.len());
    if !(1..=HTTP_WORKER_BATCH_MAX).contains(&count) {
        let problem = format!("must have 1 to {HTTP_WORKER_BATCH_MAX}");
        return Err(
            Problem::refused(format!("`leases` {problem}, not {count}")).field("leases", problem)
        );
    }
    let tickets = request.leases.iter().enumerate().map(|(index, lease)| {
        let field = format!("leases[{index}].token");
        ticket(&field, &lease.message, &lease.token).map(|ticket| ticket.lease)
    });
    let leases: Vec<LeaseRef> = tickets.collect::<ApiResult<_>>()?;
    let messages: Vec<MessageId> = leases.iter().map(|lease| lease.message).collect();
    must_work_on_messages(&app, &caller, &messages).await?;
    let duration = lease(request.lease.as_deref())?;
    let results = app.punctual.http_workers().extend(worker, &leases, duration).await?;
    let items = leases.iter().zip(results).map(|(lease, result)| ExtendedView {
        message: lease.message.to_string(),
        state: state_name(result),
    });
    Ok(Json(Listing::whole(items.collect())))
}

/// Progress of a message.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProgressRequest {
    /// The worker.
    worker: String,
    /// Id of the message.
    message: String,
    /// Lease token of the message.
    token: String,
    /// Percentage done, 0 to 100.
    percent: Option<u8>,
    /// Progress note.
    note: Option<String>,
    /// Checkpoint for the next attempt, any JSON value. Default: the previous one is kept.
    checkpoint: Option<Value>,
}

/// Saves the progress and the checkpoint of a message. Does not extend the lease.
#[utoipa::path(post, path = "/work/progress", tag = "work", request_body = ProgressRequest,
    responses((status = 200, body = StateView), (status = 403, body = Problem), (status = 409, body = Problem),
        (status = 422, body = Problem)))]
pub(super) async fn progress(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<ProgressRequest>,
) -> ApiResult<Json<StateView>> {
    caller.must_work()?;
    worker(&app, &request.worker).await?;
    let ticket = ticket("token", &request.message, &request.token)?;
    must_work_on_messages(&app, &caller, &[ticket.lease.message]).await?;
    if request.percent.is_some_and(|percent| percent > 100) {
        let problem = "must be between 0 and 100";
        return Err(Problem::refused(format!("`percent` {problem}")).field("percent", problem));
    }
    let note = request.note.as_deref().unwrap_or_default();
    let has_progress = request.percent.is_some() || request.note.is_some();
    let note: Arc<str> = note.chars().take(NOTE_LEN_MAX).collect::<String>().into();
    let progress = has_progress.then_some(ProgressReport { percent: request.percent, note });
    let checkpoint = request.checkpoint.as_ref().map(Content::json).transpose()?;
    if progress.is_none() && checkpoint.is_none() {
        return Err(Problem::refused("give `percent`, `note` or `checkpoint`"));
    }
    let result = app.punctual.http_workers().save_progress(ticket, progress, checkpoint).await?;
    Ok(state(state_name(result)))
}

fn state_name(extended: ExtendResult) -> &'static str {
    match extended {
        ExtendResult::Held => "held",
        ExtendResult::CancelRequested => "cancel_requested",
        ExtendResult::Lost => "lost",
    }
}
