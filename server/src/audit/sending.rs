//! Published messages in the audit trail: the first message of a caller is an entry, and those that follow within
//! seconds are one entry with their number, so that a program that publishes thousands per second neither waits
//! for the trail nor fills it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use punctual::Result;
use punctual::clock::between;
use punctual::model::MessageId;

use super::{Audit, Change};
use crate::caller::Caller;

/// How long messages of a caller are counted into one entry.
const SPAN: Duration = Duration::from_secs(10);
/// Largest number of callers that are counted; beyond it every message is an entry.
const SENDERS_MAX: usize = 1_000;

/// The name and the identity of the caller, and the address.
type SenderKey = (String, String, Option<IpAddr>);

/// Published messages that are not written to the trail yet.
#[derive(Default)]
pub(super) struct Sending {
    senders: Mutex<BTreeMap<SenderKey, Sender>>,
}

struct Sender {
    since: Timestamp,
    caller: Caller,
    count: u64,
}

impl Sending {
    /// Counts a message; returns false when it has to be written as an entry of its own.
    fn count(&self, caller: &Caller, now: Timestamp) -> bool {
        let mut senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (caller.name.clone(), caller.identity(), caller.from);
        if let Some(sender) = senders.get_mut(&key) {
            sender.count += 1;
            return true;
        }
        if senders.len() < SENDERS_MAX {
            senders.insert(key, Sender { since: now, caller: caller.clone(), count: 0 });
        }
        false
    }

    /// Removes and returns the callers whose span is over, or all.
    fn drain_finished(&self, now: Timestamp, all: bool) -> Vec<Sender> {
        let mut senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over =
            |sender: &Sender| all || sender.since > now || between(sender.since, now) >= SPAN;
        senders.extract_if(.., |_, sender| is_over(sender)).map(|(_, sender)| sender).collect()
    }
}

impl Audit {
    /// Records a published message, immediately or together with others of the same caller. The message is stored
    /// already, so a failure to write is only logged.
    pub(crate) async fn sent(&self, caller: &Caller, message: MessageId, topic: &str) {
        if self.sending.count(caller, self.clock.now()) {
            return;
        }
        let change = Change::new("message.publish", message).to(&topic);
        if let Err(error) = self.note(caller, change).await {
            tracing::warn!(%error, %message, "a published message was not written to the audit trail");
        }
    }

    /// Writes the messages counted in finished spans; with `all` also those of current ones.
    pub(crate) async fn write_sent(&self, all: bool) -> Result<()> {
        let over = self.sending.drain_finished(self.clock.now(), all);
        for Sender { since, caller, count } in over.into_iter().filter(|sender| sender.count > 0) {
            let target = format!("{count} messages");
            let change = Change::new("messages.publish", target).because(format!("since {since}"));
            self.note(&caller, change).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use punctual::model::{IdSource, Ids};
    use punctual::{ManualClock, MemoryStorage};

    use super::*;
    use crate::caller::Role;

    #[tokio::test]
    async fn messages_of_one_caller_within_seconds_are_two_entries_and_all_are_counted() {
        let clock = Arc::new(ManualClock::new(Timestamp::UNIX_EPOCH));
        let storage = Arc::new(MemoryStorage::new(clock.clone()));
        let audit = Audit::new(storage, clock.clone());
        let (ada, ids) = (Caller::new("ada", Role::Operator), Ids::seeded(1));
        for _ in 0..1_001 {
            audit.sent(&ada, MessageId::from_uuid(ids.next(clock.now())), "mail").await;
        }
        audit.write_sent(false).await.unwrap();
        assert_eq!(audit.list(None, 10).await.unwrap().len(), 1, "the seconds are not over");
        clock.advance(SPAN);
        audit.write_sent(false).await.unwrap();
        let entries = audit.list(None, 10).await.unwrap();
        let texts: Vec<(&str, &str)> =
            entries.iter().map(|entry| (entry.what.as_str(), entry.target.as_str())).collect();
        assert_eq!(texts.len(), 2);
        assert_eq!(
            (texts[0], texts[1].0),
            (("messages.publish", "1000 messages"), "message.publish")
        );
        audit.write_sent(true).await.unwrap();
        assert_eq!(audit.list(None, 10).await.unwrap().len(), 2, "nothing is written twice");
    }
}
