//! Inspect: filters, counts and throughput, which change nothing.

use punctual::ErrorKind;
use punctual::backend::policy::Verdict;
use punctual::backend::storage::{Command, CommandResult};
use punctual::inspect::{Bucket, Counts, ExecutionFilter, MessageFilter, PageRequest};
use punctual::jiff::Timestamp;
use punctual::model::{
    DeadReason, Ending, Execution, JobName, Message, MessageId, MessageState, Occurrence, Priority,
    Queue, SkipReason, Source, Topic,
};

use super::Fixture;
use super::fixture::{again, at, key, microsecond_before, queue, seconds};

behaviours! {
    messages_are_found_by_queue_topic_key_and_job,
    messages_are_found_by_their_states,
    executions_are_listed_newest_first_limited_and_filtered,
    counts_list_states_per_queue_stale_leases_and_the_oldest_due_time,
    counts_stay_correct_through_all_states_of_a_message,
    throughput_counts_endings_in_buckets_from_an_instant_on,
    reading_changes_nothing,
    messages_are_found_by_several_fields_at_once,
    executions_are_found_by_message_topic_and_several_endings,
    the_latest_runs_of_several_jobs_are_found_together,
    missing_rows_are_an_empty_result_and_no_error,
    throughput_separates_endings_and_reasons_and_begins_at_its_instant,
    counts_are_the_same_for_every_node,
    planned_one_time_jobs_are_found_among_all_messages,
}

async fn found(f: &Fixture, filter: MessageFilter) -> Vec<MessageId> {
    let page = f.inspect.messages(filter, PageRequest::first(100)).await.unwrap();
    page.rows.iter().map(|row| row.message.id).collect()
}

/// Returns the counts; for few messages the estimate must be equal.
async fn counted(f: &Fixture, now: Timestamp) -> Counts {
    let counts = f.inspect.counts(now).await.unwrap();
    assert_eq!(f.inspect.estimate(now).await.unwrap(), counts);
    counts
}

pub async fn messages_are_found_by_queue_topic_key_and_job(f: Fixture) {
    let topic = Topic::new("invoice").unwrap();
    let invoice = Message { topic: topic.clone(), ..f.message() };
    let invoice = f.enqueue(invoice).await;
    let slow = Message { queue: queue("slow"), ..f.message() };
    let slow = f.enqueue(slow).await;
    let about = Message { key: Some(key("7")), ..f.message() };
    let about = f.enqueue(about).await;
    let run = f.enqueue(f.run_of("report", at(9))).await;

    let any = MessageFilter::default;
    assert_eq!(found(&f, any()).await, [run, about, slow, invoice]);
    let topic = Some(topic);
    assert_eq!(found(&f, MessageFilter { topic, ..any() }).await, [invoice]);
    let queue = Some(queue("slow"));
    assert_eq!(found(&f, MessageFilter { queue, ..any() }).await, [slow]);
    let key = Some(key("7"));
    assert_eq!(found(&f, MessageFilter { key, ..any() }).await, [about]);
    let job = Some(JobName::new("report").unwrap());
    assert_eq!(found(&f, MessageFilter { job, ..any() }).await, [run]);
}

pub async fn messages_are_found_by_their_states(f: Fixture) {
    let verdict = Verdict::Dead { reason: DeadReason::Poison, error: None };
    let dead = f.finish(f.message(), verdict, at(0)).await;
    let done = f.finish(f.message(), Verdict::Done, at(0)).await;
    let waiting = f.enqueue(f.message()).await;
    let of = |states: &[MessageState]| MessageFilter {
        states: states.to_vec(),
        ..MessageFilter::default()
    };
    assert_eq!(found(&f, of(&[MessageState::Dead])).await, [dead]);
    assert_eq!(found(&f, of(&[MessageState::Done, MessageState::Dead])).await, [done, dead]);
    assert_eq!(found(&f, of(&[MessageState::Pending, MessageState::Dead])).await, [waiting, dead]);
    assert_eq!(found(&f, of(&[MessageState::Running])).await, []);
    let after = PageRequest::after(done, 9);
    let page =
        f.inspect.messages(of(&[MessageState::Done, MessageState::Dead]), after).await.unwrap();
    assert_eq!((page.rows[0].message.id, page.rows.len(), page.next), (dead, 1, None));
}

