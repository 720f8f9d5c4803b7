//! Moving from one storage to another by JSON lines.

use std::sync::Arc;

use punctual::inspect::{JobFilter, MessageFilter, Page};
use punctual::model::{MessageRecord, State};
use punctual::transfer::{Exported, Import, Imported, export};
use punctual::{Inspect, Job, MemoryStorage, Outcome, Result};

use crate::harness::{Bench, seconds};

/// A process with a paused job, and messages that wait, run, were tried, and died.
async fn busy() -> Bench {
    let bench = Bench::start(|builder| {
        builder
            .declare(Job::cron("nightly", "0 2 * * *").zone("Europe/Warsaw"))
            .declare(Job::every("often", seconds(3_600)))
            .handler("fails", |_: String| std::future::ready(Err::<(), _>("no")))
            .handler("gives up", |_: String| std::future::ready(Outcome::Discard("bad".into())))
            .handler("hangs", |_: String| std::future::pending::<()>())
    })
    .await;
    let publisher = bench.punctual.publisher();
    for (topic, body) in [("fails", "a"), ("gives up", "b"), ("hangs", "c")] {
        publisher.publish(topic, body).header("tenant", "x").await.unwrap();
    }
    publisher.publish("fails", "later").after(seconds(86_400)).unique("one").await.unwrap();
    bench.rest().await;
    bench
}

async fn lines(storage: &MemoryStorage) -> (Vec<String>, Exported) {
    let mut lines = Vec::new();
    let now = "2026-03-02T08:00:00Z".parse().unwrap();
    let exported = export(storage, now, async |line| {
        lines.push(line);
        Ok(())
    })
    .await
    .unwrap();
    (lines, exported)
}

async fn import(storage: &MemoryStorage, lines: &[String]) -> Result<Imported> {
    let mut import = Import::new(storage, "2026-03-02T09:00:00Z".parse().unwrap());
    for line in lines {
        import.line(line).await?;
    }
    import.finish().await
}

async fn messages(storage: &MemoryStorage) -> Vec<MessageRecord> {
    storage.messages(MessageFilter::default(), Page::first(100)).await.unwrap().rows
}

fn empty(bench: &Bench) -> Arc<MemoryStorage> {
    Arc::new(MemoryStorage::new(bench.clock.clone()))
}

#[tokio::test]
async fn everything_that_is_not_finished_moves_and_nothing_is_lost() {
    let bench = busy().await;
    let (lines, exported) = lines(&bench.storage).await;
    assert_eq!(exported, Exported { jobs: 2, messages: 4 });
    assert!(lines.iter().all(|line| !line.contains('\n')));
    let target = empty(&bench);
    let imported = import(&target, &lines).await.unwrap();
    assert_eq!(imported, Imported { jobs: 2, messages: 4, ..Imported::default() });
    let now = "2026-03-02T09:00:00Z".parse().unwrap();
    let moved = messages(&bench.storage).await.into_iter().map(|record| record.moved(now));
    assert_eq!(messages(&target).await, moved.collect::<Vec<_>>());
    let states: Vec<State> = messages(&target).await.iter().map(|record| record.state).collect();
    assert_eq!(states.iter().filter(|state| **state == State::Dead).count(), 1);
    let jobs = target.jobs(JobFilter::default()).await.unwrap();
    for (there, here) in bench.storage.jobs(JobFilter::default()).await.unwrap().iter().zip(jobs) {
        assert_eq!((&there.job, there.cursor), (&here.job, here.cursor));
    }
}

#[tokio::test]
async fn an_import_can_be_repeated_and_leaves_alone_what_is_there() {
    let bench = busy().await;
    let (lines, _) = lines(&bench.storage).await;
    let target = empty(&bench);
    import(&target, &lines).await.unwrap();
    let before = messages(&target).await;
    let again = import(&target, &lines).await.unwrap();
    assert_eq!(again, Imported { jobs_known: 2, messages_known: 4, ..Imported::default() });
    assert_eq!(messages(&target).await, before);
}

#[tokio::test]
async fn a_file_that_is_not_whole_is_refused_with_the_line() {
    let bench = busy().await;
    let (lines, _) = lines(&bench.storage).await;
    let refused =
        async |lines: &[String]| import(&empty(&bench), lines).await.unwrap_err().to_string();
    let cut = refused(&lines[..4]).await;
    assert!(cut.contains("after 4 lines") && cut.contains("2 jobs, 1 messages"), "{cut}");
    let headless = refused(&lines[1..]).await;
    assert!(headless.contains("line 1 is not the beginning"), "{headless}");
    let mut gap = lines.clone();
    gap.remove(3);
    assert!(refused(&gap).await.contains("the file is damaged"));
    let mut odd = lines.clone();
    odd[2] = "{\"job\":7}".to_owned();
    assert!(refused(&odd).await.contains("line 3 cannot be read"));
    let newer = vec![lines[0].replace("\"format\":1", "\"format\":2")];
    assert!(refused(&newer).await.contains("reads up to 1"));
    let twice: Vec<String> = lines.iter().chain(&lines).cloned().collect();
    assert!(refused(&twice).await.contains("one export at a time"));
    assert!(refused(&[]).await.contains("after 0 lines"));
}

#[tokio::test]
async fn a_message_whose_deduplication_key_is_alive_stays_where_it_is() {
    let bench = busy().await;
    let (lines, _) = lines(&bench.storage).await;
    let target = empty(&bench);
    let other = Bench::start_in((bench.clock.clone(), target.clone()), |builder| builder).await;
    other.punctual.publisher().publish("fails", "mine").unique("one").await.unwrap();
    let imported = import(&target, &lines).await.unwrap();
    assert_eq!((imported.messages, imported.messages_known), (3, 1));
    assert_eq!(messages(&target).await.len(), 4);
}

// Finding F1 of the security review.
#[tokio::test]
async fn what_only_punctual_may_make_is_imported_only_from_a_trusted_file() {
    let bench = busy().await;
    let (lines, _) = lines(&bench.storage).await;
    for (from, to, what) in [
        ("\"topic\":\"often\"", "\"topic\":\"punctual.command\"", "the job \"often\""),
        ("\"topic\":\"hangs\"", "\"topic\":\"punctual.http\"", "the message"),
    ] {
        let forged: Vec<String> = lines.iter().map(|line| line.replace(from, to)).collect();
        assert_ne!(forged, lines);
        let error = import(&empty(&bench), &forged).await.unwrap_err().to_string();
        assert!(error.contains(what) && error.contains("--with-targets"), "{error}");
        let target = empty(&bench);
        let now = "2026-03-02T09:00:00Z".parse().unwrap();
        let mut trusted = Import::new(&*target, now).with_system_topics();
        for line in &forged {
            trusted.line(line).await.unwrap();
        }
        let imported = trusted.finish().await.unwrap();
        assert_eq!(imported, Imported { jobs: 2, messages: 4, ..Imported::default() });
    }
}
