//! Topic filters: a claim takes the topics it names; other messages are not changed, not delayed and block
//! nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{Claim, ClaimedMessage, Command, Entry, TopicFilter, WakeSource};
use punctual::jiff::Timestamp;
use punctual::model::{Limit, Message, MessageId, MessageState, Priority, Queue, Relations, Topic};

use super::Fixture;
use super::fixture::{
    again, at, default_source, ids_of, is_notified, key, pending_notifications, queue, together,
};

behaviours! {
    only_the_topics_that_a_filter_admits_are_claimed,
    what_a_claim_leaves_keeps_its_place_and_its_counts,
    many_messages_of_other_topics_hide_nothing,
    a_filter_holds_beside_limits_running_max_and_the_priority_that_goes_first,
    an_exclusive_message_does_not_wait_for_a_pending_one_of_another_topic,
    the_next_due_of_a_filter_is_that_of_the_first_message_it_admits,
    the_next_due_behind_many_other_messages_is_never_too_late,
    a_wakeup_of_a_filter_notifies_whatever_else_is_due,
    a_message_before_the_position_of_a_claim_is_claimed_at_once,
    claims_by_several_filters_leave_nothing_behind,
    many_nodes_with_different_handlers_handle_everything_once,
}

fn topic(name: &str) -> Topic {
    Topic::stored(name).unwrap()
}

fn only(names: &[&str]) -> TopicFilter {
    TopicFilter::only(names.iter().copied().map(topic))
}

fn of(name: &str, message: Message) -> Message {
    Message { topic: topic(name), ..message }
}

fn source(topics: &TopicFilter) -> WakeSource {
    WakeSource::Topics(Queue::default(), topics.clone())
}

fn claim(f: &Fixture, topics: &TopicFilter, limit: usize) -> Claim {
    let topics = topics.clone();
    Claim { topics, ..Claim::new(Queue::default(), f.process(), limit, at(900)) }
}

async fn claimed(
    f: &Fixture,
    topics: &TopicFilter,
    limit: usize,
    now: Timestamp,
) -> Vec<ClaimedMessage> {
    f.storage.claim(claim(f, topics, limit), now).await.unwrap()
}

/// Enqueues `count` messages of a topic in one call.
async fn enqueue_many(f: &Fixture, name: &str, count: usize, due_at: Timestamp) -> Vec<MessageId> {
    let messages: Vec<Message> = (0..count).map(|_| of(name, f.due(due_at))).collect();
    let ids = messages.iter().map(|message| message.id).collect();
    f.storage.enqueue(messages.into_iter().map(Entry::from).collect(), at(0)).await.unwrap();
    ids
}

// spec: T-29, U-20
pub async fn only_the_topics_that_a_filter_admits_are_claimed(f: Fixture) {
    let mut ids = Vec::new();
    for name in ["fax", "punctual.http", "mail", "punctual", "Mail", "fax"] {
        ids.push(f.enqueue(of(name, f.message())).await);
    }
    assert_eq!(claimed(&f, &only(&[]), 9, at(1)).await, []);
    assert_eq!(claimed(&f, &only(&["post", "ma", "mails"]), 9, at(1)).await, []);
    assert_eq!(ids_of(&claimed(&f, &only(&["fax", "tele"]), 1, at(1)).await), [ids[0]]);
    let others = claimed(&f, &TopicFilter::NotSystem, 9, at(1)).await;
    assert_eq!(ids_of(&others), [ids[2], ids[3], ids[4], ids[5]]);
    assert_eq!(ids_of(&claimed(&f, &TopicFilter::All, 9, at(1)).await), [ids[1]]);
}

pub async fn what_a_claim_leaves_keeps_its_place_and_its_counts(f: Fixture) {
    let urgent = |message| Message { priority: Priority::HIGHEST, ..message };
    let late = f.enqueue(of("fax", f.due(at(3)))).await;
    let early = f.enqueue(of("fax", f.due(at(1)))).await;
    let first = f.enqueue(urgent(of("fax", f.due(at(4))))).await;
    let mail = f.enqueue(f.due(at(5))).await;
    let urgent_mail = f.enqueue(urgent(f.due(at(5)))).await;
    let (mails, faxes) = (only(&["mail"]), only(&["fax"]));
    assert_eq!(ids_of(&claimed(&f, &mails, 9, at(5)).await), [urgent_mail, mail]);
    assert!(claimed(&f, &mails, 9, at(6)).await.is_empty());
    let record = f.record(early).await;
    assert_eq!((record.state, record.attempt, record.due_at), (MessageState::Pending, 0, at(1)));
    let taken = claimed(&f, &faxes, 9, at(7)).await;
    assert_eq!(ids_of(&taken), [first, early, late]);
    assert!(taken.iter().all(|one| one.attempt == 1));
}

