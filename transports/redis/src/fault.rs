//! What an error of the server or of the connection means. The one place that maps errors; nothing here
//! has ever seen a password.

use punctual::{Error, ErrorKind};
use redis::{ErrorKind as Cause, RedisError};

/// Whether the connection it came from is of no further use: closed, silent, or to a server that no longer
/// writes.
pub(crate) fn is_lost(error: &RedisError) -> bool {
    error.is_io_error()
        || error.is_unrecoverable_error()
        || code(error).as_deref() == Some("READONLY")
}

/// Whether the group or its stream is not there, or was removed while a read waited for it.
pub(crate) fn is_without_group(error: &RedisError) -> bool {
    matches!(code(error).as_deref(), Some("NOGROUP" | "UNBLOCKED"))
}

/// Whether the group is there already.
pub(crate) fn is_group_there(error: &RedisError) -> bool {
    code(error).as_deref() == Some("BUSYGROUP")
}

/// The error for the caller, at the server of this place.
pub(crate) fn told(error: &RedisError, place: &str) -> Error {
    let (kind, sentence) = explained(error, place);
    Error::new(kind, sentence).caused_by(error.clone())
}

fn explained(error: &RedisError, place: &str) -> (ErrorKind, String) {
    let words = words(error);
    if let Some(told) = code(error).and_then(|code| of_code(&code, &words, place)) {
        return told;
    }
    match error.kind() {
        Cause::AuthenticationFailed => refused(place),
        Cause::InvalidClientConfig => {
            (ErrorKind::Invalid, format!("Redis at {place} cannot be used this way: {words}"))
        }
        // The driver knows no other sign of it.
        Cause::Io if words.contains("certificate") => (
            ErrorKind::Invalid,
            format!("Redis at {place} and we do not agree on TLS: {words}; check root_certificate"),
        ),
        Cause::Io => (
            ErrorKind::Unavailable,
            format!(
                "Redis at {place} cannot be reached: {words}; is it running there, and with TLS only if the address says so?"
            ),
        ),
        _ => (ErrorKind::Internal, format!("Redis at {place} refused: {words}")),
    }
}

/// What a code of the server means, for those that tell something.
fn of_code(code: &str, words: &str, place: &str) -> Option<(ErrorKind, String)> {
    let (kind, sentence) = match code {
        "WRONGPASS" | "NOAUTH" => refused(place),
        "NOPERM" => (
            ErrorKind::Invalid,
            format!(
                "Redis at {place} does not permit this: {words}; allow its user the commands of streams, scripts and this prefix's keys"
            ),
        ),
        "OOM" => (
            ErrorKind::Unavailable,
            format!("Redis at {place} has no memory left: raise maxmemory or trim its streams"),
        ),
        "WRONGTYPE" => (
            ErrorKind::Conflict,
            format!(
                "Redis at {place} has something that is no stream under a name we need: {words}; choose another prefix"
            ),
        ),
        "NOGROUP" | "UNBLOCKED" => (
            ErrorKind::NotFound,
            format!(
                "Redis at {place} does not have the group: {words}; subscribe again, or let it be declared"
            ),
        ),
        "MOVED" | "ASK" | "CROSSSLOT" => (
            ErrorKind::Unsupported,
            format!("Redis at {place} is part of a cluster, which this transport does not use"),
        ),
        "LOADING" | "MASTERDOWN" | "READONLY" | "TRYAGAIN" | "CLUSTERDOWN" | "MISCONF" | "BUSY"
        | "NOREPLICAS" => {
            (ErrorKind::Unavailable, format!("Redis at {place} refuses for now: {words}"))
        }
        _ => return None,
    };
    Some((kind, sentence))
}

fn refused(place: &str) -> (ErrorKind, String) {
    let sentence = format!("Redis at {place} refuses this user or password; check both");
    (ErrorKind::Invalid, sentence)
}

/// The code of what the server said; of several answers, the first that was an error.
fn code(error: &RedisError) -> Option<String> {
    let answers = error.clone().into_server_errors()?;
    answers.first().map(|(_, told)| told.code().to_owned())
}

fn words(error: &RedisError) -> String {
    let answers = error.clone().into_server_errors();
    match answers.as_deref().and_then(<[_]>::first) {
        Some((_, told)) => format!("{} {}", told.code(), told.details().unwrap_or_default()),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use redis::make_extension_error;

    use super::*;

    #[test]
    fn errors_say_whether_to_try_again_and_what_to_do() {
        let server = |code: &str| make_extension_error(code.to_owned(), Some("told".to_owned()));
        for (error, kind, word) in [
            (server("WRONGPASS"), ErrorKind::Invalid, "password"),
            (server("NOPERM"), ErrorKind::Invalid, "allow"),
            (server("OOM"), ErrorKind::Unavailable, "maxmemory"),
            (server("WRONGTYPE"), ErrorKind::Conflict, "prefix"),
            (server("NOGROUP"), ErrorKind::NotFound, "declared"),
            (server("MOVED"), ErrorKind::Unsupported, "cluster"),
            (server("LOADING"), ErrorKind::Unavailable, "for now"),
            (server("WHATEVER"), ErrorKind::Internal, "told"),
        ] {
            let told = told(&error, "h:6379/0");
            assert_eq!(told.kind(), kind, "{told}");
            assert!(told.to_string().contains(word), "{told}");
            assert!(told.to_string().contains("h:6379/0"), "{told}");
        }
        let broken = RedisError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        assert!(is_lost(&broken) && told(&broken, "h:1/0").is_temporary());
        let stranger = std::io::Error::other("invalid peer certificate: UnknownIssuer");
        let told = told(&RedisError::from(stranger), "h:1/0");
        assert_eq!(told.kind(), ErrorKind::Invalid);
        assert!(told.to_string().contains("root_certificate"), "{told}");
    }
}
