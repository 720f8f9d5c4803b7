//! Progress: reports of running handlers (progress, checkpoints, logs) and their follow-up messages.

use std::sync::Arc;

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{Command, ExtendResult, ProgressUpdate, SettleResult, Settlement};
use punctual::inspect::ExecutionFilter;
use punctual::model::{
    BatchId, Body, Ending, Execution, ExecutionId, HandlerOptions, Headers, IdSource, LeaseRef,
    Limit, Link, LinkOn, Message, MessageState, Parent, Priority, Progress, Queue, Rate, Relations,
    Rescue, Retry, Topic, Unique,
};

use super::Fixture;
use super::fixture::{again, at, dead, key, seconds};

behaviours! {
    progress_and_checkpoint_are_saved_and_the_next_attempt_gets_the_checkpoint,
    omitted_fields_stay_unchanged,
    only_the_current_owner_saves_progress_and_it_learns_of_a_cancel,
    a_redriven_message_begins_without_a_checkpoint,
    log_lines_of_a_handler_are_stored_with_its_execution,
    follow_ups_are_stored_only_when_the_settlement_applies,
    a_follow_up_is_stored_once,
    relations_are_stored_completely,
}

fn progress(percent: u8, second: i64) -> Progress {
    Progress { percent: Some(percent), note: Some(Arc::from("half of it")), at: at(second) }
}

fn no_change(lease: LeaseRef) -> ProgressUpdate {
    ProgressUpdate { lease, progress: None, checkpoint: None }
}

pub async fn progress_and_checkpoint_are_saved_and_the_next_attempt_gets_the_checkpoint(
    f: Fixture,
) {
    let id = f.enqueue(f.message()).await;
    let claimed = f.claim_one(at(1)).await;
    assert_eq!(claimed.checkpoint, None);
    let checkpoint = Body::json(&["page", "7"]).unwrap();
    let update = ProgressUpdate {
        progress: Some(progress(50, 2)),
        checkpoint: Some(checkpoint.clone()),
        ..no_change(claimed.lease_ref())
    };
    assert_eq!(f.storage.save_progress(vec![update], at(2)).await.unwrap(), [ExtendResult::Held]);
    let record = f.record(id).await;
    assert_eq!(record.progress, Some(progress(50, 2)));
    assert_eq!(record.checkpoint, Some(checkpoint.clone()));
    assert_eq!(record.lease.map(|lease| lease.until), Some(at(61)), "nothing is renewed");
    f.settle(&claimed, again(&claimed, at(3)), at(3)).await;
    let f = f.reopen().await;
    assert_eq!(f.claim_one(at(3)).await.checkpoint, Some(checkpoint.clone()));
    assert_eq!(f.reclaim(9, at(100)).await[0].checkpoint, Some(checkpoint));
}

pub async fn omitted_fields_stay_unchanged(f: Fixture) {
    let id = f.enqueue(f.message()).await;
    let lease = f.claim_one(at(1)).await.lease_ref();
    let binary = Body::raw(vec![0, 159, 146, 150], "application/octet-stream");
    for update in [
        ProgressUpdate { progress: Some(progress(10, 2)), ..no_change(lease) },
        ProgressUpdate { checkpoint: Some(binary.clone()), ..no_change(lease) },
        ProgressUpdate { progress: Some(progress(20, 3)), ..no_change(lease) },
        no_change(lease),
    ] {
        f.storage.save_progress(vec![update], at(3)).await.unwrap();
    }
    let record = f.record(id).await;
    assert_eq!((record.progress, record.checkpoint), (Some(progress(20, 3)), Some(binary)));
}

pub async fn only_the_current_owner_saves_progress_and_it_learns_of_a_cancel(f: Fixture) {
    let ids = f.enqueue_many(2).await;
    let claimed = f.claim(f.process(), 9, at(1)).await;
    f.command(Command::Cancel(ids[1])).await;
    let old = LeaseRef { token: 0, ..claimed[0].lease_ref() };
    let update = |lease| ProgressUpdate { progress: Some(progress(1, 1)), ..no_change(lease) };
    let updates = vec![update(old), update(claimed[1].lease_ref()), update(claimed[0].lease_ref())];
    let results = f.storage.save_progress(updates, at(2)).await.unwrap();
    assert_eq!(results, [ExtendResult::Lost, ExtendResult::CancelRequested, ExtendResult::Held]);
    f.settle(&claimed[0], Verdict::Done, at(2)).await;
    let results =
        f.storage.save_progress(vec![update(claimed[0].lease_ref())], at(3)).await.unwrap();
    assert_eq!(results, [ExtendResult::Lost]);
}

pub async fn a_redriven_message_begins_without_a_checkpoint(f: Fixture) {
    let id = f.enqueue(f.message()).await;
    let claimed = f.claim_one(at(1)).await;
    let checkpoint = Some(Body::json(&7).unwrap());
    let update = ProgressUpdate {
        checkpoint,
        progress: Some(progress(9, 1)),
        ..no_change(claimed.lease_ref())
    };
    f.storage.save_progress(vec![update], at(1)).await.unwrap();
    f.settle(&claimed, dead(), at(2)).await;
    f.command(Command::Redrive { id, due_at: at(3) }).await;
    assert_eq!(f.record(id).await.progress, None);
    assert_eq!(f.claim_one(at(3)).await.checkpoint, None);
}

