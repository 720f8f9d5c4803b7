//! Workers elsewhere: they claim, extend, keep, settle and release by way of a process, and what they report
//! leads to what an attempt here would lead to.

use std::sync::Arc;

use punctual::client::{
    AssignedMessage, AttemptTicket, HttpWorkerClaim, HttpWorkerReport, HttpWorkers,
};
use punctual::inspect::ExecutionFilter;
use punctual::model::{
    Body, DeadReason, Ending, ExecutionId, HandlerOptions, LeaseRef, MessageState, ProcessId,
    Queue, SkipReason,
};
use punctual::storage::{CommandResult, ExtendResult, SettleResult};
use punctual::uuid::Uuid;
use punctual::{Builder, ErrorKind, Event, Job, Outcome, Retry, Roles};

use crate::acting::{endings, executions, failing, history, retrying};
use crate::harness::{Bench, Log, instant, rest, seconds, world};

const WORKER: ProcessId = ProcessId::from_uuid(Uuid::from_u128(7));

fn ask(limit: usize) -> HttpWorkerClaim {
    HttpWorkerClaim {
        queue: Queue::default(),
        topics: None,
        worker: WORKER,
        limit,
        lease: seconds(30),
    }
}

/// A process that handles nothing itself.
async fn office() -> Bench {
    Bench::start(no_worker).await
}

fn no_worker(builder: Builder) -> Builder {
    builder.roles(Roles { worker: false, ..Roles::ALL })
}

async fn one(remote: &HttpWorkers) -> AssignedMessage {
    let mut assigned = remote.claim(ask(10)).await.unwrap();
    assert_eq!(assigned.len(), 1);
    assigned.remove(0)
}

#[tokio::test]
async fn a_message_is_handled_elsewhere_and_recorded_like_any_other() {
    let bench = office().await;
    let (remote, publisher) = (bench.punctual.http_workers(), bench.punctual.publisher());
    let mut events = bench.punctual.events().listen();
    let sent = publisher.publish("mail", "hello").key("ada").await.unwrap();
    bench.advance(seconds(5)).await;
    let work = one(&remote).await;
    assert_eq!(work.claimed.message.body.read::<String>().unwrap(), "hello");
    assert_eq!((work.claimed.attempt, work.started_at), (1, instant("2026-03-02T07:00:05Z")));
    assert_eq!(work.claimed.lease.owner, WORKER);
    assert_eq!(bench.message(sent.id).await.state, MessageState::Running);
    assert!(remote.claim(ask(10)).await.unwrap().is_empty(), "it has an owner");
    bench.advance(seconds(20)).await;
    let report = HttpWorkerReport {
        note: Some("sent to one".to_owned()),
        log: vec!["connecting".to_owned(), "sent".to_owned()],
        ..HttpWorkerReport::new(Outcome::Done)
    };
    assert_eq!(remote.settle(WORKER, work.ticket, report).await.unwrap(), SettleResult::Applied);
    let execution = &history(&bench.storage, sent.id).await[0];
    assert_eq!((execution.id, execution.process), (work.ticket.execution, Some(WORKER)));
    assert_eq!((execution.ending, execution.attempt), (Ending::Succeeded, 1));
    assert_eq!(execution.due_at, instant("2026-03-02T07:00:00Z"));
    assert_eq!(execution.started_at, instant("2026-03-02T07:00:05Z"));
    assert_eq!(execution.ended_at, instant("2026-03-02T07:00:25Z"));
    assert_eq!(execution.note.as_deref(), Some("sent to one"));
    assert_eq!(execution.log.as_deref(), Some("connecting\nsent"));
    let told: Vec<&str> = std::iter::from_fn(|| events.try_recv().ok())
        .map(|event| event.name())
        .filter(|name| name.starts_with("attempt."))
        .collect();
    assert_eq!(told, ["attempt.started", "attempt.succeeded"]);
    assert!(bench.punctual.is_resting(), "nothing of it is kept here");
}

