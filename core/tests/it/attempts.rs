//! Attempts: concurrency and order, the outcomes a handler may return, and the recorded history.

use punctual::inspect::{MessageFilter, PageRequest};
use punctual::model::{DeadReason, Ending, MessageState, Recording};
use punctual::{Context, Event, Inspect, Outcome, Punctual, Retry};
use serde::{Deserialize, Serialize};

use crate::faulty_storage::FaultyStorage;
use crate::harness::{Bench, Log, instant, run_until_idle, seconds, world};
use crate::test_handlers::{Gate, endings, failing, history, logging, retrying, waiting};

async fn in_state(bench: &Bench, state: MessageState) -> usize {
    let filter = MessageFilter { states: vec![state], ..MessageFilter::default() };
    bench.storage.messages(filter, PageRequest::first(999)).await.unwrap().rows.len()
}

// Only what can start is claimed, so a crash strands no more than that.
// spec: T-32, U-10
#[tokio::test]
async fn no_more_is_claimed_than_can_start() {
    let (log, gate) = (Log::default(), Gate::shut());
    let bench = Bench::start(|builder| {
        builder.queue("default", 3).handler("work", waiting::<()>(&log, &gate))
    })
    .await;
    let publisher = bench.punctual.publisher();
    let mut first = None;
    for _ in 0..10 {
        let sent = publisher.publish("work", &()).await.unwrap();
        first.get_or_insert(sent.id);
    }
    bench.advance(seconds(5)).await;
    assert_eq!(
        (
            in_state(&bench, MessageState::Running).await,
            in_state(&bench, MessageState::Pending).await
        ),
        (3, 7)
    );
    let lease = bench.message(first.unwrap()).await.lease.unwrap();
    assert_eq!(lease.until, instant("2026-03-02T07:05:00Z"), "from the moment it was claimed");
    gate.open(1);
    bench.run_until_idle().await;
    assert_eq!(
        (
            in_state(&bench, MessageState::Running).await,
            in_state(&bench, MessageState::Pending).await
        ),
        (3, 6)
    );
    gate.open(9);
    bench.run_until_idle().await;
    assert_eq!(in_state(&bench, MessageState::Done).await, 10);
}

// Decision 3.27: a queue that runs one at a time keeps the order.
// spec: T-27
#[tokio::test]
async fn one_at_a_time_keeps_the_order_also_of_earlier_messages() {
    let log = Log::default();
    let world = world();
    let sender = Bench::start_in(world.clone(), |builder| {
        builder.options(|options| options.handling = false)
    })
    .await;
    let publisher = sender.punctual.publisher();
    for number in 0..5 {
        publisher.publish("work", &number).await.unwrap();
    }
    let worker = Bench::start_in(world, |builder| {
        builder
            .queue("default", 1)
            .handler("work", logging::<u32>(&log, |number, _| number.to_string()))
    })
    .await;
    for number in 5..9 {
        publisher.publish("work", &number).await.unwrap();
    }
    worker.run_until_idle().await;
    assert_eq!(log.lines().concat(), "012345678");
}

// spec: U-49
#[tokio::test]
async fn the_highest_priority_goes_first() {
    let log = Log::default();
    let world = world();
    let sender = Bench::start_in(world.clone(), |builder| {
        builder.options(|options| options.handling = false)
    })
    .await;
    let publisher = sender.punctual.publisher();
    for (name, priority) in [("normal", 5), ("last", 0), ("first", 9), ("high", 7)] {
        publisher.publish("work", name).priority(priority).await.unwrap();
    }
    publisher.publish("work", "unmarked").await.unwrap();
    let _worker = Bench::start_in(world, |builder| {
        builder.queue("default", 1).handler("work", logging::<String>(&log, |name, _| name.clone()))
    })
    .await;
    assert_eq!(log.lines(), ["first", "high", "normal", "unmarked", "last"]);
}

// spec: U-54
#[tokio::test]
async fn a_worker_wakes_at_the_due_time_and_not_at_the_next_poll() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder
            .options(|options| options.poll_interval = seconds(3_600))
            .handler("work", logging::<()>(&log, |(), context| context.started_at().to_string()))
    })
    .await;
    let publisher = bench.punctual.publisher();
    publisher.publish("work", &()).after(seconds(100)).await.unwrap();
    bench.run_until_idle().await;
    // An earlier message notifies the waiting worker.
    publisher.publish("work", &()).after(seconds(7)).await.unwrap();
    bench.advance(seconds(200)).await;
    assert_eq!(log.lines(), ["2026-03-02T07:00:07Z", "2026-03-02T07:01:40Z"]);
}

