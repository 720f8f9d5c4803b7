//! What operators do: trigger, pause, resume, cancel, redrive, reschedule, delete, purge; and that
//! looking changes nothing.

use punctual::client::{PauseRequest, Triggered};
use punctual::inspect::{ExecutionFilter, JobFilter, MessageFilter, Page};
use punctual::model::{Ending, JobPhase, SkipReason, Source, State};
use punctual::storage::Commanded;
use punctual::{
    Cause, Context, ErrorKind, Event, Inspect, Job, Misfire, Occurrence, Outcome, Overlap, Retry,
};

use crate::acting::{
    Gate, endings, executions, failing, history, retrying, stuck, telling, waiting,
};
use crate::harness::{Bench, Log, instant, seconds, world};

fn pause(until: Option<&str>) -> PauseRequest {
    PauseRequest {
        by: "ada".to_owned(),
        reason: "stocktaking".to_owned(),
        until: until.map(instant),
    }
}

async fn hourly(log: &Log) -> Bench {
    let line = |occurrence: &Occurrence, context: &Context| {
        format!(
            "{} {:?}",
            occurrence.nominal.strftime("%H:%M"),
            context.source()
        )
    };
    Bench::start(|builder| builder.job(Job::cron("hourly", "0 * * * *"), telling(log, line))).await
}

// Trap 8.
// spec: U-33, T-58, T-35
#[tokio::test]
async fn a_trigger_runs_a_paused_job_and_leaves_its_schedule_alone() {
    let log = Log::default();
    let bench = hourly(&log).await;
    let admin = bench.punctual.admin();
    admin.pause("hourly", pause(None)).await.unwrap();
    let before = admin.job("hourly").await.unwrap();
    bench.advance(seconds(600)).await;
    let triggered = admin.trigger("hourly", false).await.unwrap();
    assert!(matches!(triggered, Triggered::Started(_)));
    bench.rest().await;
    assert_eq!(log.lines(), ["07:10 Manual"]);
    let after = admin.job("hourly").await.unwrap();
    assert_eq!((after.cursor, after.runs), (before.cursor, before.runs));
    assert_eq!(
        (after.last_nominal, &after.paused),
        (before.last_nominal, &before.paused)
    );
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.len(), 1, "it stays paused");
}

// spec: U-33
#[tokio::test]
async fn a_trigger_between_two_occurrences_disturbs_neither() {
    let log = Log::default();
    let bench = hourly(&log).await;
    bench.advance(seconds(1_800)).await;
    bench
        .punctual
        .admin()
        .trigger("hourly", false)
        .await
        .unwrap();
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.lines(), ["07:30 Manual", "08:00 Scheduled"]);
    let manual = bench
        .punctual
        .admin()
        .history("hourly", Page::first(9))
        .await
        .unwrap();
    let sources: Vec<Source> = manual.rows.iter().map(|run| run.source).collect();
    assert_eq!(sources, [Source::Scheduled, Source::Manual]);
}

// spec: T-58
#[tokio::test]
async fn a_trigger_of_an_unknown_job_is_refused() {
    let bench = hourly(&Log::default()).await;
    let error = bench
        .punctual
        .admin()
        .trigger("weekly", false)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("\"weekly\""), "{error}");
    assert_eq!(
        bench
            .punctual
            .admin()
            .counts()
            .await
            .unwrap()
            .total(State::Pending),
        0
    );
}

#[tokio::test]
async fn a_trigger_respects_the_overlap_policy_unless_told_otherwise() {
    let log = Log::default();
    let job = Job::cron("hourly", "0 * * * *").overlap(Overlap::Skip);
    let bench = Bench::start(|builder| {
        builder
            .queue("default", 8)
            .job(job, stuck::<Occurrence>(&log))
    })
    .await;
    let admin = bench.punctual.admin();
    admin.trigger("hourly", false).await.unwrap();
    bench.rest().await;
    assert_eq!(
        admin.trigger("hourly", false).await.unwrap(),
        Triggered::Overlapping(1)
    );
    assert!(matches!(
        admin.trigger("hourly", true).await.unwrap(),
        Triggered::Started(_)
    ));
    bench.rest().await;
    assert_eq!(log.len(), 2);
}

