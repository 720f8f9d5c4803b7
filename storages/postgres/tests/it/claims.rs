//! Claims under load: by the index however many messages are due later, and without deadlocks among nodes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use punctual::backend::policy::{AgainReason, Verdict};
use punctual::backend::storage::{
    Claim, ClaimedMessage, Entry, SettleResult, Settlement, TopicFilter, WakeSource,
};
use punctual::clock::add;
use punctual::inspect::PageRequest;
use punctual::model::{DeadReason, Ending, Message, MessageState, Priority, Queue, Topic};
use punctual::{Clock, Context, Inspect, Job, Punctual, Roles, Storage, SystemClock};
use punctual_conformance::backend_tests;
use punctual_postgres::PostgresStorage;
use uuid::Uuid;

use crate::schema::{TestSchema, eventually, settle, waits_for_a_lock};

punctual_conformance::cases! {
    a_claim_scans_no_future_message,
    a_claim_skips_rows_that_another_transaction_has_locked,
    four_nodes_claim_and_settle_without_a_deadlock,
    a_message_that_commits_late_with_an_earlier_due_time_is_found,
    an_old_snapshot_does_not_slow_claims_down,
    a_settlement_that_waits_for_a_renewal_is_written,
    an_older_release_leaves_the_runs_of_a_new_job_to_the_new_one,
    many_messages_of_other_topics_cost_claims_little,
}

async fn a_claim_scans_no_future_message() {
    let database = TestSchema::new();
    let storage = database.open().await;
    let later = add(SystemClock.now(), Duration::from_secs(86_400));
    for priority in [Priority::HIGHEST, Priority::NORMAL] {
        let future = (0..50_000)
            .map(|_| Entry::from(Message { due_at: later, priority, ..database.message() }));
        storage.enqueue(future.collect(), SystemClock.now()).await.unwrap();
    }
    let low = Message { priority: Priority::LOWEST, ..database.message() };
    let id = low.id;
    crate::schema::enqueue(&*storage, low).await;
    let client = database.client().await;
    client.batch_execute(&format!("ANALYZE \"{}\".message", database.schema)).await.unwrap();
    let check = storage.check().await.unwrap();
    let plan = &check.claim_plan;
    assert!(check.claim_uses_index, "{plan}");
    assert!(!plan.contains("Seq Scan on message") && !plan.contains("Sort"), "{plan}");
    assert!(plan.contains("due_at <= "), "{plan}");
    let claimed = database.claim(&*storage, 100).await;
    assert_eq!(claimed.iter().map(|one| one.message.id).collect::<Vec<_>>(), [id]);
}

// spec: U-17
async fn a_claim_skips_rows_that_another_transaction_has_locked() {
    let database = TestSchema::new();
    let storage = database.open().await;
    storage.enqueue(database.entries(3), SystemClock.now()).await.unwrap();
    let mut other = database.client().await;
    let transaction = other.transaction().await.unwrap();
    let text =
        format!("SELECT id FROM \"{}\".message ORDER BY id LIMIT 1 FOR UPDATE", database.schema);
    let locked: Uuid = transaction.query_one(&text, &[]).await.unwrap().get(0);
    let claimed = database.claim(&*storage, 9).await;
    assert_eq!(claimed.len(), 2, "the claim does not wait");
    assert!(claimed.iter().all(|one| one.message.id.as_uuid() != locked));
    transaction.rollback().await.unwrap();
    let rest = database.claim(&*storage, 9).await;
    assert_eq!(rest.iter().map(|one| one.message.id.as_uuid()).collect::<Vec<_>>(), [locked]);
}

/// Returns a verdict that makes the message due again at once.
fn again(claimed: &ClaimedMessage) -> Verdict {
    Verdict::Again {
        due_at: SystemClock.now(),
        attempt: claimed.attempt,
        crashes: 0,
        snoozes: 0,
        error: None,
        why: AgainReason::Retry,
    }
}

async fn work(database: &TestSchema, storage: &PostgresStorage) -> Vec<ClaimedMessage> {
    let mut mine = Vec::new();
    loop {
        let claimed = database.claim(storage, 40).await;
        if claimed.is_empty() {
            return mine;
        }
        let settlements = claimed.iter().enumerate().map(|(index, one)| Settlement {
            lease: one.lease_ref(),
            verdict: if index % 7 == 0 && one.attempt == 1 { again(one) } else { Verdict::Done },
            execution: None,
            then: Vec::new(),
        });
        storage.settle(settlements.rev().collect(), SystemClock.now()).await.unwrap();
        mine.extend(claimed);
    }
}

