//! Results of repeated entries, for every state of the stored message: one list of steps for every way into the
//! storage, so that all return the same results.

use std::sync::Arc;

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{EnqueueResult, Entry, Settlement};
use punctual::inspect::{Inspect as _, MessageFilter, PageRequest};
use punctual::model::{Body, DeadReason, Headers, MessageRecord, Priority, Source};
use punctual::{Clock as _, Message, Storage as _, SystemClock};
use punctual_postgres::PostgresStorage;

use crate::schema::{TestSchema, enqueue, key};

/// Batches for a storage, and the messages that must be stored before.
pub(crate) struct Steps {
    done: Message,
    dead: Message,
    running: Message,
    pending: Message,
    pub(crate) batches: Vec<Vec<Entry>>,
}

impl Steps {
    pub(crate) fn new(database: &TestSchema) -> Self {
        let keyed = |dedupe: &str| Message { dedupe: key(dedupe), ..database.message() };
        let (done, dead) = (database.message(), database.message());
        let (running, pending) = (keyed("running"), keyed("pending"));
        let replacing = |dedupe: &str| Entry { replace: true, ..Entry::from(keyed(dedupe)) };
        let again = |message: &Message| Entry::from(message.clone());
        let redriven = Message {
            source: Source::Redriven,
            body: Body::json("again").unwrap(),
            ..done.clone()
        };
        let batches = vec![
            vec![],
            vec![Entry::from(database.message())],
            vec![again(&done)],
            vec![again(&dead)],
            vec![again(&pending)],
            vec![Entry::from(keyed("pending"))],
            vec![Entry::from(database.message()), Entry::from(keyed("running"))],
            vec![replacing("running")],
            vec![replacing("pending")],
            vec![replacing("unknown")],
            vec![Entry::from(keyed("new")), Entry::from(keyed("new")), replacing("new")],
            vec![Entry::from(redriven)],
            vec![Entry::from(Self::odd(database)), Entry::from(database.message())],
        ];
        Self { done, dead, running, pending, batches }
    }

    fn odd(database: &TestSchema) -> Message {
        let mut headers = Headers::new();
        headers.insert("tenant", "żółw").unwrap();
        Message {
            key: key("about"),
            priority: Priority::new(9).unwrap(),
            body: Body::raw(vec![0, 255, 10], "application/octet-stream"),
            headers,
            ..database.message()
        }
    }

    /// Brings a storage into the state in which the steps begin.
    pub(crate) async fn prepare(&self, database: &TestSchema, storage: &PostgresStorage) {
        for message in [&self.done, &self.dead, &self.running] {
            enqueue(storage, message.clone()).await;
        }
        let claimed = database.claim(storage, 9).await;
        let ended = claimed.iter().filter(|one| one.message.id != self.running.id).map(|one| {
            let dead = Verdict::Dead { reason: DeadReason::Discarded, error: None };
            let verdict = if one.message.id == self.dead.id { dead } else { Verdict::Done };
            Settlement::new(one.lease_ref(), verdict, None)
        });
        storage.settle(ended.collect(), SystemClock.now()).await.unwrap();
        enqueue(storage, self.pending.clone()).await;
    }

    /// Returns the final content of a storage, without the fields that differ between runs.
    pub(crate) async fn outcome(storage: &PostgresStorage) -> Vec<MessageRecord> {
        let all =
            storage.messages(MessageFilter::default(), PageRequest::first(100)).await.unwrap();
        let plain = all.rows.into_iter().map(|record| MessageRecord {
            lease: None,
            ended_at: None,
            message: Arc::clone(&record.message),
            ..record
        });
        plain.collect()
    }

    /// Returns the results and the final content of the usual way.
    pub(crate) async fn usual(&self) -> (Vec<Vec<EnqueueResult>>, Vec<MessageRecord>) {
        let database = TestSchema::new();
        let storage = database.open().await;
        self.prepare(&database, &storage).await;
        let mut answers = Vec::new();
        for batch in &self.batches {
            answers.push(storage.enqueue(batch.clone(), SystemClock.now()).await.unwrap());
        }
        (answers, Self::outcome(&storage).await)
    }
}
