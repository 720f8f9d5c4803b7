//! Errors: maps errors of the client library and of the broker to [`Error`]. No text contains the password of an
//! address.

use punctual::{Error, ErrorKind};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

/// The addresses of the brokers and the last reason that the client library logged, for the error text.
#[derive(Clone, Copy)]
pub(crate) struct ErrorContext<'a> {
    pub(crate) servers: &'a str,
    pub(crate) reason: Option<&'a str>,
}

/// Maps an error of the client library.
pub(crate) fn map_error(
    error: &KafkaError,
    operation: &'static str,
    context: ErrorContext<'_>,
) -> Error {
    match (error, code_of(error)) {
        (KafkaError::ClientConfig(_, _, name, _), _) if name == "security.protocol" => {
            Error::invalid(
                "Kafka's client was built without encryption; give the application the crate rdkafka with \
                 its feature \"ssl\", or use kafka:// where the network is trusted",
            )
        }
        (KafkaError::ClientConfig(_, description, name, _), _) => {
            let why = if is_secret(name) { "its value is invalid" } else { description.as_str() };
            Error::invalid(format!(
                "Kafka's client does not accept the property {name:?}: {why}; correct it or leave it out"
            ))
        }
        (KafkaError::ClientCreation(description), _) => Error::invalid(format!(
            "Kafka's client cannot be created: {description}; correct its properties, or build it with \
             the missing feature"
        )),
        (_, Some(code)) => map_code(code, operation, context),
        (other, None) => {
            Error::internal(format!("Kafka's client failed: {other}")).during(operation)
        }
    }
}

/// Returns the code of an error, if it has one.
pub(crate) fn code_of(error: &KafkaError) -> Option<Code> {
    match error {
        // `rdkafka_error_code` returns none for this variant.
        KafkaError::AdminOp(code) => Some(*code),
        other => other.rdkafka_error_code(),
    }
}

/// Maps an error code.
pub(crate) fn map_code(code: Code, operation: &'static str, context: ErrorContext<'_>) -> Error {
    let ErrorContext { servers, reason } = context;
    let details = reason.map_or_else(|| code.to_string(), |reason| format!("{code}: {reason}"));
    let text = match kind_of(code) {
        ErrorKind::NotFound => format!(
            "Kafka at {servers} does not know the topic ({details}); create it, or allow the transport to \
             create topics"
        ),
        ErrorKind::Unsupported => format!(
            "Kafka at {servers} does not support this request ({details}); it needs a newer broker, or \
             existing topics"
        ),
        ErrorKind::Invalid if is_identity(code) => format!(
            "Kafka at {servers} refuses this user or password, or the SASL mechanism ({details}); check all of them"
        ),
        ErrorKind::Invalid if is_permission(code) => format!(
            "Kafka at {servers} does not permit this user to do it ({details}); grant it access to the \
             topic, its group and its dead-letter topics"
        ),
        ErrorKind::Invalid => {
            format!("Kafka at {servers} refuses the request ({details})")
        }
        _ => format!(
            "Kafka at {servers} is unreachable ({details}); it is retried until a broker responds"
        ),
    };
    Error::new(kind_of(code), text).during(operation)
}

/// Whether an error means that no broker was reached, or that it refused the credentials.
pub(crate) fn is_connection_error(code: Code) -> bool {
    kind_of(code) == ErrorKind::Unavailable || is_identity(code)
}

fn kind_of(code: Code) -> ErrorKind {
    match code {
        Code::UnknownTopic | Code::UnknownTopicOrPartition | Code::UnknownPartition => {
            ErrorKind::NotFound
        }
        Code::UnsupportedFeature | Code::UnsupportedVersion | Code::NotImplemented => {
            ErrorKind::Unsupported
        }
        Code::MessageSizeTooLarge
        | Code::MessageBatchTooLarge
        | Code::InvalidMessageSize
        | Code::InvalidTopic
        | Code::InvalidPartitions
        | Code::InvalidReplicationFactor
        | Code::PolicyViolation
        | Code::InvalidConfig => ErrorKind::Invalid,
        code if is_identity(code) || is_permission(code) => ErrorKind::Invalid,
        _ => ErrorKind::Unavailable,
    }
}

/// Whether the description of an error may quote the value of a secret property.
fn is_secret(property: &str) -> bool {
    ["password", "secret", "pem", "jaas", "oauthbearer"].iter().any(|word| property.contains(word))
}

fn is_identity(code: Code) -> bool {
    matches!(
        code,
        Code::Authentication
            | Code::SaslAuthenticationFailed
            | Code::UnsupportedSASLMechanism
            | Code::IllegalSASLState
            | Code::SSL
    )
}

fn is_permission(code: Code) -> bool {
    matches!(
        code,
        Code::TopicAuthorizationFailed
            | Code::GroupAuthorizationFailed
            | Code::ClusterAuthorizationFailed
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_temporary_or_permanent_and_names_the_way_out() {
        for (code, kind, expected) in [
            (Code::BrokerTransportFailure, ErrorKind::Unavailable, "retried"),
            (Code::MessageTimedOut, ErrorKind::Unavailable, "retried"),
            (Code::NotEnoughReplicas, ErrorKind::Unavailable, "retried"),
            (Code::Authentication, ErrorKind::Invalid, "user or password"),
            (Code::TopicAuthorizationFailed, ErrorKind::Invalid, "permit"),
            (Code::UnknownTopicOrPartition, ErrorKind::NotFound, "create it"),
            (Code::UnsupportedFeature, ErrorKind::Unsupported, "newer broker"),
        ] {
            let context = ErrorContext { servers: "h:9092", reason: Some("because") };
            let error = map_code(code, "publish", context);
            assert_eq!(error.kind(), kind, "{error}");
            let text = error.to_string();
            assert!(text.contains(expected) && text.contains("h:9092") && text.contains("because"));
        }
    }

    #[test]
    fn a_wrong_property_is_named_without_its_value() {
        let wrong =
            rdkafka::ClientConfig::new().set("sasl.passwort", "secret").create_native_config();
        let context = ErrorContext { servers: "h:9092", reason: None };
        let error = map_error(&wrong.err().unwrap(), "connect", context).to_string();
        assert!(error.contains("sasl.passwort") && !error.contains("secret"), "{error}");
    }
}
