//! While a worker elsewhere works: more time, and how far it is.

use axum::Json;
use axum::extract::State;
use punctual::client::HTTP_WORKER_BATCH_MAX;
use punctual::handler::ProgressReport;
use punctual::model::{Body as Content, LeaseRef, MessageId};
use punctual::storage::ExtendResult;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use utoipa::ToSchema;

use super::claim::lease;
use super::{StateView, may_hold, state, ticket, worker};
use crate::app::App;
use crate::caller::Caller;
use crate::extract::Body;
use crate::page::Listing;
use crate::problem::{Answer, Problem};

/// The most characters of a note.
const NOTE_LEN_MAX: usize = 1_000;

/// Which leases need more time.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExtendRequest {
    /// Who asks.
    worker: String,
    /// The leases, 1 to 1000.
    leases: Vec<Held>,
    /// How long from now, such as `60s`, which it is when not given.
    lease: Option<String>,
}

/// A lease.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Held {
    /// The message.
    message: String,
    /// The token that came with it.
    token: String,
}

/// What became of one lease.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct ExtendedView {
    /// The message.
    message: String,
    /// `held`; `cancel_requested`: held, and somebody asks the worker to stop; or `lost`: stop, somebody
    /// else may have it.
    state: &'static str,
}

/// Renews leases; a worker that works long calls this before they end.
#[utoipa::path(post, path = "/work/extend", tag = "work", request_body = ExtendRequest,
    responses((status = 200, body = Listing<ExtendedView>), (status = 403, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(super) async fn extend(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<ExtendRequest>,
) -> Answer<Json<Listing<ExtendedView>>> {
    caller.must_work()?;
    let (worker, count) = (worker(&app, &request.worker).await?, request.leases.len());
    if !(1..=HTTP_WORKER_BATCH_MAX).contains(&count) {
        let problem = format!("must have 1 to {HTTP_WORKER_BATCH_MAX}");
        return Err(
            Problem::refused(format!("`leases` {problem}, not {count}")).field("leases", problem)
        );
    }
    let tickets = request.leases.iter().enumerate().map(|(index, held)| {
        let field = format!("leases[{index}].token");
        ticket(&field, &held.message, &held.token).map(|ticket| ticket.lease)
    });
    let leases: Vec<LeaseRef> = tickets.collect::<Answer<_>>()?;
    let messages: Vec<MessageId> = leases.iter().map(|lease| lease.message).collect();
    may_hold(&app, &caller, &messages).await?;
    let length = lease(request.lease.as_deref())?;
    let answers = app.punctual.http_workers().extend(worker, &leases, length).await?;
    let items = leases.iter().zip(answers).map(|(lease, answer)| ExtendedView {
        message: lease.message.to_string(),
        state: word(answer),
    });
    Ok(Json(Listing::whole(items.collect())))
}

/// How far a worker is.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProgressRequest {
    /// Who says so.
    worker: String,
    /// The message.
    message: String,
    /// The token that came with it.
    token: String,
    /// How much is done, 0 to 100.
    percent: Option<u8>,
    /// In words.
    note: Option<String>,
    /// Where the next attempt should go on, any JSON; what was kept before stays when not given.
    checkpoint: Option<Value>,
}

/// Keeps how far a worker is, and where the next attempt should go on. Does not renew the lease.
#[utoipa::path(post, path = "/work/progress", tag = "work", request_body = ProgressRequest,
    responses((status = 200, body = StateView), (status = 403, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(super) async fn progress(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<ProgressRequest>,
) -> Answer<Json<StateView>> {
    caller.must_work()?;
    worker(&app, &request.worker).await?;
    let ticket = ticket("token", &request.message, &request.token)?;
    may_hold(&app, &caller, &[ticket.lease.message]).await?;
    if request.percent.is_some_and(|percent| percent > 100) {
        let problem = "must be between 0 and 100";
        return Err(Problem::refused(format!("`percent` {problem}")).field("percent", problem));
    }
    let note = request.note.as_deref().unwrap_or_default();
    let said = request.percent.is_some() || request.note.is_some();
    let note: Arc<str> = note.chars().take(NOTE_LEN_MAX).collect::<String>().into();
    let progress = said.then_some(ProgressReport { percent: request.percent, note });
    let checkpoint = request.checkpoint.as_ref().map(Content::json).transpose()?;
    if progress.is_none() && checkpoint.is_none() {
        return Err(Problem::refused("give `percent`, `note` or `checkpoint`"));
    }
    let answer = app.punctual.http_workers().keep(ticket, progress, checkpoint).await?;
    Ok(state(word(answer)))
}

fn word(extended: ExtendResult) -> &'static str {
    match extended {
        ExtendResult::Held => "held",
        ExtendResult::CancelRequested => "cancel_requested",
        ExtendResult::Lost => "lost",
    }
}
