//! Questions of operators, asked by a program without a server: why a message does not run, the ledger of
//! occurrences, upcoming runs, the preview of an outage, and groups of dead letters.

use punctual::analysis::{
    KnownProcess, LedgerDecision, LedgerEntry, LedgerRange, OtherProcesses, dead_fingerprint,
};
use punctual::client::PauseRequest;
use punctual::inspect::{MessageFilter, PageRequest};
use punctual::model::{MessageId, Pause, Queue};
use punctual::{Builder, ErrorKind, Job, Misfire, Occurrence, Overlap, Retry, Schedule};

use crate::harness::{Bench, Log, instant, seconds, world};
use crate::test_handlers::{Gate, failing, logging, retrying, waiting};

async fn nothing(_: Occurrence) {}

fn hourly(builder: Builder) -> Builder {
    builder.job(Job::cron("hourly", "0 * * * *"), nothing)
}

async fn word(bench: &Bench, id: MessageId) -> &'static str {
    bench.punctual.admin().why(id).await.unwrap().expect("the message is known").word
}

fn clocks(times: impl IntoIterator<Item = punctual::jiff::Timestamp>) -> Vec<String> {
    times.into_iter().map(|at| at.strftime("%H:%M").to_string()).collect()
}

#[tokio::test]
async fn a_message_explains_why_it_waits_runs_or_has_ended() {
    let (log, gate) = (Log::default(), Gate::shut());
    let bench = Bench::start(|builder| {
        builder
            .handler("mail", waiting::<u32>(&log, &gate))
            .handler_with("fax", retrying(Retry::intervals([seconds(60)])), failing::<u32>(&log))
            .queue("default", 1)
    })
    .await;
    let publisher = bench.punctual.publisher();
    let running = publisher.publish("mail", &1).await.unwrap().id;
    let later = publisher.publish("mail", &2).after(seconds(60)).await.unwrap().id;
    bench.run_until_idle().await;
    let ready = publisher.publish("mail", &3).await.unwrap().id;
    let elsewhere = publisher.publish("mail", &4).queue("other").await.unwrap().id;
    bench.run_until_idle().await;
    assert_eq!(word(&bench, running).await, "running");
    assert_eq!(word(&bench, later).await, "waiting_until");
    assert_eq!(word(&bench, ready).await, "ready");
    assert_eq!(word(&bench, elsewhere).await, "no_worker");

    bench.punctual.queues().pause("default").unwrap();
    assert_eq!(word(&bench, ready).await, "queue_paused", "the message that runs does not matter");
    bench.punctual.queues().resume("default").unwrap();
    gate.open(3);
    bench.run_until_idle().await;
    assert_eq!(word(&bench, running).await, "done");
    let failed = publisher.publish("fax", &5).await.unwrap().id;
    bench.run_until_idle().await;
    let why = bench.punctual.admin().why(failed).await.unwrap().unwrap();
    assert_eq!(why.word, "retrying");
    assert!(why.sentence.contains("(out of order); it is tried again at 2026-03-02T07:01:00Z"));
    assert_eq!(why.details.len(), 1, "how its last attempt ended: {:?}", why.details);
    bench.advance(seconds(60)).await;
    assert_eq!(word(&bench, failed).await, "dead");
    let unknown = MessageId::from_uuid(punctual::uuid::Uuid::nil());
    assert_eq!(bench.punctual.admin().why(unknown).await.unwrap(), None);
}

#[tokio::test]
async fn limits_and_pauses_of_jobs_are_reasons() {
    let (log, gate) = (Log::default(), Gate::shut());
    let job = Job::cron("hourly", "0 * * * *").overlap(Overlap::QueueOne);
    let bench = Bench::start(|builder| {
        builder.job(job, waiting::<Occurrence>(&log, &gate)).queue("default", 4)
    })
    .await;
    let admin = bench.punctual.admin();
    bench.advance(seconds(2 * 3_600)).await;
    let messages =
        admin.messages(MessageFilter::default(), PageRequest::first(10)).await.unwrap().rows;
    let [second, first] = messages.as_slice() else { panic!("{messages:?}") };
    assert_eq!(word(&bench, first.message.id).await, "running");
    assert_eq!(word(&bench, second.message.id).await, "limit_reached");
    let (by, reason) = ("ada".to_owned(), "audit".to_owned());
    admin.pause("hourly", PauseRequest { by, reason, until: None }).await.unwrap();
    let why = admin.why(second.message.id).await.unwrap().unwrap();
    assert_eq!(why.word, "job_paused");
    assert!(why.sentence.contains("by ada"), "{}", why.sentence);
    gate.open(2);
}