/// What became of the messages of one process, after each step.
type Story = Vec<(Vec<Ending>, MessageState, Option<DeadReason>)>;

/// Runs a message with four attempts to its end, here or elsewhere, by what its handler says.
async fn story(says: Outcome, elsewhere: bool) -> (Story, Vec<Option<Arc<str>>>) {
    let handler_options = || retrying(Retry::intervals([seconds(60); 3])).snoozes_max(2);
    let said = says.clone();
    let handler = move |(): ()| {
        let said = said.clone();
        async move { said }
    };
    let bench = Bench::start(|builder| {
        let builder = builder.handler_with("mail", handler_options(), handler);
        if elsewhere { no_worker(builder) } else { builder }
    })
    .await;
    let sent = bench.punctual.publisher().publish("mail", &()).await.unwrap();
    let mut story = Story::new();
    for _ in 0..40 {
        if elsewhere {
            for work in bench.punctual.http_workers().claim(ask(10)).await.unwrap() {
                let report = HttpWorkerReport::new(says.clone());
                let settled =
                    bench.punctual.http_workers().settle(WORKER, work.ticket, report).await;
                assert_eq!(settled.unwrap(), SettleResult::Applied);
            }
        }
        bench.rest().await;
        let record = bench.message(sent.id).await;
        story.push((endings(&bench.storage, sent.id).await, record.state, record.dead));
        bench.advance(seconds(10)).await;
    }
    let notes = history(&bench.storage, sent.id).await.into_iter().map(|one| one.note).collect();
    (story, notes)
}

// The policy decides, and it does not know where an attempt ran.
#[tokio::test]
async fn every_outcome_leads_to_what_it_leads_to_here() {
    for says in [
        Outcome::Done,
        Outcome::RetryAfter(seconds(20)),
        Outcome::Snooze(seconds(30)),
        Outcome::Discard("no such address".to_owned()),
        Outcome::Cancel,
    ] {
        let (here, notes) = story(says.clone(), false).await;
        assert!(!here.last().unwrap().0.is_empty(), "{says:?}");
        assert_eq!(story(says.clone(), true).await, (here, notes), "{says:?}");
    }
}

#[tokio::test]
async fn failures_are_tried_again_and_the_last_one_is_a_dead_letter() {
    let bench = Bench::start(|builder| {
        let handler_options = retrying(Retry::intervals([seconds(60), seconds(60)]));
        no_worker(builder.handler_with("mail", handler_options, failing::<()>(&Log::default())))
    })
    .await;
    let remote = bench.punctual.http_workers();
    let sent = bench.punctual.publisher().publish("mail", &()).await.unwrap();
    for attempt in 1..=3 {
        let work = one(&remote).await;
        assert_eq!((work.claimed.attempt, work.attempts_max), (attempt, Some(3)));
        let report = HttpWorkerReport::failed(format!("no route {attempt}"));
        remote.settle(WORKER, work.ticket, report).await.unwrap();
        assert!(remote.claim(ask(1)).await.unwrap().is_empty());
        bench.advance(seconds(60)).await;
    }
    let record = bench.message(sent.id).await;
    assert_eq!((record.state, record.dead), (MessageState::Dead, Some(DeadReason::AttemptsSpent)));
    assert_eq!(record.error.as_deref(), Some("no route 3"));
    let events = bench.punctual.events();
    assert_eq!((events.count("attempt.failed"), events.count("message.dead")), (3, 1));
}

