//! Errors: maps an error of the AMQP client to the kind, the broker and the way out. The address is never shown,
//! because it holds the password.

use std::fmt;

use lapin::ErrorKind;
use lapin::protocol::{AMQPError, AMQPErrorKind, AMQPHardError, AMQPSoftError};
use punctual::Error;

/// Maps an error of the client during `doing` on the broker at `endpoint`.
pub(crate) fn map_error(endpoint: &str, doing: impl fmt::Display, error: lapin::Error) -> Error {
    let mapped = match error.kind() {
        ErrorKind::ProtocolError(error) => map_amqp_error(endpoint, &doing, error),
        ErrorKind::SerialisationError(_) => Error::invalid(format!(
            "{doing}: the message cannot be written as AMQP; it needs fewer or shorter headers"
        )),
        ErrorKind::InvalidProtocolVersion(version) => Error::invalid(format!(
            "{doing}: the server at {endpoint} uses AMQP {version}, not 0.9.1; check that it is RabbitMQ"
        )),
        _ => Error::unavailable(format!(
            "{doing}: RabbitMQ at {endpoint} cannot be reached: {error}"
        )),
    };
    mapped.caused_by(error)
}

/// Error of a call that exceeded the timeout.
pub(crate) fn timed_out(endpoint: &str, doing: impl fmt::Display) -> Error {
    Error::unavailable(format!(
        "{doing}: RabbitMQ at {endpoint} did not respond in time; it may be blocked by a memory or disk alarm"
    ))
}

/// Error of a call whose connection was lost.
pub(crate) fn connection_lost(endpoint: &str, doing: impl fmt::Display) -> Error {
    Error::unavailable(format!("{doing}: the connection to RabbitMQ at {endpoint} was lost"))
}

/// Error of settling a delivery whose connection was lost before.
pub(crate) fn delivery_lost(endpoint: &str, doing: impl fmt::Display) -> Error {
    Error::unavailable(format!(
        "{doing}: the connection to RabbitMQ at {endpoint} that delivered the message is gone; the broker \
        delivers it again"
    ))
}

fn map_amqp_error(endpoint: &str, doing: &dyn fmt::Display, error: &AMQPError) -> Error {
    let text = error.get_message();
    match error.kind() {
        AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) => Error::invalid(format!(
            "{doing}: RabbitMQ at {endpoint} refused access: {text}; check user, password and \
             permissions"
        )),
        AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED) => Error::invalid(format!(
            "{doing}: RabbitMQ at {endpoint} does not allow it: {text}; check that the virtual host of \
             the address exists and that the user may enter it"
        )),
        AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND) => Error::not_found(format!(
            "{doing}: RabbitMQ at {endpoint}: {text}; create it, or let the transport declare it"
        )),
        AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED | AMQPSoftError::RESOURCELOCKED) => {
            Error::conflict(format!(
                "{doing}: it exists on RabbitMQ at {endpoint} with other settings: {text}; configure the \
                 transport like it, use another prefix, or delete it there"
            ))
        }
        _ => Error::unavailable(format!(
            "{doing}: RabbitMQ at {endpoint} closed the channel or connection: {text}"
        )),
    }
}
