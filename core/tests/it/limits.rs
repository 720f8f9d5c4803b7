//! Limits of messages and jobs, serial queues, fairness between priorities, uniqueness and expiry.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use punctual::model::{Ending, MessageState, SkipReason};
use punctual::{Context, ErrorKind, Inspect, Job, Outcome, Overlap};

use crate::harness::{Bench, Log, seconds, world};
use crate::test_handlers::{Gate, endings, history, logging, waiting};

#[tokio::test]
async fn no_more_of_a_limit_run_in_parallel_on_all_processes_together() {
    let (log, gate) = (Log::default(), Gate::shut());
    let world = world();
    let start = || {
        Bench::start_in(world.clone(), |builder| {
            builder.handler("mail", waiting::<()>(&log, &gate))
        })
    };
    let (one, _other) = (start().await, start().await);
    let publisher = one.punctual.publisher();
    for _ in 0..5 {
        publisher.publish("mail", &()).limit("smtp", 2).await.unwrap();
    }
    one.run_until_idle().await;
    assert_eq!(log.lines(), ["began", "began"]);
    gate.open(1);
    one.run_until_idle().await;
    assert_eq!(log.lines(), ["began", "began", "ended", "began"]);
    gate.open(4);
    one.run_until_idle().await;
    assert_eq!(log.len(), 10);
}

#[tokio::test]
async fn messages_about_one_key_are_handled_one_at_a_time_and_others_beside_them() {
    let (log, gate) = (Log::default(), Gate::shut());
    let bench = Bench::start(|builder| {
        let (log, gate) = (log.clone(), gate.clone());
        builder.handler("order", move |(): (), context: Context| {
            let (log, gate) = (log.clone(), gate.clone());
            async move {
                log.push(context.key().unwrap().as_str());
                gate.pass().await;
            }
        })
    })
    .await;
    let publisher = bench.punctual.publisher();
    for key in ["7", "7", "8"] {
        publisher.publish("order", &()).key(key).one_at_a_time().await.unwrap();
    }
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["7", "8"]);
    gate.open(1);
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["7", "8", "7"]);
    let error = publisher.publish("order", &()).one_at_a_time().await.unwrap_err();
    assert!(error.to_string().contains("call key() before it"), "{error}");
}

#[tokio::test]
async fn a_rate_holds_on_all_processes_and_spends_no_attempt() {
    let log = Log::default();
    let world = world();
    let start = || {
        Bench::start_in(world.clone(), |builder| {
            builder.handler(
                "mail",
                logging::<()>(&log, |(), context| {
                    format!("{} {}", context.started_at(), context.attempt())
                }),
            )
        })
    };
    let (one, _other) = (start().await, start().await);
    let publisher = one.punctual.publisher();
    let mut last = None;
    for _ in 0..20 {
        let sent = publisher.publish("mail", &()).rate("smtp", 5, seconds(10));
        last = Some(sent.await.unwrap().id);
    }
    one.run_until_idle().await;
    assert_eq!(log.len(), 5, "a silent limit may be used at once");
    one.advance(seconds(9)).await;
    assert_eq!(log.len(), 5, "and then not for its whole span");
    one.advance(seconds(1)).await;
    assert_eq!(log.len(), 6);
    one.advance(seconds(28)).await;
    assert_eq!(log.len(), 20);
    assert!(log.lines().iter().all(|line| line.ends_with(" 1")), "{:?}", log.lines());
    assert_eq!(endings(&one.storage, last.unwrap()).await, [Ending::Succeeded]);
}

#[tokio::test]
async fn a_job_has_a_limit_of_its_own() {
    let (log, gate) = (Log::default(), Gate::shut());
    let bench = Bench::start(|builder| {
        let job = Job::every("report", seconds(60))
            .overlap(Overlap::Allow { parallel_max: Some(9) })
            .concurrency(2);
        builder.job(job, waiting::<punctual::Occurrence>(&log, &gate))
    })
    .await;
    bench.advance(seconds(300)).await;
    assert_eq!(log.lines(), ["began", "began"]);
    gate.open(9);
    bench.run_until_idle().await;
    assert_eq!(log.len(), 10);
}

// Decision 3.27.
// spec: T-27
#[tokio::test]
async fn a_serial_queue_is_worked_on_one_by_one_and_in_order_by_all_processes() {
    let (log, running) = (Log::default(), Arc::new(AtomicUsize::new(0)));
    let world = world();
    let start = || {
        Bench::start_in(world.clone(), |builder| {
            let (log, running) = (log.clone(), running.clone());
            builder.serial_queue("ledger").handler("entry", move |number: u64, _: Context| {
                let (log, running) = (log.clone(), running.clone());
                async move {
                    assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0, "one at a time");
                    tokio::task::yield_now().await;
                    log.push(number.to_string());
                    running.fetch_sub(1, Ordering::SeqCst);
                }
            })
        })
    };
    let (one, _other) = (start().await, start().await);
    let publisher = one.punctual.publisher();
    for number in 0..20 {
        publisher.publish("entry", &number).queue("ledger").await.unwrap();
    }
    one.advance(seconds(1_200)).await;
    assert_eq!(log.lines(), (0..20).map(|number| number.to_string()).collect::<Vec<_>>());
}

