//! Commands: the operations that an operator may run on a message in each state.

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{
    Claim, Command, CommandResult, EnqueueResult, SettleResult, WakeSource,
};
use punctual::model::{
    Assignment, JobName, Key, Message, MessageId, MessageState, Occurrence, Priority, Queue,
    Source, Topic,
};

use super::Fixture;
use super::fixture::{
    again, at, at_once, dead, default_source, ids_of, is_notified, key, queue, together,
};

behaviours! {
    only_a_dead_letter_is_discarded,
    a_pending_message_is_cancelled_at_once_and_never_delivered,
    a_running_message_gets_a_cancel_request,
    cancelling_by_topic_and_key_stops_only_the_pending_jobs_of_that_pair,
    a_finished_message_is_redriven_as_if_it_were_new,
    a_running_message_is_not_redriven_moved_or_deleted,
    a_redrive_is_refused_while_another_message_with_the_same_key_is_alive,
    a_pending_message_is_rescheduled_to_earlier_or_later,
    a_pending_message_is_made_more_or_less_urgent,
    a_pending_message_is_put_into_another_queue,
    a_deleted_message_leaves_no_trace,
    an_unknown_message_is_reported_as_unknown,
    a_redrive_keeps_the_history,
    of_many_that_cancel_or_redrive_at_once_exactly_one_succeeds,
    a_cancel_and_a_claim_at_once_agree_which_was_first,
    many_messages_with_one_key_are_cancelled_in_one_call,
}

async fn running(f: &Fixture) -> MessageId {
    let id = f.enqueue(f.message()).await;
    assert_eq!(ids_of(&f.claim(f.process(), 1, at(0)).await), [id]);
    id
}

// spec: D-35, T-33
pub async fn a_pending_message_is_cancelled_at_once_and_never_delivered(f: Fixture) {
    let id = f.enqueue(f.due(at(10))).await;
    assert_eq!(f.command(Command::Cancel(id)).await, CommandResult::Applied(1));
    let record = f.record(id).await;
    assert_eq!((record.state, record.ended_at), (MessageState::Cancelled, Some(at(1))));
    assert_eq!(f.claim(f.process(), 9, at(100)).await, []);
    assert_eq!(
        f.command(Command::Cancel(id)).await,
        CommandResult::Refused(MessageState::Cancelled)
    );
}

pub async fn a_running_message_gets_a_cancel_request(f: Fixture) {
    let id = running(&f).await;
    assert_eq!(f.command(Command::Cancel(id)).await, CommandResult::Requested);
    assert_eq!(f.command(Command::Cancel(id)).await, CommandResult::Requested);
    let record = f.record(id).await;
    assert!(record.cancel_requested && record.state == MessageState::Running);
    let lost = f.reclaim(9, at(1_000)).await.remove(0);
    assert!(lost.cancel_requested, "the new owner learns of it too");
}

/// Turns a message into that of a one-time job with the name of its topic.
fn one_time(message: Message) -> Message {
    let job = JobName::new(message.topic.as_str()).unwrap();
    let occurrence = Occurrence { job, nominal: message.due_at, schedule: None, misfire: None };
    Message { occurrence: Some(occurrence), source: Source::Deferred, ..message }
}

// spec: T-43
pub async fn cancelling_by_topic_and_key_stops_only_the_pending_jobs_of_that_pair(f: Fixture) {
    let about = |name: &str| Message { key: Some(key(name)), ..one_time(f.message()) };
    let running = f.enqueue(about("7")).await;
    assert_eq!(f.claim(f.process(), 1, at(0)).await.len(), 1);
    let pending = [f.enqueue(about("7")).await, f.enqueue(about("7")).await];
    let other_key = f.enqueue(about("8")).await;
    let other_topic = Message { topic: Topic::new("invoice").unwrap(), ..about("7") };
    let other_topic = f.enqueue(other_topic).await;
    let published = f.enqueue(Message { key: Some(key("7")), ..f.message() }).await;

    let pair = |key: Key| Command::CancelKey { topic: Topic::new("mail").unwrap(), key };
    assert_eq!(f.command(pair(key("7"))).await, CommandResult::Applied(2));
    assert_eq!(f.command(pair(key("7"))).await, CommandResult::Applied(0));
    assert_eq!(f.command(pair(key("unknown"))).await, CommandResult::Applied(0));
    for id in pending {
        assert_eq!(f.state(id).await, Some(MessageState::Cancelled));
    }
    for id in [other_key, other_topic, published] {
        assert_eq!(f.state(id).await, Some(MessageState::Pending));
    }
    let record = f.record(running).await;
    assert!(record.state == MessageState::Running && !record.cancel_requested);
}

