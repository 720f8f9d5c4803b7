//! What an error of SQS or of the way to it means. The one place that maps errors; nothing here has ever
//! seen a secret.

use std::error::Error as StdError;

use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::types::BatchResultErrorEntry;
use punctual::{Error, ErrorKind};

/// The most causes of an error that are told.
const CAUSES_MAX: usize = 8;

/// An error of a call.
#[derive(Debug)]
pub(crate) struct Fault {
    code: String,
    error: Error,
}

impl Fault {
    /// What went wrong with a call to the endpoint at this place.
    pub(crate) fn of<E>(error: SdkError<E>, place: &str) -> Self
    where
        E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
    {
        let code = error.code().unwrap_or_default();
        let code = code.rsplit('.').next().unwrap_or_default().to_owned();
        let (kind, sentence) = match &error {
            SdkError::ServiceError(told) => {
                let words = told.err().message().unwrap_or(&code);
                let is_theirs = told.raw().status().is_server_error();
                of_code(&code, words, place, is_theirs)
            }
            SdkError::ConstructionFailure(_) => (
                ErrorKind::Invalid,
                format!("SQS at {place} cannot be asked this: {}", words(&error)),
            ),
            _ => of_way(&words(&error), place),
        };
        Self { code, error: Error::new(kind, sentence).caused_by(error) }
    }

    /// What went wrong with one entry of a batch.
    pub(crate) fn of_entry(entry: &BatchResultErrorEntry, place: &str) -> Self {
        let code = entry.code().rsplit('.').next().unwrap_or_default().to_owned();
        let words = entry.message().unwrap_or(&code);
        let (kind, sentence) = of_code(&code, words, place, !entry.sender_fault());
        Self { error: Error::new(kind, sentence), code }
    }

    /// Whether there is no such queue.
    pub(crate) fn is_without_queue(&self) -> bool {
        matches!(self.code.as_str(), "NonExistentQueue" | "QueueDoesNotExist")
    }

    /// Whether there is such a queue with other settings.
    pub(crate) fn is_other_queue(&self) -> bool {
        matches!(self.code.as_str(), "QueueNameExists" | "QueueAlreadyExists")
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        fault.error
    }
}

/// What a code means.
fn of_code(code: &str, words: &str, place: &str, is_theirs: bool) -> (ErrorKind, String) {
    match code {
        "InvalidClientTokenId" | "UnrecognizedClientException" | "SignatureDoesNotMatch"
        | "InvalidSignatureException" | "IncompleteSignature" | "MissingAuthenticationToken"
        | "MissingAuthenticationTokenException" | "InvalidAccessKeyId" | "AuthFailure"
        | "ExpiredToken" | "ExpiredTokenException" | "OptInRequired" | "InvalidSecurity" => (
            ErrorKind::Invalid,
            format!("SQS at {place} refuses this key or secret ({code}); check both, and the region"),
        ),
        "AccessDenied" | "AccessDeniedException" | "KmsAccessDenied" => (
            ErrorKind::Invalid,
            format!(
                "SQS at {place} does not permit this: {words}; allow its user the calls that the README lists"
            ),
        ),
        "NonExistentQueue" | "QueueDoesNotExist" => (
            ErrorKind::NotFound,
            format!("SQS at {place} does not have the queue: {words}; subscribe first, or let it be declared"),
        ),
        "QueueNameExists" | "QueueAlreadyExists" => (
            ErrorKind::Conflict,
            format!("SQS at {place} has the queue with other settings: {words}"),
        ),
        "ReceiptHandleIsInvalid" | "MessageNotInflight" => (
            ErrorKind::Conflict,
            "the delivery is not ours any more: it was not held in time and somebody else may have it"
                .to_owned(),
        ),
        "UnsupportedOperation" => {
            (ErrorKind::Unsupported, format!("SQS at {place} cannot do this: {words}"))
        }
        "RequestThrottled" | "ThrottlingException" | "Throttling" | "TooManyRequestsException"
        | "KmsThrottled" | "OverLimit" | "QueueDeletedRecently" | "RequestExpired" => {
            (ErrorKind::Unavailable, format!("SQS at {place} refuses for now: {words}"))
        }
        _ if is_theirs => {
            (ErrorKind::Unavailable, format!("SQS at {place} is not well: {code} {words}"))
        }
        _ => (ErrorKind::Invalid, format!("SQS at {place} refused: {code} {words}")),
    }
}

/// What it means that no answer came.
fn of_way(words: &str, place: &str) -> (ErrorKind, String) {
    let lower = words.to_lowercase();
    if lower.contains("credential") {
        return (
            ErrorKind::Invalid,
            format!(
                "there are no credentials for SQS at {place}: {words}; give the builder a key and a secret, or the environment"
            ),
        );
    }
    if lower.contains("certificate") {
        return (
            ErrorKind::Invalid,
            format!(
                "SQS at {place} and we do not agree on TLS: {words}; name its authority in SSL_CERT_FILE"
            ),
        );
    }
    (
        ErrorKind::Unavailable,
        format!("SQS at {place} cannot be reached: {words}; is the address right, and is it up?"),
    )
}

/// An error and its causes in one line.
fn words(error: &(dyn StdError + 'static)) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    for _ in 0..CAUSES_MAX {
        let Some(error) = cause else { break };
        words.push_str(": ");
        words.push_str(&error.to_string());
        cause = error.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_whether_to_try_again_and_what_to_do() {
        let entry = |code: &str, is_ours: bool| {
            let entry = BatchResultErrorEntry::builder().id("0").code(code).sender_fault(is_ours);
            entry.message("told").build().unwrap()
        };
        for (code, is_ours, kind, word) in [
            ("InvalidClientTokenId", true, ErrorKind::Invalid, "secret"),
            ("AccessDenied", true, ErrorKind::Invalid, "README"),
            ("AWS.SimpleQueueService.NonExistentQueue", true, ErrorKind::NotFound, "declared"),
            ("QueueNameExists", true, ErrorKind::Conflict, "settings"),
            ("ReceiptHandleIsInvalid", true, ErrorKind::Conflict, "not ours"),
            ("RequestThrottled", true, ErrorKind::Unavailable, "for now"),
            ("InternalError", false, ErrorKind::Unavailable, "told"),
            ("InvalidMessageContents", true, ErrorKind::Invalid, "told"),
        ] {
            let told = Error::from(Fault::of_entry(&entry(code, is_ours), "h:1"));
            assert_eq!(told.kind(), kind, "{told}");
            assert!(told.to_string().contains(word), "{told}");
        }
        assert!(Fault::of_entry(&entry("a.b.NonExistentQueue", true), "h").is_without_queue());
        for (words, kind) in [
            ("tcp connect error", ErrorKind::Unavailable),
            ("no credentials in the property bag", ErrorKind::Invalid),
            ("invalid peer certificate", ErrorKind::Invalid),
        ] {
            assert_eq!(of_way(words, "h:1").0, kind);
        }
    }
}
