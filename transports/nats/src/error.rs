//! Errors: maps errors of the client and of the broker to [`Error`]. No text contains the password of an address.
//!
//! There are four functions because the client has four error types without a common trait, and each needs another fact
//! for its text: the servers, the object of a call, or the subject of a publish.

use std::error::Error as StdError;

use async_nats::ConnectErrorKind;
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{PublishErrorKind, RequestErrorKind};
use punctual::{Error, ErrorKind};

/// Returns the error for a lost connection.
pub(crate) fn connection_lost(servers: &str) -> Error {
    Error::unavailable(format!(
        "the connection to NATS at {servers} is lost; the client reconnects when the broker is reachable"
    ))
}

/// Returns the error for a response that did not arrive in time.
pub(crate) fn timed_out(servers: &str) -> Error {
    Error::unavailable(format!("NATS at {servers} did not respond within the timeout; try again"))
}

/// Maps an error of the first connection.
pub(crate) fn map_connect_error(error: async_nats::ConnectError, servers: &str) -> Error {
    let (kind, text) = match error.kind() {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => (
            ErrorKind::Invalid,
            format!("NATS at {servers} refuses this user, password or token; check all of them"),
        ),
        ConnectErrorKind::Dns => (
            ErrorKind::Unavailable,
            format!("the host name of NATS at {servers} cannot be resolved; check it"),
        ),
        ConnectErrorKind::Tls => (
            ErrorKind::Invalid,
            format!(
                "the TLS handshake with NATS at {servers} failed: {}; check tls:// and the certificates",
                reason(&error)
            ),
        ),
        ConnectErrorKind::ServerParse => {
            (ErrorKind::Invalid, format!("the address of NATS at {servers} cannot be parsed"))
        }
        _ => (
            ErrorKind::Unavailable,
            format!(
                "NATS at {servers} cannot be reached: {}; check that it is running",
                reason(&error)
            ),
        ),
    };
    Error::new(kind, text).caused_by(error)
}

/// Maps an error of a JetStream API call without a response.
pub(crate) fn map_request_error(
    error: async_nats::jetstream::context::RequestError,
    servers: &str,
) -> Error {
    match error.kind() {
        RequestErrorKind::NoResponders => Error::unavailable(format!(
            "JetStream does not respond at {servers}; enable it on the broker and for this account, or \
             wait until it has started"
        )),
        RequestErrorKind::TimedOut => timed_out(servers),
        _ => {
            Error::unavailable(format!("NATS at {servers} returned no usable response: {}", reason(&error)))
        }
    }
    .caused_by(error)
}

/// Maps a refusal of JetStream; `what` names the object concerned.
pub(crate) fn map_api_error(error: async_nats::jetstream::Error, what: &str) -> Error {
    const NOT_ENABLED: [ErrorCode; 2] =
        [ErrorCode::JETSTREAM_NOT_ENABLED, ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT];
    let text = error.to_string();
    let code = error.error_code();
    let kind = match code {
        ErrorCode::STREAM_NOT_FOUND | ErrorCode::CONSUMER_NOT_FOUND => ErrorKind::NotFound,
        ErrorCode::STREAM_NAME_EXIST
        | ErrorCode::STREAM_SUBJECT_OVERLAP
        | ErrorCode::CONSUMER_ALREADY_EXISTS => ErrorKind::Conflict,
        code if NOT_ENABLED.contains(&code) => ErrorKind::Invalid,
        // 400: the request can never succeed. The others concern resources and clusters.
        _ if error.code() == 400 => ErrorKind::Invalid,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, format!("JetStream refuses {what}: {text}")).with("code", code.0)
}

/// Maps an error of a publish without confirmation.
pub(crate) fn map_publish_error(
    error: async_nats::jetstream::context::PublishError,
    subject: &str,
    servers: &str,
) -> Error {
    match error.kind() {
        PublishErrorKind::StreamNotFound => Error::unavailable(format!(
            "no stream of NATS at {servers} has the subject {subject:?}; check whether it was deleted"
        )),
        PublishErrorKind::MaxPayloadExceeded => Error::invalid(format!(
            "a message for {subject:?} with its headers exceeds the limit of NATS at {servers}: {}; raise \
             max_payload there or send a smaller message",
            reason(&error)
        )),
        PublishErrorKind::TimedOut | PublishErrorKind::BrokenPipe => timed_out(servers),
        _ => Error::unavailable(format!(
            "NATS at {servers} refused a message for {subject:?}: {}",
            reason(&error)
        )),
    }
    .caused_by(error)
}

/// Returns the innermost cause, which is the most specific.
fn reason(error: &dyn StdError) -> String {
    let mut innermost = error;
    // Errors nest a few levels at most; the limit is a safeguard.
    for _ in 0..8 {
        let Some(source) = innermost.source() else { break };
        innermost = source;
    }
    innermost.to_string()
}
