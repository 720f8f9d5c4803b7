//! What an error of the broker or of the connection means. The one place that maps errors; nothing here
//! has ever seen a key.

use std::error::Error as StdError;

use fe2o3_amqp::connection::{ConnectionStopReason, OpenError};
use fe2o3_amqp::link::{
    DetachError, IllegalLinkStateError, LinkStateError, ReceiverAttachError, RecvError, SendError,
    SenderAttachError, SessionStopReason,
};
use fe2o3_amqp::types::definitions::{AmqpError, Error as Told, ErrorCondition, LinkError};
use punctual::{Error, ErrorKind};

/// What was asked, of whom: the words around an error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// Host and port.
    pub(crate) place: &'a str,
    /// The entity.
    pub(crate) entity: &'a str,
}

/// An error in which the broker may have said why.
pub(crate) trait Fault: StdError + Send + Sync + 'static {
    /// What the broker said, when it said something.
    fn told(&self) -> Option<&Told>;
}

impl Asked<'_> {
    /// The error for the caller.
    pub(crate) fn failed(self, fault: impl Fault) -> Error {
        let place = self.place;
        let error = match fault.told() {
            Some(told) => self.refused(told),
            None => Error::unavailable(format!(
                "the connection to Service Bus at {place} is lost or was never made: {fault}; it is made again by itself"
            )),
        };
        error.caused_by(fault)
    }

    /// The same for what the broker said.
    pub(crate) fn refused(self, told: &Told) -> Error {
        let (kind, way_out) = meaning(&told.condition);
        let Self { place, entity } = self;
        let why = told.description.as_deref().unwrap_or("it does not say why");
        let condition = symbol(&told.condition);
        Error::new(
            kind,
            format!("Service Bus at {place} refuses {entity:?} with {condition}: {why}; {way_out}"),
        )
    }

    /// The same for a status of one of its answers.
    pub(crate) fn answered(self, status: i32, why: &str) -> Error {
        let (kind, way_out) = match status {
            401 | 403 => (ErrorKind::Invalid, CREDENTIALS),
            404 => (ErrorKind::NotFound, CREATE),
            410 => (ErrorKind::Conflict, "its lock has run out, and it comes again"),
            _ => (ErrorKind::Unavailable, LATER),
        };
        let Self { place, entity } = self;
        Error::new(
            kind,
            format!(
                "Service Bus at {place} refuses {entity:?} with status {status}: {why}; {way_out}"
            ),
        )
    }

    /// The same for what happened while the connection was being made.
    pub(crate) fn unopened(self, error: OpenError) -> Error {
        let place = self.place;
        let (kind, sentence) = match &error {
            OpenError::SaslError { .. } => {
                (ErrorKind::Invalid, format!("Service Bus at {place} refuses us; {CREDENTIALS}"))
            }
            OpenError::ProtocolHeaderMismatch(_) => (
                ErrorKind::Invalid,
                format!("what answers at {place} does not speak AMQP 1.0; check the Endpoint"),
            ),
            OpenError::RemoteClosedWithError(told) => return self.refused(told).caused_by(error),
            other => (
                ErrorKind::Unavailable,
                format!(
                    "Service Bus at {place} cannot be reached: {other}; check the Endpoint and that it is up"
                ),
            ),
        };
        Error::new(kind, sentence).caused_by(error)
    }

    /// The same for a time that ran out.
    pub(crate) fn silent(self) -> Error {
        Error::unavailable(format!(
            "Service Bus at {} does not answer in time; check that it is up, or give it more with timeout",
            self.place
        ))
    }
}

const CREDENTIALS: &str = "check SharedAccessKeyName, SharedAccessKey and what the policy allows";
const CREATE: &str = "create it in the portal or with a template: AMQP cannot";
const LATER: &str = "it is tried again later";

fn meaning(condition: &ErrorCondition) -> (ErrorKind, &'static str) {
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
            "the entity may need sessions or be of another kind than asked for",
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

fn of_session(reason: &SessionStopReason) -> Option<&Told> {
    match reason {
        SessionStopReason::RemoteEndedWithError(told)
        | SessionStopReason::ConnectionStopped(ConnectionStopReason::RemoteClosedWithError(told)) => {
            Some(told)
        }
        _ => None,
    }
}

impl Fault for LinkStateError {
    fn told(&self) -> Option<&Told> {
        match self {
            Self::RemoteDetachedWithError(told) | Self::RemoteClosedWithError(told) => Some(told),
            Self::SessionStopped(reason) => of_session(reason),
            _ => None,
        }
    }
}

impl Fault for DetachError {
    fn told(&self) -> Option<&Told> {
        match self {
            Self::RemoteDetachedWithError(told) | Self::RemoteClosedWithError(told) => Some(told),
            Self::SessionStopped(reason) => of_session(reason),
            _ => None,
        }
    }
}

impl Fault for SendError {
    fn told(&self) -> Option<&Told> {
        match self {
            Self::LinkStateError(error) => error.told(),
            Self::Detached(error) => error.told(),
            _ => None,
        }
    }
}

impl Fault for RecvError {
    fn told(&self) -> Option<&Told> {
        match self {
            Self::LinkStateError(error) => error.told(),
            _ => None,
        }
    }
}

impl Fault for SenderAttachError {
    fn told(&self) -> Option<&Told> {
        match self {
            Self::RemoteClosedWithError(told) => Some(told),
            Self::SessionStopped(reason) => of_session(reason),
            _ => None,
        }
    }
}

impl Fault for ReceiverAttachError {
    fn told(&self) -> Option<&Told> {
        match self {
            Self::RemoteClosedWithError(told) => Some(told),
            Self::SessionStopped(reason) => of_session(reason),
            _ => None,
        }
    }
}

impl Fault for IllegalLinkStateError {
    fn told(&self) -> Option<&Told> {
        match self {
            Self::SessionStopped(reason) => of_session(reason),
            Self::IllegalState => None,
        }
    }
}

impl Fault for fe2o3_amqp::session::BeginError {
    fn told(&self) -> Option<&Told> {
        None
    }
}
