//! What the client and the broker say when something goes wrong, as errors of ours. The one place that
//! maps them; nothing here shows an address with its password.

use std::error::Error as StdError;

use async_nats::ConnectErrorKind;
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{PublishErrorKind, RequestErrorKind};
use punctual::{Error, ErrorKind};

/// The broker cannot be reached at this moment.
pub(crate) fn lost(place: &str) -> Error {
    Error::unavailable(format!(
        "the connection to NATS at {place} is lost; it is made again as soon as the broker answers"
    ))
}

/// The broker did not answer in time.
pub(crate) fn silent(place: &str) -> Error {
    Error::unavailable(format!("NATS at {place} did not answer in time; try again"))
}

/// The first attempt to connect failed.
pub(crate) fn from_connect(error: async_nats::ConnectError, place: &str) -> Error {
    let (kind, sentence) = match error.kind() {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => (
            ErrorKind::Invalid,
            format!("NATS at {place} refuses this user, password or token; check all of them"),
        ),
        ConnectErrorKind::Dns => (
            ErrorKind::Unavailable,
            format!("the host of NATS at {place} is not known; check its name"),
        ),
        ConnectErrorKind::Tls => (
            ErrorKind::Invalid,
            format!(
                "NATS at {place} and we do not agree on TLS: {}; check tls:// and the certificates",
                reason(&error)
            ),
        ),
        ConnectErrorKind::ServerParse => {
            (ErrorKind::Invalid, format!("the address of NATS at {place} cannot be read"))
        }
        _ => (
            ErrorKind::Unavailable,
            format!("NATS at {place} cannot be reached: {}; is it running?", reason(&error)),
        ),
    };
    Error::new(kind, sentence).caused_by(error)
}

/// A call to JetStream's API did not get an answer.
pub(crate) fn from_request(
    error: async_nats::jetstream::context::RequestError,
    place: &str,
) -> Error {
    match error.kind() {
        RequestErrorKind::NoResponders => Error::unavailable(format!(
            "JetStream does not answer at {place}; enable it on the broker and for this account, or wait \
             until it has started"
        )),
        RequestErrorKind::TimedOut => silent(place),
        _ => {
            Error::unavailable(format!("NATS at {place} gave no usable answer: {}", reason(&error)))
        }
    }
    .caused_by(error)
}

/// JetStream refused a call about something.
pub(crate) fn from_api(error: async_nats::jetstream::Error, what: &str) -> Error {
    const NOT_ENABLED: [ErrorCode; 2] =
        [ErrorCode::JETSTREAM_NOT_ENABLED, ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT];
    let told = error.to_string();
    let code = error.error_code();
    let kind = match code {
        ErrorCode::STREAM_NOT_FOUND | ErrorCode::CONSUMER_NOT_FOUND => ErrorKind::NotFound,
        ErrorCode::STREAM_NAME_EXIST
        | ErrorCode::STREAM_SUBJECT_OVERLAP
        | ErrorCode::CONSUMER_ALREADY_EXISTS => ErrorKind::Conflict,
        code if NOT_ENABLED.contains(&code) => ErrorKind::Invalid,
        // 400: the request can never work. The others are about resources and clusters.
        _ if error.code() == 400 => ErrorKind::Invalid,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, format!("JetStream refuses {what}: {told}")).with("code", code.0)
}

/// A message was not confirmed.
pub(crate) fn from_publish(
    error: async_nats::jetstream::context::PublishError,
    subject: &str,
    place: &str,
) -> Error {
    match error.kind() {
        PublishErrorKind::StreamNotFound => Error::unavailable(format!(
            "no stream of NATS at {place} takes the subject {subject:?} at the moment; was it removed?"
        )),
        PublishErrorKind::MaxPayloadExceeded => Error::invalid(format!(
            "a message for {subject:?} with its headers is larger than NATS at {place} takes: {}; raise \
             max_payload there or send less",
            reason(&error)
        )),
        PublishErrorKind::TimedOut | PublishErrorKind::BrokenPipe => silent(place),
        _ => Error::unavailable(format!(
            "NATS at {place} did not take a message for {subject:?}: {}",
            reason(&error)
        )),
    }
    .caused_by(error)
}

/// The innermost words, which say most.
fn reason(error: &dyn StdError) -> String {
    let mut innermost = error;
    // Errors nest a few levels at most; the bound is for those that do not.
    for _ in 0..8 {
        let Some(source) = innermost.source() else { break };
        innermost = source;
    }
    innermost.to_string()
}
