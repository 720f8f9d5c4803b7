//! A link by which a consumer receives, its connection, and the task that keeps what comes by it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fe2o3_amqp::Receiver;
use fe2o3_amqp::types::messaging::Body;
use fe2o3_amqp::types::primitives::Value;
use futures_util::FutureExt as _;
use punctual::{Result, clock};
use tokio::task::JoinHandle;

use crate::dialogue::Dialogue;
use crate::keeper::Keeper;
use crate::line::Line;
use crate::manage::Management;
use crate::reader::Reader;

/// How long an end may take that nobody waits for.
const END_WITHIN: Duration = Duration::from_secs(2);

/// A link and what keeps it.
pub(crate) struct Attached {
    line: Option<Line>,
    pub(crate) receiver: Receiver,
    pub(crate) management: Arc<Management>,
    keeper: JoinHandle<()>,
    /// No other link of the consumer has it.
    pub(crate) number: u64,
}

impl Attached {
    /// Opens a connection and a link for a reader.
    pub(crate) async fn of(reader: &Reader) -> Result<Self> {
        let (settings, source) = (&reader.desk.settings, &reader.source);
        let attaching = async {
            let mut line = Line::open(settings).await?;
            let receiver = line.receiver(source).await?;
            let node = format!("{source}/$management");
            line.tokens()?.put(&node).await?;
            let dialogue = Dialogue::with(&node, &mut line.session, settings.about(&node)).await?;
            Ok((line, receiver, dialogue))
        };
        let (mut line, mut receiver, dialogue) = settings.in_time(Box::pin(attaching)).await?;
        // The broker attaches first and then says what is wrong; it has had time to. There is no credit
        // yet, so that nothing else can have come.
        if let Some(Err(error)) = receiver.recv::<Body<Value>>().now_or_never() {
            return Err(settings.about(source).failed(error));
        }
        let tokens = line.give_tokens()?;
        let management = Arc::new(Management {
            settings: settings.clone(),
            source: source.clone(),
            dialogue: dialogue.into(),
        });
        let keeper = Keeper {
            settings: settings.clone(),
            holds: reader.holds.clone(),
            tokens,
            management: management.clone(),
            lock_length: reader.lock_length.clone(),
        };
        let number = reader.link.fetch_add(1, Ordering::Relaxed) + 1;
        let keeper = tokio::spawn(keeper.run());
        Ok(Self { line: Some(line), receiver, management, keeper, number })
    }

    /// Ends it as one should, but not for long.
    pub(crate) async fn end(mut self) {
        self.keeper.abort();
        let Some(line) = self.line.take() else { return };
        let clock = self.management.settings.clock.clone();
        let until = clock::add(clock.now(), END_WITHIN);
        let _ = clock::within(&*clock, until, line.close()).await;
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}
