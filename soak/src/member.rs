//! One process of a soak: a connection to the broker of its own, on a storage that both share.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use punctual::model::HandlerOptions;
use punctual::{Context, Punctual, Retry};
use punctual_connect::{OpenedTransport, open_transport};
use punctual_sqlite::SqliteStorage;

use crate::ledger::{Death, Kind, Ledger};

const BROKER: &str = "broker";
const TOPIC: &str = "soak";
const GROUP: &str = "soaked";
/// Long enough to be held, short enough to happen often.
const WAIT: Duration = Duration::from_secs(2);
const ATTEMPTS: u32 = 3;
/// What is said of a message that came too often without being handled.
const CUT_OFF: &str = "one too many";

/// A process that publishes and receives.
pub(super) struct Member {
    punctual: Punctual,
    transport: OpenedTransport,
}

impl Member {
    /// Connects and starts to receive.
    pub(super) async fn start(address: &str, file: &Path, ledger: &Arc<Ledger>) -> Result<Self> {
        let transport = open_transport(address).await?;
        let (handled, dead) = (Arc::clone(ledger), Arc::clone(ledger));
        let handler = move |number: u64, context: Context| {
            let handled = Arc::clone(&handled);
            async move {
                match Kind::of(number) {
                    Kind::Hopeless => return Err("as it is meant to be"),
                    Kind::Again if context.attempt() == 1 => return Err("only at first"),
                    Kind::Again | Kind::Plain => handled.handled(number),
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
                let is_cut_off = exhausted.error.is_some_and(|error| error.contains(CUT_OFF));
                let death = if is_cut_off { Death::CutOff } else { Death::Failed };
                if let Ok(number) = exhausted.message.body.read() {
                    dead.dead(number, death);
                }
            })
            .build()?;
        punctual.start().await?;
        Ok(Self { punctual, transport })
    }

    /// Publishes a number; an error says that nobody knows whether it arrived.
    pub(super) async fn publish(&self, number: u64) -> punctual::Result<()> {
        let publish = self.punctual.publisher().publish(TOPIC, &number);
        publish.via(BROKER).direct().await.map(|_| ())
    }

    /// Ends in order.
    pub(super) async fn stop(self) -> Result<()> {
        let stopped = self.punctual.shutdown().await;
        self.transport.close().await?;
        ensure!(stopped.is_clean(), "the process did not end in order: {stopped}");
        Ok(())
    }
}
