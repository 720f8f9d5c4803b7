//! Errors and log lines of the client library. Log lines become traces. The last error is remembered: the library's
//! calls return codes only ("broker transport failure"), and the reason ("connection refused") comes through this
//! callback and belongs in the error text.

use std::sync::{Arc, Mutex, PoisonError};

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use tokio::sync::Notify;

use crate::error;

/// Remembers the last error. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct LastError(Arc<Inner>);

#[derive(Default)]
struct Inner {
    last: Mutex<Option<(RDKafkaErrorCode, String)>>,
    connect_failure: Notify,
}

impl LastError {
    /// Returns the reason of the last error if it can have caused `code`: connection errors only. The reason stays
    /// after the connection has recovered.
    pub(crate) fn reason(&self, code: RDKafkaErrorCode) -> Option<String> {
        self.last().map(|(_, reason)| reason).filter(|_| error::is_connection_error(code))
    }

    /// Waits until the client has found no broker, or a broker refused it.
    pub(crate) async fn connect_failure(&self) -> RDKafkaErrorCode {
        loop {
            let notified = self.0.connect_failure.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if let Some((code, _)) = self.last().filter(|(code, _)| is_connect_failure(*code)) {
                return code;
            }
            notified.await;
        }
    }

    fn last(&self) -> Option<(RDKafkaErrorCode, String)> {
        self.0.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn record(&self, code: RDKafkaErrorCode, reason: &str) {
        let mut last = self.0.last.lock().unwrap_or_else(PoisonError::into_inner);
        // "1/1 brokers are down" follows the actual reason and says less.
        let reason = match &*last {
            Some((_, known)) if code == RDKafkaErrorCode::AllBrokersDown => known.clone(),
            _ => reason.to_owned(),
        };
        *last = Some((code, reason));
        drop(last);
        if is_connect_failure(code) {
            self.0.connect_failure.notify_waiters();
        }
    }
}

fn is_connect_failure(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::AllBrokersDown
            | RDKafkaErrorCode::Authentication
            | RDKafkaErrorCode::SaslAuthenticationFailed
            | RDKafkaErrorCode::SSL
    )
}

impl ClientContext for LastError {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        match level {
            RDKafkaLogLevel::Debug | RDKafkaLogLevel::Info | RDKafkaLogLevel::Notice => {
                tracing::debug!(target: "punctual_kafka", facility, "{line}");
            }
            // Problems that concern a caller also reach it as an error.
            _ => tracing::warn!(target: "punctual_kafka", facility, "{line}"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(target: "punctual_kafka", %error, "{reason}");
        self.record(error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail), reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_reason_outlives_the_count_of_brokers() {
        let last_error = LastError::default();
        let down = RDKafkaErrorCode::BrokerTransportFailure;
        assert_eq!(last_error.reason(down), None);
        let refused = "h:1/bootstrap: connect failed: connection refused";
        last_error.record(down, refused);
        last_error.record(RDKafkaErrorCode::AllBrokersDown, "1/1 brokers are down");
        assert_eq!(last_error.reason(down).as_deref(), Some(refused));
        assert_eq!(last_error.reason(RDKafkaErrorCode::MessageSizeTooLarge), None);
        assert_eq!(last_error.connect_failure().await, RDKafkaErrorCode::AllBrokersDown);
    }
}