// Decision 3.16.
// spec: U-32, U-34, T-6
#[tokio::test]
async fn a_pause_lets_a_run_finish_and_a_resume_replays_nothing() {
    let (log, gate) = (Log::default(), Gate::shut());
    let job = Job::cron("hourly", "0 * * * *").misfire(Misfire::fire_all());
    let bench = Bench::start(|builder| builder.job(job, waiting::<Occurrence>(&log, &gate))).await;
    let admin = bench.punctual.admin();
    bench.advance(seconds(3_600)).await;
    let paused = admin.pause("hourly", pause(None)).await.unwrap();
    assert_eq!(paused.phase(), JobPhase::Paused);
    gate.open(9);
    bench.advance(seconds(3 * 3_600)).await;
    assert_eq!(log.lines(), ["began", "ended"]);
    let resumed = admin.resume("hourly").await.unwrap();
    assert_eq!(resumed.phase(), JobPhase::Active);
    assert_eq!(
        resumed.cursor,
        Some(instant("2026-03-02T12:00:00Z")),
        "strictly after now"
    );
    bench.advance(seconds(3_599)).await;
    assert_eq!(log.len(), 2);
    bench.advance(seconds(1)).await;
    assert_eq!(log.len(), 4);
    let skipped = ExecutionFilter {
        endings: vec!["skipped"],
        ..ExecutionFilter::default()
    };
    let skipped = executions(&bench.storage, skipped).await;
    assert!(
        skipped
            .iter()
            .all(|run| run.ending == Ending::Skipped(SkipReason::Paused))
    );
}

#[tokio::test]
async fn a_pause_ends_by_itself_and_replays_nothing() {
    let log = Log::default();
    let bench = hourly(&log).await;
    let admin = bench.punctual.admin();
    admin
        .pause("hourly", pause(Some("2026-03-02T09:30:00Z")))
        .await
        .unwrap();
    bench.advance(seconds(9_000)).await;
    assert_eq!(log.len(), 0);
    let record = admin.job("hourly").await.unwrap();
    assert_eq!(
        (record.phase(), record.cursor),
        (JobPhase::Active, Some(instant("2026-03-02T10:00:00Z")))
    );
    let history = admin.history("hourly", Page::first(9)).await.unwrap();
    assert_eq!(history.rows.len(), 1);
    assert_eq!(history.rows[0].ending, Ending::Skipped(SkipReason::Paused));
    assert!(
        history.rows[0]
            .note
            .as_deref()
            .unwrap()
            .starts_with("2 occurrences")
    );
    bench.advance(seconds(1_800)).await;
    assert_eq!(log.lines(), ["10:00 Scheduled"]);
}

// Decision 3.32: a one-time job keeps its time, or runs now if that has passed.
// spec: H-45
#[tokio::test]
async fn a_paused_one_time_job_runs_when_the_pause_is_over() {
    for by_itself in [true, false] {
        let log = Log::default();
        let job = Job::once("launch", instant("2026-03-02T08:00:00Z"));
        let done = telling::<Occurrence>(&log, |_, context| context.started_at().to_string());
        let bench = Bench::start(|builder| builder.job(job, done)).await;
        let admin = bench.punctual.admin();
        let until = by_itself.then_some("2026-03-02T09:00:00Z");
        admin.pause("launch", pause(until)).await.unwrap();
        bench.advance(seconds(7_200)).await;
        if !by_itself {
            assert_eq!(log.len(), 0);
            admin.resume("launch").await.unwrap();
            bench.rest().await;
        }
        assert_eq!(
            log.lines(),
            ["2026-03-02T09:00:00Z"],
            "by itself: {by_itself}"
        );
    }
}