#[tokio::test]
async fn an_old_ticket_changes_nothing_and_is_told_so() {
    let bench = office().await;
    let remote = bench.punctual.http_workers();
    let sent = bench.punctual.publisher().publish("mail", &()).await.unwrap();
    let old = one(&remote).await.ticket;
    // Its lease runs out, and the rescuer treats it as a lost attempt.
    bench.advance(seconds(31 + 30)).await;
    assert_eq!(endings(&bench.storage, sent.id).await, [Ending::Lost]);
    assert_eq!(
        remote.extend(WORKER, &[old.lease], seconds(30)).await.unwrap(),
        [ExtendResult::Lost]
    );
    assert_eq!(remote.keep(old, Some(50.into()), None).await.unwrap(), ExtendResult::Lost);
    let report = || HttpWorkerReport::new(Outcome::Done);
    assert_eq!(remote.settle(WORKER, old, report()).await.unwrap(), SettleResult::Lost);
    let new = one(&remote).await.ticket;
    assert_eq!(remote.settle(WORKER, old, report()).await.unwrap(), SettleResult::Lost);
    let other = ProcessId::from_uuid(Uuid::from_u128(8));
    assert_eq!(
        remote.settle(other, new, report()).await.unwrap(),
        SettleResult::Lost,
        "not its own"
    );
    assert_eq!(bench.message(sent.id).await.state, MessageState::Running);
    assert_eq!(bench.punctual.events().count("attempt.succeeded"), 0);
    assert_eq!(remote.settle(WORKER, new, report()).await.unwrap(), SettleResult::Applied);
    assert_eq!(remote.settle(WORKER, new, report()).await.unwrap(), SettleResult::Lost, "twice");
    assert_eq!(endings(&bench.storage, sent.id).await, [Ending::Lost, Ending::Succeeded]);
}