pub async fn log_lines_of_a_handler_are_stored_with_its_execution(f: Fixture) {
    let id = f.enqueue(f.message()).await;
    let log: Option<Arc<str>> = Some(Arc::from("read 7 rows\nsent “them” on"));
    let claimed = f.claim_one(at(1)).await;
    let execution = Execution { log: log.clone(), ..f.execution(&claimed, at(2)) };
    f.settle_with(&claimed, again(&claimed, at(2)), execution).await;
    let claimed = f.claim_one(at(2)).await;
    let execution = Execution { log: log.clone(), ..f.execution(&claimed, at(3)) };
    f.settle_with(&claimed, Verdict::Done, execution).await;
    let of_it = ExecutionFilter { message: Some(id), ..ExecutionFilter::default() };
    let page = punctual::inspect::PageRequest::first(9);
    let found = f.inspect.executions(of_it, page).await.unwrap().rows;
    assert_eq!(found.into_iter().map(|one| one.log).collect::<Vec<_>>(), [log.clone(), log]);
}

pub async fn follow_ups_are_stored_only_when_the_settlement_applies(f: Fixture) {
    let kinds: [fn(&punctual::backend::storage::ClaimedMessage) -> Verdict; 3] =
        [|_| Verdict::Done, |_| dead(), |claimed| again(claimed, at(900))];
    for verdict in kinds {
        f.enqueue(f.message()).await;
        let claimed = f.claim_one(at(1)).await;
        let (next, lost) = (f.message(), f.message());
        let (id, never) = (next.id, lost.id);
        let old = LeaseRef { token: 0, ..claimed.lease_ref() };
        let execution = Some(Arc::new(f.execution(&claimed, at(2))));
        let settle = |lease, then: Message| Settlement {
            then: vec![Arc::new(then)],
            ..Settlement::new(lease, verdict(&claimed), execution.clone())
        };
        let settlements = vec![settle(old, lost), settle(claimed.lease_ref(), next)];
        let results = f.storage.settle(settlements, at(2)).await.unwrap();
        assert_eq!(results, [SettleResult::Lost, SettleResult::Applied]);
        assert!(f.inspect.message(never).await.unwrap().is_none());
        let followed = f.claim_one(at(2)).await;
        assert_eq!(followed.message.id, id);
        f.settle(&followed, Verdict::Done, at(2)).await;
    }
}

pub async fn a_follow_up_is_stored_once(f: Fixture) {
    f.enqueue(f.message()).await;
    let claimed = f.claim_one(at(1)).await;
    let next = f.message();
    let id = f.enqueue(next.clone()).await;
    let settlement = Settlement {
        then: vec![Arc::new(next)],
        ..Settlement::new(claimed.lease_ref(), Verdict::Done, None)
    };
    assert_eq!(f.storage.settle(vec![settlement], at(2)).await.unwrap(), [SettleResult::Applied]);
    assert_eq!(f.state(id).await, Some(MessageState::Pending));
    assert_eq!(f.claim_one(at(2)).await.message.id, id);
}

pub async fn relations_are_stored_completely(f: Fixture) {
    let link = Link {
        on: LinkOn::Always,
        topic: Topic::new("next").unwrap(),
        queue: Queue::new("slow").unwrap(),
        priority: Priority::new(3).unwrap(),
        key: Some(key("7")),
        body: Body::json(&[1, 2]).unwrap(),
        headers: Headers::new(),
        delay: seconds(9),
        handler_options: Some(Arc::new(
            HandlerOptions::new().retry(Retry::proportional()).rescue(Rescue::AsFailure),
        )),
        then: Vec::new(),
    };
    let parent = Parent {
        message: f.message().id,
        execution: ExecutionId::from_uuid(f.ids.next(at(0))),
        ending: Ending::Succeeded,
        note: Some(Arc::from("fine")),
        result: Some(Body::json(&7).unwrap()),
    };
    let relations = Relations {
        limit: Some(Limit {
            name: key("mail"),
            running_max: Some(2),
            rate: Some(Rate { count: 3, per: seconds(1) }),
        }),
        unique: Unique::For(seconds(60)),
        batch: Some(BatchId::from_uuid(f.ids.next(at(0)))),
        waits_for: Some(BatchId::from_uuid(f.ids.next(at(0)))),
        then: vec![Link { then: vec![link.clone()], ..link }],
        parent: Some(parent),
    };
    let message = Message { relations: Some(Arc::new(relations)), ..f.deduplicated("7") };
    let id = f.enqueue(message.clone()).await;
    assert_eq!(*f.record(id).await.message, message);
    let claimed = f.claim_one(at(1)).await;
    assert_eq!(*claimed.message, message);
    f.settle(&claimed, dead(), at(2)).await;
    assert_eq!(*f.record(id).await.message, message);
    f.command(Command::Redrive { id, due_at: at(3) }).await;
    let claimed = f.claim_one(at(3)).await;
    assert_eq!(claimed.message.relations, message.relations);
    f.settle(&claimed, Verdict::Done, at(4)).await;
    assert_eq!(f.record(id).await.message.relations, message.relations);
}
