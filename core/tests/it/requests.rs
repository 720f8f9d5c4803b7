//! Requests: the sender waits for a reply, by any transport and through the storage, until its timeout.

use std::sync::Arc;

use futures_util::FutureExt;
use punctual::builtin::{GROUP_DEFAULT, memory_transport};
use punctual::model::ProcessId;
use punctual::{Builder, Context, ErrorKind, HandlerError, Reply, Result, Transport};

use crate::broker::{Broker, PLAIN};
use crate::harness::{Bench, Log, seconds, world};
use crate::test_handlers::Gate;

async fn double(number: u64, context: Context) -> Result<(), HandlerError> {
    context.reply(&(number * 2)).await?;
    Ok(())
}

/// Starts a process whose handlers reply, with a transport named "post".
async fn process_with_handlers(
    transport: impl FnOnce(&Arc<punctual::ManualClock>) -> Arc<dyn Transport>,
    build: impl FnOnce(Builder) -> Builder,
) -> Bench {
    let world = world();
    let transport = transport(&world.0);
    Bench::start_in(world, |builder| {
        let builder = builder.transport("post", transport).handler("double", double);
        build(builder.subscribe("post", "double", "office"))
    })
    .await
}

fn broker(clock: &Arc<punctual::ManualClock>) -> Arc<dyn Transport> {
    let groups = vec!["office".to_owned(), GROUP_DEFAULT.to_owned()];
    Broker::with_groups(clock, PLAIN, groups)
}

fn stored(clock: &Arc<punctual::ManualClock>) -> Arc<dyn Transport> {
    let owner = ProcessId::from_uuid(punctual::uuid::Uuid::from_u128(1));
    Arc::new(memory_transport(clock.clone(), owner))
}

/// Waits while the clock advances, at most an hour.
async fn awaited(bench: &Bench, asking: impl Future<Output = Result<Reply>>) -> Result<Reply> {
    tokio::select! {
        biased;
        reply = asking => reply,
        () = bench.advance(seconds(3_600)) => panic!("the request did not end"),
    }
}

#[tokio::test]
async fn a_request_gets_its_reply_by_every_route() {
    for (transport, via) in [
        (broker as fn(&Arc<punctual::ManualClock>) -> Arc<dyn Transport>, true),
        (stored, true),
        (broker, false),
    ] {
        let bench = process_with_handlers(transport, |builder| builder).await;
        let publisher = bench.punctual.publisher();
        for number in 1..=3_u64 {
            let request = publisher.request("double", &number);
            let request = if via { request.via("post") } else { request };
            let reply = awaited(&bench, request.into_future()).await.unwrap();
            assert_eq!(reply.read::<u64>().unwrap(), number * 2);
            assert_eq!(reply.headers().len(), 1, "only the header that identifies the request");
        }
        assert_eq!(bench.punctual.events().count("reply.late"), 0);
    }
}

#[tokio::test]
async fn concurrent_requests_each_get_their_own_reply() {
    let bench = process_with_handlers(broker, |builder| builder.via_default("post")).await;
    let publisher = bench.punctual.publisher();
    let asking = (0..50_u64).map(|number| {
        let request = publisher.request("double", &number);
        async move { (number, request.await.unwrap().read::<u64>().unwrap()) }
    });
    for (number, doubled) in futures_util::future::join_all(asking).await {
        assert_eq!(doubled, number * 2);
    }
}

#[tokio::test]
async fn the_returned_value_is_a_reply_and_an_explicit_reply_takes_precedence() {
    async fn quiet(text: String, context: Context) -> Result<(), HandlerError> {
        context.returns(&format!("{text}!"))?;
        Ok(())
    }
    async fn loud(text: String, context: Context) -> Result<(), HandlerError> {
        context.reply(&text.to_uppercase()).await?;
        context.returns(&text)?;
        Ok(())
    }
    let bench = Bench::start(|builder| builder.handler("quiet", quiet).handler("loud", loud)).await;
    let publisher = bench.punctual.publisher();
    for (topic, expected) in [("quiet", "tea!"), ("loud", "TEA")] {
        let reply = awaited(&bench, publisher.request(topic, "tea").into_future()).await.unwrap();
        assert_eq!(reply.read::<String>().unwrap(), expected);
    }
    bench.advance(seconds(60)).await;
    assert_eq!(bench.punctual.events().count("reply.late"), 0, "there was one reply each");
}

#[tokio::test]
async fn a_late_reply_is_dropped_and_reported() {
    let (gate, log) = (Gate::shut(), Log::default());
    let slow = {
        let (gate, log) = (gate.clone(), log.clone());
        move |number: u64, context: Context| {
            let (gate, log) = (gate.clone(), log.clone());
            async move {
                gate.pass().await;
                log.push("answers");
                context.reply(&number).await
            }
        }
    };
    let bench = process_with_handlers(broker, |builder| {
        builder.handler("slow", slow).subscribe("post", "slow", "office")
    })
    .await;
    let publisher = bench.punctual.publisher();
    let began = bench.clock.now();
    let request = publisher.request("slow", &7).via("post").timeout(seconds(10));
    let error = awaited(&bench, request.into_future()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("\"slow\" within 10s"), "{error}");
    assert_eq!(bench.clock.now().duration_since(began).as_secs(), 10);
    gate.open(1);
    bench.advance(seconds(60)).await;
    assert_eq!(log.lines(), ["answers"]);
    assert_eq!(bench.punctual.events().count("reply.late"), 1);
}

#[tokio::test]
async fn pending_requests_are_limited_and_a_dropped_one_frees_its_place() {
    let bench = process_with_handlers(broker, |builder| {
        builder.via_default("post").options(|options| options.requests_max = 2)
    })
    .await;
    let publisher = bench.punctual.publisher();
    let ask = || Box::pin(publisher.request("unhandled", "x").timeout(seconds(10)).into_future());
    let (mut first, mut second) = (ask(), ask());
    for asking in [&mut first, &mut second] {
        assert!(asking.as_mut().now_or_never().is_none());
        bench.run_until_idle().await;
        assert!(asking.as_mut().now_or_never().is_none());
    }
    let error = publisher.request("unhandled", "x").await.unwrap_err();
    assert!(error.is_temporary() && error.to_string().contains("requests_max"), "{error}");
    drop(second);
    let answered = awaited(&bench, publisher.request("double", &4).into_future()).await.unwrap();
    assert_eq!(answered.read::<u64>().unwrap(), 8);
    assert!(awaited(&bench, first).await.is_err());
}

#[tokio::test]
async fn a_reply_without_a_request_is_refused() {
    let log = Log::default();
    let recorded = log.clone();
    let answering = move |number: u64, context: Context| {
        let recorded = recorded.clone();
        async move {
            let refused = context.reply(&number).await.unwrap_err();
            recorded.push(format!("{} {refused}", context.expects_reply()));
        }
    };
    let bench = Bench::start(|builder| builder.handler("plain", answering)).await;
    bench.punctual.publisher().publish("plain", &7).await.unwrap();
    bench.run_until_idle().await;
    assert!(log.lines()[0].starts_with("false no process waits for a reply"), "{:?}", log.lines());
}

#[tokio::test]
async fn a_shutdown_ends_the_receiving_of_replies() {
    let bench = process_with_handlers(stored, |builder| builder).await;
    let request = bench.punctual.publisher().request("double", &1).via("post");
    awaited(&bench, request.into_future()).await.unwrap();
    crate::test_handlers::stop_within(&bench, seconds(41)).await;
}
