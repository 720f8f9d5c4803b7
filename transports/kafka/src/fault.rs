//! What the client and the broker say when something goes wrong, as errors of ours. The one place that
//! maps them; nothing here shows an address with its password.

use punctual::{Error, ErrorKind};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

/// Where the broker is and what it said last, for the sentence.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) servers: &'a str,
    pub(crate) reason: Option<&'a str>,
}

/// A failure of the client.
pub(crate) fn from_kafka(error: &KafkaError, doing: &'static str, at: At<'_>) -> Error {
    match (error, code_of(error)) {
        (KafkaError::ClientConfig(_, _, name, _), _) if name == "security.protocol" => {
            Error::invalid(
                "Kafka's client was built without encryption; give the application the crate rdkafka with \
                 its feature \"ssl\", or use kafka:// where the network is trusted",
            )
        }
        (KafkaError::ClientConfig(_, description, name, _), _) => {
            let why = if is_secret(name) { "it cannot be used" } else { description.as_str() };
            Error::invalid(format!(
                "Kafka's client does not take the property {name:?}: {why}; correct or leave it out"
            ))
        }
        (KafkaError::ClientCreation(description), _) => Error::invalid(format!(
            "Kafka's client cannot be made: {description}; correct its properties, and build it with the \
             feature it misses"
        )),
        (_, Some(code)) => from_code(code, doing, at),
        (other, None) => Error::internal(format!("Kafka's client answered {other}")).during(doing),
    }
}

/// The code of a failure, when it has one.
pub(crate) fn code_of(error: &KafkaError) -> Option<Code> {
    match error {
        // The library forgets that this one has.
        KafkaError::AdminOp(code) => Some(*code),
        other => other.rdkafka_error_code(),
    }
}

/// A failure by its code.
pub(crate) fn from_code(code: Code, doing: &'static str, at: At<'_>) -> Error {
    let At { servers, reason } = at;
    let said = reason.map_or_else(|| code.to_string(), |reason| format!("{code}: {reason}"));
    let sentence = match kind_of(code) {
        ErrorKind::NotFound => format!(
            "Kafka at {servers} does not know the topic ({said}); create it, or let the transport do it"
        ),
        ErrorKind::Unsupported => format!(
            "Kafka at {servers} cannot do this ({said}); it needs a newer broker, or topics that exist"
        ),
        ErrorKind::Invalid if is_identity(code) => format!(
            "Kafka at {servers} refuses this user or password, or the way they are sent ({said}); check \
             all of them"
        ),
        ErrorKind::Invalid if is_permission(code) => format!(
            "Kafka at {servers} does not permit this user to do it ({said}); grant it the topic, its \
             group and its letters"
        ),
        ErrorKind::Invalid => format!("Kafka at {servers} refuses it ({said})"),
        _ => format!(
            "Kafka at {servers} does not answer ({said}); it is tried again as soon as a broker is there"
        ),
    };
    Error::new(kind_of(code), sentence).during(doing)
}

/// Whether a failure comes of not reaching a broker, or of not being let in.
pub(crate) fn is_about_connections(code: Code) -> bool {
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

/// Descriptions quote what was set.
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
    fn a_failure_says_whether_trying_again_can_help_and_what_to_do() {
        for (code, kind, says) in [
            (Code::BrokerTransportFailure, ErrorKind::Unavailable, "tried again"),
            (Code::MessageTimedOut, ErrorKind::Unavailable, "tried again"),
            (Code::NotEnoughReplicas, ErrorKind::Unavailable, "tried again"),
            (Code::Authentication, ErrorKind::Invalid, "user or password"),
            (Code::TopicAuthorizationFailed, ErrorKind::Invalid, "permit"),
            (Code::UnknownTopicOrPartition, ErrorKind::NotFound, "create it"),
            (Code::UnsupportedFeature, ErrorKind::Unsupported, "newer broker"),
        ] {
            let at = At { servers: "h:9092", reason: Some("because") };
            let error = from_code(code, "publish", at);
            assert_eq!(error.kind(), kind, "{error}");
            let text = error.to_string();
            assert!(text.contains(says) && text.contains("h:9092") && text.contains("because"));
        }
    }

    #[test]
    fn a_wrong_property_is_named_without_its_value() {
        let wrong =
            rdkafka::ClientConfig::new().set("sasl.passwort", "secret").create_native_config();
        let at = At { servers: "h:9092", reason: None };
        let error = from_kafka(&wrong.err().unwrap(), "connect", at).to_string();
        assert!(error.contains("sasl.passwort") && !error.contains("secret"), "{error}");
    }
}
