//! Receipt of a claimed message: its lease, settled in the storage it was claimed from, with the execution.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;

use super::{Receipt, UnstartedMessage};
use crate::clock::{Clock, within};
use crate::engine::settle::{EndedAttempt, PendingSettlement};
use crate::engine::{Process, Settler};
use crate::error::{Error, Result};
use crate::model::time::add;
use crate::model::{Message, MessageId};
use crate::policy::put_off;
use crate::storage::{SettleResult, Settlement, Storage};
use crate::transport::LeaseReceipt;

/// Timeout for reading from the storage how long a message was put off.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

#[async_trait]
impl Receipt for LeaseReceipt {
    fn settle(
        self: Box<Self>,
        settler: &Settler,
        ended: EndedAttempt,
    ) -> Option<BoxFuture<'_, ()>> {
        let Self { claimed, storage } = *self;
        let EndedAttempt { decision, execution, is_recorded, then, .. } = ended;
        let execution = is_recorded.then_some(execution);
        let settlement = Settlement {
            then,
            ..Settlement::new(claimed.lease_ref(), decision.verdict, execution)
        };
        settler.writer().write_later(PendingSettlement {
            settlement,
            storage,
            context: ended.context,
            answer: ended.answer,
            unreported: ended.unreported,
            _in_flight_guard: ended.in_flight_guard,
        })
    }

    fn release(
        self: Box<Self>,
        settler: &Settler,
        unstarted: UnstartedMessage,
    ) -> Option<BoxFuture<'_, ()>> {
        let Self { claimed, storage } = *self;
        let UnstartedMessage { context, in_flight_guard, due_at } = unstarted;
        settler.writer().write_later(PendingSettlement {
            settlement: claimed.release(due_at),
            storage,
            context,
            answer: None,
            unreported: None,
            _in_flight_guard: in_flight_guard,
        })
    }

    async fn acknowledge(self: Box<Self>, process: &Process) -> Result<()> {
        let message = self.claimed.message.id;
        match self.ack(process.now()).await? {
            SettleResult::Applied => Ok(()),
            _ => {
                Err(Error::conflict("the lease was lost, so another process may have the message")
                    .with("message", message))
            }
        }
    }

    fn history<'a>(&'a self, _process: &'a Process) -> &'a Arc<dyn Storage> {
        &self.storage
    }

    async fn unhandled(&self, process: &Process, message: &Message) -> Option<Duration> {
        let is_own = Arc::ptr_eq(&self.storage, &process.env.storage);
        if is_own { stored(process, message.id).await } else { None }
    }
}

/// Reads from the storage for how long a message was put off; `None` when it has no record of the message.
async fn stored(process: &Process, id: MessageId) -> Option<Duration> {
    let clock: &dyn Clock = &*process.env.clock;
    let until = add(clock.now(), READ_TIMEOUT);
    let record = within(clock, until, process.env.inspect.message(id)).await?.ok()??;
    Some(record.error.as_deref().map_or(Duration::ZERO, put_off))
}
