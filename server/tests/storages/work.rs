//! Work by hand, at the time of the test: claim, then settle.

use std::sync::Arc;
use std::time::Duration;

use punctual::backend::policy::{AgainReason, Verdict};
use punctual::backend::storage::{Claim, ClaimedMessage, Settlement};
use punctual::clock::add;
use punctual::model::{DeadReason, Ending, Execution, ExecutionId, ProcessId, Queue};
use punctual::uuid::Uuid;

use crate::transcript::Transcript;

/// Claims at most `limit` due messages.
pub(crate) async fn claim(
    transcript: &Transcript,
    queue: &str,
    limit: usize,
) -> Vec<ClaimedMessage> {
    let now = transcript.clock.now();
    let until = add(now, Duration::from_secs(60));
    let owner = ProcessId::from_uuid(Uuid::from_u128(7));
    let claim = Claim::new(Queue::new(queue).unwrap(), owner, limit, until);
    transcript.app.storage.claim(claim, now).await.unwrap()
}

/// Settles a message as succeeded.
pub(crate) async fn finish(transcript: &Transcript, claimed: &ClaimedMessage) {
    settle(transcript, claimed, Verdict::Done, None).await;
}

/// Settles a message as failed, to be retried a minute later.
pub(crate) async fn fail(transcript: &Transcript, claimed: &ClaimedMessage, error: &str) {
    let verdict = Verdict::Again {
        due_at: add(transcript.clock.now(), Duration::from_secs(60)),
        attempt: claimed.attempt,
        crashes: 0,
        snoozes: 0,
        error: Some(Arc::from(error)),
        why: AgainReason::Retry,
    };
    settle(transcript, claimed, verdict, Some(error)).await;
}

/// Makes a message a dead letter.
pub(crate) async fn dead_letter(transcript: &Transcript, claimed: &ClaimedMessage, error: &str) {
    let reason = DeadReason::AttemptsSpent;
    settle(
        transcript,
        claimed,
        Verdict::Dead { reason, error: Some(Arc::from(error)) },
        Some(error),
    )
    .await;
}

async fn settle(
    transcript: &Transcript,
    claimed: &ClaimedMessage,
    verdict: Verdict,
    error: Option<&str>,
) {
    let (message, now) = (&claimed.message, transcript.clock.now());
    let occurrence = message.occurrence.as_ref();
    // The attempts of one message are consecutive.
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
    transcript.app.storage.settle(vec![settlement], now).await.unwrap();
}