#[tokio::test]
async fn what_a_caller_knows_about_other_processes_counts() {
    let bench = Bench::start(|builder| {
        builder.handler("mail", logging::<u32>(&Log::default(), |_, _| String::new()))
    })
    .await;
    let publisher = bench.punctual.publisher();
    let id = publisher.publish("mail", &1).queue("other").await.unwrap().id;
    let (admin, record) = (bench.punctual.admin(), bench.message(id).await);
    let other = Queue::new("other").unwrap();
    let process = KnownProcess { queues: vec![other], topics: None };
    let mut others = OtherProcesses { queue_pause: None, processes: vec![process] };
    assert_eq!(admin.why_with(&record, None, &others).await.unwrap().word, "ready");
    others.processes[0].topics = Some(Vec::new());
    assert_eq!(admin.why_with(&record, None, &others).await.unwrap().word, "no_handler");
    let (by, reason, at) = ("ada".to_owned(), "a move".to_owned(), record.due_at);
    others.queue_pause = Some(Pause { by, reason, at, until: None });
    assert_eq!(admin.why_with(&record, None, &others).await.unwrap().word, "queue_paused");
    let this = admin.this_process();
    let names: Vec<&str> = this.queues.iter().map(Queue::as_str).collect();
    assert_eq!((names, this.topics.unwrap().len()), (vec!["default"], 1));
}

