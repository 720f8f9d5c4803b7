//! Results of repeated entries, for every state of the stored message: one list of steps, for the storage and for
//! every other way into its file.

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{EnqueueResult, Entry, Settlement};
use punctual::inspect::{MessageFilter, PageRequest};
use punctual::model::{Body, DeadReason, Headers, Key, MessageRecord, Priority, Source};
use punctual::{Inspect as _, Message, Storage as _};
use punctual_sqlite::SqliteStorage;

use crate::fixture::{Fixture, at, claim, offer, settle};

/// Batches for a storage, and the messages that must be stored before.
pub(crate) struct Steps {
    done: Message,
    dead: Message,
    running: Message,
    pending: Message,
    pub(crate) batches: Vec<Vec<Entry>>,
}

impl Steps {
    pub(crate) fn new(f: &Fixture) -> Self {
        let keyed =
            |dedupe: &str| Message { dedupe: Some(Key::new(dedupe).unwrap()), ..f.message() };
        let (done, dead) = (f.message(), f.message());
        let (running, pending) = (keyed("running"), keyed("pending"));
        let replacing = |dedupe: &str| Entry { replace: true, ..Entry::from(keyed(dedupe)) };
        let again = |message: &Message| Entry::from(message.clone());
        let redriven = |body: &str| {
            let body = Body::json(body).unwrap();
            Entry::from(Message { source: Source::Redriven, body, ..done.clone() })
        };
        let batches = vec![
            vec![],
            vec![Entry::from(f.message())],
            vec![again(&done)],
            vec![again(&dead)],
            vec![again(&pending)],
            vec![Entry::from(keyed("pending"))],
            vec![Entry::from(f.message()), Entry::from(keyed("running"))],
            vec![replacing("running")],
            vec![replacing("pending")],
            vec![replacing("unknown")],
            vec![Entry::from(keyed("new")), Entry::from(keyed("new")), replacing("new")],
            vec![Entry::from(Message { source: Source::Redriven, ..done.clone() })],
            vec![redriven("again"), redriven("and again")],
            vec![Entry::from(Self::odd(f)), Entry::from(f.message())],
        ];
        Self { done, dead, running, pending, batches }
    }

    fn odd(f: &Fixture) -> Message {
        let mut headers = Headers::new();
        headers.insert("tenant", "żółw").unwrap();
        Message {
            key: Some(Key::new("about").unwrap()),
            priority: Priority::new(9).unwrap(),
            body: Body::raw(vec![0, 255, 10], "application/octet-stream"),
            headers,
            exclusive: true,
            ..f.message()
        }
    }

    /// Brings a storage into the state in which the steps begin.
    pub(crate) async fn prepare(&self, f: &Fixture, storage: &SqliteStorage) {
        for message in [&self.done, &self.dead, &self.running] {
            offer(storage, message.clone()).await;
        }
        let claimed = claim(storage, f.process(), 9).await;
        let ended = claimed.iter().filter(|one| one.message.id != self.running.id).map(|one| {
            let dead = Verdict::Dead { reason: DeadReason::Discarded, error: None };
            let verdict = if one.message.id == self.dead.id { dead } else { Verdict::Done };
            Settlement::new(one.lease_ref(), verdict, None)
        });
        settle(storage, ended.collect()).await;
        offer(storage, self.pending.clone()).await;
    }

    /// Returns the final content of a storage, without the fields that differ between runs.
    pub(crate) async fn outcome(storage: &SqliteStorage) -> Vec<MessageRecord> {
        assert!(storage.check().await.unwrap().findings.is_empty(), "the counts are right");
        let all =
            storage.messages(MessageFilter::default(), PageRequest::first(100)).await.unwrap();
        all.rows.into_iter().map(|record| MessageRecord { lease: None, ..record }).collect()
    }

    /// Returns the results and the final content of the usual way.
    pub(crate) async fn usual(&self) -> (Vec<Vec<EnqueueResult>>, Vec<MessageRecord>) {
        let f = Fixture::new();
        let storage = f.open().await;
        self.prepare(&f, &storage).await;
        let mut answers = Vec::new();
        for batch in &self.batches {
            answers.push(storage.enqueue(batch.clone(), at(0)).await.unwrap());
        }
        (answers, Self::outcome(&storage).await)
    }
}
