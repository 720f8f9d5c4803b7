//! Work that is done by hand, so that it is done at the time of the test: claim, then settle.

use std::sync::Arc;
use std::time::Duration;

use punctual::clock::add;
use punctual::model::{DeadReason, Ending, Execution, ExecutionId, ProcessId, Queue};
use punctual::policy::{AgainReason, Verdict};
use punctual::storage::{Claim, ClaimedMessage, Settlement};
use punctual::uuid::Uuid;

use crate::talk::Talk;

/// Takes at most so many that are due.
pub(crate) async fn claim(talk: &Talk, queue: &str, limit: usize) -> Vec<ClaimedMessage> {
    let now = talk.clock.now();
    let until = add(now, Duration::from_secs(60));
    let owner = ProcessId::from_uuid(Uuid::from_u128(7));
    let claim = Claim::new(Queue::new(queue).unwrap(), owner, limit, until);
    talk.app.storage.claim(claim, now).await.unwrap()
}

/// Handles one.
pub(crate) async fn finish(talk: &Talk, claimed: &ClaimedMessage) {
    settle(talk, claimed, Verdict::Done, None).await;
}

/// Lets one fail, to be tried again a minute later.
pub(crate) async fn fail(talk: &Talk, claimed: &ClaimedMessage, error: &str) {
    let verdict = Verdict::Again {
        due_at: add(talk.clock.now(), Duration::from_secs(60)),
        attempt: claimed.attempt,
        crashes: 0,
        snoozes: 0,
        error: Some(Arc::from(error)),
        why: AgainReason::Retry,
    };
    settle(talk, claimed, verdict, Some(error)).await;
}

/// Gives one up.
pub(crate) async fn bury(talk: &Talk, claimed: &ClaimedMessage, error: &str) {
    let reason = DeadReason::AttemptsSpent;
    settle(talk, claimed, Verdict::Dead { reason, error: Some(Arc::from(error)) }, Some(error))
        .await;
}

async fn settle(talk: &Talk, claimed: &ClaimedMessage, verdict: Verdict, error: Option<&str>) {
    let (message, now) = (&claimed.message, talk.clock.now());
    let occurrence = message.occurrence.as_ref();
    // Attempts of one message follow each other.
    let id = message.id.as_uuid().as_u128() + u128::from(claimed.attempt);
    let execution = Execution {
        id: ExecutionId::from_uuid(Uuid::from_u128(id)),
        message: Some(message.id),
        topic: message.topic.clone(),
        queue: message.queue.clone(),
        key: message.key.clone(),
        job: occurrence.map(|occurrence| occurrence.job.clone()),
        nominal: occurrence.map(|occurrence| occurrence.nominal),
        source: message.source,
        attempt: claimed.attempt,
        attempts_max: Some(3),
        process: Some(claimed.lease.owner),
        due_at: claimed.due_at,
        started_at: now,
        ended_at: now,
        ending: if error.is_some() { Ending::Failed } else { Ending::Succeeded },
        note: error.map(Arc::from),
        log: None,
    };
    let settlement = Settlement::new(claimed.lease_ref(), verdict, Some(Arc::new(execution)));
    talk.app.storage.settle(vec![settlement], now).await.unwrap();
}