// spec: T-34
pub async fn a_finished_message_is_redriven_as_if_it_were_new(f: Fixture) {
    for verdict in [Verdict::Done, dead(), Verdict::Cancelled] {
        let id = f.finish(f.message(), verdict, at(0)).await;
        let redrive = Command::Redrive { id, due_at: at(20) };
        assert_eq!(f.command(redrive.clone()).await, CommandResult::Applied(1));
        let record = f.record(id).await;
        assert_eq!((record.state, record.due_at), (MessageState::Pending, at(20)));
        assert_eq!((record.attempt, record.crashes, record.snoozes), (0, 0, 0));
        assert_eq!((record.dead, record.ended_at), (None, None));
        assert_eq!(record.message.source, Source::Redriven);
        assert_eq!(f.command(redrive).await, CommandResult::Refused(MessageState::Pending));
        let claimed = f.claim_one(at(20)).await;
        assert_eq!((claimed.message.id, claimed.attempt), (id, 1));
    }
}

pub async fn a_running_message_is_not_redriven_moved_or_deleted(f: Fixture) {
    let id = running(&f).await;
    for command in [
        Command::Redrive { id, due_at: at(1) },
        Command::Reschedule { id, due_at: at(1) },
        Command::Reassign { id, to: urgent() },
        Command::Delete(id),
    ] {
        assert_eq!(f.command(command).await, CommandResult::Refused(MessageState::Running));
    }
}

pub async fn a_redrive_is_refused_while_another_message_with_the_same_key_is_alive(f: Fixture) {
    let old = f.finish(f.deduplicated("order"), dead(), at(0)).await;
    let newer = f.enqueue(f.deduplicated("order")).await;
    let redrive = Command::Redrive { id: old, due_at: at(1) };
    assert_eq!(f.command(redrive.clone()).await, CommandResult::Refused(MessageState::Dead));
    f.command(Command::Delete(newer)).await;
    assert_eq!(f.command(redrive).await, CommandResult::Applied(1));
    assert_eq!(f.try_enqueue(f.deduplicated("order")).await, EnqueueResult::Duplicate(old));
}

pub async fn a_pending_message_is_rescheduled_to_earlier_or_later(f: Fixture) {
    let id = f.enqueue(f.due(at(10))).await;
    let move_to = |due_at| Command::Reschedule { id, due_at };
    assert_eq!(f.command(move_to(at(30))).await, CommandResult::Applied(1));
    assert_eq!(f.claim(f.process(), 9, at(29)).await, []);
    assert_eq!(f.command(move_to(at(5))).await, CommandResult::Applied(1));
    let claimed = f.claim_one(at(5)).await;
    assert_eq!((claimed.due_at, claimed.message.due_at), (at(5), at(10)));
    assert_eq!(f.settle(&claimed, Verdict::Done, at(6)).await, SettleResult::Applied);
    assert_eq!(f.command(move_to(at(50))).await, CommandResult::Refused(MessageState::Done));
}

fn urgent() -> Assignment {
    Assignment { queue: None, priority: Some(Priority::HIGHEST) }
}

fn into(name: &str) -> Assignment {
    Assignment { queue: Some(queue(name)), priority: None }
}

