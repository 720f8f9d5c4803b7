//! Instants: stored to the microsecond at least. Finer parts may be rounded, but nothing may happen early.

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{Claim, Command, CommandResult, Prune, SettleResult};
use punctual::inspect::{ExecutionFilter, PageRequest};
use punctual::jiff::{SignedDuration, Timestamp};
use punctual::model::{Message, MessageState, Queue};

use super::Fixture;
use super::fixture::{again, at, default_source, ids_of, microsecond_after};

behaviours! {
    microseconds_are_distinct,
    nothing_is_claimed_before_its_due_time_however_fine_that_is,
    an_instant_reads_back_within_a_microsecond,
    a_retry_a_redrive_and_a_reschedule_are_never_early,
    instants_are_kept_from_the_first_year_to_the_last,
    a_lease_may_last_until_the_end_of_time,
}

const MICROSECOND: SignedDuration = SignedDuration::from_micros(1);

/// Returns the instant `count` nanoseconds after the beginning.
fn nano(count: i64) -> Timestamp {
    at(0) + SignedDuration::from_nanos(count)
}

pub async fn microseconds_are_distinct(f: Fixture) {
    let second = f.enqueue(f.due(microsecond_after(at(10)))).await;
    let first = f.enqueue(f.due(at(10))).await;
    assert_eq!(ids_of(&f.claim(f.process(), 9, at(10)).await), [first]);
    let next = f.storage.next_due(&default_source()).await.unwrap();
    assert_eq!(next, Some(microsecond_after(at(10))));
    assert_eq!(ids_of(&f.claim(f.process(), 9, microsecond_after(at(10))).await), [second]);
}

pub async fn nothing_is_claimed_before_its_due_time_however_fine_that_is(f: Fixture) {
    for fine in [1, 499, 500, 501, 999, 1_001] {
        let id = f.enqueue(f.due(nano(fine))).await;
        assert_eq!(f.claim(f.process(), 9, nano(fine - 1)).await, [], "due at {fine} ns");
        let next = f.storage.next_due(&default_source()).await.unwrap().unwrap();
        assert!(next >= nano(fine) && next < nano(fine) + MICROSECOND, "{next}");
        // A process that sleeps until this instant can claim the message.
        assert_eq!(ids_of(&f.claim(f.process(), 9, next).await), [id], "due at {fine} ns");
    }
}

pub async fn an_instant_reads_back_within_a_microsecond(f: Fixture) {
    let message = Message { created_at: nano(1_501), ..f.due(nano(2_501)) };
    let id = f.enqueue(message).await;
    let near = |kept: Timestamp, given: Timestamp| {
        assert!(kept.duration_since(given).abs() < MICROSECOND, "{kept} for {given}");
    };
    let record = f.record(id).await;
    near(record.message.created_at, nano(1_501));
    near(record.message.due_at, nano(2_501));
    near(record.due_at, nano(2_501));
    let claimed = f.claim_one(at(1)).await;
    assert_eq!(f.settle(&claimed, Verdict::Done, nano(4_501)).await, SettleResult::Applied);
    near(f.record(id).await.ended_at.unwrap(), nano(4_501));
    near(f.history(id).await[0].ended_at, nano(4_501));
}

pub async fn a_retry_a_redrive_and_a_reschedule_are_never_early(f: Fixture) {
    let fine = nano(5_000_000_001);
    let early = nano(5_000_000_000);
    let id = f.enqueue(f.message()).await;
    let claimed = f.claim_one(at(0)).await;
    assert_eq!(f.settle(&claimed, again(&claimed, fine), at(1)).await, SettleResult::Applied);
    assert_eq!(f.claim(f.process(), 9, early).await, [], "tried again");
    let late = Command::Reschedule { id, due_at: fine };
    assert_eq!(f.command(late).await, CommandResult::Applied(1));
    assert_eq!(f.claim(f.process(), 9, early).await, [], "moved");
    f.command(Command::Cancel(id)).await;
    assert_eq!(f.command(Command::Redrive { id, due_at: fine }).await, CommandResult::Applied(1));
    assert_eq!(f.claim(f.process(), 9, early).await, [], "sent again");
    assert_eq!(f.claim_one(fine + MICROSECOND).await.message.id, id);
}

pub async fn instants_are_kept_from_the_first_year_to_the_last(f: Fixture) {
    let far = ["0001-01-01T00:00:00Z", "1969-12-31T23:59:59.999999Z", "9999-12-01T00:00:00Z"];
    for text in far {
        let instant: Timestamp = text.parse().unwrap();
        let id = f.enqueue(f.due(instant)).await;
        let record = f.record(id).await;
        assert_eq!((record.due_at, record.message.due_at), (instant, instant));
        assert_eq!(f.storage.next_due(&default_source()).await.unwrap(), Some(instant));
        assert_eq!(ids_of(&f.claim(f.process(), 9, instant).await), [id]);
    }
}

pub async fn a_lease_may_last_until_the_end_of_time(f: Fixture) {
    let (first, last) = (Timestamp::MIN, Timestamp::MAX);
    let id = f.enqueue(f.message()).await;
    let owner = f.process();
    let claim = Claim::new(Queue::default(), owner, 1, last);
    let claimed = f.storage.claim(claim, at(0)).await.unwrap().remove(0);
    f.storage.heartbeat(owner, last, at(0)).await.unwrap();
    f.storage.extend(&[claimed.lease_ref()], last, at(0)).await.unwrap();
    assert_eq!(f.reclaim(9, at(1_000_000)).await, []);
    assert_eq!(f.settle(&claimed, again(&claimed, last), at(1)).await, SettleResult::Applied);
    assert_eq!(f.claim(f.process(), 9, at(1_000_000)).await, []);
    assert_eq!(f.state(id).await, Some(MessageState::Pending));
    let prune = Prune { before: first, limit: 9, dead: true };
    assert_eq!(f.storage.prune(prune, at(2)).await.unwrap().executions, 0);
    let all =
        f.inspect.executions(ExecutionFilter::default(), PageRequest::first(9)).await.unwrap();
    assert_eq!(all.rows.len(), 1);
}
