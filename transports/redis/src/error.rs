//! Errors: maps an error of the server or of the connection to its kind and the way out. No password reaches
//! this module.

use punctual::{Error, ErrorKind};
use redis::{ErrorKind as Cause, RedisError};

/// Returns whether the connection of an error is of no further use: closed, silent, or to a server that no
/// longer accepts writes.
pub(crate) fn is_lost(error: &RedisError) -> bool {
    error.is_io_error()
        || error.is_unrecoverable_error()
        || code(error).as_deref() == Some("READONLY")
}

/// Returns whether the group or its stream is missing, or was removed while a read waited for it.
pub(crate) fn is_without_group(error: &RedisError) -> bool {
    matches!(code(error).as_deref(), Some("NOGROUP" | "UNBLOCKED"))
}

/// Returns whether the group exists already.
pub(crate) fn is_group_there(error: &RedisError) -> bool {
    code(error).as_deref() == Some("BUSYGROUP")
}

/// Maps an error of the server at `endpoint`.
pub(crate) fn map_error(error: &RedisError, endpoint: &str) -> Error {
    let (kind, sentence) = classify(error, endpoint);
    Error::new(kind, sentence).caused_by(error.clone())
}

fn classify(error: &RedisError, endpoint: &str) -> (ErrorKind, String) {
    let text = text(error);
    if let Some(classified) = code(error).and_then(|code| classify_code(&code, &text, endpoint)) {
        return classified;
    }
    match error.kind() {
        Cause::AuthenticationFailed => refused_credentials(endpoint),
        Cause::InvalidClientConfig => {
            (ErrorKind::Invalid, format!("Redis at {endpoint} cannot be used this way: {text}"))
        }
        // The driver has no kind for certificate errors.
        Cause::Io if text.contains("certificate") => (
            ErrorKind::Invalid,
            format!("TLS with Redis at {endpoint} failed: {text}; check root_certificate"),
        ),
        Cause::Io => (
            ErrorKind::Unavailable,
            format!(
                "Redis at {endpoint} cannot be reached: {text}; check that it is running, and that it uses TLS exactly when the address says rediss://"
            ),
        ),
        _ => (ErrorKind::Internal, format!("Redis at {endpoint} refused: {text}")),
    }
}

/// Returns kind and message of a server error code; `None` for codes without a meaning of their own.
fn classify_code(code: &str, text: &str, endpoint: &str) -> Option<(ErrorKind, String)> {
    let (kind, sentence) = match code {
        "WRONGPASS" | "NOAUTH" => refused_credentials(endpoint),
        "NOPERM" => (
            ErrorKind::Invalid,
            format!(
                "Redis at {endpoint} does not permit this: {text}; allow its user the commands of streams and scripts on the keys of this prefix"
            ),
        ),
        "OOM" => (
            ErrorKind::Unavailable,
            format!("Redis at {endpoint} has no memory left: raise maxmemory or trim its streams"),
        ),
        "WRONGTYPE" => (
            ErrorKind::Conflict,
            format!(
                "Redis at {endpoint} has a key of another type under a name this transport needs: {text}; choose another prefix"
            ),
        ),
        "NOGROUP" | "UNBLOCKED" => (
            ErrorKind::NotFound,
            format!(
                "Redis at {endpoint} does not have the group: {text}; subscribe again, or let it be declared"
            ),
        ),
        "MOVED" | "ASK" | "CROSSSLOT" => (
            ErrorKind::Unsupported,
            format!(
                "Redis at {endpoint} is part of a cluster, which this transport does not support"
            ),
        ),
        "LOADING" | "MASTERDOWN" | "READONLY" | "TRYAGAIN" | "CLUSTERDOWN" | "MISCONF" | "BUSY"
        | "NOREPLICAS" => {
            (ErrorKind::Unavailable, format!("Redis at {endpoint} refuses calls for now: {text}"))
        }
        _ => return None,
    };
    Some((kind, sentence))
}

fn refused_credentials(endpoint: &str) -> (ErrorKind, String) {
    let sentence = format!("Redis at {endpoint} refuses this user or password; check both");
    (ErrorKind::Invalid, sentence)
}

/// Returns the error code of the server's reply; of several replies, of the first error.
fn code(error: &RedisError) -> Option<String> {
    let replies = error.clone().into_server_errors()?;
    replies.first().map(|(_, error)| error.code().to_owned())
}

fn text(error: &RedisError) -> String {
    let replies = error.clone().into_server_errors();
    match replies.as_deref().and_then(<[_]>::first) {
        Some((_, error)) => format!("{} {}", error.code(), error.details().unwrap_or_default()),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use redis::make_extension_error;

    use super::*;

    #[test]
    fn errors_have_a_kind_and_a_way_out() {
        let server = |code: &str| make_extension_error(code.to_owned(), Some("text".to_owned()));
        for (error, kind, word) in [
            (server("WRONGPASS"), ErrorKind::Invalid, "password"),
            (server("NOPERM"), ErrorKind::Invalid, "allow"),
            (server("OOM"), ErrorKind::Unavailable, "maxmemory"),
            (server("WRONGTYPE"), ErrorKind::Conflict, "prefix"),
            (server("NOGROUP"), ErrorKind::NotFound, "declared"),
            (server("MOVED"), ErrorKind::Unsupported, "cluster"),
            (server("LOADING"), ErrorKind::Unavailable, "for now"),
            (server("WHATEVER"), ErrorKind::Internal, "text"),
        ] {
            let mapped = map_error(&error, "h:6379/0");
            assert_eq!(mapped.kind(), kind, "{mapped}");
            assert!(mapped.to_string().contains(word), "{mapped}");
            assert!(mapped.to_string().contains("h:6379/0"), "{mapped}");
        }
        let broken = RedisError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        assert!(is_lost(&broken) && map_error(&broken, "h:1/0").is_temporary());
        let untrusted = std::io::Error::other("invalid peer certificate: UnknownIssuer");
        let mapped = map_error(&RedisError::from(untrusted), "h:1/0");
        assert_eq!(mapped.kind(), ErrorKind::Invalid);
        assert!(mapped.to_string().contains("root_certificate"), "{mapped}");
    }
}
