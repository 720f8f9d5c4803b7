//! Transfers from one storage to another by JSON lines.

use std::sync::Arc;

use punctual::backend::documents::{KeyRange, NewDocument};
use punctual::inspect::{JobFilter, MessageFilter, PageRequest};
use punctual::model::{MessageRecord, MessageState, Topic};
use punctual::transfer::{
    DocumentCopySummary, ExportSummary, ImportSummary, Importer, copy_documents, copy_groups,
    export,
};
use punctual::{DocumentStore, Inspect, Job, MemoryStorage, Outcome, Result, Storage};

use crate::harness::{Bench, seconds};

/// Starts a process with a paused job, and with waiting, running, retried and dead messages.
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
    bench.run_until_idle().await;
    bench
}

async fn lines(storage: &MemoryStorage) -> (Vec<String>, ExportSummary) {
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

async fn import(storage: &MemoryStorage, lines: &[String]) -> Result<ImportSummary> {
    let mut import = Importer::new(storage, "2026-03-02T09:00:00Z".parse().unwrap());
    for line in lines {
        import.line(line).await?;
    }
    import.finish().await
}

async fn messages(storage: &MemoryStorage) -> Vec<MessageRecord> {
    storage.messages(MessageFilter::default(), PageRequest::first(100)).await.unwrap().rows
}

fn empty(bench: &Bench) -> Arc<MemoryStorage> {
    Arc::new(MemoryStorage::new(bench.clock.clone()))
}

#[tokio::test]
async fn everything_that_is_not_finished_moves_and_nothing_is_lost() {
    let bench = busy().await;
    let (lines, exported) = lines(&bench.storage).await;
    assert_eq!(exported, ExportSummary { jobs: 2, messages: 4 });
    assert!(lines.iter().all(|line| !line.contains('\n')));
    let target = empty(&bench);
    let imported = import(&target, &lines).await.unwrap();
    assert_eq!(imported, ImportSummary { jobs: 2, messages: 4, ..ImportSummary::default() });
    let now = "2026-03-02T09:00:00Z".parse().unwrap();
    let moved = messages(&bench.storage).await.into_iter().map(|record| record.moved(now));
    assert_eq!(messages(&target).await, moved.collect::<Vec<_>>());
    let states: Vec<MessageState> =
        messages(&target).await.iter().map(|record| record.state).collect();
    assert_eq!(states.iter().filter(|state| **state == MessageState::Dead).count(), 1);
    let jobs = target.jobs(JobFilter::default()).await.unwrap();
    for (there, here) in bench.storage.jobs(JobFilter::default()).await.unwrap().iter().zip(jobs) {
        assert_eq!((&there.job, there.cursor), (&here.job, here.cursor));
    }
}

#[tokio::test]
async fn an_import_can_be_repeated_and_does_not_change_existing_records() {
    let bench = busy().await;
    let (lines, _) = lines(&bench.storage).await;
    let target = empty(&bench);
    import(&target, &lines).await.unwrap();
    let before = messages(&target).await;
    let again = import(&target, &lines).await.unwrap();
    assert_eq!(
        again,
        ImportSummary { jobs_known: 2, messages_known: 4, ..ImportSummary::default() }
    );
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
async fn reserved_names_are_imported_only_from_a_trusted_file() {
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
        let mut trusted = Importer::new(&*target, now).with_system_topics();
        for line in &forged {
            trusted.line(line).await.unwrap();
        }
        let imported = trusted.finish().await.unwrap();
        assert_eq!(imported, ImportSummary { jobs: 2, messages: 4, ..ImportSummary::default() });
    }
}

// A topic that is trimmed after it was checked would become Punctual's own.
#[tokio::test]
async fn a_topic_with_a_blank_before_it_is_imported_as_it_is() {
    let bench = busy().await;
    let (lines, _) = lines(&bench.storage).await;
    let to = "\"topic\":\"\u{a0}punctual.http\"";
    let forged: Vec<String> =
        lines.iter().map(|line| line.replace("\"topic\":\"hangs\"", to)).collect();
    assert_ne!(forged, lines);
    let target = empty(&bench);
    import(&target, &forged).await.unwrap();
    let all = messages(&target).await;
    let blank = all.iter().filter(|one| one.message.topic.as_str() == "\u{a0}punctual.http");
    assert!(blank.count() >= 1);
    assert!(all.iter().all(|one| !one.message.topic.is_system()));
}

// Finding P6 of the newcomer's review: users and webhooks were not copied, without a message.
#[tokio::test]
async fn documents_are_copied_once_with_the_times_at_which_they_expire() {
    let bench = Bench::start(|builder| builder).await;
    let target = empty(&bench);
    let now = "2026-03-02T08:00:00Z".parse().unwrap();
    let until = "2026-03-03T08:00:00Z".parse().unwrap();
    // More than one page of them.
    for chunk in 0..3 {
        let drafts = (0..500).map(|number| {
            NewDocument::new("user", format!("{chunk}-{number}"), number.into()).expires_at(until)
        });
        bench.storage.put_all(drafts.collect(), now).await.unwrap();
    }
    let other = NewDocument::new("session", "s", 1.into());
    bench.storage.put_all(vec![other], now).await.unwrap();
    target.put_all(vec![NewDocument::new("user", "1-7", "mine".into())], now).await.unwrap();
    let copied = copy_documents(&*bench.storage, &*target, "user", now).await.unwrap();
    assert_eq!(copied, DocumentCopySummary { copied: 1_499, known: 1 });
    let found = target.get("user", "2-499", now).await.unwrap().unwrap();
    assert_eq!((found.body, found.expires_at), (499.into(), Some(until)));
    assert_eq!(target.get("user", "1-7", now).await.unwrap().unwrap().body, "mine");
    assert!(target.list("session", KeyRange::default(), now).await.unwrap().is_empty());
    let again = copy_documents(&*bench.storage, &*target, "user", now).await.unwrap();
    assert_eq!(again, DocumentCopySummary { copied: 0, known: 1_500 });
}

#[tokio::test]
async fn groups_are_known_in_the_other_storage() {
    let bench = Bench::start(|builder| builder).await;
    let (source, target) = (empty(&bench), empty(&bench));
    let now = "2026-03-02T09:00:00Z".parse().unwrap();
    let (sold, paid) = (Topic::new("sold").unwrap(), Topic::new("paid").unwrap());
    for (topic, group) in [(&sold, "billing"), (&sold, "mail"), (&paid, "mail")] {
        source.register_group(topic, group, now).await.unwrap();
    }
    target.register_group(&sold, "mail", now).await.unwrap();
    assert_eq!(copy_groups(&*source, &*target, now).await.unwrap(), 2);
    assert_eq!(target.groups().await.unwrap(), source.groups().await.unwrap());
    assert_eq!(copy_groups(&*source, &*target, now).await.unwrap(), 0, "a move can be repeated");
}
