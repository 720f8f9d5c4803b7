//! Requests: the sender waits for a reply, by any transport and through the storage, for as long as it
//! says and no longer.

use std::sync::Arc;

use futures_util::FutureExt;
use punctual::builtin::{GROUP_DEFAULT, memory_transport};
use punctual::model::ProcessId;
use punctual::{Builder, Context, ErrorKind, HandlerError, Reply, Result, Transport};

use crate::acting::Gate;
use crate::broker::{Broker, PLAIN};
use crate::harness::{Bench, Log, seconds, world};

async fn double(number: u64, context: Context) -> Result<(), HandlerError> {
    context.reply(&(number * 2)).await?;
    Ok(())
}

/// A process whose handlers answer, with a transport of the name "post".
async fn office(
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

/// Waits while time goes on, an hour at most.
async fn awaited(bench: &Bench, asking: impl Future<Output = Result<Reply>>) -> Result<Reply> {
    tokio::select! {
        biased;
        reply = asking => reply,
        () = bench.advance(seconds(3_600)) => panic!("nobody stopped waiting"),
    }
}

#[tokio::test]
async fn a_request_is_answered_by_every_way_a_message_can_go() {
    for (transport, via) in [
        (broker as fn(&Arc<punctual::ManualClock>) -> Arc<dyn Transport>, true),
        (stored, true),
        (broker, false),
    ] {
        let bench = office(transport, |builder| builder).await;
        let publisher = bench.punctual.publisher();
        for number in 1..=3_u64 {
            let request = publisher.request("double", &number);
            let request = if via { request.via("post") } else { request };
            let reply = awaited(&bench, request.into_future()).await.unwrap();
            assert_eq!(reply.read::<u64>().unwrap(), number * 2);
            assert_eq!(reply.headers().len(), 1, "only what says whose reply it is");
        }
        assert_eq!(bench.punctual.events().count("reply.late"), 0);
    }
}

#[tokio::test]
async fn many_requests_at_once_get_each_its_own_reply() {
    let bench = office(broker, |builder| builder.via_default("post")).await;
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
async fn what_a_handler_returns_answers_too_and_its_own_reply_wins() {
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
    for (topic, said) in [("quiet", "tea!"), ("loud", "TEA")] {
        let reply = awaited(&bench, publisher.request(topic, "tea").into_future()).await.unwrap();
        assert_eq!(reply.read::<String>().unwrap(), said);
    }
    bench.advance(seconds(60)).await;
    assert_eq!(bench.punctual.events().count("reply.late"), 0, "there was one reply each");
}

#[tokio::test]
async fn a_reply_that_comes_too_late_is_dropped_and_told() {
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
    let bench =
        office(broker, |builder| builder.handler("slow", slow).subscribe("post", "slow", "office"))
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
async fn only_so_many_requests_wait_and_one_that_is_dropped_makes_room() {
    let bench = office(broker, |builder| {
        builder.via_default("post").options(|options| options.requests_max = 2)
    })
    .await;
    let publisher = bench.punctual.publisher();
    let ask = || Box::pin(publisher.request("nobody", "x").timeout(seconds(10)).into_future());
    let (mut first, mut second) = (ask(), ask());
    for asking in [&mut first, &mut second] {
        assert!(asking.as_mut().now_or_never().is_none());
        bench.rest().await;
        assert!(asking.as_mut().now_or_never().is_none());
    }
    let error = publisher.request("nobody", "x").await.unwrap_err();
    assert!(error.is_temporary() && error.to_string().contains("requests_max"), "{error}");
    drop(second);
    let answered = awaited(&bench, publisher.request("double", &4).into_future()).await.unwrap();
    assert_eq!(answered.read::<u64>().unwrap(), 8);
    assert!(awaited(&bench, first).await.is_err());
}

#[tokio::test]
async fn nobody_can_answer_what_nobody_asked() {
    let log = Log::default();
    let told = log.clone();
    let answering = move |number: u64, context: Context| {
        let told = told.clone();
        async move {
            let refused = context.reply(&number).await.unwrap_err();
            told.push(format!("{} {refused}", context.is_asked()));
        }
    };
    let bench = Bench::start(|builder| builder.handler("plain", answering)).await;
    bench.punctual.publisher().publish("plain", &7).await.unwrap();
    bench.rest().await;
    assert!(log.lines()[0].starts_with("false nobody waits for a reply"), "{:?}", log.lines());
}

#[tokio::test]
async fn a_shutdown_ends_the_receiving_of_replies() {
    let bench = office(stored, |builder| builder).await;
    let request = bench.punctual.publisher().request("double", &1).via("post");
    awaited(&bench, request.into_future()).await.unwrap();
    crate::acting::stop_within(&bench, seconds(41)).await;
}
