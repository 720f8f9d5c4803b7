//! HTTP workers: they claim, extend, save progress, settle and release through a process, and their reports have
//! the same effect as an attempt in the process.

use std::sync::Arc;

use punctual::backend::storage::{CommandResult, ExtendResult, SettleResult};
use punctual::client::{
    AssignedMessage, AttemptTicket, HttpWorkerClaim, HttpWorkerReport, HttpWorkers,
};
use punctual::inspect::ExecutionFilter;
use punctual::model::{
    Body, DeadReason, Ending, ExecutionId, HandlerOptions, LeaseRef, MessageState, ProcessId,
    Queue, SkipReason,
};
use punctual::uuid::Uuid;
use punctual::{Builder, ErrorKind, Event, Job, Outcome, Retry, Roles};

use crate::harness::{Bench, Log, instant, run_until_idle, seconds, world};
use crate::test_handlers::{endings, executions, failing, history, retrying};

const WORKER: ProcessId = ProcessId::from_uuid(Uuid::from_u128(7));

fn claim_request(limit: usize) -> HttpWorkerClaim {
    HttpWorkerClaim {
        queue: Queue::default(),
        topics: None,
        worker: WORKER,
        limit,
        lease: seconds(30),
    }
}

/// Starts a process that runs no handlers itself.
async fn bench_without_worker() -> Bench {
    Bench::start(without_worker).await
}

fn without_worker(builder: Builder) -> Builder {
    builder.roles(Roles { worker: false, ..Roles::ALL })
}

async fn claim_one(workers: &HttpWorkers) -> AssignedMessage {
    let mut assigned = workers.claim(claim_request(10)).await.unwrap();
    assert_eq!(assigned.len(), 1);
    assigned.remove(0)
}

#[tokio::test]
async fn a_message_is_handled_by_an_http_worker_and_recorded_like_any_other() {
    let bench = bench_without_worker().await;
    let (workers, publisher) = (bench.punctual.http_workers(), bench.punctual.publisher());
    let mut events = bench.punctual.events().listen();
    let sent = publisher.publish("mail", "hello").key("ada").await.unwrap();
    bench.advance(seconds(5)).await;
    let work = claim_one(&workers).await;
    assert_eq!(work.claimed.message.body.read::<String>().unwrap(), "hello");
    assert_eq!((work.claimed.attempt, work.started_at), (1, instant("2026-03-02T07:00:05Z")));
    assert_eq!(work.claimed.lease.owner, WORKER);
    assert_eq!(bench.message(sent.id).await.state, MessageState::Running);
    assert!(workers.claim(claim_request(10)).await.unwrap().is_empty(), "it has an owner");
    bench.advance(seconds(20)).await;
    let report = HttpWorkerReport {
        note: Some("sent to one".to_owned()),
        log: vec!["connecting".to_owned(), "sent".to_owned()],
        ..HttpWorkerReport::new(Outcome::Done)
    };
    assert_eq!(workers.settle(WORKER, work.ticket, report).await.unwrap(), SettleResult::Applied);
    let execution = &history(&bench.storage, sent.id).await[0];
    assert_eq!((execution.id, execution.process), (work.ticket.execution, Some(WORKER)));
    assert_eq!((execution.ending, execution.attempt), (Ending::Succeeded, 1));
    assert_eq!(execution.due_at, instant("2026-03-02T07:00:00Z"));
    assert_eq!(execution.started_at, instant("2026-03-02T07:00:05Z"));
    assert_eq!(execution.ended_at, instant("2026-03-02T07:00:25Z"));
    assert_eq!(execution.note.as_deref(), Some("sent to one"));
    assert_eq!(execution.log.as_deref(), Some("connecting\nsent"));
    let recorded: Vec<&str> = std::iter::from_fn(|| events.try_recv().ok())
        .map(|event| event.name())
        .filter(|name| name.starts_with("attempt."))
        .collect();
    assert_eq!(recorded, ["attempt.started", "attempt.succeeded"]);
    assert!(bench.punctual.is_idle(), "the process keeps no state of it");
}

/// State of a message after each step: endings of its attempts, state, reason of a dead letter.
type History = Vec<(Vec<Ending>, MessageState, Option<DeadReason>)>;

