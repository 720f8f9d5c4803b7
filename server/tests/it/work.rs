//! Work by hand: brings messages into a state as a worker does, by claiming and settling.

use std::sync::Arc;

use punctual::backend::policy::{AgainReason, Verdict};
use punctual::backend::storage::{Claim, ClaimedMessage, Settlement};
use punctual::clock::add;
use punctual::model::{
    DeadReason, Ending, Execution, ExecutionId, Message, MessageId, ProcessId, Queue,
};
use punctual::uuid::Uuid;
use serde_json::{Value, json};
use std::time::Duration;

use crate::site::Site;

/// Builds a site without workers.
pub(crate) fn idle() -> Site {
    Site::with(|builder| builder)
}

/// Publishes a message over HTTP and returns its id.
pub(crate) async fn publish(site: &Site, request: &Value) -> String {
    let response = site.post("/api/v1/messages", request).await;
    assert_eq!(response.status, 201, "{}", response.text);
    response.json["id"].as_str().unwrap().to_owned()
}

/// Publishes a message to a topic and returns its id.
pub(crate) async fn publish_to(site: &Site, topic: &str) -> String {
    publish(site, &json!({ "topic": topic })).await
}

/// Claims everything that is due in a queue.
pub(crate) async fn claim(site: &Site, queue: &str) -> Vec<ClaimedMessage> {
    let now = site.clock.now();
    let (owner, until) =
        (ProcessId::from_uuid(Uuid::from_u128(7)), add(now, Duration::from_secs(60)));
    let claim = Claim::new(Queue::new(queue).unwrap(), owner, 100, until);
    site.app.storage.claim(claim, now).await.unwrap()
}

fn execution(
    claimed: &ClaimedMessage,
    ending: Ending,
    note: Option<&str>,
    site: &Site,
) -> Arc<Execution> {
    let now = site.clock.now();
    let message: &Message = &claimed.message;
    // The attempts of one message are consecutive.
    let id = message.id.as_uuid().as_u128() + u128::from(claimed.attempt);
    Arc::new(Execution {
        id: ExecutionId::from_uuid(Uuid::from_u128(id)),
        message: Some(message.id),
        topic: message.topic.clone(),
        queue: message.queue.clone(),
        key: message.key.clone(),
        job: None,
        nominal: None,
        source: message.source,
        attempt: claimed.attempt,
        attempts_max: Some(3),
        process: Some(claimed.lease.owner),
        due_at: claimed.due_at,
        started_at: now,
        ended_at: now,
        ending,
        note: note.map(Arc::from),
        log: None,
    })
}

async fn settle(
    site: &Site,
    claimed: &ClaimedMessage,
    verdict: Verdict,
    execution: Arc<Execution>,
) {
    let settlement = Settlement::new(claimed.lease_ref(), verdict, Some(execution));
    site.app.storage.settle(vec![settlement], site.clock.now()).await.unwrap();
}

/// Settles a message as succeeded.
pub(crate) async fn finish(site: &Site, claimed: &ClaimedMessage) {
    let execution = execution(claimed, Ending::Succeeded, None, site);
    settle(site, claimed, Verdict::Done, execution).await;
}

/// Settles a message as failed, to be retried later.
pub(crate) async fn fail(site: &Site, claimed: &ClaimedMessage, error: &str, wait: Duration) {
    let execution = execution(claimed, Ending::Failed, Some(error), site);
    let verdict = Verdict::Again {
        due_at: add(site.clock.now(), wait),
        attempt: claimed.attempt,
        crashes: 0,
        snoozes: 0,
        error: Some(Arc::from(error)),
        why: AgainReason::Retry,
    };
    settle(site, claimed, verdict, execution).await;
}

/// Makes a message a dead letter.
pub(crate) async fn dead_letter(site: &Site, claimed: &ClaimedMessage, error: &str) {
    let execution = execution(claimed, Ending::Failed, Some(error), site);
    let error = Some(Arc::from(error));
    settle(site, claimed, Verdict::Dead { reason: DeadReason::AttemptsSpent, error }, execution)
        .await;
}

/// Publishes a message and makes it a dead letter.
pub(crate) async fn dead(site: &Site, topic: &str, error: &str) -> MessageId {
    publish_to(site, topic).await;
    let claimed = claim(site, "default").await;
    assert_eq!(claimed.len(), 1, "nothing else waits");
    dead_letter(site, &claimed[0], error).await;
    claimed[0].message.id
}