// spec: U-49
pub async fn a_pending_message_is_made_more_or_less_urgent(f: Fixture) {
    let ids = f.enqueue_many(3).await;
    // A storage with claim cursors has a cursor after this.
    let first = f.claim(f.process(), 1, at(1)).await;
    assert_eq!(ids_of(&first), ids[..1]);
    let to = Assignment { queue: None, priority: Some(Priority::LOWEST) };
    assert_eq!(f.command(Command::Reassign { id: ids[1], to }).await, CommandResult::Applied(1));
    let usual = f.enqueue(f.message()).await;
    let command = Command::Reassign { id: usual, to: urgent() };
    assert_eq!(f.command(command).await, CommandResult::Applied(1));
    let claimed = f.claim(f.process(), 9, at(1)).await;
    assert_eq!(ids_of(&claimed), [usual, ids[2], ids[1]]);
    assert_eq!(claimed[0].message.priority, Priority::HIGHEST);
    assert_eq!(claimed[0].message.queue, Queue::default(), "omitted fields stay unchanged");
    assert_eq!(f.record(ids[1]).await.message.priority, Priority::LOWEST);
}

pub async fn a_pending_message_is_put_into_another_queue(f: Fixture) {
    let (id, stays) = (f.enqueue(f.due(at(5))).await, f.enqueue(f.due(at(6))).await);
    let source = WakeSource::Queue(queue("bulk"));
    let mut wakeup = f.storage.wakeup(&source);
    let command = Command::Reassign { id, to: into("bulk") };
    assert_eq!(f.command(command).await, CommandResult::Applied(1));
    assert!(is_notified(&mut wakeup).await, "the other queue is due earlier now");
    assert_eq!(f.storage.next_due(&source).await.unwrap(), Some(at(5)));
    assert_eq!(f.storage.next_due(&default_source()).await.unwrap(), Some(at(6)));
    let counts = f.inspect.counts(at(2)).await.unwrap();
    let pending = |of: Queue| counts.messages.get(&(of, MessageState::Pending)).copied();
    assert_eq!((pending(queue("bulk")), pending(Queue::default())), (Some(1), Some(1)));
    assert_eq!(ids_of(&f.claim(f.process(), 9, at(7)).await), [stays]);
    let until = at(60);
    let claim = Claim::new(queue("bulk"), f.process(), 9, until);
    let claimed = f.storage.claim(claim, at(7)).await.unwrap().remove(0);
    assert_eq!((claimed.message.id, &claimed.message.queue), (id, &queue("bulk")));
    assert_eq!(claimed.message.priority, f.message().priority, "omitted fields stay unchanged");
    assert_eq!(f.settle(&claimed, Verdict::Done, at(8)).await, SettleResult::Applied);
    let command = Command::Reassign { id, to: into("default") };
    assert_eq!(f.command(command).await, CommandResult::Refused(MessageState::Done));
    assert_eq!(f.record(id).await.message.queue, queue("bulk"));
}

// spec: H-62
pub async fn a_deleted_message_leaves_no_trace(f: Fixture) {
    let id = f.enqueue(f.deduplicated("order")).await;
    let claimed = f.claim_one(at(0)).await;
    f.settle(&claimed, again(&claimed, at(5)), at(1)).await;
    assert_eq!(f.command(Command::Delete(id)).await, CommandResult::Applied(1));
    assert_eq!(f.state(id).await, None);
    assert_eq!(f.history(id).await, []);
    assert_eq!(f.claim(f.process(), 9, at(100)).await, []);
    assert_eq!(f.try_enqueue(f.deduplicated("order")).await, EnqueueResult::Stored);
    assert_eq!(f.command(Command::Delete(id)).await, CommandResult::Unknown);
}

pub async fn an_unknown_message_is_reported_as_unknown(f: Fixture) {
    let id = f.message().id;
    for command in [
        Command::Cancel(id),
        Command::Redrive { id, due_at: at(1) },
        Command::Reschedule { id, due_at: at(1) },
        Command::Reassign { id, to: urgent() },
        Command::Delete(id),
    ] {
        assert_eq!(f.command(command).await, CommandResult::Unknown);
    }
}

