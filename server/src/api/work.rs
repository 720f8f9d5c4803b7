//! HTTP worker API for processes in any language: claim with long polling, extend, report progress, settle.
//! Lease tokens are opaque fencing tokens: a worker that lost a message changes nothing with an old token.

mod claim;
mod leases;
mod settle;
mod view;

use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use axum::routing::post;
use futures_util::stream::{self, StreamExt as _};
use punctual::client::AttemptTicket;
use punctual::model::{MessageId, ProcessId};
use punctual::uuid::{Builder, Uuid};
use sha2::{Digest, Sha256};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::messages;
use crate::app::App;
use crate::caller::Caller;
use crate::problem::{ApiResult, Problem};
use crate::process_registry;

/// Default lease duration.
const LEASE_DEFAULT: Duration = Duration::from_secs(60);
/// Number of concurrent reads to find the queues of messages.
const CONCURRENT_READS: usize = 8;
/// Largest number of characters of a worker's name.
const NAME_LEN_MAX: usize = 200;

/// Earlier path of the route that deregisters a worker, for existing workers.
const DEREGISTER_ALIAS: &str = "/work/bye";

/// Returns the routes of this module.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(claim::claim))
        .routes(routes!(leases::extend))
        .routes(routes!(leases::progress))
        .routes(routes!(settle::settle))
        .routes(routes!(settle::deregister))
        .route(DEREGISTER_ALIAS, post(settle::deregister))
}

/// Fails for messages in queues that the caller may not work on. A deleted message has lost its lease anyway.
async fn must_work_on_messages(
    app: &App,
    caller: &Caller,
    messages: &[MessageId],
) -> ApiResult<()> {
    caller.must_work()?;
    if caller.works_on_every_queue() {
        return Ok(());
    }
    let reads: Vec<_> = messages.iter().map(|id| app.inspect.message(*id)).collect();
    let mut found = stream::iter(reads).buffer_unordered(CONCURRENT_READS);
    while let Some(record) = found.next().await {
        if let Some(record) = record? {
            caller.must_work_on(record.message.queue.as_str())?;
        }
    }
    Ok(())
}

/// Returns the process id of a worker: its own UUID, or one derived from its name.
fn identity(worker: &str) -> ApiResult<ProcessId> {
    let name = worker.trim();
    if name.is_empty() || name.chars().count() > NAME_LEN_MAX || name.contains(char::is_control) {
        let problem =
            "give a UUID chosen at the start of the worker, or a name of 1 to 200 characters";
        return Err(Problem::refused(format!("`worker`: {problem}")).field("worker", problem));
    }
    let uuid = Uuid::parse_str(name).unwrap_or_else(|_| {
        let digest = Sha256::digest(name.as_bytes());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        Builder::from_custom_bytes(bytes).into_uuid()
    });
    Ok(ProcessId::from_uuid(uuid))
}

/// Returns the process id of a worker. Fails for the id of a server, which a worker could otherwise keep alive.
async fn worker(app: &App, text: &str) -> ApiResult<ProcessId> {
    let worker = identity(text)?;
    process_registry::refuse_server_id(app, worker).await?;
    Ok(worker)
}

/// Parses a duration such as `30s`; also `0s`, which `parse_duration` refuses.
fn duration(field: &str, text: &str) -> ApiResult<Duration> {
    if text.trim().trim_end_matches(char::is_alphabetic).parse::<f64>() == Ok(0.0) {
        return Ok(Duration::ZERO);
    }
    messages::duration(field, text)
}

/// Parses the ticket of a lease token. Fails unless it is for the named message.
fn ticket(field: &str, message: &str, token: &str) -> ApiResult<AttemptTicket> {
    let ticket: AttemptTicket = token.parse().map_err(|_| {
        let problem = "send the `lease.token` that came with the message";
        Problem::refused(format!("`{field}`: {token:?} is not a lease token; {problem}"))
            .field(field, problem)
    })?;
    if ticket.lease.message.to_string() == message.trim().to_lowercase() {
        return Ok(ticket);
    }
    let problem = format!("the token is for the message {}", ticket.lease.message);
    Err(Problem::refused(format!("`{field}`: {problem}, not {message:?}")).field(field, problem))
}

/// State of a lease after a call.
#[derive(Clone, Copy, Debug, serde::Serialize, utoipa::ToSchema)]
struct StateView {
    /// `held`, `applied`, `cancel_requested` or `lost`.
    state: &'static str,
}

/// Returns a state as a response.
fn state(state: &'static str) -> Json<StateView> {
    Json(StateView { state })
}

/// Returns the problem for too many waiting workers.
fn too_many_workers() -> Problem {
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "too many workers wait on this server; try again later, or use another server",
    )
}