// spec: T-75
pub async fn planned_one_time_jobs_are_found_among_all_messages(f: Fixture) {
    let planned = |name: &str| Message { source: Source::Deferred, ..f.run_of(name, at(500)) };
    let with_schedule = |message: Message| {
        let schedule = Some("0 2 * * *".to_owned());
        let occurrence = message.occurrence.map(|run| Occurrence { schedule, ..run });
        Message { occurrence, ..message }
    };
    let done = f.finish(planned("remind"), Verdict::Done, at(0)).await;
    let mut redriven = Vec::new();
    for message in [planned("remind"), with_schedule(f.run_of("report", at(1))), f.message()] {
        let verdict = Verdict::Dead { reason: DeadReason::Poison, error: None };
        let id = f.finish(message, verdict, at(0)).await;
        let redrive = Command::Redrive { id, due_at: at(300) };
        assert_eq!(f.command(redrive).await, CommandResult::Applied(1));
        redriven.push(id);
    }
    let running = f.enqueue(planned("invoice")).await;
    assert_eq!(f.claim_one(at(0)).await.message.id, running);
    f.enqueue(with_schedule(f.run_of("report", at(2)))).await;
    let waiting = f.enqueue(Message { key: Some(key("7")), ..planned("remind-later") }).await;
    f.enqueue(Message { key: Some(key("7")), ..f.message() }).await;

    let all = MessageFilter { planned: true, ..MessageFilter::default() };
    let alive =
        MessageFilter { states: vec![MessageState::Pending, MessageState::Running], ..all.clone() };
    assert_eq!(found(&f, alive.clone()).await, [waiting, running, redriven[0]]);
    assert_eq!(found(&f, all.clone()).await, [waiting, running, redriven[0], done]);
    let of = |name: &str| MessageFilter { job: Some(JobName::new(name).unwrap()), ..all.clone() };
    assert_eq!(found(&f, of("remind")).await, [redriven[0], done]);
    assert_eq!(found(&f, of("report")).await, []);
    assert_eq!(found(&f, MessageFilter { key: Some(key("7")), ..all.clone() }).await, [waiting]);
    let page = f.inspect.messages(alive.clone(), PageRequest::first(1)).await.unwrap();
    let rest = f.inspect.messages(alive, PageRequest::after(page.next.unwrap(), 9)).await.unwrap();
    let rest: Vec<_> = rest.rows.iter().map(|row| row.message.id).collect();
    assert_eq!(rest, [running, redriven[0]]);
}

// spec: U-13
pub async fn executions_are_listed_newest_first_limited_and_filtered(f: Fixture) {
    let first = f.finish(f.message(), Verdict::Done, at(5)).await;
    // It ended earlier than the first one, but it is newer.
    let second = f.finish(f.run_of("report", at(1)), Verdict::Done, at(4)).await;
    let third = f.finish(f.message(), Verdict::Done, at(6)).await;
    let all = ExecutionFilter::default;
    let page = f.inspect.executions(all(), PageRequest::first(2)).await.unwrap();
    let messages: Vec<_> = page.rows.iter().map(|row| row.message).collect();
    assert_eq!(messages, [Some(third), Some(second)]);
    let rest =
        f.inspect.executions(all(), PageRequest::after(page.next.unwrap(), 2)).await.unwrap();
    assert_eq!((rest.rows.len(), rest.rows[0].message, rest.next), (1, Some(first), None));

    let of_job = ExecutionFilter { job: Some(JobName::new("report").unwrap()), ..all() };
    let rows = f.inspect.executions(of_job, PageRequest::first(9)).await.unwrap().rows;
    assert_eq!((rows.len(), rows[0].message), (1, Some(second)));
    let failed = ExecutionFilter { endings: vec!["failed"], ..all() };
    assert_eq!(f.inspect.executions(failed, PageRequest::first(9)).await.unwrap().rows, []);
}

pub async fn counts_list_states_per_queue_stale_leases_and_the_oldest_due_time(f: Fixture) {
    f.enqueue_many(2).await;
    f.claim(f.process(), 1, at(0)).await;
    f.enqueue(f.due(at(500))).await;
    f.enqueue(Message { queue: queue("slow"), ..f.due(at(-7)) }).await;
    let counts = counted(&f, at(0)).await;
    assert_eq!(counts.messages[&(Queue::default(), MessageState::Pending)], 2);
    assert_eq!(counts.messages[&(Queue::default(), MessageState::Running)], 1);
    assert_eq!(counts.messages[&(queue("slow"), MessageState::Pending)], 1);
    assert_eq!(counts.messages.len(), 3, "states without messages are not listed");
    assert_eq!((counts.stale, counts.oldest_due), (0, Some(at(-7))));
    assert_eq!(counted(&f, at(60)).await.stale, 0);
    assert_eq!(counted(&f, at(61)).await.stale, 1);
}

