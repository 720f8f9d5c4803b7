//! Work for processes in any language: claim with long polling, extend, say how far, settle. The token of a
//! lease is opaque and fences: whoever lost a message changes nothing with an old one.

mod claim;
mod leases;
mod settle;
mod view;

use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use futures_util::stream::{self, StreamExt as _};
use punctual::client::AttemptTicket;
use punctual::model::{MessageId, ProcessId};
use punctual::schedule::parse_duration;
use punctual::uuid::{Builder, Uuid};
use sha2::{Digest, Sha256};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::caller::Caller;
use crate::problem::{Answer, Problem};
use crate::register;

/// How long a worker has without extending when it does not say.
const LEASE_DEFAULT: Duration = Duration::from_secs(60);
/// How many messages are read at once to find out their queues.
const READS_AT_ONCE: usize = 8;
/// The most characters of a worker's name.
const NAME_LEN_MAX: usize = 200;

/// What this file answers.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(claim::claim))
        .routes(routes!(leases::extend))
        .routes(routes!(leases::progress))
        .routes(routes!(settle::settle))
        .routes(routes!(settle::bye))
}

/// Refuses leases of queues that the caller may not work on. A message that is gone has lost its lease anyway.
async fn may_hold(app: &App, caller: &Caller, messages: &[MessageId]) -> Answer<()> {
    caller.must_work()?;
    if caller.works_on_every_queue() {
        return Ok(());
    }
    let reads: Vec<_> = messages.iter().map(|id| app.inspect.message(*id)).collect();
    let mut found = stream::iter(reads).buffer_unordered(READS_AT_ONCE);
    while let Some(record) = found.next().await {
        if let Some(record) = record? {
            caller.must_work_on(record.message.queue.as_str())?;
        }
    }
    Ok(())
}

/// The identity of a worker: its own UUID, or one that always follows from its name.
fn identity(worker: &str) -> Answer<ProcessId> {
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

/// The identity of a worker that says something of its leases. Under the one of a server it would look alive.
async fn worker(app: &App, text: &str) -> Answer<ProcessId> {
    let worker = identity(text)?;
    register::no_server(app, worker).await?;
    Ok(worker)
}

/// A length such as `30s`; also `0s`, where nothing is a length.
fn length(field: &str, text: &str) -> Answer<Duration> {
    if text.trim().trim_end_matches(char::is_alphabetic).parse::<f64>() == Ok(0.0) {
        return Ok(Duration::ZERO);
    }
    parse_duration(text).map_err(|error| {
        Problem::refused(format!("`{field}`: {error}")).field(field, error.to_string())
    })
}

/// The ticket of a token, which must be for the message that is named.
fn ticket(field: &str, message: &str, token: &str) -> Answer<AttemptTicket> {
    let ticket: AttemptTicket = token.parse().map_err(|_| {
        let problem = "give back the `lease.token` that came with the message";
        Problem::refused(format!("`{field}`: {token:?} is no token; {problem}"))
            .field(field, problem)
    })?;
    if ticket.lease.message.to_string() == message.trim().to_lowercase() {
        return Ok(ticket);
    }
    let problem = format!("the token is for the message {}", ticket.lease.message);
    Err(Problem::refused(format!("`{field}`: {problem}, not {message:?}")).field(field, problem))
}

/// What became of a call about one lease.
#[derive(Clone, Copy, Debug, serde::Serialize, utoipa::ToSchema)]
struct StateView {
    /// `held`, `applied`, `cancel_requested` or `lost`.
    state: &'static str,
}

/// The same as an answer.
fn state(state: &'static str) -> Json<StateView> {
    Json(StateView { state })
}

/// Too many wait already.
fn crowded() -> Problem {
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "as many workers wait here as may; come again later, or ask another node",
    )
}
