//! Problem documents (RFC 9457): title, status, and a sentence that names the value and the fix.

use axum::Json;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use punctual::{Error, ErrorKind};
use serde::Serialize;
use utoipa::ToSchema;

use crate::wording::for_api;

/// Result of an endpoint.
pub(crate) type ApiResult<T> = Result<T, Problem>;

/// A problem document.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Problem {
    /// Always `about:blank`: the status is the kind of problem.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The reason phrase of the status.
    title: String,
    /// The HTTP status.
    status: u16,
    /// The problem and how to fix it.
    detail: String,
    /// Problems of single fields.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldProblem>,
    /// Seconds for `Retry-After`.
    #[serde(skip)]
    wait: Option<u64>,
}

/// A problem of one field.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct FieldProblem {
    /// The field.
    pub field: String,
    /// The problem.
    pub problem: String,
}

impl Problem {
    /// Returns a problem with a status.
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

    /// Returns 400: the request cannot be parsed.
    pub fn malformed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// Returns 422: a value of the request is invalid.
    pub fn refused(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }

    /// Returns 404.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// Returns 409: the current state does not allow the request.
    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, detail)
    }

    /// Returns 503: the process is stopping.
    pub(crate) fn stopping() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the process is stopping; use another node")
    }

    /// Adds the problem of a field.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>, problem: impl Into<String>) -> Self {
        self.errors.push(FieldProblem { field: field.into(), problem: problem.into() });
        self
    }

    /// Prefixes the detail and the fields with a place, such as one item of many.
    #[must_use]
    pub(crate) fn within(mut self, place: &str) -> Self {
        self.detail = format!("{place}: {}", self.detail);
        for error in &mut self.errors {
            error.field = format!("{place}.{}", error.field);
        }
        self
    }

    /// Sets `Retry-After` in seconds.
    #[must_use]
    pub fn retry_after(self, seconds: u64) -> Self {
        Self { wait: Some(seconds), ..self }
    }

    /// Returns the HTTP status.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Returns the problem and how to fix it.
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
