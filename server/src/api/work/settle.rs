//! How an attempt elsewhere ended, and a worker's good-bye.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use punctual::Outcome;
use punctual::client::HttpWorkerReport;
use punctual::model::Body as Content;
use punctual::storage::SettleResult;
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;
use utoipa::ToSchema;

use super::{StateView, identity, length, may_hold, state, ticket, worker};
use crate::app::App;
use crate::caller::Caller;
use crate::extract::Body;
use crate::problem::{Answer, Problem};
use crate::register;

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Said {
    /// Handled.
    Done,
    /// Failed; the retry policy decides.
    Fail,
    /// Failed; again after `delay`, or as the retry policy says without one.
    Retry,
    /// Not yet; again after `delay`, without spending an attempt.
    Snooze,
    /// Never; becomes a dead letter.
    Discard,
    /// No longer wanted.
    Cancel,
}

/// Lines for people.
#[derive(Debug, ToSchema)]
#[serde(untagged)]
enum Lines {
    /// All in one text.
    Text(String),
    /// One by one.
    List(Vec<String>),
}

impl<'de> Deserialize<'de> for Lines {
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

/// How an attempt ended.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SettleRequest {
    /// Who says so.
    worker: String,
    /// The message.
    message: String,
    /// The token that came with it.
    token: String,
    /// How it ended.
    outcome: Said,
    /// What went wrong, for people; needed to discard.
    error: Option<String>,
    /// When to try again, such as `5m`; needed to snooze.
    delay: Option<String>,
    /// A sentence for the history.
    note: Option<String>,
    /// Lines for the history; the newest 100 are kept.
    log: Option<Lines>,
    /// What the messages that follow this one get to see of it, any JSON.
    result: Option<Value>,
}

/// Ends an attempt. `applied`: written down. `lost`: the message is no longer this worker's, or was settled
/// already; nothing changed.
#[utoipa::path(post, path = "/work/settle", tag = "work", request_body = SettleRequest,
    responses((status = 200, body = StateView), (status = 403, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(super) async fn settle(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<SettleRequest>,
) -> Answer<Json<StateView>> {
    caller.must_work()?;
    let worker = worker(&app, &request.worker).await?;
    let ticket = ticket("token", &request.message, &request.token)?;
    may_hold(&app, &caller, &[ticket.lease.message]).await?;
    let report = report(request)?;
    let settled = app.punctual.http_workers().settle(worker, ticket, report).await?;
    Ok(state(match settled {
        SettleResult::Applied => "applied",
        SettleResult::CancelRequested => "cancel_requested",
        SettleResult::Lost => "lost",
    }))
}

fn report(request: SettleRequest) -> Answer<HttpWorkerReport> {
    let delay = request.delay.as_deref().map(|text| length("delay", text)).transpose()?;
    let error = request.error.filter(|error| !error.trim().is_empty());
    let outcome = match (request.outcome, delay) {
        (Said::Done, _) => Ok(Outcome::Done),
        (Said::Cancel, _) => Ok(Outcome::Cancel),
        (Said::Snooze, Some(delay)) if delay > Duration::ZERO => Ok(Outcome::Snooze(delay)),
        (Said::Snooze, _) => return Err(missing("delay", "say after how long, such as \"5m\"")),
        (Said::Discard, _) => match &error {
            Some(error) => Ok(Outcome::Discard(error.clone())),
            None => return Err(missing("error", "say why it is given up")),
        },
        (Said::Retry, Some(delay)) => Ok(Outcome::RetryAfter(delay)),
        (Said::Retry, None) | (Said::Fail, _) => {
            Err(error.clone().unwrap_or_else(|| "the worker failed and did not say why".to_owned()))
        }
    };
    let log = match request.log {
        None => Vec::new(),
        Some(Lines::Text(text)) => text.lines().map(ToOwned::to_owned).collect(),
        Some(Lines::List(lines)) => lines,
    };
    let result = request.result.as_ref().map(Content::json).transpose()?;
    let note = request.note.or_else(|| error.filter(|_| outcome.is_ok()));
    Ok(HttpWorkerReport { outcome, note, log, result })
}

fn missing(field: &str, problem: &str) -> Problem {
    Problem::refused(format!("`{field}` is missing: {problem}")).field(field, problem)
}

/// Who goes.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ByeRequest {
    /// Who says so.
    worker: String,
}

/// Takes a worker off the list. What it still holds comes back when its leases end, so settle first.
#[utoipa::path(post, path = "/work/bye", tag = "work", request_body = ByeRequest,
    responses((status = 204), (status = 403, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(super) async fn bye(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<ByeRequest>,
) -> Answer<StatusCode> {
    caller.must_work()?;
    register::gone(&app, identity(&request.worker)?).await?;
    Ok(StatusCode::NO_CONTENT)
}