pub async fn many_messages_of_other_topics_hide_nothing(f: Fixture) {
    let others = enqueue_many(&f, "fax", 3_000, at(1)).await;
    let mail = f.enqueue(f.due(at(2))).await;
    let mails = only(&["mail"]);
    assert_eq!(ids_of(&claimed(&f, &mails, 9, at(5)).await), [mail]);
    for second in 6..20 {
        assert!(claimed(&f, &mails, 9, at(second)).await.is_empty());
        let next = f.enqueue(f.due(at(second))).await;
        assert_eq!(ids_of(&claimed(&f, &mails, 9, at(second)).await), [next]);
    }
    let taken = claimed(&f, &only(&["fax"]), 5, at(20)).await;
    assert_eq!(ids_of(&taken), others[..5]);
}

pub async fn a_filter_holds_beside_limits_running_max_and_the_priority_that_goes_first(f: Fixture) {
    let limited = |message| {
        let limit = Limit { name: key("line"), running_max: Some(1), rate: None };
        Message {
            relations: Some(Arc::new(Relations { limit: Some(limit), ..Relations::default() })),
            ..message
        }
    };
    let level = |level| Priority::new(level).unwrap();
    let mails = only(&["mail"]);
    f.enqueue(limited(of("fax", f.due(at(0))))).await;
    let shared = f.enqueue(limited(f.due(at(1)))).await;
    let waits = f.enqueue(limited(f.due(at(2)))).await;
    let running = claimed(&f, &mails, 9, at(3)).await;
    assert_eq!(ids_of(&running), [shared], "one of the limit, and not the fax before it");
    assert_eq!(f.storage.next_due(&source(&mails)).await.unwrap(), None);
    f.settle(&running[0], Verdict::Done, at(4)).await;
    assert_eq!(f.storage.next_due(&source(&mails)).await.unwrap(), Some(at(2)));
    let mut ids = Vec::new();
    for (priority, name) in [(9, "mail"), (2, "fax"), (2, "mail"), (0, "mail")] {
        let message = Message { priority: level(priority), ..of(name, f.due(at(4))) };
        ids.push(f.enqueue(message).await);
    }
    let narrow = |running_max, first| Claim {
        running_max: Some(running_max),
        first: Some(level(first)),
        ..claim(&f, &mails, 9)
    };
    let taken = f.storage.claim(narrow(2, 2), at(5)).await.unwrap();
    assert_eq!(ids_of(&taken), [ids[2], ids[0]]);
    assert!(f.storage.claim(narrow(2, 2), at(5)).await.unwrap().is_empty());
    let taken = f.storage.claim(narrow(9, 0), at(6)).await.unwrap();
    assert_eq!(ids_of(&taken), [ids[3], waits]);
}

pub async fn an_exclusive_message_does_not_wait_for_a_pending_one_of_another_topic(f: Fixture) {
    // A job with another topic since its last release: the old run waits for a process with the old handler.
    let run = |name, nominal| Message { exclusive: true, ..of(name, f.run_of("report", nominal)) };
    let old = f.enqueue(run("report.old", at(1))).await;
    let new = f.enqueue(run("report.new", at(2))).await;
    let running = claimed(&f, &only(&["report.new"]), 9, at(5)).await;
    assert_eq!(ids_of(&running), [new]);
    assert!(claimed(&f, &only(&["report.old"]), 9, at(6)).await.is_empty(), "one at a time");
    f.settle(&running[0], Verdict::Done, at(7)).await;
    assert_eq!(ids_of(&claimed(&f, &only(&["report.old"]), 9, at(7)).await), [old]);
}

pub async fn the_next_due_of_a_filter_is_that_of_the_first_message_it_admits(f: Fixture) {
    let (mails, faxes, none) = (only(&["mail"]), only(&["fax"]), only(&[]));
    let next = async |topics: &TopicFilter| f.storage.next_due(&source(topics)).await.unwrap();
    assert_eq!(next(&mails).await, None);
    f.enqueue(of("fax", f.due(at(1)))).await;
    f.enqueue(Message { priority: Priority::LOWEST, ..f.due(at(20)) }).await;
    f.enqueue(f.due(at(40))).await;
    f.enqueue(of("punctual.http", f.due(at(-5)))).await;
    f.enqueue(Message { queue: queue("slow"), ..f.due(at(-9)) }).await;
    assert_eq!(next(&mails).await, Some(at(20)));
    assert_eq!(next(&faxes).await, Some(at(1)));
    assert_eq!(next(&TopicFilter::NotSystem).await, Some(at(1)));
    assert_eq!((next(&TopicFilter::All).await, next(&none).await), (Some(at(-5)), None));
    let sources =
        [source(&mails), WakeSource::Jobs, source(&none), default_source(), source(&faxes)];
    let next_all = f.storage.next_due_all(&sources).await.unwrap();
    assert_eq!(next_all, [Some(at(20)), None, None, Some(at(-5)), Some(at(1))]);
}