#[derive(Debug, Serialize, Deserialize)]
struct Invoice {
    number: u32,
    lines: Vec<String>,
}

// spec: U-51, T-8
#[tokio::test]
async fn a_handler_gets_its_own_type_and_its_attempt_number() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder.handler_with(
            "bill",
            retrying(Retry::none()),
            logging::<Invoice>(&log, |invoice, context| {
                assert!(context.is_last_attempt());
                assert_eq!(context.execution_id().to_string().len(), 36);
                let tenant = context.headers().get("tenant").unwrap();
                format!("{} {:?} {tenant} {:?}", invoice.number, invoice.lines, context.key())
            }),
        )
    })
    .await;
    let invoice = Invoice { number: 7, lines: vec!["tea".to_owned()] };
    let publish = bench.punctual.publisher().publish("bill", &invoice);
    publish.header("tenant", "acme").key("order-7").await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["7 [\"tea\"] acme Some(\"order-7\")"]);
}

// spec: T-5, T-9, T-10
#[tokio::test]
async fn the_outcome_a_handler_returns_is_applied() {
    let bench = Bench::start(|builder| {
        builder.handler_with(
            "say",
            retrying(Retry::intervals([seconds(10)])),
            |word: String, context: Context| async move {
                match (word.as_str(), context.attempt()) {
                    ("retry", 1) => Ok(Outcome::RetryAfter(seconds(77))),
                    ("discard", _) => Ok(Outcome::Discard("not ours".to_owned())),
                    ("cancel", _) => Ok(Outcome::Cancel),
                    ("fail", _) => Err("no route"),
                    _ => Ok(Outcome::Done),
                }
            },
        )
    })
    .await;
    let cases = [
        ("done", MessageState::Done, vec![Ending::Succeeded]),
        ("retry", MessageState::Done, vec![Ending::Failed, Ending::Succeeded]),
        ("discard", MessageState::Dead, vec![Ending::Discarded]),
        ("cancel", MessageState::Cancelled, vec![Ending::Cancelled]),
        ("fail", MessageState::Dead, vec![Ending::Failed, Ending::Failed]),
    ];
    for (word, state, expected) in cases {
        let sent = bench.punctual.publisher().publish("say", word).await.unwrap();
        bench.advance(seconds(100)).await;
        assert_eq!(bench.message(sent.id).await.state, state, "{word}");
        assert_eq!(endings(&bench.storage, sent.id).await, expected, "{word}");
        let history = history(&bench.storage, sent.id).await;
        let waited = history.last().unwrap().started_at.duration_since(history[0].started_at);
        let expected = match word {
            "retry" => 77,
            "fail" => 10,
            _ => 0,
        };
        assert_eq!(waited.as_secs(), expected, "{word}");
    }
}

#[tokio::test]
async fn an_endless_snooze_becomes_a_failure() {
    let handler_options = retrying(Retry::none()).snoozes_max(3);
    let bench = Bench::start(|builder| {
        builder.handler_with("nap", handler_options, |(): (), _: Context| async {
            Outcome::Snooze(seconds(1))
        })
    })
    .await;
    let sent = bench.punctual.publisher().publish("nap", &()).await.unwrap();
    bench.advance(seconds(60)).await;
    let expected = [Ending::Snoozed, Ending::Snoozed, Ending::Snoozed, Ending::Failed];
    assert_eq!(endings(&bench.storage, sent.id).await, expected);
    assert_eq!(bench.message(sent.id).await.dead, Some(DeadReason::AttemptsSpent));
}

// Progress is no result: only the returned outcome counts.
// spec: T-8, T-11, T-70, C-4
#[tokio::test]
async fn progress_and_results_are_reported_as_they_happen() {
    let bench = Bench::start(|builder| {
        builder.handler_with(
            "work",
            retrying(Retry::none()),
            |fails: bool, context: Context| async move {
                context.progress("half way");
                if fails { Err("stopped half way") } else { Ok(()) }
            },
        )
    })
    .await;
    let mut events = bench.punctual.events().listen();
    for fails in [false, true] {
        bench.punctual.publisher().publish("work", &fails).await.unwrap();
        bench.run_until_idle().await;
    }
    let mut recorded = Vec::new();
    while let Ok(event) = events.try_recv() {
        recorded.push(match &*event {
            Event::AttemptProgressed { note, .. } => format!("{} {note}", event.name()),
            Event::AttemptFailed { error, .. } => {
                format!("{} {}", event.name(), error.as_deref().unwrap())
            }
            _ => event.name().to_owned(),
        });
    }
    let expected = [
        "message.enqueued",
        "attempt.started",
        "attempt.progressed half way",
        "attempt.succeeded",
        "message.enqueued",
        "attempt.started",
        "attempt.progressed half way",
        "attempt.failed stopped half way",
        "message.dead",
    ];
    assert_eq!(recorded, expected);
}

