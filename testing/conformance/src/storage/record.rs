//! Record: the history of messages that a broker carries, and their dead letters.

use std::sync::Arc;

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{
    BrokerRecord, ClaimedMessage, Command, CommandResult, SettleResult,
};
use punctual::inspect::{ExecutionFilter, PageRequest};
use punctual::model::{DeadReason, Ending, MessageRecord, MessageState};

use super::Fixture;
use super::fixture::{at, ids_of, together};

behaviours! {
    an_execution_recorded_twice_is_stored_once,
    a_dead_letter_is_kept_and_can_be_redriven,
    a_dead_letter_does_not_touch_a_message_that_is_alive_here,
    a_dead_letter_that_does_not_say_when_it_ended_ended_now,
    many_records_are_stored_in_one_call,
    of_many_that_record_one_dead_letter_at_once_one_is_stored,
}

/// Returns a broker's delivery in the form of a claimed message.
async fn delivered(f: &Fixture) -> ClaimedMessage {
    f.enqueue(f.message()).await;
    let claimed = f.claim_one(at(0)).await;
    assert_eq!(f.settle(&claimed, Verdict::Done, at(0)).await, SettleResult::Applied);
    claimed
}

fn dead_letter(claimed: &ClaimedMessage) -> MessageRecord {
    let record = MessageRecord::new(Arc::clone(&claimed.message));
    let dead = Some(DeadReason::AttemptsSpent);
    MessageRecord { state: MessageState::Dead, dead, attempt: 5, ended_at: Some(at(9)), ..record }
}

pub async fn an_execution_recorded_twice_is_stored_once(f: Fixture) {
    let claimed = delivered(&f).await;
    let mut execution = f.execution(&claimed, at(4));
    execution.ending = Ending::Failed;
    let record = BrokerRecord { execution: execution.clone().into(), dead: None };
    f.storage.record(vec![record.clone()], at(4)).await.unwrap();
    f.storage.record(vec![record], at(5)).await.unwrap();
    let filter = ExecutionFilter { endings: vec!["failed"], ..ExecutionFilter::default() };
    let found = f.inspect.executions(filter, PageRequest::first(10)).await.unwrap();
    assert_eq!(found.rows, [execution]);
}

pub async fn a_dead_letter_is_kept_and_can_be_redriven(f: Fixture) {
    let claimed = delivered(&f).await;
    let id = claimed.message.id;
    let record = BrokerRecord {
        execution: f.execution(&claimed, at(9)).into(),
        dead: Some(Box::new(dead_letter(&claimed))),
    };
    f.storage.record(vec![record.clone()], at(10)).await.unwrap();
    f.storage.record(vec![record], at(11)).await.unwrap();
    let kept = f.record(id).await;
    assert_eq!((kept.state, kept.attempt, kept.ended_at), (MessageState::Dead, 5, Some(at(9))));
    assert_eq!(kept.dead, Some(DeadReason::AttemptsSpent));
    assert_eq!(f.inspect.counts(at(9)).await.unwrap().total(MessageState::Dead), 1);
    let redrive = Command::Redrive { id, due_at: at(10) };
    assert_eq!(f.command(redrive).await, CommandResult::Applied(1));
    assert_eq!(ids_of(&f.claim(f.process(), 9, at(10)).await), [id]);
}

pub async fn a_dead_letter_does_not_touch_a_message_that_is_alive_here(f: Fixture) {
    let id = f.enqueue(f.message()).await;
    let claimed = f.claim_one(at(0)).await;
    let record = BrokerRecord {
        execution: f.execution(&claimed, at(9)).into(),
        dead: Some(Box::new(dead_letter(&claimed))),
    };
    f.storage.record(vec![record], at(9)).await.unwrap();
    assert_eq!(f.record(id).await.lease, Some(claimed.lease));
}

pub async fn a_dead_letter_that_does_not_say_when_it_ended_ended_now(f: Fixture) {
    let claimed = delivered(&f).await;
    let dead_letter = MessageRecord { ended_at: None, ..dead_letter(&claimed) };
    let record = BrokerRecord {
        execution: f.execution(&claimed, at(9)).into(),
        dead: Some(Box::new(dead_letter)),
    };
    f.storage.record(vec![record], at(12)).await.unwrap();
    let kept = f.record(claimed.message.id).await;
    assert_eq!((kept.ended_at, kept.message), (Some(at(12)), claimed.message));
}

pub async fn many_records_are_stored_in_one_call(f: Fixture) {
    const COUNT: usize = 500;
    let claimed = delivered(&f).await;
    let records = (0..COUNT).map(|_| {
        let message = Arc::new(f.message());
        let claimed = ClaimedMessage { message, ..claimed.clone() };
        BrokerRecord {
            execution: f.execution(&claimed, at(9)).into(),
            dead: Some(Box::new(dead_letter(&claimed))),
        }
    });
    f.storage.record(records.collect(), at(9)).await.unwrap();
    let counts = f.inspect.counts(at(9)).await.unwrap();
    assert_eq!(counts.total(MessageState::Dead), COUNT as u64);
    let all =
        f.inspect.executions(ExecutionFilter::default(), PageRequest::first(1_000)).await.unwrap();
    assert_eq!(all.rows.len(), COUNT + 1);
}

pub async fn of_many_that_record_one_dead_letter_at_once_one_is_stored(f: Fixture) {
    let claimed = delivered(&f).await;
    let record = BrokerRecord {
        execution: f.execution(&claimed, at(9)).into(),
        dead: Some(Box::new(dead_letter(&claimed))),
    };
    let nodes = f.nodes(4).await;
    together(nodes, |node| {
        let record = record.clone();
        async move { node.storage.record(vec![record], at(9)).await.unwrap() }
    })
    .await;
    assert_eq!(f.inspect.counts(at(9)).await.unwrap().total(MessageState::Dead), 1);
    assert_eq!(f.history(claimed.message.id).await.len(), 2, "its first and this one");
}
