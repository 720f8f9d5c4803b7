//! Messages that were sent, in the trail: the first of somebody is an entry of its own, and what the same one
//! sends within the next seconds is one entry that says how many. A program that sends thousands in a second
//! neither waits for the trail nor fills it.

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

/// How long what somebody sends is one entry.
const SPAN: Duration = Duration::from_secs(10);
/// The most who are remembered; of others every message is an entry.
const SENDERS_MAX: usize = 1_000;

/// Who sends: the name and the identity of the caller, and the address.
type SenderKey = (String, String, Option<IpAddr>);

/// What was sent and is not in the trail yet.
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
    /// Counts a message; whether it is counted, and is no entry of its own.
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

    /// Takes those out whose span is over, or all.
    fn over(&self, now: Timestamp, all: bool) -> Vec<Sender> {
        let mut senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over =
            |sender: &Sender| all || sender.since > now || between(sender.since, now) >= SPAN;
        senders.extract_if(.., |_, sender| is_over(sender)).map(|(_, sender)| sender).collect()
    }
}

impl Audit {
    /// Writes down that a message was sent, now or with others of the same caller. The message is stored
    /// either way, so a trail that cannot be written is no reason to refuse it.
    pub(crate) async fn sent(&self, caller: &Caller, message: MessageId, topic: &str) {
        if self.sending.count(caller, self.clock.now()) {
            return;
        }
        let change = Change::new("message.publish", message).to(&topic);
        if let Err(error) = self.note(caller, change).await {
            tracing::warn!(%error, %message, "a message that was sent is not in the audit trail");
        }
    }

    /// Writes down what was sent in the seconds before; all of it when the process stops.
    pub(crate) async fn write_sent(&self, all: bool) -> Result<()> {
        let over = self.sending.over(self.clock.now(), all);
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
    async fn what_one_sends_within_seconds_is_two_entries_and_all_of_it_is_counted() {
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
        let said: Vec<(&str, &str)> =
            entries.iter().map(|entry| (entry.what.as_str(), entry.target.as_str())).collect();
        assert_eq!(said.len(), 2);
        assert_eq!(
            (said[0], said[1].0),
            (("messages.publish", "1000 messages"), "message.publish")
        );
        audit.write_sent(true).await.unwrap();
        assert_eq!(audit.list(None, 10).await.unwrap().len(), 2, "nothing is written twice");
    }
}