// Decision 3.34.
#[tokio::test]
async fn history_is_kept_as_the_options_say() {
    for (recording, kept) in [(Recording::All, 3), (Recording::Failures, 2), (Recording::None, 0)] {
        let handler_options =
            retrying(Retry::intervals([seconds(1)]).attempts(3)).recording(recording);
        let bench = Bench::start(|builder| {
            builder.handler_with("work", handler_options, |(): (), context: Context| async move {
                if context.attempt() < 3 { Err("again") } else { Ok(()) }
            })
        })
        .await;
        let sent = bench.punctual.publisher().publish("work", &()).await.unwrap();
        bench.advance(seconds(10)).await;
        assert_eq!(bench.message(sent.id).await.state, MessageState::Done);
        assert_eq!(endings(&bench.storage, sent.id).await.len(), kept, "{recording:?}");
    }
}

// Decision 3.8: both numbers are shown, and nothing else is compared.
#[tokio::test]
async fn attempts_are_counted_from_one_up_to_their_maximum() {
    let log = Log::default();
    let handler_options = retrying(Retry::intervals([seconds(1), seconds(5)]).retries_max(4));
    let bench =
        Bench::start(|builder| builder.handler_with("work", handler_options, failing::<()>(&log)))
            .await;
    let sent = bench.punctual.publisher().publish("work", &()).await.unwrap();
    bench.advance(seconds(60)).await;
    let history = history(&bench.storage, sent.id).await;
    let attempts: Vec<_> = history.iter().map(|run| (run.attempt, run.attempts_max)).collect();
    assert_eq!(attempts, (1..=5).map(|attempt| (attempt, Some(5))).collect::<Vec<_>>());
    let seconds: Vec<String> = log.lines().iter().map(|line| line[19..21].to_owned()).collect();
    assert_eq!(seconds, ["00", "01", "06", "11", "16"], "the last interval repeats");
}

#[tokio::test]
async fn a_batch_is_stored_as_one_and_duplicates_are_reported() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder.handler("work", logging::<u32>(&log, |number, _| number.to_string()))
    })
    .await;
    let publisher = bench.punctual.publisher();
    let alive = publisher.publish("work", &0).unique("order-7").after(seconds(60)).await.unwrap();
    let batch = vec![
        publisher.publish("work", &1),
        publisher.publish("work", &2).unique("order-7"),
        publisher.publish("work", &3).unique("order-8"),
    ];
    let published = publisher.publish_all(batch).await.unwrap();
    let duplicates: Vec<_> = published.iter().map(|one| one.duplicate_of).collect();
    assert_eq!(duplicates, [None, Some(alive.id), None]);
    assert_eq!(bench.punctual.events().count("message.duplicate"), 1);
    let bad = vec![publisher.publish("work", &4), publisher.publish("", &5)];
    assert!(publisher.publish_all(bad).await.is_err());
    bench.advance(seconds(60)).await;
    let mut lines = log.lines();
    lines.sort();
    assert_eq!(lines, ["0", "1", "3"]);
    let again = publisher.publish("work", &9).id(alive.id).after(seconds(60)).await.unwrap();
    assert_eq!(again.id, alive.id);
}

#[tokio::test]
async fn a_storage_that_settles_slowly_limits_the_claims() {
    let (clock, storage) = world();
    let faulty = FaultyStorage::over(&storage);
    let log = Log::default();
    let punctual = Punctual::builder()
        .clock(clock.clone())
        .storage(faulty.clone())
        .queue("default", 10)
        .handler("work", logging::<u32>(&log, |number, _| number.to_string()))
        .build()
        .unwrap();
    let publisher = punctual.publisher();
    let many = (0..20_000_u32).map(|number| publisher.publish("work", &number)).collect();
    publisher.publish_all(many).await.unwrap();
    faulty.fail(&["settle"]);
    punctual.start().await.unwrap();
    for _ in 0..2_000 {
        run_until_idle().await;
    }
    // One batch being written, four that wait for it, and the slots.
    assert!((1_000..=6_000).contains(&log.len()), "{} were handled", log.len());
    faulty.heal();
    let bench = Bench { clock, storage, punctual };
    for _ in 0..100 {
        bench.advance(seconds(1)).await;
    }
    assert_eq!(log.len(), 20_000);
}