/// Runs a message with four attempts to its end, in the process or by an HTTP worker, with one outcome.
async fn run_to_end(outcome: Outcome, by_http_worker: bool) -> (History, Vec<Option<Arc<str>>>) {
    let handler_options = || retrying(Retry::intervals([seconds(60); 3])).snoozes_max(2);
    let returned = outcome.clone();
    let handler = move |(): ()| {
        let returned = returned.clone();
        async move { returned }
    };
    let bench = Bench::start(|builder| {
        let builder = builder.handler_with("mail", handler_options(), handler);
        if by_http_worker { without_worker(builder) } else { builder }
    })
    .await;
    let sent = bench.punctual.publisher().publish("mail", &()).await.unwrap();
    let mut history_by_step = History::new();
    for _ in 0..40 {
        if by_http_worker {
            for work in bench.punctual.http_workers().claim(claim_request(10)).await.unwrap() {
                let report = HttpWorkerReport::new(outcome.clone());
                let settled =
                    bench.punctual.http_workers().settle(WORKER, work.ticket, report).await;
                assert_eq!(settled.unwrap(), SettleResult::Applied);
            }
        }
        bench.run_until_idle().await;
        let record = bench.message(sent.id).await;
        history_by_step.push((endings(&bench.storage, sent.id).await, record.state, record.dead));
        bench.advance(seconds(10)).await;
    }
    let notes = history(&bench.storage, sent.id)
        .await
        .into_iter()
        .map(|claim_one| claim_one.note)
        .collect();
    (history_by_step, notes)
}

// The policy decides, and it does not know where an attempt ran.
#[tokio::test]
async fn every_outcome_has_the_same_effect_as_in_the_process() {
    for outcome in [
        Outcome::Done,
        Outcome::RetryAfter(seconds(20)),
        Outcome::Snooze(seconds(30)),
        Outcome::Discard("no such address".to_owned()),
        Outcome::Cancel,
    ] {
        let (here, notes) = run_to_end(outcome.clone(), false).await;
        assert!(!here.last().unwrap().0.is_empty(), "{outcome:?}");
        assert_eq!(run_to_end(outcome.clone(), true).await, (here, notes), "{outcome:?}");
    }
}

#[tokio::test]
async fn failures_are_retried_and_the_last_one_is_a_dead_letter() {
    let bench = Bench::start(|builder| {
        let handler_options = retrying(Retry::intervals([seconds(60), seconds(60)]));
        without_worker(builder.handler_with(
            "mail",
            handler_options,
            failing::<()>(&Log::default()),
        ))
    })
    .await;
    let workers = bench.punctual.http_workers();
    let sent = bench.punctual.publisher().publish("mail", &()).await.unwrap();
    for attempt in 1..=3 {
        let work = claim_one(&workers).await;
        assert_eq!((work.claimed.attempt, work.attempts_max), (attempt, Some(3)));
        let report = HttpWorkerReport::failed(format!("no route {attempt}"));
        workers.settle(WORKER, work.ticket, report).await.unwrap();
        assert!(workers.claim(claim_request(1)).await.unwrap().is_empty());
        bench.advance(seconds(60)).await;
    }
    let record = bench.message(sent.id).await;
    assert_eq!((record.state, record.dead), (MessageState::Dead, Some(DeadReason::AttemptsSpent)));
    assert_eq!(record.error.as_deref(), Some("no route 3"));
    let events = bench.punctual.events();
    assert_eq!((events.count("attempt.failed"), events.count("message.dead")), (3, 1));
}