// spec: H-60, H-64, U-10
async fn four_nodes_claim_and_settle_without_a_deadlock() {
    // A separate database, because the server counts deadlocks per database.
    let admin = TestSchema::new().client().await;
    let name = format!("it_nodes_{}", backend_tests::run_name());
    admin.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    let mut database = TestSchema::new();
    database.address = format!("{}/{name}", database.address.rsplit_once('/').unwrap().0);
    let database = Arc::new(database);
    let first = database.open().await;
    first.enqueue(database.entries(4_000), SystemClock.now()).await.unwrap();
    let mut nodes = Vec::new();
    for _ in 0..4 {
        let storage = database.open().await;
        for _ in 0..2 {
            let (database, storage) = (Arc::clone(&database), Arc::clone(&storage));
            nodes.push(tokio::spawn(async move { work(&database, &storage).await }));
        }
    }
    let (mut tokens, mut ids) = (BTreeSet::new(), BTreeSet::new());
    for node in nodes {
        for one in node.await.unwrap() {
            assert!(tokens.insert(one.lease.token), "a token was issued twice");
            ids.insert(one.message.id);
        }
    }
    assert_eq!(ids.len(), 4_000);
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = $1";
    let count: i64 = admin.query_one(deadlocks, &[&name]).await.unwrap().get(0);
    assert_eq!(count, 0);
    drop((first, database));
    admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.unwrap();
}

/// Written by SQL, without a notification: the next claim finds it all the same.
async fn a_message_that_commits_late_with_an_earlier_due_time_is_found() {
    let database = TestSchema::new();
    let storage = database.open().await;
    storage.enqueue(database.entries(200), SystemClock.now()).await.unwrap();
    let mut late = database.client().await;
    let transaction = late.transaction().await.unwrap();
    let text = format!(
        "SELECT \"{}\".enqueue('mail', due_at => now() - interval '1 hour')",
        database.schema
    );
    transaction.execute(&text, &[]).await.unwrap();
    assert_eq!(database.claim(&*storage, 100).await.len(), 100);
    transaction.commit().await.unwrap();
    let mut rest = 0;
    for _ in 0..3 {
        rest += database.claim(&*storage, 101).await.len();
    }
    assert_eq!(rest, 101, "a claim that finds nothing is repeated with a full scan");
}

async fn an_old_snapshot_does_not_slow_claims_down() {
    let database = TestSchema::new();
    let storage = database.open().await;
    storage.enqueue(database.entries(20_000), SystemClock.now()).await.unwrap();
    let holder = database.client().await;
    holder.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.unwrap();
    let mut done = 0;
    loop {
        let claimed = database.claim(&*storage, 500).await;
        if claimed.is_empty() {
            break;
        }
        done += settle(&*storage, &claimed).await.len();
    }
    assert_eq!(done, 20_000);
    // Dead entries that a claim still scans after all messages have ended.
    let fresh = database.entries(500);
    storage.enqueue(fresh, SystemClock.now()).await.unwrap();
    assert_eq!(database.claim(&*storage, 500).await.len(), 500);
}

/// A renewal moves the row to a place that an older statement does not see.
// spec: H-60
async fn a_settlement_that_waits_for_a_renewal_is_written() {
    let database = TestSchema::new();
    let storage = database.open().await;
    let (mut keeper, watcher) = (database.client().await, database.client().await);
    let dead = Verdict::Dead { reason: DeadReason::AttemptsSpent, error: None };
    let verdicts: [(&[usize], MessageState); 4] = [
        (&[0], MessageState::Pending),
        (&[1], MessageState::Done),
        (&[2], MessageState::Dead),
        (&[0, 1, 2], MessageState::Pending),
    ];
    for (kinds, expected) in verdicts {
        storage.enqueue(database.entries(kinds.len()), SystemClock.now()).await.unwrap();
        let claimed = database.claim(&*storage, kinds.len()).await;
        let settlements = claimed.iter().zip(kinds).map(|(one, kind)| {
            let verdict = [again(one), Verdict::Done, dead.clone()][*kind].clone();
            Settlement::new(one.lease_ref(), verdict, None)
        });
        let settlements: Vec<Settlement> = settlements.collect();
        let renewal = keeper.transaction().await.unwrap();
        let text =
            format!("UPDATE \"{}\".message SET lease_until = now() + '1 h'", database.schema);
        renewal.execute(&text, &[]).await.unwrap();
        let settling = tokio::spawn({
            let storage = Arc::clone(&storage);
            async move { storage.settle(settlements, SystemClock.now()).await.unwrap() }
        });
        eventually("the settlement waits", || waits_for_a_lock(&watcher, &database.schema)).await;
        renewal.commit().await.unwrap();
        assert_eq!(settling.await.unwrap(), vec![SettleResult::Applied; kinds.len()]);
        let record = storage.message(claimed[0].message.id).await.unwrap().unwrap();
        assert_eq!(record.state, expected, "{kinds:?}");
        settle(&*storage, &database.claim(&*storage, 9).await).await;
    }
}

