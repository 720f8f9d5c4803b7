//! What the client library says of itself: its log lines as traces, and the last reason it gave for a
//! failure. Its calls answer with codes only ("broker transport failure"); the reason ("connection refused")
//! comes this way, and belongs into the error that a person reads.

use std::sync::{Arc, Mutex, PoisonError};

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use tokio::sync::Notify;

use crate::fault;

/// Remembers why things failed last. Clones remember together.
#[derive(Clone, Default)]
pub(crate) struct Trouble(Arc<Inner>);

#[derive(Default)]
struct Inner {
    last: Mutex<Option<(RDKafkaErrorCode, String)>>,
    hopeless: Notify,
}

impl Trouble {
    /// The last reason, for people, where a failure can have to do with it: it is about connections, and
    /// stays when they are back.
    pub(crate) fn reason(&self, code: RDKafkaErrorCode) -> Option<String> {
        self.last().map(|(_, reason)| reason).filter(|_| fault::is_about_connections(code))
    }

    /// Waits until the client has found no broker, or was turned away by one.
    pub(crate) async fn hopeless(&self) -> RDKafkaErrorCode {
        loop {
            let noticed = self.0.hopeless.notified();
            tokio::pin!(noticed);
            noticed.as_mut().enable();
            if let Some((code, _)) = self.last().filter(|(code, _)| is_hopeless(*code)) {
                return code;
            }
            noticed.await;
        }
    }

    fn last(&self) -> Option<(RDKafkaErrorCode, String)> {
        self.0.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, code: RDKafkaErrorCode, reason: &str) {
        let mut last = self.0.last.lock().unwrap_or_else(PoisonError::into_inner);
        // "1/1 brokers are down" follows the reason and says less than it.
        let reason = match &*last {
            Some((_, known)) if code == RDKafkaErrorCode::AllBrokersDown => known.clone(),
            _ => reason.to_owned(),
        };
        *last = Some((code, reason));
        drop(last);
        if is_hopeless(code) {
            self.0.hopeless.notify_waiters();
        }
    }
}

fn is_hopeless(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::AllBrokersDown
            | RDKafkaErrorCode::Authentication
            | RDKafkaErrorCode::SaslAuthenticationFailed
            | RDKafkaErrorCode::SSL
    )
}

impl ClientContext for Trouble {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        match level {
            RDKafkaLogLevel::Debug | RDKafkaLogLevel::Info | RDKafkaLogLevel::Notice => {
                tracing::debug!(target: "punctual_kafka", facility, "{line}");
            }
            // What matters of these reaches whoever called as an error.
            _ => tracing::warn!(target: "punctual_kafka", facility, "{line}"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(target: "punctual_kafka", %error, "{reason}");
        self.note(error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail), reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_reason_outlives_the_count_of_brokers() {
        let trouble = Trouble::default();
        let down = RDKafkaErrorCode::BrokerTransportFailure;
        assert_eq!(trouble.reason(down), None);
        let refused = "h:1/bootstrap: connect failed: connection refused";
        trouble.note(down, refused);
        trouble.note(RDKafkaErrorCode::AllBrokersDown, "1/1 brokers are down");
        assert_eq!(trouble.reason(down).as_deref(), Some(refused));
        assert_eq!(trouble.reason(RDKafkaErrorCode::MessageSizeTooLarge), None);
        assert_eq!(trouble.hopeless().await, RDKafkaErrorCode::AllBrokersDown);
    }
}
