//! Commands: what an operator may do to a message, state by state.

use punctual::model::{Key, Message, MessageId, Source, State, Topic};
use punctual::policy::Verdict;
use punctual::storage::{Command, Commanded, Enqueued, Settled};

use super::Fixture;
use super::fixture::{again, at, dead, ids_of, key};

behaviours! {
    a_pending_message_is_cancelled_at_once_and_never_delivered,
    a_running_message_is_asked_to_stop,
    cancelling_by_topic_and_key_stops_only_the_pending_ones_of_that_pair,
    a_finished_message_is_redriven_as_if_it_were_new,
    a_running_message_is_not_redriven_moved_or_deleted,
    a_redrive_is_refused_while_another_message_lives_under_the_same_key,
    a_pending_message_is_rescheduled_to_earlier_or_later,
    a_deleted_message_leaves_no_trace,
    a_message_nobody_knows_is_answered_as_unknown,
}

async fn running(f: &Fixture) -> MessageId {
    let id = f.enqueue(f.message()).await;
    assert_eq!(ids_of(&f.claim(f.process(), 1, at(0)).await), [id]);
    id
}

// spec: D-35
pub async fn a_pending_message_is_cancelled_at_once_and_never_delivered(f: Fixture) {
    let id = f.enqueue(f.due(at(10))).await;
    assert_eq!(f.command(Command::Cancel(id)).await, Commanded::Applied(1));
    assert_eq!(f.state(id).await, Some(State::Cancelled));
    assert_eq!(f.claim(f.process(), 9, at(100)).await, []);
    assert_eq!(f.command(Command::Cancel(id)).await, Commanded::Refused(State::Cancelled));
}

pub async fn a_running_message_is_asked_to_stop(f: Fixture) {
    let id = running(&f).await;
    assert_eq!(f.command(Command::Cancel(id)).await, Commanded::Requested);
    assert_eq!(f.command(Command::Cancel(id)).await, Commanded::Requested);
    let record = f.record(id).await;
    assert!(record.cancel_requested && record.state == State::Running);
    let lost = f.reclaim(9, at(1_000)).await.remove(0);
    assert!(lost.cancel_requested, "who takes it over hears of it too");
}

// spec: T-43
pub async fn cancelling_by_topic_and_key_stops_only_the_pending_ones_of_that_pair(f: Fixture) {
    let about = |name: &str| Message { key: Some(key(name)), ..f.message() };
    let running = f.enqueue(about("7")).await;
    assert_eq!(f.claim(f.process(), 1, at(0)).await.len(), 1);
    let pending = [f.enqueue(about("7")).await, f.enqueue(about("7")).await];
    let other_key = f.enqueue(about("8")).await;
    let other_topic = Message { topic: Topic::new("invoice").unwrap(), ..about("7") };
    let other_topic = f.enqueue(other_topic).await;

    let pair = |key: Key| Command::CancelKey { topic: Topic::new("mail").unwrap(), key };
    assert_eq!(f.command(pair(key("7"))).await, Commanded::Applied(2));
    assert_eq!(f.command(pair(key("7"))).await, Commanded::Applied(0));
    assert_eq!(f.command(pair(key("unheard of"))).await, Commanded::Applied(0));
    for id in pending {
        assert_eq!(f.state(id).await, Some(State::Cancelled));
    }
    for id in [other_key, other_topic] {
        assert_eq!(f.state(id).await, Some(State::Pending));
    }
    let record = f.record(running).await;
    assert!(record.state == State::Running && !record.cancel_requested);
}

// spec: T-34
pub async fn a_finished_message_is_redriven_as_if_it_were_new(f: Fixture) {
    for verdict in [Verdict::Done, dead(), Verdict::Cancelled] {
        let id = f.finish(f.message(), verdict, at(0)).await;
        let redrive = Command::Redrive { id, due_at: at(20) };
        assert_eq!(f.command(redrive.clone()).await, Commanded::Applied(1));
        let record = f.record(id).await;
        assert_eq!((record.state, record.due_at), (State::Pending, at(20)));
        assert_eq!((record.attempt, record.crashes, record.snoozes), (0, 0, 0));
        assert_eq!((record.dead, record.ended_at), (None, None));
        assert_eq!(record.message.source, Source::Redriven);
        assert_eq!(f.command(redrive).await, Commanded::Refused(State::Pending));
        let claimed = f.claim_one(at(20)).await;
        assert_eq!((claimed.message.id, claimed.attempt), (id, 1));
    }
}

pub async fn a_running_message_is_not_redriven_moved_or_deleted(f: Fixture) {
    let id = running(&f).await;
    for command in [
        Command::Redrive { id, due_at: at(1) },
        Command::Reschedule { id, due_at: at(1) },
        Command::Delete(id),
    ] {
        assert_eq!(f.command(command).await, Commanded::Refused(State::Running));
    }
}

pub async fn a_redrive_is_refused_while_another_message_lives_under_the_same_key(f: Fixture) {
    let old = f.finish(f.deduplicated("order"), dead(), at(0)).await;
    let newer = f.enqueue(f.deduplicated("order")).await;
    let redrive = Command::Redrive { id: old, due_at: at(1) };
    assert_eq!(f.command(redrive.clone()).await, Commanded::Refused(State::Dead));
    f.command(Command::Delete(newer)).await;
    assert_eq!(f.command(redrive).await, Commanded::Applied(1));
    assert_eq!(f.offer(f.deduplicated("order")).await, Enqueued::Duplicate(old));
}

pub async fn a_pending_message_is_rescheduled_to_earlier_or_later(f: Fixture) {
    let id = f.enqueue(f.due(at(10))).await;
    let move_to = |due_at| Command::Reschedule { id, due_at };
    assert_eq!(f.command(move_to(at(30))).await, Commanded::Applied(1));
    assert_eq!(f.claim(f.process(), 9, at(29)).await, []);
    assert_eq!(f.command(move_to(at(5))).await, Commanded::Applied(1));
    let claimed = f.claim_one(at(5)).await;
    assert_eq!((claimed.due_at, claimed.message.due_at), (at(5), at(10)));
    assert_eq!(f.settle(&claimed, Verdict::Done, at(6)).await, Settled::Applied);
    assert_eq!(f.command(move_to(at(50))).await, Commanded::Refused(State::Done));
}

pub async fn a_deleted_message_leaves_no_trace(f: Fixture) {
    let id = f.enqueue(f.deduplicated("order")).await;
    let claimed = f.claim_one(at(0)).await;
    f.settle(&claimed, again(&claimed, at(5)), at(1)).await;
    assert_eq!(f.command(Command::Delete(id)).await, Commanded::Applied(1));
    assert_eq!(f.state(id).await, None);
    assert_eq!(f.history(id).await, []);
    assert_eq!(f.claim(f.process(), 9, at(100)).await, []);
    assert_eq!(f.offer(f.deduplicated("order")).await, Enqueued::Stored);
    assert_eq!(f.command(Command::Delete(id)).await, Commanded::Unknown);
}

pub async fn a_message_nobody_knows_is_answered_as_unknown(f: Fixture) {
    let id = f.message().id;
    for command in [
        Command::Cancel(id),
        Command::Redrive { id, due_at: at(1) },
        Command::Reschedule { id, due_at: at(1) },
        Command::Delete(id),
    ] {
        assert_eq!(f.command(command).await, Commanded::Unknown);
    }
}
