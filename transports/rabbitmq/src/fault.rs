//! The one place where an error of the client becomes one of ours: what kind it is, which broker it was,
//! and the way out. An address is never shown, because it holds the password.

use std::fmt;

use lapin::ErrorKind;
use lapin::protocol::{AMQPError, AMQPErrorKind, AMQPHardError, AMQPSoftError};
use punctual::Error;

/// What became of talking to a broker at `place` while doing something.
pub(crate) fn fault(place: &str, doing: impl fmt::Display, error: lapin::Error) -> Error {
    let mapped = match error.kind() {
        ErrorKind::ProtocolError(told) => refused(place, &doing, told),
        ErrorKind::SerialisationError(_) => Error::invalid(format!(
            "{doing}: the message cannot be written as AMQP; it needs fewer or shorter headers"
        )),
        ErrorKind::InvalidProtocolVersion(version) => Error::invalid(format!(
            "{doing}: what listens at {place} speaks AMQP {version} and not 0.9.1; is it RabbitMQ?"
        )),
        _ => Error::unavailable(format!("{doing}: RabbitMQ at {place} cannot be reached: {error}")),
    };
    mapped.caused_by(error)
}

/// A broker that did not answer in time.
pub(crate) fn silent(place: &str, doing: impl fmt::Display) -> Error {
    Error::unavailable(format!(
        "{doing}: RabbitMQ at {place} did not answer in time; it may be blocked by an alarm for memory \
         or disk"
    ))
}

/// A connection that was lost during a call.
pub(crate) fn broken(place: &str, doing: impl fmt::Display) -> Error {
    Error::unavailable(format!("{doing}: the connection to RabbitMQ at {place} was lost"))
}

/// A delivery whose connection went away before it was settled.
pub(crate) fn lost(place: &str, doing: impl fmt::Display) -> Error {
    Error::unavailable(format!(
        "{doing}: the connection to RabbitMQ at {place} that it came from is gone; the broker delivers \
         it again"
    ))
}

fn refused(place: &str, doing: &dyn fmt::Display, told: &AMQPError) -> Error {
    let said = told.get_message();
    match told.kind() {
        AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) => Error::invalid(format!(
            "{doing}: RabbitMQ at {place} refused access: {said}; check user, password and \
             permissions"
        )),
        AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED) => Error::invalid(format!(
            "{doing}: RabbitMQ at {place} does not allow it: {said}; check that the virtual host of \
             the address exists and that the user may enter it"
        )),
        AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND) => Error::not_found(format!(
            "{doing}: RabbitMQ at {place} says: {said}; create it, or let the transport declare it"
        )),
        AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED | AMQPSoftError::RESOURCELOCKED) => {
            Error::conflict(format!(
                "{doing}: it exists on RabbitMQ at {place} with other settings: {said}; configure the \
                 transport like it, use another prefix, or delete it there"
            ))
        }
        _ => Error::unavailable(format!("{doing}: RabbitMQ at {place} ended it: {said}")),
    }
}