#[tokio::test]
async fn an_outdated_ticket_changes_nothing_and_is_refused() {
    let bench = bench_without_worker().await;
    let workers = bench.punctual.http_workers();
    let sent = bench.punctual.publisher().publish("mail", &()).await.unwrap();
    let old = claim_one(&workers).await.ticket;
    // Its lease runs out, and the rescuer treats it as a lost attempt.
    bench.advance(seconds(31 + 30)).await;
    assert_eq!(endings(&bench.storage, sent.id).await, [Ending::Lost]);
    assert_eq!(
        workers.extend(WORKER, &[old.lease], seconds(30)).await.unwrap(),
        [ExtendResult::Lost]
    );
    assert_eq!(
        workers.save_progress(old, Some(50.into()), None).await.unwrap(),
        ExtendResult::Lost
    );
    let report = || HttpWorkerReport::new(Outcome::Done);
    assert_eq!(workers.settle(WORKER, old, report()).await.unwrap(), SettleResult::Lost);
    let new = claim_one(&workers).await.ticket;
    assert_eq!(workers.settle(WORKER, old, report()).await.unwrap(), SettleResult::Lost);
    let other = ProcessId::from_uuid(Uuid::from_u128(8));
    assert_eq!(
        workers.settle(other, new, report()).await.unwrap(),
        SettleResult::Lost,
        "not its own"
    );
    assert_eq!(bench.message(sent.id).await.state, MessageState::Running);
    assert_eq!(bench.punctual.events().count("attempt.succeeded"), 0);
    assert_eq!(workers.settle(WORKER, new, report()).await.unwrap(), SettleResult::Applied);
    assert_eq!(workers.settle(WORKER, new, report()).await.unwrap(), SettleResult::Lost, "twice");
    assert_eq!(endings(&bench.storage, sent.id).await, [Ending::Lost, Ending::Succeeded]);
}

