//! Member of the consumer group of a soak: a process with its own broker connection and a shared storage.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use punctual::model::HandlerOptions;
use punctual::{Context, Punctual, Retry};
use punctual_backends::{OpenedTransport, open_transport};
use punctual_sqlite::SqliteStorage;

use crate::ledger::{DeadLetterCause, Kind, SoakLedger};

const BROKER: &str = "broker";
const TOPIC: &str = "soak";
const GROUP: &str = "soaked";
/// Delay of a retry: long enough to be held by the storage, short enough to happen often.
const WAIT: Duration = Duration::from_secs(2);
const ATTEMPTS: u32 = 3;
/// Part of the error of a message that was delivered too often without being handled.
const DELIVERED_TOO_OFTEN: &str = "one too many";

/// A process that publishes and receives.
pub(super) struct Member {
    punctual: Punctual,
    transport: OpenedTransport,
}

impl Member {
    /// Connects and starts to receive.
    pub(super) async fn start(
        address: &str,
        file: &Path,
        ledger: &Arc<SoakLedger>,
    ) -> Result<Self> {
        let transport = open_transport(address).await?;
        let (handled, dead) = (Arc::clone(ledger), Arc::clone(ledger));
        let handler = move |number: u64, context: Context| {
            let handled = Arc::clone(&handled);
            async move {
                match Kind::of(number) {
                    Kind::AlwaysFails => return Err("every attempt fails"),
                    Kind::FailsOnce if context.attempt() == 1 => {
                        return Err("the first attempt fails");
                    }
                    Kind::FailsOnce | Kind::Succeeds => handled.handled(number),
                }
                Ok(())
            }
        };
        let retry = Retry::intervals([WAIT]).attempts(ATTEMPTS);
        let handler_options = HandlerOptions::new().retry(retry);
        let punctual = Punctual::builder()
            .storage(Arc::new(SqliteStorage::open(file).await?))
            .transport(BROKER, Arc::clone(&transport.transport))
            .handler_with(TOPIC, handler_options, handler)
            .subscribe(BROKER, TOPIC, GROUP)
            .on_exhausted(move |exhausted| {
                let is_connection_lost =
                    exhausted.error.is_some_and(|error| error.contains(DELIVERED_TOO_OFTEN));
                let cause = if is_connection_lost {
                    DeadLetterCause::ConnectionLost
                } else {
                    DeadLetterCause::AttemptFailed
                };
                if let Ok(number) = exhausted.message.body.read() {
                    dead.dead(number, cause);
                }
            })
            .build()?;
        punctual.start().await?;
        Ok(Self { punctual, transport })
    }

    /// Publishes a number; after an error the message may or may not have arrived.
    pub(super) async fn publish(&self, number: u64) -> punctual::Result<()> {
        let publish = self.punctual.publisher().publish(TOPIC, &number);
        publish.via(BROKER).direct().await.map(|_| ())
    }

    /// Shuts down gracefully.
    pub(super) async fn stop(self) -> Result<()> {
        let stopped = self.punctual.shutdown().await;
        self.transport.close().await?;
        ensure!(stopped.is_clean(), "the process did not shut down cleanly: {stopped}");
        Ok(())
    }
}
