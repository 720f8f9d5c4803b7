//! Advice of the library: its errors name functions to call. For callers of the API and operators of a server
//! they are replaced by what to change in the request or in the configuration.

use punctual::Error;

/// Hints of the library, and their replacements for callers of the API and operators.
pub(super) const ADVICE: [(&str, &str); 21] = [
    ("; jobs() lists the jobs", "; GET /api/v1/jobs lists the jobs"),
    ("; list() returns those it works on", "; GET /api/v1/queues lists the queues"),
    ("; list() returns those that exist", "; GET /api/v1/subscriptions lists the subscriptions"),
    ("or allow_past() to run it immediately", "or none to run it immediately"),
    ("leave via() out", "leave the transport out"),
    (
        "; give it to the builder first",
        "; name one of the configuration, [transports.NAME], or leave the transport out",
    ),
    (
        ", which was not given to the builder",
        ", which the configuration does not have; add [transports.NAME]",
    ),
    (
        "; use via_default() instead",
        "; list topics, or what they begin with, such as \"orders.*\", in transports.NAME.topics",
    ),
    (
        "; give the builder a durable storage, or call allow_volatile_delays()",
        "; set storage.address to a durable storage, such as \"sqlite:punctual.db\"",
    ),
    (
        "; give the builder a storage, or send it directly",
        "; set storage.address to a durable storage, such as \"sqlite:punctual.db\"",
    ),
    ("; cancel it first, or use replace()", "; cancel it first"),
    (
        "; give it to the builder, or start first",
        "; wait until the server has started, then try again",
    ),
    ("; give the builder a codec() for it, or choose from", "; choose from"),
    (
        "; give the builder a codec() for it, or take a Body as the argument",
        "; send it as application/json",
    ),
    (", or raise payload_max", ""),
    // Hints of the broker clients.
    (", or set allow_no_subscribers(true)", ""),
    ("; use the other one with version(Version::V311)", "; use a broker that speaks MQTT 5"),
    ("; check root_certificate", "; use a certificate of a public authority"),
    (
        "; set access key and secret in the builder, the address or the environment",
        "; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment of the server",
    ),
    ("; give the builder a storage, or send it without a delay", "; send it without a delay"),
    ("; give the builder a storage, which keeps delayed messages", "; send it without a delay"),
];

/// Replaces hints for programmers in an error by hints for callers of the API.
pub(crate) fn for_api(message: &str) -> String {
    ADVICE.iter().fold(message.to_owned(), |message, (code, advice)| message.replace(code, advice))
}

/// Replaces hints for programmers in an error by hints for operators; the kind stays the same.
pub(crate) fn for_operators(error: Error) -> Error {
    let message = error.to_string();
    let reworded = for_api(&message);
    // The source is dropped, because it repeats the original hint.
    if reworded == message { error } else { Error::new(error.kind(), reworded) }
}
