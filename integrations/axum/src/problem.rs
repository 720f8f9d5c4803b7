//! Error responses: an error of Punctual as the response to a request.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use punctual::{Error, ErrorKind};
use serde_json::json;

/// An error as a response: `?` makes one in a handler that returns `Result<_, ProblemResponse>`.
///
/// Errors of the caller have a message: 400 for an invalid value, 404, 409. All others are 501, 503 or 500
/// with the kind only, because the message may name machines.
#[derive(Debug)]
pub struct ProblemResponse(pub Error);

impl From<Error> for ProblemResponse {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for ProblemResponse {
    fn into_response(self) -> Response {
        let kind = self.0.kind();
        let status = match kind {
            ErrorKind::Invalid => StatusCode::BAD_REQUEST,
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            ErrorKind::Conflict => StatusCode::CONFLICT,
            ErrorKind::Unsupported => StatusCode::NOT_IMPLEMENTED,
            ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let message = status.is_client_error().then(|| self.0.to_string());
        (status, Json(json!({ "error": kind.as_str(), "message": message }))).into_response()
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;

    use super::*;

    #[tokio::test]
    async fn errors_that_the_caller_cannot_fix_have_no_message() {
        for (error, code, body) in [
            (Error::invalid("no"), 400, r#"{"error":"invalid","message":"no"}"#),
            (Error::not_found("no"), 404, r#"{"error":"not found","message":"no"}"#),
            (Error::conflict("no"), 409, r#"{"error":"conflict","message":"no"}"#),
            (Error::unsupported("no"), 501, r#"{"error":"unsupported","message":null}"#),
            (Error::unavailable("db 7"), 503, r#"{"error":"unavailable","message":null}"#),
            (Error::internal("line 7"), 500, r#"{"error":"internal","message":null}"#),
        ] {
            let response = ProblemResponse(error).into_response();
            assert_eq!(response.status().as_u16(), code);
            let bytes = to_bytes(response.into_body(), 1_000).await.unwrap();
            assert_eq!(&bytes[..], body.as_bytes());
        }
    }
}
