//! Advice of the library: it tells people who write code which function to call. Callers of the API and operators of a
//! server are told what to write in the request or in the configuration instead.

use punctual::Error;

/// What the library advises, and what callers of the API and operators can do.
const ADVICE: [(&str, &str); 21] = [
    ("; jobs() lists what there is", "; GET /api/v1/jobs lists what there is"),
    ("; list() says on which it does", "; GET /api/v1/queues lists the queues"),
    ("; list() says what there is", "; GET /api/v1/subscriptions lists what there is"),
    ("or allow_past() to run it at once", "or none at all to run it at once"),
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
        "; say via_default() for that",
        "; list topics, or what they begin with, such as \"orders.*\", in transports.NAME.topics",
    ),
    (
        "; give the builder a durable storage, or say allow_volatile_delays()",
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
        "; give the builder a codec() for it, or take the Body itself",
        "; send it as application/json",
    ),
    (", or raise payload_max", ""),
    // What the clients of brokers advise.
    (", or allow it with drop_unheard", ""),
    (", or say allow_unheard(true)", ""),
    ("; choose the other with version(Version::V311)", "; use a broker that speaks MQTT 5"),
    ("; check root_certificate", "; use a certificate of a public authority"),
    (
        "; give the builder a key and a secret, or the environment",
        "; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment of the server",
    ),
    (
        "; give the builder a storage to keep it in, or send it without a delay",
        "; send it without a delay",
    ),
];

/// Rewords what the library says to people who write code, for those who use the API.
pub(crate) fn for_api(said: &str) -> String {
    ADVICE.iter().fold(said.to_owned(), |said, (code, advice)| said.replace(code, advice))
}

/// Rewords an error of the library for those who run a server: the same kind, without calls.
pub(crate) fn for_operators(error: Error) -> Error {
    let said = error.to_string();
    let reworded = for_api(&said);
    // What is underneath says it once more, as code would hear it.
    if reworded == said { error } else { Error::new(error.kind(), reworded) }
}
