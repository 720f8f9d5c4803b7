//! What a refusal of the API means on the command line.

use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use serde_json::Value;

use crate::client::Answer;
use crate::failure::{Code, Failure};
use crate::render::one_line;

/// The failure that a refusal becomes.
pub(crate) fn refusal(answer: &Answer, base: &str) -> Failure {
    let status = answer.status;
    let Ok(problem) = serde_json::from_slice::<Value>(&answer.body) else {
        return unknown(status, base);
    };
    let Some(detail) = problem["detail"].as_str() else { return unknown(status, base) };
    let mut text = one_line(detail, 1_000);
    let fields = problem["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    for field in fields {
        let (name, wrong) = (field["field"].as_str(), field["problem"].as_str());
        if let (Some(name), Some(wrong)) = (name, wrong)
            && !detail.contains(wrong)
        {
            text = format!("{text}\n  {}: {}", one_line(name, 100), one_line(wrong, 500));
        }
    }
    let failure = Failure::new(code(status), text);
    match status {
        StatusCode::UNAUTHORIZED => {
            failure.hint("log in with `punctual login`, or give a token in PUNCTUAL_TOKEN")
        }
        StatusCode::FORBIDDEN => failure.hint("ask an admin for a larger role, or for a token"),
        StatusCode::PRECONDITION_FAILED => {
            failure.hint("look at it again, then repeat the command")
        }
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            let after = answer.headers.get(RETRY_AFTER).and_then(|after| after.to_str().ok());
            failure.hint(format!("try again in {} s", after.unwrap_or("a few")))
        }
        _ => failure,
    }
}

fn code(status: StatusCode) -> Code {
    match status.as_u16() {
        401 | 403 => Code::Forbidden,
        404 => Code::Missing,
        409 | 412 | 429 => Code::Refused,
        502..=504 => Code::Unreachable,
        400..=499 => Code::Wrong,
        _ => Code::Failed,
    }
}

/// Nothing of ours answered.
fn unknown(status: StatusCode, base: &str) -> Failure {
    let code = if status.is_server_error() { code(status) } else { Code::Failed };
    Failure::new(code, format!("{base} answers {status} and says no more"))
        .hint("check the address: is this a Punctual server, of this version?")
}