#[tokio::test]
async fn pausing_and_resuming_an_unknown_job_is_refused() {
    let bench = hourly(&Log::default()).await;
    let admin = bench.punctual.admin();
    assert_eq!(
        admin.pause("weekly", pause(None)).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert_eq!(
        admin.resume("weekly").await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert_eq!(
        admin.pause("", pause(None)).await.unwrap_err().kind(),
        ErrorKind::Invalid
    );
}

#[tokio::test]
async fn a_pending_message_is_cancelled_at_once() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder.handler("mail", telling::<()>(&log, |(), _| "sent".to_owned()))
    })
    .await;
    let sent = bench
        .punctual
        .publisher()
        .publish("mail", &())
        .after(seconds(60))
        .await
        .unwrap();
    let admin = bench.punctual.admin();
    assert_eq!(admin.cancel(sent.id).await.unwrap(), Commanded::Applied(1));
    bench.advance(seconds(120)).await;
    assert_eq!(log.len(), 0);
    assert_eq!(bench.message(sent.id).await.state, State::Cancelled);
    assert_eq!(
        admin.cancel(sent.id).await.unwrap(),
        Commanded::Refused(State::Cancelled)
    );
}

// Decision 3.28: the handler on another node is asked to stop, and what it did counts no more.
#[tokio::test]
async fn a_running_message_is_cancelled_across_processes() {
    let log = Log::default();
    let told = log.clone();
    let world = world();
    let worker = Bench::start_in(world.clone(), |builder| {
        builder.handler("long", move |(): (), context: Context| {
            let told = told.clone();
            async move {
                let cause = context.cancelled().await;
                told.push(format!("{cause:?}"));
                Err::<(), _>("broken off")
            }
        })
    })
    .await;
    let office = Bench::start_in(world, |builder| {
        builder.options(|options| options.handling = false)
    })
    .await;
    let sent = office
        .punctual
        .publisher()
        .publish("long", &())
        .await
        .unwrap();
    office.advance(seconds(5)).await;
    assert_eq!(
        office.punctual.admin().cancel(sent.id).await.unwrap(),
        Commanded::Requested
    );
    // The worker hears of it when it renews the lease, at a third of its length at the latest.
    office.advance(seconds(100)).await;
    assert_eq!(log.lines(), ["Cancelled"]);
    assert_eq!(office.message(sent.id).await.state, State::Cancelled);
    assert_eq!(
        endings(&worker.storage, sent.id).await,
        [Ending::Cancelled],
        "neither failed nor retried"
    );
}

#[tokio::test]
async fn what_is_done_before_it_hears_of_the_cancel_stays_done() {
    let (log, gate) = (Log::default(), Gate::shut());
    let bench = Bench::start(|builder| builder.handler("long", waiting::<()>(&log, &gate))).await;
    let sent = bench
        .punctual
        .publisher()
        .publish("long", &())
        .await
        .unwrap();
    bench.rest().await;
    bench.punctual.admin().cancel(sent.id).await.unwrap();
    gate.open(1);
    bench.rest().await;
    assert_eq!(bench.message(sent.id).await.state, State::Done);
}

#[tokio::test]
async fn a_failure_of_a_message_that_is_to_be_cancelled_ends_it() {
    let gate = Gate::shut();
    let passed = gate.clone();
    let bench = Bench::start(|builder| {
        builder.handler("long", move |(): (), _: Context| {
            let passed = passed.clone();
            async move {
                passed.pass().await;
                Err::<(), _>("on its own")
            }
        })
    })
    .await;
    let sent = bench
        .punctual
        .publisher()
        .publish("long", &())
        .await
        .unwrap();
    bench.rest().await;
    bench.punctual.admin().cancel(sent.id).await.unwrap();
    gate.open(1);
    bench.rest().await;
    assert_eq!(bench.message(sent.id).await.state, State::Cancelled);
    assert_eq!(endings(&bench.storage, sent.id).await, [Ending::Cancelled]);
}

