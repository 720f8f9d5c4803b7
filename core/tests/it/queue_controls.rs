//! Queue controls while a process runs: pause, resume, concurrency, and a further queue.

use punctual::model::{MessageState, Queue, TransportName};
use punctual::{Builder, ErrorKind};

use crate::broker::{Broker, PLAIN};
use crate::faulty_storage::FaultyStorage;
use crate::harness::{Bench, Log, seconds, world};
use crate::test_handlers::{Gate, logging, waiting};

fn working(log: &Log) -> impl FnOnce(Builder) -> Builder {
    let handler = logging::<String>(log, |text, _| text.clone());
    move |builder| builder.handler("mail", handler).queue("default", 4).queue("slow", 2)
}

#[tokio::test]
async fn nothing_of_a_paused_queue_is_claimed_and_the_others_continue() {
    let (log, world) = (Log::default(), world());
    let faulty = FaultyStorage::over(&world.1);
    let bench =
        Bench::start_in(world, |builder| working(&log)(builder.storage(faulty.clone()))).await;
    let (queues, publisher) = (bench.punctual.queues(), bench.punctual.publisher());
    queues.pause("slow").unwrap();
    bench.run_until_idle().await;
    let before = faulty.calls("claim");
    publisher.publish("mail", "held").queue("slow").await.unwrap();
    bench.advance(seconds(600)).await;
    assert_eq!((log.len(), faulty.calls("claim")), (0, before), "not even claimed");
    publisher.publish("mail", "passed").await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["passed"]);
    queues.resume("slow").unwrap();
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["passed", "held"], "at once, not at the next poll");
    assert_eq!(bench.punctual.events().count("queue.changed"), 2);
    queues.resume("slow").unwrap();
    assert_eq!(bench.punctual.events().count("queue.changed"), 2, "nothing changed");
}

#[tokio::test]
async fn running_messages_continue_while_their_queue_is_paused() {
    let (log, gate) = (Log::default(), Gate::shut());
    let bench = Bench::start(|builder| {
        builder.handler("mail", waiting::<()>(&log, &gate)).queue("default", 1)
    })
    .await;
    let publisher = bench.punctual.publisher();
    let first = publisher.publish("mail", &()).await.unwrap();
    let second = publisher.publish("mail", &()).await.unwrap();
    bench.run_until_idle().await;
    let queues = bench.punctual.queues();
    queues.pause("default").unwrap();
    let status = &queues.list()[0];
    assert_eq!((status.concurrency, status.running, status.paused), (1, 1, true));
    gate.open(2);
    bench.advance(seconds(120)).await;
    assert_eq!(log.lines(), ["began", "ended"]);
    assert_eq!(bench.message(first.id).await.state, MessageState::Done);
    assert_eq!(bench.message(second.id).await.state, MessageState::Pending);
}

