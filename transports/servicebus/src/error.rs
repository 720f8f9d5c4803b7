//! Errors: maps an error of the broker or of the connection to its kind and the way out. No key reaches this
//! module.
//!
//! `map_error` is for every error of the client in which the broker may have given a reason. The other functions are for
//! what has another type: the reason alone, the status of a response, and the end of an opening connection.

use std::error::Error as StdError;

use fe2o3_amqp::connection::{ConnectionStopReason, OpenError};
use fe2o3_amqp::link::{
    DetachError, IllegalLinkStateError, LinkStateError, ReceiverAttachError, RecvError, SendError,
    SenderAttachError, SessionStopReason,
};
use fe2o3_amqp::types::definitions::{
    AmqpError, Error as AmqpErrorInfo, ErrorCondition, LinkError,
};
use punctual::{Error, ErrorKind};

/// Endpoint and entity that an error message names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrorContext<'a> {
    /// Host and port.
    pub(crate) endpoint: &'a str,
    /// The entity.
    pub(crate) entity: &'a str,
}

/// Error of the client in which the broker may have given a reason.
pub(crate) trait ClientError: StdError + Send + Sync + 'static {
    /// Returns the error that the broker sent, if it sent one.
    fn broker_error(&self) -> Option<&AmqpErrorInfo>;
}

impl ErrorContext<'_> {
    /// Maps an error of the client.
    pub(crate) fn map_error(self, error: impl ClientError) -> Error {
        let endpoint = self.endpoint;
        let mapped = match error.broker_error() {
            Some(broker_error) => self.map_broker_error(broker_error),
            None => Error::unavailable(format!(
                "the connection to Service Bus at {endpoint} was lost or could not be opened: {error}; the next call opens it again"
            )),
        };
        mapped.caused_by(error)
    }

    /// Maps an error that the broker sent.
    pub(crate) fn map_broker_error(self, broker_error: &AmqpErrorInfo) -> Error {
        let (kind, way_out) = classify(&broker_error.condition);
        let Self { endpoint, entity } = self;
        let why = broker_error.description.as_deref().unwrap_or("no reason given");
        let condition = symbol(&broker_error.condition);
        Error::new(
            kind,
            format!(
                "Service Bus at {endpoint} refuses {entity:?} with {condition}: {why}; {way_out}"
            ),
        )
    }

    /// Maps the status of a response.
    pub(crate) fn map_status(self, status: i32, why: &str) -> Error {
        let (kind, way_out) = match status {
            401 | 403 => (ErrorKind::Invalid, CREDENTIALS),
            404 => (ErrorKind::NotFound, CREATE),
            410 => (ErrorKind::Conflict, "its lock has expired, and it is delivered again"),
            _ => (ErrorKind::Unavailable, LATER),
        };
        let Self { endpoint, entity } = self;
        Error::new(
            kind,
            format!(
                "Service Bus at {endpoint} refuses {entity:?} with status {status}: {why}; {way_out}"
            ),
        )
    }

    /// Maps an error of opening the connection.
    pub(crate) fn map_open_error(self, error: OpenError) -> Error {
        let endpoint = self.endpoint;
        let (kind, sentence) = match &error {
            OpenError::SaslError { .. } => (
                ErrorKind::Invalid,
                format!("Service Bus at {endpoint} refuses the credentials; {CREDENTIALS}"),
            ),
            OpenError::ProtocolHeaderMismatch(_) => (
                ErrorKind::Invalid,
                format!("the server at {endpoint} does not speak AMQP 1.0; check the Endpoint"),
            ),
            OpenError::RemoteClosedWithError(broker_error) => {
                return self.map_broker_error(broker_error).caused_by(error);
            }
            other => (
                ErrorKind::Unavailable,
                format!(
                    "Service Bus at {endpoint} cannot be reached: {other}; check the Endpoint and that it is up"
                ),
            ),
        };
        Error::new(kind, sentence).caused_by(error)
    }

    /// Returns the error of a call that exceeded the timeout.
    pub(crate) fn timed_out(self) -> Error {
        Error::unavailable(format!(
            "Service Bus at {} did not respond in time; check that it is up, or raise the timeout",
            self.endpoint
        ))
    }
}