// Trap 15.
// spec: T-34
#[tokio::test]
async fn a_redrive_starts_the_attempts_anew() {
    let log = Log::default();
    let terms = retrying(Retry::intervals([seconds(10)]));
    let bench =
        Bench::start(|builder| builder.handler_with("mail", terms, failing::<()>(&log))).await;
    let sent = bench
        .punctual
        .publisher()
        .publish("mail", &())
        .await
        .unwrap();
    bench.advance(seconds(600)).await;
    assert_eq!(bench.message(sent.id).await.state, State::Dead);
    assert_eq!(log.len(), 2);
    let admin = bench.punctual.admin();
    assert_eq!(admin.redrive(sent.id).await.unwrap(), Commanded::Applied(1));
    bench.advance(seconds(600)).await;
    let attempts: Vec<u32> = history(&bench.storage, sent.id)
        .await
        .iter()
        .map(|run| run.attempt)
        .collect();
    assert_eq!(attempts, [1, 2, 1, 2]);
    let record = bench.message(sent.id).await;
    assert_eq!(
        (record.state, record.message.source),
        (State::Dead, Source::Redriven)
    );
    assert_eq!(
        admin.dead_letters(Page::first(9)).await.unwrap().rows.len(),
        1,
        "once"
    );
}

#[tokio::test]
async fn a_pending_message_is_moved_and_a_running_one_is_not() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder
            .handler(
                "mail",
                telling::<()>(&log, |(), context| context.started_at().to_string()),
            )
            .handler("stuck", stuck::<()>(&Log::default()))
    })
    .await;
    let admin = bench.punctual.admin();
    let publisher = bench.punctual.publisher();
    let sent = publisher
        .publish("mail", &())
        .after(seconds(3_600))
        .await
        .unwrap();
    let running = publisher.publish("stuck", &()).await.unwrap();
    bench.rest().await;
    let sooner = instant("2026-03-02T07:01:00Z");
    assert_eq!(
        admin.reschedule(sent.id, sooner).await.unwrap(),
        Commanded::Applied(1)
    );
    assert_eq!(
        admin.reschedule(running.id, sooner).await.unwrap(),
        Commanded::Refused(State::Running)
    );
    assert_eq!(
        admin.delete(running.id).await.unwrap(),
        Commanded::Refused(State::Running)
    );
    bench.advance(seconds(60)).await;
    assert_eq!(log.lines(), ["2026-03-02T07:01:00Z"]);
    assert_eq!(admin.delete(sent.id).await.unwrap(), Commanded::Applied(1));
    assert_eq!(admin.message(sent.id).await.unwrap(), None);
    assert!(
        history(&bench.storage, sent.id).await.is_empty(),
        "its history goes with it"
    );
    assert_eq!(admin.redrive(sent.id).await.unwrap(), Commanded::Unknown);
}

// Trap 18.
// spec: H-17, H-18, H-19, H-20, H-76
#[tokio::test]
async fn a_purge_keeps_what_is_exactly_as_old_and_what_runs() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder
            .queue("default", 4)
            .handler("mail", telling::<()>(&log, |(), _| "sent".to_owned()))
            .handler("stuck", stuck::<()>(&log))
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
    // Exactly at the limit is kept, and nothing goes by itself.
    assert_eq!(
        admin.purge(seconds(3_660), 100, false).await.unwrap(),
        punctual::storage::Pruned::default()
    );
    let pruned = admin.purge(seconds(3_600), 100, false).await.unwrap();
    assert_eq!(
        (pruned.messages, pruned.executions),
        (1, 2),
        "the mail, and the history of both"
    );
    assert_eq!(admin.message(old.id).await.unwrap(), None);
    assert_eq!(bench.message(new.id).await.state, State::Done);
    assert_eq!(bench.message(running.id).await.state, State::Running);
    assert_eq!(
        bench.message(dead.id).await.state,
        State::Dead,
        "dead letters wait for people"
    );
    assert_eq!(
        admin
            .purge(seconds(3_600), 100, true)
            .await
            .unwrap()
            .messages,
        1
    );
    assert_eq!(admin.message(dead.id).await.unwrap(), None);
}