#[tokio::test]
async fn a_forged_ticket_is_refused() {
    let bench = bench_without_worker().await;
    let workers = bench.punctual.http_workers();
    bench.punctual.publisher().publish("mail", &()).await.unwrap();
    let ticket = claim_one(&workers).await.ticket;
    assert_eq!(ticket.to_string().parse::<AttemptTicket>().unwrap(), ticket);
    for wrong in ["", "a.b.c", "7", &ticket.to_string().replace('.', "-")] {
        assert_eq!(
            wrong.parse::<AttemptTicket>().unwrap_err().kind(),
            ErrorKind::Invalid,
            "{wrong:?}"
        );
    }
    let execution = ExecutionId::from_uuid(Uuid::from_u128(1));
    let lease = LeaseRef { token: ticket.lease.token + 1, ..ticket.lease };
    for forged in [AttemptTicket { execution, ..ticket }, AttemptTicket { lease, ..ticket }] {
        let error =
            workers.settle(WORKER, forged, HttpWorkerReport::new(Outcome::Done)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}

#[tokio::test]
async fn a_lease_is_kept_as_long_as_it_is_extended() {
    let bench = bench_without_worker().await;
    let workers = bench.punctual.http_workers();
    let sent = bench.punctual.publisher().publish("mail", &()).await.unwrap();
    let work = claim_one(&workers).await;
    for _ in 0..20 {
        bench.advance(seconds(25)).await;
        let extended = workers.extend(WORKER, &[work.ticket.lease], seconds(30)).await.unwrap();
        assert_eq!(extended, [ExtendResult::Held]);
    }
    let cancelled = bench.punctual.admin().cancel(sent.id).await.unwrap();
    assert_eq!(cancelled, CommandResult::Requested);
    let extended = workers.extend(WORKER, &[work.ticket.lease], seconds(30)).await.unwrap();
    assert_eq!(extended, [ExtendResult::CancelRequested]);
    let report = HttpWorkerReport::failed("stopped");
    assert_eq!(workers.settle(WORKER, work.ticket, report).await.unwrap(), SettleResult::Applied);
    assert_eq!(bench.message(sent.id).await.state, MessageState::Cancelled);
    assert_eq!(endings(&bench.storage, sent.id).await, [Ending::Cancelled]);
}

#[tokio::test]
async fn progress_and_checkpoints_of_a_worker_are_stored() {
    let bench = bench_without_worker().await;
    let workers = bench.punctual.http_workers();
    let sent = bench.punctual.publisher().publish("mail", &()).await.unwrap();
    let work = claim_one(&workers).await;
    let place = Body::json("page 7").unwrap();
    let progress_result =
        workers.save_progress(work.ticket, Some((40, "reading").into()), Some(place.clone())).await;
    assert_eq!(progress_result.unwrap(), ExtendResult::Held);
    let progress = bench.message(sent.id).await.progress.unwrap();
    assert_eq!((progress.percent, progress.note.as_deref()), (Some(40), Some("reading")));
    assert_eq!(bench.punctual.events().count("attempt.progressed"), 1);
    workers.settle(WORKER, work.ticket, HttpWorkerReport::failed("torn")).await.unwrap();
    bench.advance(seconds(600)).await;
    assert_eq!(claim_one(&workers).await.claimed.checkpoint, Some(place));
    let huge = Body::raw(vec![b'x'; 2 << 20], "text/plain");
    assert_eq!(
        workers.save_progress(work.ticket, None, Some(huge)).await.unwrap_err().kind(),
        ErrorKind::Invalid
    );
}

#[tokio::test]
async fn a_released_message_is_due_immediately_and_uses_no_attempt() {
    let bench = bench_without_worker().await;
    let workers = bench.punctual.http_workers();
    let sent = bench.punctual.publisher().publish("mail", &()).await.unwrap();
    let work = claim_one(&workers).await;
    assert_eq!(workers.release(WORKER, work.ticket).await.unwrap(), SettleResult::Applied);
    let again = claim_one(&workers).await;
    assert_eq!((again.claimed.attempt, again.claimed.crashes), (1, 0));
    assert_eq!(endings(&bench.storage, sent.id).await, [Ending::Released]);
}

// spec: H-21
#[tokio::test]
async fn what_is_reported_after_the_timeout_has_timed_out() {
    let bench = Bench::start(|builder| {
        let handler_options = HandlerOptions::new().timeout(seconds(10));
        without_worker(builder.handler_with("mail", handler_options, |(): ()| async {}))
    })
    .await;
    let workers = bench.punctual.http_workers();
    let sent = bench.punctual.publisher().publish("mail", &()).await.unwrap();
    let work = claim_one(&workers).await;
    assert_eq!(work.deadline, Some(instant("2026-03-02T07:00:10Z")));
    bench.advance(seconds(11)).await;
    workers.settle(WORKER, work.ticket, HttpWorkerReport::new(Outcome::Done)).await.unwrap();
    assert_eq!(endings(&bench.storage, sent.id).await, [Ending::TimedOut]);
    assert_eq!(bench.punctual.events().count("attempt.timed_out"), 1);
}

#[tokio::test]
async fn expired_or_unreadable_messages_are_not_handed_out() {
    let bench = Bench::start(|builder| {
        let handler_options = HandlerOptions::new().expires_after(seconds(60));
        without_worker(builder.handler_with("late", handler_options, |(): ()| async {}))
            .options(|options| options.compress_above_bytes = Some(100))
    })
    .await;
    let (workers, publisher) = (bench.punctual.http_workers(), bench.punctual.publisher());
    let late = publisher.publish("late", &()).await.unwrap();
    let large = "tea ".repeat(1_000);
    publisher.publish("mail", &large).await.unwrap();
    bench.advance(seconds(61)).await;
    let work = claim_one(&workers).await;
    assert_eq!(work.claimed.message.body.read::<String>().unwrap(), large, "opened");
    bench.run_until_idle().await;
    let expired = endings(&bench.storage, late.id).await;
    assert_eq!(expired, [Ending::Skipped(SkipReason::Expired)]);
    workers.settle(WORKER, work.ticket, HttpWorkerReport::new(Outcome::Done)).await.unwrap();
    let small = Bench::start_in((bench.clock.clone(), bench.storage.clone()), |builder| {
        without_worker(builder).options(|options| options.payload_max = 1_000)
    })
    .await;
    let bomb = publisher.publish("mail", &large).await.unwrap();
    assert!(small.punctual.http_workers().claim(claim_request(1)).await.unwrap().is_empty());
    small.run_until_idle().await;
    assert_eq!(small.message(bomb.id).await.dead, Some(DeadReason::Poison));
}

#[tokio::test]
async fn pauses_limits_and_rates_apply_to_http_workers() {
    let bench = Bench::start(|builder| without_worker(builder).serial_queue("ordered")).await;
    let (workers, publisher) = (bench.punctual.http_workers(), bench.punctual.publisher());
    for _ in 0..3 {
        publisher.publish("mail", &()).queue("ordered").await.unwrap();
    }
    let ordered = || HttpWorkerClaim { queue: Queue::new("ordered").unwrap(), ..claim_request(10) };
    bench.punctual.queues().pause("ordered").unwrap();
    assert!(workers.claim(ordered()).await.unwrap().is_empty());
    bench.punctual.queues().resume("ordered").unwrap();
    assert_eq!(workers.claim(ordered()).await.unwrap().len(), 1, "one after the other");
    assert!(workers.claim(ordered()).await.unwrap().is_empty());
    let admin = bench.punctual.admin();
    let job = Job::cron("often", "0 0 1 1 *").rate(2, seconds(60));
    admin.declare(job.overlap(punctual::Overlap::Allow { parallel_max: None })).await.unwrap();
    for _ in 0..5 {
        admin.trigger("often", true).await.unwrap();
    }
    assert_eq!(workers.claim(claim_request(10)).await.unwrap().len(), 2);
    bench.run_until_idle().await;
    let filter = ExecutionFilter::default();
    assert!(executions(&bench.storage, filter).await.is_empty(), "the others were not begun");
    bench.advance(seconds(59)).await;
    assert!(workers.claim(claim_request(10)).await.unwrap().is_empty());
    bench.advance(seconds(1)).await;
    assert_eq!(
        workers.claim(claim_request(10)).await.unwrap().len(),
        2,
        "never more than the rate"
    );
}

#[tokio::test]
async fn a_worker_waits_for_something_to_do() {
    let bench = bench_without_worker().await;
    let (workers, publisher) = (bench.punctual.http_workers(), bench.punctual.publisher());
    // Long leases, so that nothing comes back.
    let request = HttpWorkerClaim { lease: seconds(3_600), ..claim_request(10) };
    let wait = |timeout: i64| {
        let until = bench.clock.now() + punctual::jiff::SignedDuration::from_secs(timeout);
        let (workers, request) = (workers.clone(), request.clone());
        tokio::spawn(async move { workers.claim_within(request, until).await.unwrap() })
    };
    let waiting = wait(120);
    bench.advance(seconds(10)).await;
    assert!(!waiting.is_finished());
    publisher.publish("mail", "now").await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(waiting.await.unwrap().len(), 1, "at once");
    let waiting = wait(120);
    run_until_idle().await;
    publisher.publish("mail", "later").after(seconds(30)).await.unwrap();
    bench.advance(seconds(29)).await;
    assert!(!waiting.is_finished());
    bench.advance(seconds(1)).await;
    assert_eq!(waiting.await.unwrap().len(), 1, "when it is due");
    let waiting = wait(120);
    bench.advance(seconds(120)).await;
    assert!(waiting.await.unwrap().is_empty(), "and no longer than requested");
    bench.punctual.queues().pause("default").unwrap();
    publisher.publish("mail", "held").await.unwrap();
    let waiting = wait(120);
    bench.advance(seconds(60)).await;
    assert!(!waiting.is_finished());
    bench.punctual.queues().resume("default").unwrap();
    bench.run_until_idle().await;
    assert_eq!(waiting.await.unwrap().len(), 1);
    let waiting = wait(120);
    run_until_idle().await;
    bench.punctual.shutdown().await;
    assert!(waiting.await.unwrap().is_empty(), "a process that stops ends every wait");
}

#[tokio::test]
async fn waiting_for_a_queue_ends_when_something_may_be_due() {
    let bench = bench_without_worker().await;
    let (workers, publisher) = (bench.punctual.http_workers(), bench.punctual.publisher());
    let until = instant("2026-03-02T07:02:00Z");
    let wait = || {
        let workers = workers.clone();
        tokio::spawn(async move { workers.wait_for("default", until).await.unwrap() })
    };
    let waiting = wait();
    run_until_idle().await;
    publisher.publish("mail", "later").after(seconds(30)).await.unwrap();
    bench.advance(seconds(30)).await;
    assert!(waiting.await.unwrap());
    claim_one(&workers).await;
    let waiting = wait();
    // The lease would come back to the queue.
    bench.advance(seconds(20)).await;
    assert!(!waiting.is_finished());
    bench.advance(seconds(300)).await;
    assert!(waiting.await.unwrap(), "what a vanished worker had is due again");
}

#[tokio::test]
async fn any_process_settles_a_message_that_another_one_claimed_for_a_worker() {
    let world = world();
    let first = Bench::start_in(world.clone(), without_worker).await;
    let second = Bench::start_in(world, without_worker).await;
    let sent = first.punctual.publisher().publish("mail", &()).await.unwrap();
    first.advance(seconds(2)).await;
    let work = claim_one(&first.punctual.http_workers()).await;
    first.punctual.shutdown().await;
    second.advance(seconds(5)).await;
    let report = HttpWorkerReport::new(Outcome::Done);
    let settled = second.punctual.http_workers().settle(WORKER, work.ticket, report).await;
    assert_eq!(settled.unwrap(), SettleResult::Applied);
    let execution = &history(&second.storage, sent.id).await[0];
    assert_eq!((execution.id, execution.started_at), (work.ticket.execution, work.started_at));
}

#[tokio::test]
async fn a_follower_gets_the_result_of_the_worker() {
    let bench = bench_without_worker().await;
    let (workers, publisher) = (bench.punctual.http_workers(), bench.punctual.publisher());
    let next = publisher.publish("second", &());
    publisher.publish("first", &()).then(next).await.unwrap();
    let work = claim_one(&workers).await;
    let result = Some(Body::json(&42).unwrap());
    let report =
        HttpWorkerReport { result: result.clone(), ..HttpWorkerReport::new(Outcome::Done) };
    workers.settle(WORKER, work.ticket, report).await.unwrap();
    let second = claim_one(&workers).await;
    let parent = second.claimed.message.relations.as_ref().unwrap().parent.clone().unwrap();
    assert_eq!((parent.execution, parent.result), (work.ticket.execution, result));
}

#[tokio::test]
async fn a_claim_that_cannot_work_is_refused_by_field() {
    let bench = bench_without_worker().await;
    let workers = bench.punctual.http_workers();
    let relay = Queue::of_relay(&punctual::model::TransportName::new("post").unwrap());
    for (wrong, part) in [
        (claim_request(0), "0 messages"),
        (claim_request(1_001), "1001 messages"),
        (HttpWorkerClaim { lease: seconds(0), ..claim_request(1) }, "a lease of 0ns"),
        (HttpWorkerClaim { lease: seconds(86_401), ..claim_request(1) }, "a lease of 86401s"),
        (HttpWorkerClaim { queue: relay, ..claim_request(1) }, "~relay/post"),
        (
            HttpWorkerClaim { worker: bench.punctual.process_id(), ..claim_request(1) },
            "the id of this process",
        ),
    ] {
        let error = workers.claim(wrong).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(part), "{error}");
    }
    let error = workers.extend(WORKER, &[], seconds(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    bench.punctual.shutdown().await;
    assert_eq!(workers.claim(claim_request(1)).await.unwrap_err().kind(), ErrorKind::Unavailable);
}

// The rescuer frees what a vanished worker had when its lease ends, not before.
#[tokio::test]
async fn a_worker_that_vanishes_is_rescued_after_its_lease_and_not_before() {
    let bench = bench_without_worker().await;
    let workers = bench.punctual.http_workers();
    let sent = bench.punctual.publisher().publish("mail", &()).await.unwrap();
    let long =
        workers.claim(HttpWorkerClaim { lease: seconds(600), ..claim_request(1) }).await.unwrap();
    // A short lease of the same worker does not shorten the long one.
    bench.punctual.publisher().publish("mail", &()).await.unwrap();
    workers.claim(HttpWorkerClaim { lease: seconds(5), ..claim_request(1) }).await.unwrap();
    bench.advance(seconds(590)).await;
    let record = bench.message(sent.id).await;
    assert_eq!(record.lease_ref(), Some(long[0].ticket.lease));
    let rescued = |event: &Event| matches!(event, Event::LeasesRescued { .. });
    let mut events = bench.punctual.events().listen();
    bench.advance(seconds(60)).await;
    assert!(std::iter::from_fn(|| events.try_recv().ok()).any(|event| rescued(&event)));
    assert_eq!(bench.message(sent.id).await.state, MessageState::Pending);
}