/// Handler that counts its attempts.
fn counting(
    sum: &Arc<AtomicU32>,
) -> impl Fn(Context) -> std::future::Ready<()> + Send + Sync + 'static {
    let sum = Arc::clone(sum);
    move |context: Context| {
        sum.fetch_add(context.attempt(), Ordering::SeqCst);
        std::future::ready(())
    }
}

// spec: T-29, U-20
async fn an_older_release_leaves_the_runs_of_a_new_job_to_the_new_one() {
    let database = TestSchema::new();
    let (other, fresh) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let job = || Job::cron("fresh", "0 0 1 1 *");
    let older = Punctual::builder().storage(database.open().await);
    let older = older.handler("other", counting(&other)).build().unwrap();
    older.start().await.unwrap();
    let roles = Roles { worker: false, ..Roles::ALL };
    let office = Punctual::builder().storage(database.open().await).roles(roles).declare(job());
    let office = office.build().unwrap();
    office.start().await.unwrap();
    let trigger = async || office.admin().trigger("fresh", true).await.is_ok();
    eventually("the job is declared", trigger).await;
    for _ in 1..12 {
        assert!(trigger().await);
    }
    office.publisher().publish("other", &()).await.unwrap();
    // It is behind the twelve, so the older release has read them.
    eventually("the other message is handled", async || other.load(Ordering::SeqCst) == 1).await;
    let newer = Punctual::builder().storage(database.open().await);
    let newer = newer.job(job(), counting(&fresh)).build().unwrap();
    newer.start().await.unwrap();
    eventually("all runs are handled", async || fresh.load(Ordering::SeqCst) == 12).await;
    for punctual in [&older, &office, &newer] {
        punctual.shutdown().await;
    }
    let history = newer.admin().history("fresh", PageRequest::first(50)).await.unwrap();
    assert_eq!(history.rows.len(), 12);
    assert!(history.rows.iter().all(|run| (run.ending, run.attempt) == (Ending::Succeeded, 1)));
}

async fn many_messages_of_other_topics_cost_claims_little() {
    let database = TestSchema::new();
    let storage = database.open().await;
    let other = || Message { topic: Topic::new("fax").unwrap(), ..database.message() };
    let crowd = (0..50_000).map(|_| Entry::from(other())).collect();
    storage.enqueue(crowd, SystemClock.now()).await.unwrap();
    let topics = TopicFilter::only([database.message().topic]);
    let owner = database.process();
    let began = SystemClock.now();
    for _ in 0..100 {
        let message = Message { due_at: SystemClock.now(), ..database.message() };
        let id = message.id;
        crate::schema::enqueue(&*storage, message).await;
        let now = SystemClock.now();
        let until = add(now, Duration::from_secs(60));
        let claim = Claim::new(Queue::default(), owner, 10, until);
        let claim = Claim { topics: topics.clone(), ..claim };
        let claimed = storage.claim(claim, now).await.unwrap();
        assert_eq!(claimed.iter().map(|one| one.message.id).collect::<Vec<_>>(), [id]);
        settle(&*storage, &claimed).await;
        let line = WakeSource::Topics(Queue::default(), topics.clone());
        storage.next_due(&line).await.unwrap();
    }
    let took = punctual::clock::between(began, SystemClock.now());
    // A hundred full scans would take many times as long.
    assert!(took < Duration::from_secs(20), "{took:?}");
}