// spec: T-63
#[tokio::test]
async fn retention_prunes_by_itself_only_where_it_was_asked_for() {
    for (retention, left) in [(None, 1), (Some(seconds(1_800)), 0)] {
        let bench = Bench::start(|builder| {
            builder
                .options(|options| options.retention = retention)
                .handler(
                    "mail",
                    telling::<()>(&Log::default(), |(), _| String::new()),
                )
        })
        .await;
        bench
            .punctual
            .publisher()
            .publish("mail", &())
            .await
            .unwrap();
        bench.advance(seconds(2 * 3_600)).await;
        let kept = executions(&bench.storage, ExecutionFilter::default()).await;
        assert_eq!(kept.len(), left, "{retention:?}");
        assert_eq!(
            bench.punctual.events().count("history.pruned"),
            u64::from(retention.is_some())
        );
    }
}

// Trap 17.
// spec: H-52
#[tokio::test]
async fn looking_changes_nothing() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder
            .queue("default", 2)
            .handler("stuck", stuck::<()>(&log))
            .job(Job::cron("hourly", "0 * * * *"), stuck::<Occurrence>(&log))
    })
    .await;
    let publisher = bench.punctual.publisher();
    let running = publisher.publish("stuck", &()).await.unwrap();
    let later = publisher
        .publish("stuck", &())
        .after(seconds(600))
        .await
        .unwrap();
    bench.rest().await;
    // Both leases are over, so there is something that looking must not repair.
    bench.clock.advance(seconds(301));
    let before = (
        bench.message(running.id).await,
        bench.message(later.id).await,
    );
    let job = bench.punctual.admin().job("hourly").await.unwrap();
    let admin = bench.punctual.admin();
    let counts = admin.counts().await.unwrap();
    assert_eq!((counts.stale, counts.total(State::Running)), (1, 1));
    for _ in 0..3 {
        assert_eq!(admin.counts().await.unwrap(), counts);
        admin
            .messages(MessageFilter::default(), Page::first(10))
            .await
            .unwrap();
        admin
            .executions(ExecutionFilter::default(), Page::first(10))
            .await
            .unwrap();
        admin.dead_letters(Page::first(10)).await.unwrap();
        admin.jobs().await.unwrap();
        bench.storage.jobs(JobFilter::default()).await.unwrap();
        bench
            .storage
            .throughput(instant("2026-03-02T00:00:00Z"), seconds(60))
            .await
            .unwrap();
    }
    let after = (
        bench.message(running.id).await,
        bench.message(later.id).await,
    );
    assert_eq!(after, before);
    assert_eq!(admin.job("hourly").await.unwrap(), job);
}

#[tokio::test]
async fn what_operators_do_is_told() {
    let log = Log::default();
    let bench = hourly(&log).await;
    let admin = bench.punctual.admin();
    let mut events = bench.punctual.events().listen();
    let sent = bench
        .punctual
        .publisher()
        .publish("hourly", &())
        .after(seconds(60))
        .await
        .unwrap();
    admin.cancel(sent.id).await.unwrap();
    admin.redrive(sent.id).await.unwrap();
    admin.pause("hourly", pause(None)).await.unwrap();
    admin.resume("hourly").await.unwrap();
    let mut told = Vec::new();
    while let Ok(event) = events.try_recv() {
        match &*event {
            Event::MessageCommanded { command, .. } => told.push(*command),
            Event::JobSteered { change, .. } => told.push(*change),
            _ => {}
        }
    }
    assert_eq!(told, ["cancel", "redrive", "paused", "resumed"]);
}

#[tokio::test]
async fn a_handler_may_cancel_its_own_message() {
    let bench = Bench::start(|builder| {
        builder.handler("mail", |(): (), context: Context| async move {
            assert_eq!(context.cancel_cause(), None::<Cause>);
            Outcome::Cancel
        })
    })
    .await;
    let sent = bench
        .punctual
        .publisher()
        .publish("mail", &())
        .await
        .unwrap();
    bench.rest().await;
    assert_eq!(bench.message(sent.id).await.state, State::Cancelled);
    assert_eq!(endings(&bench.storage, sent.id).await, [Ending::Cancelled]);
}
