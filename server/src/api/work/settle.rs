//! Settling attempts of HTTP workers, and deregistering a worker.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use punctual::Outcome;
use punctual::backend::storage::SettleResult;
use punctual::client::HttpWorkerReport;
use punctual::model::Body as Content;
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;
use utoipa::ToSchema;

use super::{StateView, duration, identity, must_work_on_messages, state, ticket, worker};
use crate::app::App;
use crate::caller::Caller;
use crate::extract::Body;
use crate::problem::{ApiResult, Problem};
use crate::process_registry;

/// Outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum SettleOutcome {
    /// The message was handled.
    Done,
    /// The attempt failed; the retry policy decides.
    Fail,
    /// The attempt failed; retry after `delay`, or by the retry policy without one.
    Retry,
    /// Try again after `delay`, without counting an attempt.
    Snooze,
    /// The message becomes a dead letter.
    Discard,
    /// The message is cancelled.
    Cancel,
}

/// Log lines.
#[derive(Debug, ToSchema)]
#[serde(untagged)]
enum LogLines {
    /// Lines in one text.
    Text(String),
    /// An array of lines.
    List(Vec<String>),
}

impl<'de> Deserialize<'de> for LogLines {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let wrong =
            || serde::de::Error::invalid_type(serde::de::Unexpected::Other("value"), &"lines");
        match Value::deserialize(from)? {
            Value::String(text) => Ok(Self::Text(text)),
            Value::Array(lines) => {
                let line = |line: Value| line.as_str().map(ToOwned::to_owned).ok_or_else(wrong);
                lines.into_iter().map(line).collect::<Result<_, _>>().map(Self::List)
            }
            _ => Err(wrong()),
        }
    }
}

/// Result of an attempt.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SettleRequest {
    /// The worker.
    worker: String,
    /// Id of the message.
    message: String,
    /// Lease token of the message.
    token: String,
    /// Outcome of the attempt.
    outcome: SettleOutcome,
    /// Error text; required for `discard`.
    error: Option<String>,
    /// Delay of the next attempt, such as `5m`; required for `snooze`.
    delay: Option<String>,
    /// Note for the history.
    note: Option<String>,
    /// Log lines for the history; the newest 100 are kept.
    log: Option<LogLines>,
    /// Result for the messages that follow this one, any JSON value.
    result: Option<Value>,
}

/// Settles an attempt. The state is `applied`, or `lost` when the worker no longer holds the lease or the attempt is
/// settled already; then nothing changes.
#[utoipa::path(post, path = "/work/settle", tag = "work", request_body = SettleRequest,
    responses((status = 200, body = StateView), (status = 403, body = Problem), (status = 409, body = Problem),
        (status = 422, body = Problem)))]
pub(super) async fn settle(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<SettleRequest>,
) -> ApiResult<Json<StateView>> {
    caller.must_work()?;
    let worker = worker(&app, &request.worker).await?;
    let ticket = ticket("token", &request.message, &request.token)?;
    must_work_on_messages(&app, &caller, &[ticket.lease.message]).await?;
    let report = report(request)?;
    let settled = app.punctual.http_workers().settle(worker, ticket, report).await?;
    Ok(state(match settled {
        SettleResult::Applied => "applied",
        SettleResult::CancelRequested => "cancel_requested",
        SettleResult::Lost => "lost",
    }))
}

fn report(request: SettleRequest) -> ApiResult<HttpWorkerReport> {
    let delay = request.delay.as_deref().map(|text| duration("delay", text)).transpose()?;
    let error = request.error.filter(|error| !error.trim().is_empty());
    let outcome = match (request.outcome, delay) {
        (SettleOutcome::Done, _) => Ok(Outcome::Done),
        (SettleOutcome::Cancel, _) => Ok(Outcome::Cancel),
        (SettleOutcome::Snooze, Some(delay)) if delay > Duration::ZERO => {
            Ok(Outcome::Snooze(delay))
        }
        (SettleOutcome::Snooze, _) => return Err(missing("delay", "give a delay such as \"5m\"")),
        (SettleOutcome::Discard, _) => match &error {
            Some(error) => Ok(Outcome::Discard(error.clone())),
            None => return Err(missing("error", "give the reason of the failure")),
        },
        (SettleOutcome::Retry, Some(delay)) => Ok(Outcome::RetryAfter(delay)),
        (SettleOutcome::Retry, None) | (SettleOutcome::Fail, _) => Err(error
            .clone()
            .unwrap_or_else(|| "the worker failed without an error text".to_owned())),
    };
    let log = match request.log {
        None => Vec::new(),
        Some(LogLines::Text(text)) => text.lines().map(ToOwned::to_owned).collect(),
        Some(LogLines::List(lines)) => lines,
    };
    let result = request.result.as_ref().map(Content::json).transpose()?;
    let note = request.note.or_else(|| error.filter(|_| outcome.is_ok()));
    Ok(HttpWorkerReport { outcome, note, log, result })
}

fn missing(field: &str, problem: &str) -> Problem {
    Problem::refused(format!("`{field}` is missing: {problem}")).field(field, problem)
}

/// Worker to deregister.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeregisterRequest {
    /// The worker.
    worker: String,
}

/// Deregisters a worker. Its unsettled messages are due again when their leases expire, so settle them first.
#[utoipa::path(post, path = "/work/deregister", tag = "work", request_body = DeregisterRequest,
    responses((status = 204), (status = 403, body = Problem), (status = 409, body = Problem),
        (status = 422, body = Problem)))]
pub(super) async fn deregister(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<DeregisterRequest>,
) -> ApiResult<StatusCode> {
    caller.must_work()?;
    process_registry::deregister(&app, identity(&request.worker)?).await?;
    Ok(StatusCode::NO_CONTENT)
}