// spec: U-49
#[tokio::test]
async fn the_least_urgent_is_not_starved_by_a_flood() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        let tell = logging::<String>(&log, |name, _| name.clone());
        builder.queue("default", 1).handler("say", tell)
    })
    .await;
    let publisher = bench.punctual.publisher();
    let mut flood = vec![publisher.publish("say", "last").priority(0)];
    flood.extend((0..300).map(|_| publisher.publish("say", "urgent").priority(9)));
    publisher.publish_all(flood).await.unwrap();
    for _ in 0..40 {
        bench.run_until_idle().await;
    }
    let lines = log.lines();
    let place = lines.iter().position(|line| line == "last").unwrap();
    assert!(place > 0 && place < 200, "its turn came at {place} of {}", lines.len());
}

#[tokio::test]
async fn uniqueness_can_end_with_the_start_or_last_for_a_time() {
    let gate = Gate::shut();
    let log = Log::default();
    let bench = Bench::start(|builder| builder.handler("sync", waiting::<()>(&log, &gate))).await;
    let publisher = bench.punctual.publisher();
    let pending = || publisher.publish("sync", &()).unique("a").while_pending();
    let first = pending().after(seconds(1)).await.unwrap();
    assert_eq!(pending().await.unwrap().duplicate_of, Some(first.id));
    bench.advance(seconds(1)).await;
    assert_eq!(pending().await.unwrap().duplicate_of, None, "the first one runs");
    let hourly = || publisher.publish("sync", &()).unique("b").for_period(seconds(3_600));
    let first = hourly().await.unwrap();
    gate.open(9);
    bench.advance(seconds(3_599)).await;
    assert_eq!(bench.message(first.id).await.state, MessageState::Done);
    assert_eq!(hourly().await.unwrap().duplicate_of, Some(first.id));
    bench.advance(seconds(1)).await;
    assert_eq!(hourly().await.unwrap().duplicate_of, None);
}

#[tokio::test]
async fn an_expired_message_is_skipped_and_reported() {
    let log = Log::default();
    let world = world();
    let sender = Bench::start_in(world.clone(), |builder| {
        builder.options(|options| options.handling = false)
    })
    .await;
    let publisher = sender.punctual.publisher();
    let in_time = publisher.publish("say", "in time").expires_after(seconds(60)).await.unwrap();
    let late = publisher.publish("say", "late").expires_after(seconds(59)).await.unwrap();
    sender.advance(seconds(60)).await;
    let bench = Bench::start_in(world, |builder| {
        builder.handler("say", logging::<String>(&log, |name, _| name.clone()))
    })
    .await;
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["in time"]);
    assert_eq!(endings(&bench.storage, in_time.id).await, [Ending::Succeeded]);
    let expired = history(&bench.storage, late.id).await;
    assert_eq!(expired[0].ending, Ending::Skipped(SkipReason::Expired));
    assert_eq!(bench.message(late.id).await.state, MessageState::Cancelled);
}

// spec: U-52
#[tokio::test]
async fn a_handler_may_skip_itself_while_another_one_runs() {
    let (log, gate) = (Log::default(), Gate::shut());
    let bench = Bench::start(|builder| {
        let (log, gate) = (log.clone(), gate.clone());
        builder.handler("sync", move |name: String, context: Context| {
            let (log, gate) = (log.clone(), gate.clone());
            async move {
                if context.others_running().await? > 0 {
                    log.push(format!("{name} skips"));
                    return Ok::<_, punctual::Error>(Outcome::Cancel);
                }
                log.push(format!("{name} runs"));
                gate.pass().await;
                Ok(Outcome::Done)
            }
        })
    })
    .await;
    let publisher = bench.punctual.publisher();
    for name in ["first", "second"] {
        publisher.publish("sync", name).await.unwrap();
        bench.run_until_idle().await;
    }
    assert_eq!(log.lines(), ["first runs", "second skips"]);
}

#[tokio::test]
async fn a_long_handler_resumes_where_it_stopped() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        let log = log.clone();
        builder.handler("import", move |(): (), context: Context| {
            let log = log.clone();
            async move {
                let begin: u64 = context.resumed()?.unwrap_or(0);
                log.push(format!("attempt {} from {begin}", context.attempt()));
                context.checkpoint(&(begin + 10)).await?;
                if begin < 20 {
                    return Err(punctual::Error::unavailable("the line broke"));
                }
                Ok(())
            }
        })
    })
    .await;
    bench.punctual.publisher().publish("import", &()).await.unwrap();
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.lines(), ["attempt 1 from 0", "attempt 2 from 10", "attempt 3 from 20"]);
}

#[tokio::test]
async fn limits_that_contradict_each_other_are_refused() {
    let bench = Bench::start(|builder| builder).await;
    let publisher = bench.punctual.publisher();
    let error = publisher.publish("a", &()).limit("x", 1).rate("y", 1, seconds(1)).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("\"x\"") && error.to_string().contains("\"y\""), "{error}");
    let error = publisher.publish("a", &()).limit("x", 0).await.unwrap_err();
    assert!(error.to_string().contains("allow at least 1"), "{error}");
}

// Each message is postponed to its turn, so that many messages do not poll again and again.
#[tokio::test]
async fn many_messages_over_a_rate_are_postponed_about_once_each() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder.handler("mail", logging::<()>(&log, |(), _| "sent".to_owned()))
    })
    .await;
    let publisher = bench.punctual.publisher();
    let crowd = (0..2_000).map(|_| publisher.publish("mail", &()).rate("smtp", 10, seconds(1)));
    publisher.publish_all(crowd.collect()).await.unwrap();
    for _ in 0..100 {
        bench.run_until_idle().await;
    }
    assert_eq!(log.len(), 10);
    let waiting = bench.storage.counts(bench.clock.now()).await.unwrap();
    assert_eq!(waiting.oldest_due, None, "all have a place in the future");
    bench.advance(seconds(200)).await;
    assert_eq!(log.len(), 2_000);
}