pub async fn counts_stay_correct_through_all_states_of_a_message(f: Fixture) {
    let id = f.finish(f.message(), Verdict::Done, at(1)).await;
    f.command(Command::Redrive { id, due_at: at(2) }).await;
    f.command(Command::Cancel(id)).await;
    let counts = counted(&f, at(2)).await;
    assert_eq!(counts.messages.len(), 1);
    assert_eq!(counts.total(MessageState::Cancelled), 1);
    assert_eq!(counts.oldest_due, None);
    f.command(Command::Delete(id)).await;
    assert!(counted(&f, at(2)).await.messages.is_empty());
    f.enqueue(f.due(at(9))).await;
    assert_eq!(counted(&f, at(8)).await.oldest_due, None, "nothing is due yet");
    assert_eq!(counted(&f, at(9)).await.oldest_due, Some(at(9)));
    f.enqueue(Message { priority: Priority::LOWEST, ..f.due(at(8)) }).await;
    assert_eq!(counted(&f, at(9)).await.oldest_due, Some(at(8)));
}

pub async fn throughput_counts_endings_in_buckets_from_an_instant_on(f: Fixture) {
    for second in [5, 10, 19, 20, 45] {
        f.finish(f.message(), Verdict::Done, at(second)).await;
    }
    let buckets = f.inspect.throughput(at(10), seconds(10)).await.unwrap();
    let counted: Vec<_> =
        buckets.iter().map(|bucket| (bucket.start, bucket.endings[&Ending::Succeeded])).collect();
    assert_eq!(counted, [(at(10), 2), (at(20), 1), (at(40), 1)]);
    let error = f.inspect.throughput(at(0), seconds(0)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

pub async fn reading_changes_nothing(f: Fixture) {
    let id = f.enqueue(f.message()).await;
    let before = f.record(id).await;
    counted(&f, at(9)).await;
    f.inspect.throughput(at(0), seconds(1)).await.unwrap();
    found(&f, MessageFilter::default()).await;
    assert_eq!(f.record(id).await, before);
}

pub async fn messages_are_found_by_several_fields_at_once(f: Fixture) {
    let topic = Topic::new("invoice").unwrap();
    let full = |about: &str| Message {
        topic: topic.clone(),
        queue: queue("slow"),
        key: Some(key(about)),
        ..f.run_of("report", at(9))
    };
    let wanted = f.enqueue(full("7")).await;
    let close = [
        Message { key: Some(key("8")), dedupe: None, ..full("7") },
        Message { queue: Queue::default(), dedupe: None, ..full("7") },
        Message { topic: Topic::new("mail").unwrap(), dedupe: None, ..full("7") },
        Message { occurrence: None, dedupe: None, ..full("7") },
    ];
    for message in close {
        f.enqueue(message).await;
    }
    let filter = MessageFilter {
        states: vec![MessageState::Pending, MessageState::Dead],
        queue: Some(queue("slow")),
        topic: Some(topic.clone()),
        key: Some(key("7")),
        job: Some(JobName::new("report").unwrap()),
        batch: None,
        planned: false,
    };
    assert_eq!(found(&f, filter.clone()).await, [wanted]);
    assert_eq!(found(&f, MessageFilter { states: vec![MessageState::Dead], ..filter }).await, []);
}

pub async fn the_latest_runs_of_several_jobs_are_found_together(f: Fixture) {
    let mut runs = Vec::new();
    for second in 0..4 {
        for job in ["backup", "report"] {
            runs.push(f.finish(f.run_of(job, at(second)), Verdict::Done, at(second)).await);
        }
    }
    f.finish(f.message(), Verdict::Done, at(9)).await;
    f.enqueue(f.run_of("report", at(5))).await;
    let claimed = f.claim_one(at(5)).await;
    let ending = Ending::Skipped(SkipReason::Overlap);
    let skipped = Execution { ending, ..f.execution(&claimed, at(5)) };
    f.settle_with(&claimed, Verdict::Done, skipped).await;
    let jobs = ["report", "unknown", "backup"].map(|name| JobName::new(name).unwrap());
    let found = f.inspect.latest_runs(&jobs, 3).await.unwrap();
    let found: Vec<MessageId> = found.into_iter().filter_map(|run| run.message).collect();
    assert_eq!(found, [runs[7], runs[5], runs[3], runs[6], runs[4], runs[2]]);
    assert_eq!(f.inspect.latest_runs(&[], 3).await.unwrap(), []);
}

pub async fn executions_are_found_by_message_topic_and_several_endings(f: Fixture) {
    let id = f.enqueue(f.message()).await;
    let topic = Topic::new("invoice").unwrap();
    for ending in [Ending::Failed, Ending::Skipped(SkipReason::Overlap), Ending::TimedOut] {
        let claimed = f.claim_one(at(0)).await;
        let execution = Execution { ending, ..f.execution(&claimed, at(0)) };
        f.settle_with(&claimed, again(&claimed, at(0)), execution).await;
    }
    f.claim_one(at(0)).await;
    let other =
        f.finish(Message { topic: topic.clone(), ..f.message() }, Verdict::Done, at(1)).await;
    let found = async |filter| -> Vec<(MessageId, Ending)> {
        let rows = f.inspect.executions(filter, PageRequest::first(9)).await.unwrap().rows;
        rows.into_iter().map(|row| (row.message.unwrap(), row.ending)).collect()
    };
    let all = ExecutionFilter::default;
    let of_topic = ExecutionFilter { topic: Some(topic.clone()), ..all() };
    assert_eq!(found(of_topic).await, [(other, Ending::Succeeded)]);
    let endings = vec!["failed", "skipped"];
    let skipped = Ending::Skipped(SkipReason::Overlap);
    let of_endings = ExecutionFilter { endings: endings.clone(), ..all() };
    assert_eq!(found(of_endings).await, [(id, skipped), (id, Ending::Failed)]);
    let of_all = ExecutionFilter {
        message: Some(id),
        topic: Some(topic),
        endings,
        ..ExecutionFilter::default()
    };
    assert_eq!(found(of_all).await, []);
}

pub async fn missing_rows_are_an_empty_result_and_no_error(f: Fixture) {
    let id = f.message().id;
    assert_eq!(f.inspect.message(id).await.unwrap(), None);
    assert_eq!(found(&f, MessageFilter::default()).await, []);
    assert_eq!(f.history(id).await, []);
    assert_eq!(counted(&f, at(0)).await, Counts::default());
    assert_eq!(f.inspect.throughput(at(0), seconds(1)).await.unwrap(), []);
    let after =
        f.inspect.messages(MessageFilter::default(), PageRequest::after(id, 9)).await.unwrap();
    assert_eq!((after.rows.len(), after.next), (0, None));
}

pub async fn throughput_separates_endings_and_reasons_and_begins_at_its_instant(f: Fixture) {
    let (overlap, misfire) =
        (Ending::Skipped(SkipReason::Overlap), Ending::Skipped(SkipReason::Misfire));
    let ended = [
        (at(9), Ending::Failed),
        (at(10), Ending::Failed),
        (at(10), overlap),
        (microsecond_before(at(25)), Ending::Failed),
        (at(25), misfire),
    ];
    f.enqueue(f.message()).await;
    for (ended_at, ending) in ended {
        let claimed = f.claim_one(at(0)).await;
        let execution = Execution { ending, ..f.execution(&claimed, ended_at) };
        f.settle_with(&claimed, again(&claimed, at(0)), execution).await;
    }
    let buckets = f.inspect.throughput(at(10), seconds(15)).await.unwrap();
    let first = Bucket { start: at(10), endings: [(Ending::Failed, 2), (overlap, 1)].into() };
    let second = Bucket { start: at(25), endings: [(misfire, 1)].into() };
    assert_eq!(buckets, [first, second]);
}

pub async fn counts_are_the_same_for_every_node(f: Fixture) {
    f.enqueue_many(3).await;
    let claimed = f.claim(f.process(), 2, at(0)).await;
    f.settle(&claimed[0], Verdict::Done, at(1)).await;
    let counts = counted(&f, at(2)).await;
    assert_eq!(counts.messages.values().sum::<u64>(), 3);
    for node in f.nodes(3).await {
        assert_eq!(node.inspect.counts(at(2)).await.unwrap(), counts);
    }
}
