//! Errors: maps an error of SQS or of the connection to its kind and the way out. No secret reaches this module.

use std::error::Error as StdError;

use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::types::BatchResultErrorEntry;
use punctual::{Error, ErrorKind};

/// Most causes of an error in its message.
const CAUSES_MAX: usize = 8;

/// Error of a call, with the code of SQS.
#[derive(Debug)]
pub(crate) struct CallError {
    code: String,
    error: Error,
}

impl CallError {
    /// Maps an error of a call to `endpoint`.
    pub(crate) fn map_error<E>(error: SdkError<E>, endpoint: &str) -> Self
    where
        E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
    {
        let code = error.code().unwrap_or_default();
        let code = code.rsplit('.').next().unwrap_or_default().to_owned();
        let (kind, sentence) = match &error {
            SdkError::ServiceError(service) => {
                let text = service.err().message().unwrap_or(&code);
                let is_server_error = service.raw().status().is_server_error();
                classify_code(&code, text, endpoint, is_server_error)
            }
            SdkError::ConstructionFailure(_) => (
                ErrorKind::Invalid,
                format!("the call to SQS at {endpoint} is invalid: {}", text(&error)),
            ),
            _ => classify_unanswered(&text(&error), endpoint),
        };
        Self { code, error: Error::new(kind, sentence).caused_by(error) }
    }

    /// Maps the error of one entry of a batch.
    pub(crate) fn map_entry(entry: &BatchResultErrorEntry, endpoint: &str) -> Self {
        let code = entry.code().rsplit('.').next().unwrap_or_default().to_owned();
        let text = entry.message().unwrap_or(&code);
        let (kind, sentence) = classify_code(&code, text, endpoint, !entry.sender_fault());
        Self { error: Error::new(kind, sentence), code }
    }

    /// Returns whether the queue does not exist.
    pub(crate) fn is_queue_missing(&self) -> bool {
        matches!(self.code.as_str(), "NonExistentQueue" | "QueueDoesNotExist")
    }

    /// Returns whether the queue exists with other settings.
    pub(crate) fn is_queue_conflict(&self) -> bool {
        matches!(self.code.as_str(), "QueueNameExists" | "QueueAlreadyExists")
    }
}

impl From<CallError> for Error {
    fn from(error: CallError) -> Self {
        error.error
    }
}

/// Returns kind and message of an error code.
fn classify_code(
    code: &str,
    text: &str,
    endpoint: &str,
    is_server_error: bool,
) -> (ErrorKind, String) {
    match code {
        "InvalidClientTokenId" | "UnrecognizedClientException" | "SignatureDoesNotMatch"
        | "InvalidSignatureException" | "IncompleteSignature" | "MissingAuthenticationToken"
        | "MissingAuthenticationTokenException" | "InvalidAccessKeyId" | "AuthFailure"
        | "ExpiredToken" | "ExpiredTokenException" | "OptInRequired" | "InvalidSecurity" => (
            ErrorKind::Invalid,
            format!("SQS at {endpoint} refuses this key or secret ({code}); check both, and the region"),
        ),
        "AccessDenied" | "AccessDeniedException" | "KmsAccessDenied" => (
            ErrorKind::Invalid,
            format!(
                "SQS at {endpoint} does not permit this: {text}; allow its user the calls that the README lists"
            ),
        ),
        "NonExistentQueue" | "QueueDoesNotExist" => (
            ErrorKind::NotFound,
            format!("SQS at {endpoint} does not have the queue: {text}; subscribe first, or let it be declared"),
        ),
        "QueueNameExists" | "QueueAlreadyExists" => (
            ErrorKind::Conflict,
            format!("SQS at {endpoint} has the queue with other settings: {text}"),
        ),
        "ReceiptHandleIsInvalid" | "MessageNotInflight" => (
            ErrorKind::Conflict,
            "the delivery is no longer ours: its visibility timeout ended and another consumer may have received it"
                .to_owned(),
        ),
        "UnsupportedOperation" => {
            (ErrorKind::Unsupported, format!("SQS at {endpoint} does not support this: {text}"))
        }
        "RequestThrottled" | "ThrottlingException" | "Throttling" | "TooManyRequestsException"
        | "KmsThrottled" | "OverLimit" | "QueueDeletedRecently" | "RequestExpired" => {
            (ErrorKind::Unavailable, format!("SQS at {endpoint} refuses calls for now: {text}"))
        }
        _ if is_server_error => {
            (ErrorKind::Unavailable, format!("SQS at {endpoint} failed with a server error: {code} {text}"))
        }
        _ => (ErrorKind::Invalid, format!("SQS at {endpoint} refused: {code} {text}")),
    }
}

/// Returns kind and message of a call without a response.
fn classify_unanswered(text: &str, endpoint: &str) -> (ErrorKind, String) {
    let lower = text.to_lowercase();
    if lower.contains("credential") {
        return (
            ErrorKind::Invalid,
            format!(
                "there are no credentials for SQS at {endpoint}: {text}; set access key and secret in the builder, the address or the environment"
            ),
        );
    }
    if lower.contains("certificate") {
        return (
            ErrorKind::Invalid,
            format!(
                "TLS with SQS at {endpoint} failed: {text}; name the root certificate in SSL_CERT_FILE"
            ),
        );
    }
    (
        ErrorKind::Unavailable,
        format!("SQS at {endpoint} cannot be reached: {text}; check the address and that it is up"),
    )
}

/// Returns an error and its causes in one line.
fn text(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    for _ in 0..CAUSES_MAX {
        let Some(error) = cause else { break };
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_a_kind_and_a_way_out() {
        let entry = |code: &str, is_ours: bool| {
            let entry = BatchResultErrorEntry::builder().id("0").code(code).sender_fault(is_ours);
            entry.message("text").build().unwrap()
        };
        for (code, is_ours, kind, word) in [
            ("InvalidClientTokenId", true, ErrorKind::Invalid, "secret"),
            ("AccessDenied", true, ErrorKind::Invalid, "README"),
            ("AWS.SimpleQueueService.NonExistentQueue", true, ErrorKind::NotFound, "declared"),
            ("QueueNameExists", true, ErrorKind::Conflict, "settings"),
            ("ReceiptHandleIsInvalid", true, ErrorKind::Conflict, "no longer ours"),
            ("RequestThrottled", true, ErrorKind::Unavailable, "for now"),
            ("InternalError", false, ErrorKind::Unavailable, "text"),
            ("InvalidMessageContents", true, ErrorKind::Invalid, "text"),
        ] {
            let mapped = Error::from(CallError::map_entry(&entry(code, is_ours), "h:1"));
            assert_eq!(mapped.kind(), kind, "{mapped}");
            assert!(mapped.to_string().contains(word), "{mapped}");
        }
        assert!(CallError::map_entry(&entry("a.b.NonExistentQueue", true), "h").is_queue_missing());
        for (text, kind) in [
            ("tcp connect error", ErrorKind::Unavailable),
            ("no credentials in the property bag", ErrorKind::Invalid),
            ("invalid peer certificate", ErrorKind::Invalid),
        ] {
            assert_eq!(classify_unanswered(text, "h:1").0, kind);
        }
    }
}
