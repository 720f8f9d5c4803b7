//! Roles: which services a process runs, and that it responds without any.

use punctual::client::TriggerResult;
use punctual::model::MessageState;
use punctual::{ErrorKind, Job, Occurrence, Retry, Roles};

use crate::broker::{Broker, PLAIN};
use crate::harness::{Bench, Log, seconds, world};
use crate::test_handlers::{logging, retrying};

// spec: T-61
#[tokio::test]
async fn a_process_without_scheduler_fires_nothing() {
    let (log, world) = (Log::default(), world());
    let job = || Job::cron("minutely", "* * * * *");
    let ran = || logging::<Occurrence>(&log, |_, _| "ran".to_owned());
    let office = Bench::start_in(world.clone(), |builder| {
        builder.job(job(), ran()).roles(Roles { scheduler: false, ..Roles::ALL })
    })
    .await;
    office
        .punctual
        .admin()
        .declare(Job::cron("made", "* * * * *").topic("minutely"))
        .await
        .unwrap();
    office.advance(seconds(300)).await;
    assert_eq!(log.len(), 0);
    assert!(office.punctual.admin().job("minutely").await.is_ok(), "it declares its own");
    let started = office.punctual.admin().trigger("made", false).await.unwrap();
    assert!(matches!(started, TriggerResult::Started(_)));
    office.run_until_idle().await;
    assert_eq!(log.len(), 1, "but it works");
}

// spec: T-61
#[tokio::test]
async fn a_process_without_worker_claims_nothing_and_still_publishes_and_schedules() {
    let (log, world) = (Log::default(), world());
    let handler = || logging::<String>(&log, |text, _| text.clone());
    let office = Bench::start_in(world.clone(), |builder| {
        builder
            .handler("mail", handler())
            .declare(Job::cron("minutely", "* * * * *").topic("mail").payload("by schedule"))
            .roles(Roles { worker: false, ..Roles::default() })
    })
    .await;
    let sent = office.punctual.publisher().publish("mail", "by hand").await.unwrap();
    office.advance(seconds(60)).await;
    assert_eq!(log.len(), 0);
    assert_eq!(office.message(sent.id).await.state, MessageState::Pending);
    assert_eq!(office.punctual.admin().counts().await.unwrap().total(MessageState::Pending), 2);
    assert!(office.punctual.queues().list().is_empty());
    let error = office.punctual.queues().serve("default", 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let worker = Bench::start_in(world, |builder| {
        builder.handler("mail", handler()).roles(Roles { worker: true, ..Roles::NONE })
    })
    .await;
    worker.run_until_idle().await;
    assert_eq!(log.lines(), ["by hand", "by schedule"]);
}

// spec: T-61
#[tokio::test]
async fn a_process_without_relay_sends_nothing_to_a_transport() {
    let world = world();
    let broker = Broker::new(&world.0, PLAIN);
    let office = Bench::start_in(world.clone(), |builder| {
        builder.transport("post", broker.clone()).roles(Roles { relay: false, ..Roles::ALL })
    })
    .await;
    let publisher = office.punctual.publisher();
    publisher.publish("mail", "later").after(seconds(60)).via("post").await.unwrap();
    office.advance(seconds(300)).await;
    assert_eq!(broker.waiting(), 0);
    let relay = Bench::start_in(world, |builder| {
        builder.transport("post", broker.clone()).roles(Roles { relay: true, ..Roles::NONE })
    })
    .await;
    relay.run_until_idle().await;
    assert_eq!(broker.waiting(), 1);
}

// spec: T-61
#[tokio::test]
async fn only_a_process_with_maintenance_frees_abandoned_messages() {
    let world = world();
    let lost = Bench::start_in(world.clone(), |builder| {
        let handler_options = retrying(Retry::none());
        builder.handler_with("mail", handler_options, |(): ()| std::future::pending::<()>())
    })
    .await;
    let sent = lost.punctual.publisher().publish("mail", &()).await.unwrap();
    lost.run_until_idle().await;
    drop(lost.punctual);
    let careless = Bench::start_in(world.clone(), |builder| {
        builder.roles(Roles { worker: false, maintenance: false, ..Roles::ALL })
    })
    .await;
    careless.advance(seconds(1_200)).await;
    assert_eq!(careless.message(sent.id).await.state, MessageState::Running);
    let maintenance =
        Bench::start_in(world, |builder| builder.roles(Roles { maintenance: true, ..Roles::NONE }))
            .await;
    maintenance.advance(seconds(60)).await;
    assert_eq!(maintenance.message(sent.id).await.state, MessageState::Pending);
}

// spec: T-61
#[tokio::test]
async fn a_process_without_any_role_responds_and_is_healthy() {
    let bench = Bench::start(|builder| builder.roles(Roles::NONE)).await;
    bench.punctual.publisher().publish("mail", &()).await.unwrap();
    bench.advance(seconds(59)).await;
    let health = bench.punctual.admin().health().await;
    assert!(health.reasons.is_empty(), "{:?}", health.reasons);
    assert_eq!(health.queue_depth, 1);
    assert!(bench.punctual.shutdown().await.is_clean());
}