#[tokio::test]
async fn concurrency_changes_while_messages_wait() {
    let (log, gate) = (Log::default(), Gate::shut());
    let bench = Bench::start(|builder| {
        builder.handler("mail", waiting::<u32>(&log, &gate)).queue("default", 1)
    })
    .await;
    for number in 0_u32..8 {
        bench.punctual.publisher().publish("mail", &number).await.unwrap();
    }
    bench.run_until_idle().await;
    let queues = bench.punctual.queues();
    assert_eq!(queues.list()[0].running, 1);
    queues.set_concurrency("default", 4).unwrap();
    bench.run_until_idle().await;
    assert_eq!(queues.list()[0].running, 4, "it need not wait for one to end");
    queues.set_concurrency("default", 2).unwrap();
    gate.open(3);
    bench.run_until_idle().await;
    assert_eq!((queues.list()[0].running, log.len()), (2, 4 + 3 + 1), "fewer as they end");
    let error = queues.set_concurrency("default", 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("pause it"), "{error}");
    assert_eq!(queues.set_concurrency("other", 3).unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_queue_is_added_while_the_process_runs() {
    let log = Log::default();
    let bench = Bench::start(working(&log)).await;
    let (queues, publisher) = (bench.punctual.queues(), bench.punctual.publisher());
    publisher.publish("mail", "waited").queue("new").await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(log.len(), 0);
    queues.serve("new", 3).unwrap();
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["waited"]);
    publisher.publish("mail", "later").queue("new").after(seconds(90)).await.unwrap();
    bench.advance(seconds(90)).await;
    assert_eq!(log.lines(), ["waited", "later"]);
    let names: Vec<_> =
        queues.list().into_iter().map(|one| (one.queue.to_string(), one.concurrency)).collect();
    let expected = [("default", 4), ("new", 3), ("slow", 2)];
    assert_eq!(names, expected.map(|(name, count)| (name.to_owned(), count)));
    queues.serve("new", 5).unwrap();
    assert_eq!(queues.list()[1].concurrency, 5);
    for (queue, concurrency) in [("x", 0), (" ", 1)] {
        assert_eq!(queues.serve(queue, concurrency).unwrap_err().kind(), ErrorKind::Invalid);
    }
    bench.punctual.shutdown().await;
    assert_eq!(queues.serve("more", 1).unwrap_err().kind(), ErrorKind::Conflict);
}

// A notification of another process may be missed; the poller finds what a new queue has to do.
#[tokio::test]
async fn the_poller_includes_a_queue_added_at_run_time() {
    let (log, world) = (Log::default(), world());
    let silent = FaultyStorage::without_notifications(&world.1);
    let bench = Bench::start_in(world, |builder| working(&log)(builder.storage(silent))).await;
    bench.punctual.queues().serve("new", 1).unwrap();
    bench.run_until_idle().await;
    bench.punctual.publisher().publish("mail", "unheard").queue("new").await.unwrap();
    bench.advance(seconds(120)).await;
    assert_eq!(log.lines(), ["unheard"]);
}

#[tokio::test]
async fn a_pause_holds_before_the_start_and_for_queues_of_others() {
    let (log, world) = (Log::default(), world());
    let punctual = working(&log)(
        punctual::Punctual::builder().clock(world.0.clone()).storage(world.1.clone()),
    )
    .build()
    .unwrap();
    punctual.queues().pause("default").unwrap();
    punctual.queues().pause("elsewhere").unwrap();
    punctual.start().await.unwrap();
    punctual.publisher().publish("mail", "held").await.unwrap();
    crate::harness::run_until_idle().await;
    assert_eq!(log.len(), 0);
    let elsewhere = &punctual.queues().list()[1];
    assert_eq!((elsewhere.queue.as_str(), elsewhere.concurrency), ("elsewhere", 0));
    assert!(elsewhere.paused);
}

#[tokio::test]
async fn the_queue_of_a_relay_is_paused_like_any_other() {
    let world = world();
    let broker = Broker::new(&world.0, PLAIN);
    let bench = Bench::start_in(world, |builder| builder.transport("post", broker.clone())).await;
    let line = Queue::of_relay(&TransportName::new("post").unwrap());
    bench.punctual.queues().pause(&line).unwrap();
    let publisher = bench.punctual.publisher();
    let sent = publisher.publish("mail", "later").after(seconds(60)).via("post").await.unwrap();
    bench.advance(seconds(300)).await;
    assert_eq!(bench.message(sent.id).await.state, MessageState::Pending);
    bench.punctual.queues().resume(&line).unwrap();
    bench.run_until_idle().await;
    assert_eq!(bench.message(sent.id).await.state, MessageState::Done);
    assert_eq!(broker.waiting(), 1);
}

#[tokio::test]
async fn a_named_queue_is_worked_on_beside_the_default_one_and_those_of_jobs() {
    let job = || punctual::Job::cron("nightly", "0 0 * * *").queue("reports");
    let served = |builder: punctual::Builder| {
        let punctual = builder.job(job(), async |(): ()| {}).build().unwrap();
        let names: Vec<String> =
            punctual.queues().list().iter().map(|status| status.queue.to_string()).collect();
        names
    };
    let builder = || punctual::Punctual::builder().queue("mail", 4);
    assert_eq!(served(builder()), ["default", "mail", "reports"]);
    assert_eq!(served(builder().only_named_queues()), ["mail"]);
    let none = punctual::Punctual::builder().only_named_queues().build();
    assert!(none.err().unwrap().to_string().contains("no queue is named"));
}