pub async fn the_next_due_behind_many_other_messages_is_never_too_late(f: Fixture) {
    enqueue_many(&f, "fax", 1_200, at(1)).await;
    f.enqueue(f.due(at(7))).await;
    let next = f.storage.next_due(&source(&only(&["mail"]))).await.unwrap();
    assert!(next.is_some_and(|next| next <= at(7)), "{next:?}");
    let next = f.storage.next_due(&source(&only(&["fax"]))).await.unwrap();
    assert_eq!(next, Some(at(1)));
}

pub async fn a_wakeup_of_a_filter_notifies_whatever_else_is_due(f: Fixture) {
    let (mails, faxes) = (only(&["mail"]), only(&["fax"]));
    f.enqueue(of("fax", f.due(at(1)))).await;
    let mut wakeup = f.storage.wakeup(&source(&mails));
    for (first, next) in [(None, at(50)), (Some(at(50)), at(40))] {
        // A notified process polls again; the server may send a notification back once more.
        for _ in 0..100 {
            assert_eq!(f.storage.next_due(&source(&mails)).await.unwrap(), first);
            // Other filters have an earlier instant after that.
            for other in [default_source(), source(&faxes)] {
                assert_eq!(f.storage.next_due(&other).await.unwrap(), Some(at(1)));
            }
            if pending_notifications(&mut wakeup) == 0 {
                break;
            }
        }
        f.enqueue(f.due(next)).await;
        assert!(is_notified(&mut wakeup).await, "it is later than the fax, and the first mail");
    }
}

pub async fn a_message_before_the_position_of_a_claim_is_claimed_at_once(f: Fixture) {
    let mails = only(&["mail"]);
    enqueue_many(&f, "fax", 2_500, at(10)).await;
    let mut steps = Vec::new();
    for second in [60, 61, 62] {
        assert!(claimed(&f, &mails, 9, at(second)).await.is_empty());
        steps.push(f.enqueue(f.due(at(second - 55))).await);
        let taken = claimed(&f, &mails, 9, at(second)).await;
        assert_eq!(ids_of(&taken), steps[steps.len() - 1..]);
        f.settle(&taken[0], again(&taken[0], at(second)), at(second)).await;
        let retried = claimed(&f, &mails, 9, at(second)).await;
        assert_eq!(ids_of(&retried), steps[steps.len() - 1..], "a retry");
        f.settle(&retried[0], Verdict::Done, at(second)).await;
    }
    let moved = f.enqueue(f.due(at(500))).await;
    assert!(claimed(&f, &mails, 9, at(70)).await.is_empty());
    f.command(Command::Reschedule { id: moved, due_at: at(5) }).await;
    assert_eq!(ids_of(&claimed(&f, &mails, 9, at(70)).await), [moved], "a reschedule");
}

pub async fn claims_by_several_filters_leave_nothing_behind(f: Fixture) {
    let filters = [only(&["mail"]), only(&["fax"]), only(&["post", "wire"]), TopicFilter::All];
    let mut ids = Vec::new();
    for round in 0..40 {
        for name in ["mail", "fax", "post", "wire", "gone"] {
            ids.push(f.enqueue(of(name, f.due(at(round)))).await);
        }
    }
    let mut handled = Vec::new();
    for round in 0..60 {
        for topics in &filters[..3] {
            let taken = claimed(&f, topics, 2, at(40 + round)).await;
            assert!(taken.iter().all(|one| topics.admits(&one.message.topic)));
            handled.extend(ids_of(&taken));
        }
    }
    assert_eq!(handled.len(), 160);
    handled.extend(ids_of(&claimed(&f, &filters[3], 99, at(200)).await));
    handled.sort_unstable();
    assert_eq!(handled, ids);
}

pub async fn many_nodes_with_different_handlers_handle_everything_once(f: Fixture) {
    let mut ids = Vec::new();
    for name in ["mail", "fax", "post"] {
        ids.extend(enqueue_many(&f, name, 100, at(0)).await);
    }
    let handlers = [&["mail", "fax"][..], &["fax", "post"], &["mail", "post"]].map(only);
    let next = AtomicUsize::new(0);
    let handled = together(f.nodes(3).await, |node| {
        let topics = handlers[next.fetch_add(1, Ordering::Relaxed)].clone();
        work(node, topics)
    });
    let mut handled: Vec<MessageId> = handled.await.into_iter().flatten().collect();
    handled.sort_unstable();
    assert_eq!(handled, ids);
}

/// Claims until nothing is left that the filter admits.
async fn work(node: Fixture, topics: TopicFilter) -> Vec<MessageId> {
    let mut handled = Vec::new();
    loop {
        let taken = claimed(&node, &topics, 7, at(1)).await;
        if taken.is_empty() {
            return handled;
        }
        assert!(taken.iter().all(|one| topics.admits(&one.message.topic)));
        handled.extend(ids_of(&taken));
    }
}