#[tokio::test]
async fn the_ledger_has_a_decision_about_every_time() {
    let bench = Bench::start(hourly).await;
    let admin = bench.punctual.admin();
    admin.skip("hourly", instant("2026-03-02T09:00:00Z")).await.unwrap();
    bench.advance(seconds(3 * 3_600 + 60)).await;
    let range = LedgerRange { to: Some(instant("2026-03-02T11:00:00Z")), ..LedgerRange::default() };
    let ledger = admin.ledger("hourly", range).await.unwrap();
    let line = |entry: &LedgerEntry| (clocks([entry.nominal]).remove(0), entry.decision);
    let lines: Vec<_> = ledger.rows.iter().map(line).collect();
    let expected = [
        ("08:00", LedgerDecision::Ran),
        ("09:00", LedgerDecision::Skipped),
        ("10:00", LedgerDecision::Ran),
        ("11:00", LedgerDecision::Planned),
    ];
    assert_eq!(lines, expected.map(|(clock, decision)| (clock.to_owned(), decision)));
    assert_eq!(ledger.rows[1].reason.as_deref(), Some("skipped by an operator"));
    assert!(ledger.rows[0].message.is_some() && ledger.rows[0].execution.is_some());

    let first = admin.ledger("hourly", LedgerRange { limit: 3, ..range }).await.unwrap();
    assert_eq!((first.rows.len(), first.next), (3, Some(instant("2026-03-02T10:00:00Z"))));
    let rest = LedgerRange { limit: 3, after: first.next, ..range };
    assert_eq!(admin.ledger("hourly", rest).await.unwrap().rows.len(), 1);
    let empty = LedgerRange { from: Some(instant("2026-03-03T00:00:00Z")), ..range };
    for range in [empty, LedgerRange { limit: 0, ..range }] {
        assert_eq!(admin.ledger("hourly", range).await.unwrap_err().kind(), ErrorKind::Invalid);
    }
    let error = admin.ledger("daily", range).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn upcoming_runs_leave_out_what_is_skipped_or_paused() {
    let bench = Bench::start(|builder| {
        hourly(builder)
            .job(Job::cron("daily", "30 8 * * *").zone("Europe/Warsaw"), nothing)
            .job(Job::cron("other", "15 * * * *"), nothing)
    })
    .await;
    let admin = bench.punctual.admin();
    admin.skip("hourly", instant("2026-03-02T09:00:00Z")).await.unwrap();
    let until = Some(instant("2026-03-02T08:30:00Z"));
    let (by, reason) = ("ada".to_owned(), "audit".to_owned());
    admin.pause("other", PauseRequest { by, reason, until }).await.unwrap();

    let next = admin.upcoming_occurrences("hourly", 2).await.unwrap();
    assert_eq!(clocks(next.iter().map(|next| next.time.at)), ["08:00", "09:00"]);
    assert_eq!(next[0].skipped, None);
    assert_eq!(next[1].skipped.as_deref(), Some("skipped by an operator"));
    let paused = admin.upcoming_occurrences("other", 2).await.unwrap();
    assert_eq!(paused[0].skipped.as_deref(), Some("paused by ada: audit"));

    let range = (instant("2026-03-02T00:00:00Z"), instant("2026-03-02T10:00:00Z"));
    let runs = admin.upcoming_runs(range, 100).await.unwrap();
    let names: Vec<&str> = runs.runs.iter().map(|run| run.job.as_str()).collect();
    assert_eq!(clocks(runs.runs.iter().map(|run| run.at)), ["07:30", "08:00", "09:15"]);
    assert_eq!((names, runs.more), (vec!["daily", "hourly", "other"], false));
    let some = admin.upcoming_runs(range, 2).await.unwrap();
    assert_eq!((some.runs.len(), some.more), (2, true));
}

#[tokio::test]
async fn times_of_a_schedule_name_clock_changes_and_a_walk_is_bounded() {
    let bench = Bench::start(hourly).await;
    let admin = bench.punctual.admin();
    let nightly = Schedule::cron("30 2 * * *", "Europe/Warsaw").unwrap();
    let from = instant("2026-03-28T12:00:00Z");
    let times = admin.schedule_times(nightly, from, 2).await.unwrap();
    assert!(times[0].note.as_deref().unwrap().contains("jump from 02:00 to 03:00"));
    assert_eq!((times[0].zone.name(), &times[1].note), ("Europe/Warsaw", &None));
    let every_second = Schedule::cron_utc("* * * * * *").unwrap();
    let many = admin.schedule_times(every_second, from, 1_001).await.unwrap_err();
    assert_eq!(many.kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn an_outage_is_previewed_by_the_policy_of_the_job() {
    let bench = Bench::start(|builder| {
        builder.job(Job::cron("hourly", "0 * * * *").misfire(Misfire::fire_once()), nothing)
    })
    .await;
    let admin = bench.punctual.admin();
    let preview = admin.outage_preview("hourly", seconds(3 * 3_600 + 1_800)).await.unwrap();
    assert_eq!(preview.outage.missed, 3);
    assert_eq!(clocks(preview.outage.runs.iter().map(|run| run.nominal)), ["10:00"]);
    assert!(preview.in_words.contains("with fire_once one run would start"), "{preview:?}");
    let error = admin.outage_preview("hourly", seconds(0)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(admin.ledger("hourly", LedgerRange::default()).await.unwrap().rows.len(), 25);
}

#[tokio::test]
async fn dead_letters_are_grouped_by_their_failure() {
    let world = world();
    let bench = Bench::start_in(world, |builder| {
        builder.handler_with("order", retrying(Retry::none()), |order: u32| async move {
            Err::<(), _>(std::io::Error::other(match order {
                0 => "the bank is closed".to_owned(),
                order => format!("order {order} is unknown"),
            }))
        })
    })
    .await;
    let publisher = bench.punctual.publisher();
    for order in [0, 4_711, 4_712] {
        publisher.publish("order", &order).await.unwrap();
    }
    bench.advance(seconds(1)).await;
    let admin = bench.punctual.admin();
    let found = admin.dead_groups().await.unwrap();
    assert_eq!((found.scanned, found.more), (3, false));
    let counts: Vec<u64> = found.groups.iter().map(|group| group.count).collect();
    assert_eq!(counts, [2, 1], "largest first");
    let largest = &found.groups[0];
    assert_eq!(largest.per_hour.last(), Some(&2));
    let sample = bench.message(largest.sample).await;
    assert_eq!(dead_fingerprint(&sample), largest.fingerprint);
    assert_eq!(sample.error.as_deref(), largest.error.as_deref());
}
