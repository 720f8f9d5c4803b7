//! Retention: purging, pruning, and that reading changes nothing.

use punctual::inspect::{ExecutionFilter, JobFilter, MessageFilter, PageRequest};
use punctual::model::MessageState;
use punctual::{Inspect, Job, Occurrence, Retry};

use crate::harness::{Bench, Log, instant, seconds};
use crate::test_handlers::{executions, failing, logging, never_returning, retrying};

// Trap 18.
// spec: H-17, H-18, H-19, H-20, H-76
#[tokio::test]
async fn pruning_keeps_messages_of_exactly_the_age_and_running_ones() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder
            .queue("default", 4)
            .handler("mail", logging::<()>(&log, |(), _| "sent".to_owned()))
            .handler("stuck", never_returning::<()>(&log))
            .handler_with("fail", retrying(Retry::none()), failing::<()>(&log))
    })
    .await;
    let publisher = bench.punctual.publisher();
    let old = publisher.publish("mail", &()).await.unwrap();
    let running = publisher.publish("stuck", &()).await.unwrap();
    let dead = publisher.publish("fail", &()).await.unwrap();
    bench.advance(seconds(60)).await;
    let new = publisher.publish("mail", &()).await.unwrap();
    bench.advance(seconds(3_600)).await;
    let admin = bench.punctual.admin();
    // A row exactly at the limit is kept, and nothing is pruned automatically.
    assert_eq!(
        admin.purge(seconds(3_660), 100, false).await.unwrap(),
        punctual::backend::storage::PruneResult::default()
    );
    let pruned = admin.purge(seconds(3_600), 100, false).await.unwrap();
    assert_eq!((pruned.messages, pruned.executions), (1, 2), "the mail, and the history of both");
    assert_eq!(admin.message(old.id).await.unwrap(), None);
    assert_eq!(bench.message(new.id).await.state, MessageState::Done);
    assert_eq!(bench.message(running.id).await.state, MessageState::Running);
    assert_eq!(
        bench.message(dead.id).await.state,
        MessageState::Dead,
        "dead letters wait for operators"
    );
    assert_eq!(admin.purge(seconds(3_600), 100, true).await.unwrap().messages, 1);
    assert_eq!(admin.message(dead.id).await.unwrap(), None);
}

// spec: T-63
#[tokio::test]
async fn retention_prunes_only_where_it_is_configured() {
    for (retention, left) in [(None, 1), (Some(seconds(1_800)), 0)] {
        let bench = Bench::start(|builder| {
            builder
                .options(|options| options.retention = retention)
                .handler("mail", logging::<()>(&Log::default(), |(), _| String::new()))
        })
        .await;
        bench.punctual.publisher().publish("mail", &()).await.unwrap();
        bench.advance(seconds(2 * 3_600)).await;
        let executions_left = executions(&bench.storage, ExecutionFilter::default()).await;
        assert_eq!(executions_left.len(), left, "{retention:?}");
        assert_eq!(bench.punctual.events().count("history.pruned"), u64::from(retention.is_some()));
    }
}

// Trap 17.
// spec: H-52
#[tokio::test]
async fn reading_changes_nothing() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder
            .queue("default", 2)
            .handler("stuck", never_returning::<()>(&log))
            .job(Job::cron("hourly", "0 * * * *"), never_returning::<Occurrence>(&log))
    })
    .await;
    let publisher = bench.punctual.publisher();
    let running = publisher.publish("stuck", &()).await.unwrap();
    let later = publisher.publish("stuck", &()).after(seconds(600)).await.unwrap();
    bench.run_until_idle().await;
    // Both leases have expired, and reading must not repair that.
    bench.clock.advance(seconds(301));
    let before = (bench.message(running.id).await, bench.message(later.id).await);
    let job = bench.punctual.admin().job("hourly").await.unwrap();
    let admin = bench.punctual.admin();
    let counts = admin.counts().await.unwrap();
    assert_eq!((counts.stale, counts.total(MessageState::Running)), (1, 1));
    for _ in 0..3 {
        assert_eq!(admin.counts().await.unwrap(), counts);
        admin.messages(MessageFilter::default(), PageRequest::first(10)).await.unwrap();
        admin.executions(ExecutionFilter::default(), PageRequest::first(10)).await.unwrap();
        admin.dead_letters(PageRequest::first(10)).await.unwrap();
        admin.jobs().await.unwrap();
        bench.storage.jobs(JobFilter::default()).await.unwrap();
        bench.storage.throughput(instant("2026-03-02T00:00:00Z"), seconds(60)).await.unwrap();
    }
    let after = (bench.message(running.id).await, bench.message(later.id).await);
    assert_eq!(after, before);
    assert_eq!(admin.job("hourly").await.unwrap(), job);
}
