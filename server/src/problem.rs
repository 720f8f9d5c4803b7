//! How the API says no: one document with a title, a status and a sentence that names the value and the
//! way out (RFC 9457).

use axum::Json;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use punctual::{Error, ErrorKind};
use serde::Serialize;
use utoipa::ToSchema;

use crate::wording::for_api;

/// What an endpoint answers.
pub(crate) type Answer<T> = Result<T, Problem>;

/// Something that was refused or went wrong.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Problem {
    /// Always `about:blank`: the status says what kind of problem it is.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The kind of problem, in words.
    title: String,
    /// The HTTP status.
    status: u16,
    /// What is wrong, and the way out.
    detail: String,
    /// What is wrong with single fields.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldProblem>,
    /// In how many seconds to try again.
    #[serde(skip)]
    wait: Option<u64>,
}

/// What is wrong with one field.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct FieldProblem {
    /// The field.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

impl Problem {
    /// A problem of a status.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or("Problem").to_owned(),
            status: status.as_u16(),
            detail: detail.into(),
            errors: Vec::new(),
            wait: (status == StatusCode::SERVICE_UNAVAILABLE).then_some(5),
        }
    }

    /// The request cannot be read.
    pub fn malformed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// The request was understood and cannot be done.
    pub fn refused(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }

    /// There is no such thing.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// The present state does not allow it.
    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, detail)
    }

    /// The process takes no new work.
    pub(crate) fn stopping() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the process is stopping; ask another node")
    }

    /// Adds what is wrong with a field.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>, problem: impl Into<String>) -> Self {
        self.errors.push(FieldProblem { field: field.into(), problem: problem.into() });
        self
    }

    /// The same within something larger, such as one item of many.
    #[must_use]
    pub(crate) fn within(mut self, place: &str) -> Self {
        self.detail = format!("{place}: {}", self.detail);
        for error in &mut self.errors {
            error.field = format!("{place}.{}", error.field);
        }
        self
    }

    /// Says in how many seconds to try again.
    #[must_use]
    pub fn retry_after(self, seconds: u64) -> Self {
        Self { wait: Some(seconds), ..self }
    }

    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// What is wrong, and the way out.
    pub fn detail(&self) -> &str {
        &self.detail
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let status = match error.kind() {
            ErrorKind::Invalid | ErrorKind::Unsupported => StatusCode::UNPROCESSABLE_ENTITY,
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            ErrorKind::Conflict => StatusCode::CONFLICT,
            ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        if status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(%error, "a request failed");
        }
        Self::new(status, for_api(&error.to_string()))
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, wait) = (self.status(), self.wait);
        let mut response = (status, Json(self)).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(wait) = wait {
            headers.insert(RETRY_AFTER, HeaderValue::from(wait));
        }
        response
    }
}
