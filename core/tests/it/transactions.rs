//! Transactions: messages inside the caller's own transaction, and handlers that settle inside theirs. The
//! transactions here are lists that commit into the memory storage.

use std::sync::Arc;

use punctual::backend::storage::{EnqueueResult, Entry, SettleResult};
use punctual::jiff::Timestamp;
use punctual::model::MessageState;
use punctual::{
    Context, Deduplicate, Handler, HandlerResult, Inspect, MemoryStorage, Outbox, Outcome, Result,
    Storage,
};

use crate::harness::{Bench, Log, seconds};
use crate::test_handlers::logging;

/// An open transaction: its messages are visible after the commit.
#[derive(Default)]
struct OpenTransaction(Vec<Entry>);

impl Outbox for OpenTransaction {
    async fn enqueue(
        &mut self,
        entries: Vec<Entry>,
        _now: Timestamp,
    ) -> Result<Vec<EnqueueResult>> {
        let results = vec![EnqueueResult::Stored; entries.len()];
        self.0.extend(entries);
        Ok(results)
    }
}

impl OpenTransaction {
    async fn commit(self, storage: &MemoryStorage, now: Timestamp) {
        storage.enqueue(self.0, now).await.unwrap();
    }
}

#[tokio::test]
async fn a_message_published_in_a_transaction_is_handled_after_the_commit_only() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder.handler("hello", logging::<String>(&log, |name, _| name.clone()))
    })
    .await;
    let publisher = bench.punctual.publisher();
    let (mut open, mut dropped) = (OpenTransaction::default(), OpenTransaction::default());
    let published = publisher.publish("hello", "kept").key("a").in_tx(&mut open).await.unwrap();
    publisher.publish("hello", "gone").in_tx(&mut dropped).await.unwrap();
    bench.advance(seconds(10)).await;
    assert_eq!(bench.storage.message(published.id).await.unwrap(), None);
    drop(dropped);
    open.commit(&bench.storage, bench.clock.now()).await;
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["kept"]);
    assert_eq!(bench.message(published.id).await.state, MessageState::Done);
}

#[tokio::test]
async fn a_one_time_job_and_many_messages_can_be_stored_in_a_transaction_too() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder
            .handler("hello", logging::<u32>(&log, |number, _| number.to_string()))
            .handler("remind", logging::<String>(&log, |name, _| format!("remind {name}")))
    })
    .await;
    let (publisher, jobs) = (bench.punctual.publisher(), bench.punctual.jobs());
    let mut open = OpenTransaction::default();
    let many = (1..=3).map(|number| publisher.publish("hello", &number)).collect();
    let published = publisher.publish_all_in_tx(many, &mut open).await.unwrap();
    assert_eq!(published.len(), 3);
    let once = jobs.once("remind").key("ada").payload("ada").after(seconds(60));
    once.in_tx(&mut open).await.unwrap();
    open.commit(&bench.storage, bench.clock.now()).await;
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["1", "2", "3"]);
    bench.advance(seconds(60)).await;
    assert_eq!(log.lines().last().unwrap(), "remind ada");
}

#[tokio::test]
async fn bad_input_is_refused_before_it_reaches_the_transaction() {
    let bench = Bench::start(|builder| builder).await;
    let mut open = OpenTransaction::default();
    let publisher = bench.punctual.publisher();
    let error = publisher.publish("x".repeat(201), "").in_tx(&mut open).await.unwrap_err();
    assert!(error.to_string().contains("201 characters"), "{error}");
    assert!(open.0.is_empty());
}

/// A handler that settles its message itself, as one inside a transaction does, and then returns an
/// outcome.
struct SettlingHandler {
    storage: Arc<MemoryStorage>,
    outcome: fn() -> HandlerResult,
}

impl Handler<String> for SettlingHandler {
    async fn handle(&self, _name: String, context: Context) -> HandlerResult {
        let settlement = context.settlement()?;
        let settled = self.storage.settle(vec![settlement], context.started_at()).await?;
        assert_eq!(settled, [SettleResult::Applied]);
        (self.outcome)()
    }
}

#[tokio::test]
async fn a_handler_that_settled_in_its_transaction_is_neither_lost_nor_repeated() {
    let world = crate::harness::world();
    let settling_handler = |outcome| SettlingHandler { storage: world.1.clone(), outcome };
    let done = settling_handler(|| Ok(Outcome::Done));
    let failed = settling_handler(|| Err("after the commit".into()));
    let bench =
        Bench::start_in(world, |builder| builder.handler("done", done).handler("failed", failed))
            .await;
    let publisher = bench.punctual.publisher();
    let done = publisher.publish("done", "x").await.unwrap().id;
    let failed = publisher.publish("failed", "x").await.unwrap().id;
    bench.advance(seconds(600)).await;
    for id in [done, failed] {
        let record = bench.message(id).await;
        assert_eq!((record.state, record.attempt), (MessageState::Done, 1));
        let filter = punctual::inspect::ExecutionFilter { message: Some(id), ..Default::default() };
        let page = punctual::inspect::PageRequest::first(10);
        assert_eq!(bench.storage.executions(filter, page).await.unwrap().rows.len(), 1);
    }
    assert_eq!(bench.punctual.events().count("lease.lost"), 0);
}

#[tokio::test]
async fn when_the_transaction_was_rolled_back_the_outcome_of_the_handler_counts() {
    let bench = Bench::start(|builder| {
        builder.handler("work", async |_: String, context: Context| {
            // Prepared, and never applied.
            context.settlement().map(|_| ())?;
            if context.attempt() == 1 {
                Err(punctual::Error::internal("rolled back"))
            } else {
                Ok(())
            }
        })
    })
    .await;
    let id = bench.punctual.publisher().publish("work", "x").await.unwrap().id;
    bench.run_until_idle().await;
    assert_eq!(bench.message(id).await.state, MessageState::Pending, "to be tried again");
    bench.advance(seconds(3_600)).await;
    let record = bench.message(id).await;
    assert_eq!((record.state, record.attempt), (MessageState::Done, 2));
}

#[tokio::test]
async fn a_repeated_delivery_is_skipped_and_a_failed_one_is_not() {
    let log = Log::default();
    let world = crate::harness::world();
    let inbox = world.1.clone();
    let bench = Bench::start_in(world, |builder| {
        let seen = log.clone();
        builder.middleware(Deduplicate::new(inbox, "shop")).handler(
            "work",
            move |_: String, context: Context| {
                seen.push(format!("attempt {}", context.attempt()));
                let failed = context.attempt() == 1 && context.headers().is_empty();
                std::future::ready(if failed { Err("once") } else { Ok(()) })
            },
        )
    })
    .await;
    let id = bench.punctual.publisher().publish("work", "x").await.unwrap().id;
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.lines(), ["attempt 1", "attempt 2"]);
    // The same delivery once more, as a broker may do.
    bench.punctual.admin().redrive(id).await.unwrap();
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.len(), 2, "noted, so the handler is not called");
    assert_eq!(bench.message(id).await.state, MessageState::Done);
}