#[tokio::test]
async fn a_ticket_is_text_that_nobody_makes_up() {
    let bench = office().await;
    let remote = bench.punctual.http_workers();
    bench.punctual.publisher().publish("mail", &()).await.unwrap();
    let ticket = one(&remote).await.ticket;
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
    for made_up in [AttemptTicket { execution, ..ticket }, AttemptTicket { lease, ..ticket }] {
        let error =
            remote.settle(WORKER, made_up, HttpWorkerReport::new(Outcome::Done)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}

#[tokio::test]
async fn a_lease_is_kept_as_long_as_it_is_extended() {
    let bench = office().await;
    let remote = bench.punctual.http_workers();
    let sent = bench.punctual.publisher().publish("mail", &()).await.unwrap();
    let work = one(&remote).await;
    for _ in 0..20 {
        bench.advance(seconds(25)).await;
        let answer = remote.extend(WORKER, &[work.ticket.lease], seconds(30)).await.unwrap();
        assert_eq!(answer, [ExtendResult::Held]);
    }
    let asked = bench.punctual.admin().cancel(sent.id).await.unwrap();
    assert_eq!(asked, CommandResult::Requested);
    let answer = remote.extend(WORKER, &[work.ticket.lease], seconds(30)).await.unwrap();
    assert_eq!(answer, [ExtendResult::CancelRequested]);
    let report = HttpWorkerReport::failed("stopped");
    assert_eq!(remote.settle(WORKER, work.ticket, report).await.unwrap(), SettleResult::Applied);
    assert_eq!(bench.message(sent.id).await.state, MessageState::Cancelled);
    assert_eq!(endings(&bench.storage, sent.id).await, [Ending::Cancelled]);
}

#[tokio::test]
async fn what_a_worker_says_on_the_way_is_kept() {
    let bench = office().await;
    let remote = bench.punctual.http_workers();
    let sent = bench.punctual.publisher().publish("mail", &()).await.unwrap();
    let work = one(&remote).await;
    let place = Body::json("page 7").unwrap();
    let kept = remote.keep(work.ticket, Some((40, "reading").into()), Some(place.clone())).await;
    assert_eq!(kept.unwrap(), ExtendResult::Held);
    let progress = bench.message(sent.id).await.progress.unwrap();
    assert_eq!((progress.percent, progress.note.as_deref()), (Some(40), Some("reading")));
    assert_eq!(bench.punctual.events().count("attempt.progressed"), 1);
    remote.settle(WORKER, work.ticket, HttpWorkerReport::failed("torn")).await.unwrap();
    bench.advance(seconds(600)).await;
    assert_eq!(one(&remote).await.claimed.checkpoint, Some(place));
    let huge = Body::raw(vec![b'x'; 2 << 20], "text/plain");
    assert_eq!(
        remote.keep(work.ticket, None, Some(huge)).await.unwrap_err().kind(),
        ErrorKind::Invalid
    );
}

#[tokio::test]
async fn what_is_released_is_due_at_once_and_spends_nothing() {
    let bench = office().await;
    let remote = bench.punctual.http_workers();
    let sent = bench.punctual.publisher().publish("mail", &()).await.unwrap();
    let work = one(&remote).await;
    assert_eq!(remote.release(WORKER, work.ticket).await.unwrap(), SettleResult::Applied);
    let again = one(&remote).await;
    assert_eq!((again.claimed.attempt, again.claimed.crashes), (1, 0));
    assert_eq!(endings(&bench.storage, sent.id).await, [Ending::Released]);
}

// spec: H-21
#[tokio::test]
async fn what_is_reported_after_the_timeout_has_timed_out() {
    let bench = Bench::start(|builder| {
        let handler_options = HandlerOptions::new().timeout(seconds(10));
        no_worker(builder.handler_with("mail", handler_options, |(): ()| async {}))
    })
    .await;
    let remote = bench.punctual.http_workers();
    let sent = bench.punctual.publisher().publish("mail", &()).await.unwrap();
    let work = one(&remote).await;
    assert_eq!(work.deadline, Some(instant("2026-03-02T07:00:10Z")));
    bench.advance(seconds(11)).await;
    remote.settle(WORKER, work.ticket, HttpWorkerReport::new(Outcome::Done)).await.unwrap();
    assert_eq!(endings(&bench.storage, sent.id).await, [Ending::TimedOut]);
    assert_eq!(bench.punctual.events().count("attempt.timed_out"), 1);
}

#[tokio::test]
async fn what_is_too_late_or_cannot_be_read_is_not_handed_out() {
    let bench = Bench::start(|builder| {
        let handler_options = HandlerOptions::new().expires_after(seconds(60));
        no_worker(builder.handler_with("late", handler_options, |(): ()| async {}))
            .options(|options| options.compress_above = Some(100))
    })
    .await;
    let (remote, publisher) = (bench.punctual.http_workers(), bench.punctual.publisher());
    let late = publisher.publish("late", &()).await.unwrap();
    let large = "tea ".repeat(1_000);
    publisher.publish("mail", &large).await.unwrap();
    bench.advance(seconds(61)).await;
    let work = one(&remote).await;
    assert_eq!(work.claimed.message.body.read::<String>().unwrap(), large, "opened");
    bench.rest().await;
    let expired = endings(&bench.storage, late.id).await;
    assert_eq!(expired, [Ending::Skipped(SkipReason::Expired)]);
    remote.settle(WORKER, work.ticket, HttpWorkerReport::new(Outcome::Done)).await.unwrap();
    let small = Bench::start_in((bench.clock.clone(), bench.storage.clone()), |builder| {
        no_worker(builder).options(|options| options.payload_max = 1_000)
    })
    .await;
    let bomb = publisher.publish("mail", &large).await.unwrap();
    assert!(small.punctual.http_workers().claim(ask(1)).await.unwrap().is_empty());
    small.rest().await;
    assert_eq!(small.message(bomb.id).await.dead, Some(DeadReason::Poison));
}

#[tokio::test]
async fn pauses_limits_and_rates_hold_for_workers_elsewhere() {
    let bench = Bench::start(|builder| no_worker(builder).serial_queue("ordered")).await;
    let (remote, publisher) = (bench.punctual.http_workers(), bench.punctual.publisher());
    for _ in 0..3 {
        publisher.publish("mail", &()).queue("ordered").await.unwrap();
    }
    let ordered = || HttpWorkerClaim { queue: Queue::new("ordered").unwrap(), ..ask(10) };
    bench.punctual.queues().pause("ordered").unwrap();
    assert!(remote.claim(ordered()).await.unwrap().is_empty());
    bench.punctual.queues().resume("ordered").unwrap();
    assert_eq!(remote.claim(ordered()).await.unwrap().len(), 1, "one after the other");
    assert!(remote.claim(ordered()).await.unwrap().is_empty());
    let admin = bench.punctual.admin();
    let job = Job::cron("often", "0 0 1 1 *").rate(2, seconds(60));
    admin.declare(job.overlap(punctual::Overlap::Allow { parallel_max: None })).await.unwrap();
    for _ in 0..5 {
        admin.trigger("often", true).await.unwrap();
    }
    assert_eq!(remote.claim(ask(10)).await.unwrap().len(), 2);
    bench.rest().await;
    let filter = ExecutionFilter::default();
    assert!(executions(&bench.storage, filter).await.is_empty(), "the others were not begun");
    bench.advance(seconds(59)).await;
    assert!(remote.claim(ask(10)).await.unwrap().is_empty());
    bench.advance(seconds(1)).await;
    assert_eq!(remote.claim(ask(10)).await.unwrap().len(), 2, "never more than the rate");
}

#[tokio::test]
async fn a_worker_waits_for_something_to_do() {
    let bench = office().await;
    let (remote, publisher) = (bench.punctual.http_workers(), bench.punctual.publisher());
    // Long leases, so that nothing comes back.
    let patient = HttpWorkerClaim { lease: seconds(3_600), ..ask(10) };
    let wait = |length: i64| {
        let until = bench.clock.now() + punctual::jiff::SignedDuration::from_secs(length);
        let (remote, patient) = (remote.clone(), patient.clone());
        tokio::spawn(async move { remote.claim_within(patient, until).await.unwrap() })
    };
    let waiting = wait(120);
    bench.advance(seconds(10)).await;
    assert!(!waiting.is_finished());
    publisher.publish("mail", "now").await.unwrap();
    bench.rest().await;
    assert_eq!(waiting.await.unwrap().len(), 1, "at once");
    let waiting = wait(120);
    rest().await;
    publisher.publish("mail", "later").after(seconds(30)).await.unwrap();
    bench.advance(seconds(29)).await;
    assert!(!waiting.is_finished());
    bench.advance(seconds(1)).await;
    assert_eq!(waiting.await.unwrap().len(), 1, "when it is due");
    let waiting = wait(120);
    bench.advance(seconds(120)).await;
    assert!(waiting.await.unwrap().is_empty(), "and no longer than asked for");
    bench.punctual.queues().pause("default").unwrap();
    publisher.publish("mail", "held").await.unwrap();
    let waiting = wait(120);
    bench.advance(seconds(60)).await;
    assert!(!waiting.is_finished());
    bench.punctual.queues().resume("default").unwrap();
    bench.rest().await;
    assert_eq!(waiting.await.unwrap().len(), 1);
    let waiting = wait(120);
    rest().await;
    bench.punctual.shutdown().await;
    assert!(waiting.await.unwrap().is_empty(), "a process that stops lets nobody wait");
}

#[tokio::test]
async fn waiting_for_a_queue_ends_when_something_may_be_due() {
    let bench = office().await;
    let (remote, publisher) = (bench.punctual.http_workers(), bench.punctual.publisher());
    let until = instant("2026-03-02T07:02:00Z");
    let wait = || {
        let remote = remote.clone();
        tokio::spawn(async move { remote.wait_for("default", until).await.unwrap() })
    };
    let waiting = wait();
    rest().await;
    publisher.publish("mail", "later").after(seconds(30)).await.unwrap();
    bench.advance(seconds(30)).await;
    assert!(waiting.await.unwrap());
    one(&remote).await;
    let waiting = wait();
    // The lease would come back to the queue.
    bench.advance(seconds(20)).await;
    assert!(!waiting.is_finished());
    bench.advance(seconds(300)).await;
    assert!(waiting.await.unwrap(), "what a vanished worker had is due again");
}

#[tokio::test]
async fn any_process_settles_what_another_one_handed_out() {
    let world = world();
    let first = Bench::start_in(world.clone(), no_worker).await;
    let second = Bench::start_in(world, no_worker).await;
    let sent = first.punctual.publisher().publish("mail", &()).await.unwrap();
    first.advance(seconds(2)).await;
    let work = one(&first.punctual.http_workers()).await;
    first.punctual.shutdown().await;
    second.advance(seconds(5)).await;
    let report = HttpWorkerReport::new(Outcome::Done);
    let settled = second.punctual.http_workers().settle(WORKER, work.ticket, report).await;
    assert_eq!(settled.unwrap(), SettleResult::Applied);
    let execution = &history(&second.storage, sent.id).await[0];
    assert_eq!((execution.id, execution.started_at), (work.ticket.execution, work.started_at));
}

#[tokio::test]
async fn what_follows_sees_what_the_worker_returned() {
    let bench = office().await;
    let (remote, publisher) = (bench.punctual.http_workers(), bench.punctual.publisher());
    let next = publisher.publish("second", &());
    publisher.publish("first", &()).then(next).await.unwrap();
    let work = one(&remote).await;
    let result = Some(Body::json(&42).unwrap());
    let report =
        HttpWorkerReport { result: result.clone(), ..HttpWorkerReport::new(Outcome::Done) };
    remote.settle(WORKER, work.ticket, report).await.unwrap();
    let second = one(&remote).await;
    let parent = second.claimed.message.relations.as_ref().unwrap().parent.clone().unwrap();
    assert_eq!((parent.execution, parent.result), (work.ticket.execution, result));
}

#[tokio::test]
async fn what_cannot_be_asked_for_is_refused_by_name() {
    let bench = office().await;
    let remote = bench.punctual.http_workers();
    let relay = Queue::of_relay(&punctual::model::TransportName::new("post").unwrap());
    for (wrong, part) in [
        (ask(0), "0 messages"),
        (ask(1_001), "1001 messages"),
        (HttpWorkerClaim { lease: seconds(0), ..ask(1) }, "a lease of 0ns"),
        (HttpWorkerClaim { lease: seconds(86_401), ..ask(1) }, "a lease of 86401s"),
        (HttpWorkerClaim { queue: relay, ..ask(1) }, "~relay/post"),
        (HttpWorkerClaim { worker: bench.punctual.process_id(), ..ask(1) }, "this process itself"),
    ] {
        let error = remote.claim(wrong).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(part), "{error}");
    }
    let error = remote.extend(WORKER, &[], seconds(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    bench.punctual.shutdown().await;
    assert_eq!(remote.claim(ask(1)).await.unwrap_err().kind(), ErrorKind::Unavailable);
}

// The rescuer frees what a vanished worker had when its lease ends, not before.
#[tokio::test]
async fn a_worker_that_vanishes_is_rescued_after_its_lease_and_not_before() {
    let bench = office().await;
    let remote = bench.punctual.http_workers();
    let sent = bench.punctual.publisher().publish("mail", &()).await.unwrap();
    let long = remote.claim(HttpWorkerClaim { lease: seconds(600), ..ask(1) }).await.unwrap();
    // A short lease of the same worker does not shorten the long one.
    bench.punctual.publisher().publish("mail", &()).await.unwrap();
    remote.claim(HttpWorkerClaim { lease: seconds(5), ..ask(1) }).await.unwrap();
    bench.advance(seconds(590)).await;
    let record = bench.message(sent.id).await;
    assert_eq!(record.lease_ref(), Some(long[0].ticket.lease));
    let rescued = |event: &Event| matches!(event, Event::LeasesRescued { .. });
    let mut events = bench.punctual.events().listen();
    bench.advance(seconds(60)).await;
    assert!(std::iter::from_fn(|| events.try_recv().ok()).any(|event| rescued(&event)));
    assert_eq!(bench.message(sent.id).await.state, MessageState::Pending);
}
