//! Restart: accepted data survives on a durable storage. A storage that declares itself not durable promises
//! nothing.

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{EnqueueResult, SettleResult};
use punctual::inspect::JobFilter;
use punctual::model::{Message, MessageState};

use super::Fixture;
use super::fixture::{again, at, dead, default_source, ids_of, key};

behaviours! {
    messages_and_their_history_survive_a_restart,
    jobs_survive_a_restart_with_their_cursor_and_version,
    leases_heartbeats_and_tokens_survive_a_restart,
    a_waiting_exclusive_message_still_waits_after_a_restart,
}

/// Returns the storage after a restart; `None` when it is not durable.
async fn restarted(f: Fixture) -> Option<Fixture> {
    if f.storage.is_durable() {
        return Some(f.reopen().await);
    }
    assert!(!f.another_node().await.storage.is_durable(), "all nodes agree");
    None
}

// spec: T-44
pub async fn messages_and_their_history_survive_a_restart(f: Fixture) {
    let done = f.finish(f.message(), Verdict::Done, at(1)).await;
    let dead_letter = f.finish(f.message(), dead(), at(2)).await;
    let retried = f.enqueue(f.message()).await;
    let claimed = f.claim_one(at(2)).await;
    f.settle(&claimed, again(&claimed, at(50)), at(3)).await;
    let later = Message { key: Some(key("7")), due_at: at(60), ..f.deduplicated("order") };
    let later = f.enqueue(later).await;
    let mut before = Vec::new();
    for id in [done, dead_letter, retried, later] {
        before.push((f.record(id).await, f.history(id).await));
    }
    let Some(f) = restarted(f).await else { return };
    for (record, history) in before {
        let id = record.message.id;
        assert_eq!((f.record(id).await, f.history(id).await), (record, history));
    }
    assert_eq!(f.try_enqueue(f.deduplicated("order")).await, EnqueueResult::Duplicate(later));
    assert_eq!(f.storage.next_due(&default_source()).await.unwrap(), Some(at(50)));
    assert_eq!(ids_of(&f.claim(f.process(), 9, at(60)).await), [retried, later]);
}

pub async fn jobs_survive_a_restart_with_their_cursor_and_version(f: Fixture) {
    let job = f.declare(Fixture::job("report", Some(at(0)))).await;
    f.storage.fire(vec![f.firing(&job, at(0), at(60))], at(1)).await.unwrap();
    let before = f.inspect.jobs(JobFilter::default()).await.unwrap();
    let Some(f) = restarted(f).await else { return };
    assert_eq!(f.inspect.jobs(JobFilter::default()).await.unwrap(), before);
    let due = f.storage.due_jobs(9, at(60)).await.unwrap();
    assert_eq!((due.len(), due[0].alive), (1, 1));
}

/// A process may outlive a restart of its storage: its lease stays valid, and an old token stays old.
pub async fn leases_heartbeats_and_tokens_survive_a_restart(f: Fixture) {
    let (alive, silent) = (f.process(), f.process());
    f.storage.heartbeat(alive, at(500), at(0)).await.unwrap();
    f.storage.heartbeat(silent, at(10), at(0)).await.unwrap();
    let ids = f.enqueue_many(3).await;
    let held = f.claim(alive, 1, at(0)).await.remove(0);
    f.claim(silent, 1, at(0)).await;
    let Some(f) = restarted(f).await else { return };
    let taken = f.reclaim(9, at(20)).await;
    assert_eq!(ids_of(&taken), [ids[1]], "the message of the expired process");
    assert!(taken[0].lease.token > held.lease.token, "{} again", taken[0].lease.token);
    assert_eq!(f.settle(&held, Verdict::Done, at(21)).await, SettleResult::Applied);
    assert_eq!(ids_of(&f.claim(f.process(), 9, at(21)).await), [ids[2]]);
}

pub async fn a_waiting_exclusive_message_still_waits_after_a_restart(f: Fixture) {
    f.enqueue(f.run_of("report", at(1))).await;
    let running = f.claim_one(at(1)).await;
    let waiting = f.enqueue(Message { exclusive: true, ..f.run_of("report", at(2)) }).await;
    let Some(f) = restarted(f).await else { return };
    assert_eq!(f.claim(f.process(), 9, at(2)).await, []);
    assert_eq!(f.settle(&running, Verdict::Done, at(3)).await, SettleResult::Applied);
    assert_eq!(ids_of(&f.claim(f.process(), 9, at(3)).await), [waiting]);
    assert_eq!(f.state(waiting).await, Some(MessageState::Running));
}