pub async fn a_redrive_keeps_the_history(f: Fixture) {
    let id = f.finish(f.message(), dead(), at(0)).await;
    f.command(Command::Redrive { id, due_at: at(5) }).await;
    let claimed = f.claim_one(at(5)).await;
    f.settle(&claimed, Verdict::Done, at(6)).await;
    assert_eq!(f.history(id).await.len(), 2);
    assert_eq!(f.record(id).await.dead, None);
}

pub async fn of_many_that_cancel_or_redrive_at_once_exactly_one_succeeds(f: Fixture) {
    let id = f.enqueue(f.due(at(10))).await;
    let commands = [Command::Cancel(id), Command::Redrive { id, due_at: at(20) }];
    let refusals = [MessageState::Cancelled, MessageState::Pending];
    for (command, state) in commands.into_iter().zip(refusals) {
        let nodes = f.nodes(4).await.into_iter().cycle().take(8).collect();
        let results = together(nodes, |node| {
            let command = command.clone();
            async move { node.command(command).await }
        });
        let (applied, refused): (Vec<_>, Vec<_>) =
            results.await.into_iter().partition(|result| *result == CommandResult::Applied(1));
        assert_eq!(applied.len(), 1, "{command:?}");
        assert_eq!(refused, [CommandResult::Refused(state); 7]);
    }
    assert_eq!(f.claim_one(at(20)).await.message.id, id);
}

pub async fn a_cancel_and_a_claim_at_once_agree_which_was_first(f: Fixture) {
    let other = f.another_node().await;
    for _ in 0..20 {
        let id = f.enqueue(f.message()).await;
        let (operator, owner) = (f.clone(), other.clone());
        let (result, claimed) =
            at_once(async move { operator.command(Command::Cancel(id)).await }, async move {
                owner.claim(owner.process(), 9, at(0)).await
            })
            .await;
        match result {
            CommandResult::Applied(1) => assert_eq!(claimed, [], "cancelled before it was claimed"),
            CommandResult::Requested => {
                assert_eq!(ids_of(&claimed), [id]);
                let result = f.settle(&claimed[0], again(&claimed[0], at(5)), at(1)).await;
                assert_eq!(result, SettleResult::CancelRequested, "its owner learns of it");
                f.settle(&claimed[0], Verdict::Cancelled, at(1)).await;
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(f.state(id).await, Some(MessageState::Cancelled));
    }
}

// spec: T-43
pub async fn many_messages_with_one_key_are_cancelled_in_one_call(f: Fixture) {
    let about = |_| Message { key: Some(key("7")), ..one_time(f.due(at(60))) }.into();
    f.storage.enqueue((0..500).map(about).collect(), at(0)).await.unwrap();
    let command = Command::CancelKey { topic: Topic::new("mail").unwrap(), key: key("7") };
    assert_eq!(f.command(command).await, CommandResult::Applied(500));
    let counts = f.inspect.counts(at(99)).await.unwrap();
    assert_eq!(
        (counts.total(MessageState::Cancelled), counts.total(MessageState::Pending)),
        (500, 0)
    );
    assert_eq!(counts.oldest_due, None);
}

pub async fn only_a_dead_letter_is_discarded(f: Fixture) {
    let dead_letter = f.finish(f.message(), dead(), at(1)).await;
    let done = f.finish(f.message(), Verdict::Done, at(1)).await;
    let pending = f.enqueue(f.due(at(60))).await;
    assert_eq!(f.command(Command::Discard(done)).await, CommandResult::Refused(MessageState::Done));
    assert_eq!(
        f.command(Command::Discard(pending)).await,
        CommandResult::Refused(MessageState::Pending)
    );
    assert_eq!(f.command(Command::Discard(dead_letter)).await, CommandResult::Applied(1));
    assert_eq!(f.command(Command::Discard(dead_letter)).await, CommandResult::Unknown);
    assert_eq!(f.state(pending).await, Some(MessageState::Pending));
}