const CREDENTIALS: &str = "check SharedAccessKeyName, SharedAccessKey and what the policy allows";
const CREATE: &str = "create it in the portal or with a template: AMQP cannot";
const LATER: &str = "try again later";

fn classify(condition: &ErrorCondition) -> (ErrorKind, &'static str) {
    match condition {
        ErrorCondition::AmqpError(AmqpError::NotFound | AmqpError::ResourceDeleted) => {
            (ErrorKind::NotFound, CREATE)
        }
        ErrorCondition::AmqpError(AmqpError::UnauthorizedAccess) => {
            (ErrorKind::Invalid, CREDENTIALS)
        }
        ErrorCondition::AmqpError(
            AmqpError::NotAllowed | AmqpError::InvalidField | AmqpError::NotImplemented,
        ) => (
            ErrorKind::Invalid,
            "the entity may require sessions, or be of another type than configured",
        ),
        ErrorCondition::LinkError(LinkError::MessageSizeExceeded) => {
            (ErrorKind::Invalid, "lower payload_max, or use a tier that takes larger messages")
        }
        ErrorCondition::Custom(name) if name.as_str() == "com.microsoft:entity-disabled" => {
            (ErrorKind::Invalid, "enable it in the portal")
        }
        ErrorCondition::Custom(name) if name.as_str() == "com.microsoft:auth-failed" => {
            (ErrorKind::Invalid, CREDENTIALS)
        }
        _ => (ErrorKind::Unavailable, LATER),
    }
}

fn symbol(condition: &ErrorCondition) -> String {
    match condition {
        ErrorCondition::AmqpError(error) => error.to_string(),
        ErrorCondition::Custom(name) => name.to_string(),
        other => format!("{other:?}"),
    }
}

fn session_error(reason: &SessionStopReason) -> Option<&AmqpErrorInfo> {
    match reason {
        SessionStopReason::RemoteEndedWithError(broker_error)
        | SessionStopReason::ConnectionStopped(ConnectionStopReason::RemoteClosedWithError(
            broker_error,
        )) => Some(broker_error),
        _ => None,
    }
}

impl ClientError for LinkStateError {
    fn broker_error(&self) -> Option<&AmqpErrorInfo> {
        match self {
            Self::RemoteDetachedWithError(broker_error)
            | Self::RemoteClosedWithError(broker_error) => Some(broker_error),
            Self::SessionStopped(reason) => session_error(reason),
            _ => None,
        }
    }
}

impl ClientError for DetachError {
    fn broker_error(&self) -> Option<&AmqpErrorInfo> {
        match self {
            Self::RemoteDetachedWithError(broker_error)
            | Self::RemoteClosedWithError(broker_error) => Some(broker_error),
            Self::SessionStopped(reason) => session_error(reason),
            _ => None,
        }
    }
}

impl ClientError for SendError {
    fn broker_error(&self) -> Option<&AmqpErrorInfo> {
        match self {
            Self::LinkStateError(error) => error.broker_error(),
            Self::Detached(error) => error.broker_error(),
            _ => None,
        }
    }
}

impl ClientError for RecvError {
    fn broker_error(&self) -> Option<&AmqpErrorInfo> {
        match self {
            Self::LinkStateError(error) => error.broker_error(),
            _ => None,
        }
    }
}

impl ClientError for SenderAttachError {
    fn broker_error(&self) -> Option<&AmqpErrorInfo> {
        match self {
            Self::RemoteClosedWithError(broker_error) => Some(broker_error),
            Self::SessionStopped(reason) => session_error(reason),
            _ => None,
        }
    }
}

impl ClientError for ReceiverAttachError {
    fn broker_error(&self) -> Option<&AmqpErrorInfo> {
        match self {
            Self::RemoteClosedWithError(broker_error) => Some(broker_error),
            Self::SessionStopped(reason) => session_error(reason),
            _ => None,
        }
    }
}

impl ClientError for IllegalLinkStateError {
    fn broker_error(&self) -> Option<&AmqpErrorInfo> {
        match self {
            Self::SessionStopped(reason) => session_error(reason),
            Self::IllegalState => None,
        }
    }
}

impl ClientError for fe2o3_amqp::session::BeginError {
    fn broker_error(&self) -> Option<&AmqpErrorInfo> {
        None
    }
}
