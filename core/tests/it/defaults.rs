//! Defaults of a process: one storage in memory for everything, and its thresholds.

use punctual::{Job, Occurrence, Punctual};

use crate::faulty_storage::FaultyStorage;
use crate::harness::{Bench, Log, run_until_idle, seconds, world};
use crate::test_handlers::logging;

// spec: H-63, H-59
#[tokio::test]
async fn one_storage_in_memory_serves_messages_and_jobs_without_being_asked_for() {
    let (clock, _) = world();
    let log = Log::default();
    let punctual = Punctual::builder()
        .clock(clock.clone())
        .handler("hello", logging::<String>(&log, |name, _| name.clone()))
        .job(
            Job::every("often", seconds(60)),
            logging::<Occurrence>(&log, |occurrence, _| occurrence.job.to_string()),
        )
        .build()
        .unwrap();
    punctual.start().await.unwrap();
    punctual.publisher().publish("hello", "ada").await.unwrap();
    run_until_idle().await;
    for _ in 0..60 {
        clock.advance(seconds(1));
        run_until_idle().await;
    }
    assert_eq!(log.lines(), ["ada", "often"]);
    let admin = punctual.admin();
    assert_eq!(admin.jobs().await.unwrap().len(), 1);
    let counts = admin.counts().await.unwrap();
    assert_eq!(
        counts.total(punctual::model::MessageState::Done),
        2,
        "both are remembered in one place"
    );
}

// spec: H-13
#[tokio::test]
async fn without_a_storage_there_is_nothing_to_rescue() {
    for (is_set, reclaims) in [(true, 0), (false, 10)] {
        let (clock, storage) = world();
        let counted = FaultyStorage::over(&storage);
        let mut builder = Punctual::builder().clock(clock.clone()).storage(counted.clone());
        if is_set {
            builder = builder.without_storage();
        }
        let punctual = builder.build().unwrap();
        punctual.start().await.unwrap();
        let bench = Bench { clock, storage, punctual };
        bench.advance(seconds(299)).await;
        assert_eq!(counted.calls("reclaim"), reclaims);
    }
}

// spec: H-16
#[test]
fn the_options_document_when_a_message_is_stale() {
    let options = include_str!("../../src/options.rs");
    assert!(options.contains("Exactly at its end a lease still holds"));
    assert!(options.contains("strictly after it the message is"));
}
