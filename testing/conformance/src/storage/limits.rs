//! Limits: running messages per limit name and per queue, the priority that goes first, and the rate of starts,
//! all of them across all nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{Claim, ClaimedMessage, Command, RateRequest, SettleResult};
use punctual::model::{
    Assignment, Limit, Message, MessageId, MessageState, Priority, Queue, Rate, Relations,
};

use super::Fixture;
use super::fixture::{
    again, at, dead, default_source, ids_of, is_notified, key, queue, seconds, together,
};

behaviours! {
    no_more_messages_of_a_limit_run_at_once_than_it_allows,
    messages_over_a_limit_keep_their_place_and_are_not_reported_as_due,
    every_ending_of_a_limited_message_lets_the_next_one_start_and_notifies,
    a_limit_holds_across_queues_and_does_not_stop_others,
    many_messages_over_their_limit_do_not_hide_those_behind_them,
    a_limited_message_that_waits_can_be_cancelled_deleted_and_moved,
    a_limited_message_that_was_taken_over_is_still_running,
    many_nodes_together_never_run_more_than_a_limit_allows,
    no_more_of_a_queue_run_at_once_than_a_claim_allows,
    many_nodes_together_run_a_serial_queue_one_by_one_and_in_order,
    a_priority_that_goes_first_is_taken_before_higher_ones,
    a_rate_grants_starts_and_reports_when_the_next_is_possible,
    no_window_of_a_rate_holds_more_starts_than_it_allows,
    a_rate_is_shared_by_all_nodes_and_kept_apart_by_name,
    many_nodes_at_once_are_not_granted_more_than_the_rate,
}

/// Adds a shared limit to a message.
fn limited(message: Message, name: &str, running_max: u32) -> Message {
    let limit = Limit { name: key(name), running_max: Some(running_max), rate: None };
    Message {
        relations: Some(Arc::new(Relations { limit: Some(limit), ..Relations::default() })),
        ..message
    }
}

async fn claim_from(f: &Fixture, name: &str, limit: usize) -> Vec<ClaimedMessage> {
    let claim = Claim::new(queue(name), f.process(), limit, at(60));
    f.storage.claim(claim, at(5)).await.unwrap()
}

pub async fn no_more_messages_of_a_limit_run_at_once_than_it_allows(f: Fixture) {
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(f.enqueue(limited(f.message(), "mail", 2)).await);
    }
    let first = f.claim(f.process(), 9, at(1)).await;
    assert_eq!(ids_of(&first), ids[..2]);
    assert!(f.claim(f.process(), 9, at(1)).await.is_empty());
    f.settle(&first[0], Verdict::Done, at(2)).await;
    let next = f.claim(f.process(), 9, at(2)).await;
    assert_eq!(ids_of(&next), ids[2..3]);
    f.settle(&first[1], Verdict::Done, at(3)).await;
    f.settle(&next[0], Verdict::Done, at(3)).await;
    assert_eq!(ids_of(&f.claim(f.process(), 9, at(3)).await), ids[3..]);
}

pub async fn messages_over_a_limit_keep_their_place_and_are_not_reported_as_due(f: Fixture) {
    f.enqueue(limited(f.message(), "mail", 1)).await;
    let running = f.claim_one(at(1)).await;
    let late = f.enqueue(limited(f.due(at(3)), "mail", 1)).await;
    let early = f.enqueue(limited(f.due(at(2)), "mail", 1)).await;
    assert!(f.claim(f.process(), 9, at(5)).await.is_empty());
    assert_eq!(f.storage.next_due(&default_source()).await.unwrap(), None);
    assert_eq!(f.inspect.counts(at(5)).await.unwrap().total(MessageState::Pending), 2);
    f.settle(&running, Verdict::Done, at(6)).await;
    assert!(f.storage.next_due(&default_source()).await.unwrap().is_some());
    let next = f.claim_one(at(6)).await;
    assert_eq!(next.message.id, early);
    f.settle(&next, Verdict::Done, at(7)).await;
    assert_eq!(f.claim_one(at(7)).await.message.id, late);
}

pub async fn every_ending_of_a_limited_message_lets_the_next_one_start_and_notifies(f: Fixture) {
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(f.enqueue(limited(f.message(), "mail", 1)).await);
    }
    let mut wakeup = f.storage.wakeup(&default_source());
    for (number, verdict) in [
        |_: &ClaimedMessage| Verdict::Done,
        |_: &ClaimedMessage| dead(),
        |claimed: &ClaimedMessage| again(claimed, at(900)),
        |_: &ClaimedMessage| Verdict::Cancelled,
    ]
    .into_iter()
    .enumerate()
    {
        let claimed = f.claim_one(at(1)).await;
        assert_eq!(claimed.message.id, ids[number]);
        assert!(f.claim(f.process(), 9, at(1)).await.is_empty());
        while super::fixture::pending_notifications(&mut wakeup) > 0 {}
        assert_eq!(f.settle(&claimed, verdict(&claimed), at(1)).await, SettleResult::Applied);
        assert!(is_notified(&mut wakeup).await, "after {number}");
    }
}

pub async fn a_limit_holds_across_queues_and_does_not_stop_others(f: Fixture) {
    f.enqueue(limited(f.message(), "mail", 1)).await;
    f.claim_one(at(1)).await;
    let slow = |message: Message| Message { queue: queue("slow"), ..message };
    f.enqueue(limited(slow(f.message()), "mail", 1)).await;
    let other = f.enqueue(limited(slow(f.message()), "fax", 1)).await;
    let free = f.enqueue(slow(f.message())).await;
    assert_eq!(ids_of(&claim_from(&f, "slow", 9).await), [other, free]);
}

pub async fn many_messages_over_their_limit_do_not_hide_those_behind_them(f: Fixture) {
    f.enqueue(limited(f.message(), "mail", 1)).await;
    f.claim_one(at(1)).await;
    let waiting = (0..300).map(|_| limited(f.message(), "mail", 1).into()).collect();
    f.storage.enqueue(waiting, at(0)).await.unwrap();
    let behind = f.enqueue(f.due(at(2))).await;
    assert_eq!(ids_of(&f.claim(f.process(), 5, at(5)).await), [behind]);
}

pub async fn a_limited_message_that_waits_can_be_cancelled_deleted_and_moved(f: Fixture) {
    f.enqueue(limited(f.message(), "mail", 1)).await;
    let running = f.claim_one(at(1)).await;
    let mut waiting = Vec::new();
    for _ in 0..5 {
        waiting.push(f.enqueue(limited(f.message(), "mail", 1)).await);
    }
    assert!(f.claim(f.process(), 9, at(1)).await.is_empty());
    f.command(Command::Cancel(waiting[0])).await;
    f.command(Command::Delete(waiting[1])).await;
    f.command(Command::Reschedule { id: waiting[2], due_at: at(50) }).await;
    let to = Assignment { queue: Some(queue("slow")), priority: None };
    f.command(Command::Reassign { id: waiting[4], to }).await;
    assert!(claim_from(&f, "slow", 9).await.is_empty(), "its limit goes with it");
    f.settle(&running, Verdict::Done, at(2)).await;
    let next = f.claim_one(at(2)).await;
    assert_eq!(next.message.id, waiting[3]);
    f.settle(&next, Verdict::Done, at(3)).await;
    let elsewhere = claim_from(&f, "slow", 9).await;
    assert_eq!(ids_of(&elsewhere), [waiting[4]]);
    f.settle(&elsewhere[0], Verdict::Done, at(4)).await;
    assert!(f.claim(f.process(), 9, at(49)).await.is_empty());
    assert_eq!(f.claim_one(at(50)).await.message.id, waiting[2]);
}

pub async fn a_limited_message_that_was_taken_over_is_still_running(f: Fixture) {
    f.enqueue(limited(f.message(), "mail", 1)).await;
    f.claim_one(at(1)).await;
    f.enqueue(limited(f.message(), "mail", 1)).await;
    let taken = f.reclaim(9, at(100)).await;
    assert_eq!(taken.len(), 1);
    assert!(f.claim(f.process(), 9, at(100)).await.is_empty());
    f.settle(&taken[0], again(&taken[0], at(900)), at(101)).await;
    assert_eq!(f.claim(f.process(), 9, at(101)).await.len(), 1);
}

pub async fn many_nodes_together_never_run_more_than_a_limit_allows(f: Fixture) {
    const MESSAGES: usize = 60;
    let entries = (0..MESSAGES).map(|_| limited(f.message(), "mail", 3).into()).collect();
    f.storage.enqueue(entries, at(0)).await.unwrap();
    let running = Arc::new(AtomicUsize::new(0));
    let nodes = f.nodes(4).await;
    let handled = together(nodes, |node| work(node, running.clone(), 3, None)).await;
    let handled: Vec<MessageId> = handled.into_iter().flatten().collect();
    assert_eq!(handled.len(), MESSAGES);
}

/// Claims and settles until nothing is left, and asserts that never more than `most` run.
async fn work(
    node: Fixture,
    running: Arc<AtomicUsize>,
    most: usize,
    serial: Option<usize>,
) -> Vec<MessageId> {
    let owner = node.process();
    let mut handled = Vec::new();
    for _ in 0..100_000 {
        let claim =
            Claim { running_max: serial, ..Claim::new(Queue::default(), owner, 5, at(120)) };
        let claimed = node.storage.claim(claim, at(60)).await.unwrap();
        let now = running.fetch_add(claimed.len(), Ordering::SeqCst) + claimed.len();
        assert!(now <= most, "{now} run in parallel");
        tokio::task::yield_now().await;
        handled.extend(ids_of(&claimed));
        for one in &claimed {
            running.fetch_sub(1, Ordering::SeqCst);
            assert_eq!(node.settle(one, Verdict::Done, at(60)).await, SettleResult::Applied);
        }
        if node.inspect.counts(at(60)).await.unwrap().total(MessageState::Pending) == 0 {
            return handled;
        }
    }
    panic!("some messages never ran");
}

pub async fn no_more_of_a_queue_run_at_once_than_a_claim_allows(f: Fixture) {
    let ids = f.enqueue_many(4).await;
    let other = f.enqueue(Message { queue: queue("slow"), ..f.message() }).await;
    assert_eq!(ids_of(&claim_from(&f, "slow", 9).await), [other]);
    let serial =
        |owner| Claim { running_max: Some(2), ..Claim::new(Queue::default(), owner, 9, at(60)) };
    let first = f.storage.claim(serial(f.process()), at(1)).await.unwrap();
    assert_eq!(ids_of(&first), ids[..2]);
    assert!(f.storage.claim(serial(f.process()), at(1)).await.unwrap().is_empty());
    f.settle(&first[0], Verdict::Done, at(2)).await;
    let next = f.storage.claim(serial(f.process()), at(2)).await.unwrap();
    assert_eq!(ids_of(&next), ids[2..3]);
}

pub async fn many_nodes_together_run_a_serial_queue_one_by_one_and_in_order(f: Fixture) {
    let ids = f.enqueue_many(30).await;
    let running = Arc::new(AtomicUsize::new(0));
    let nodes = f.nodes(3).await;
    let handled = together(nodes, |node| work(node, running.clone(), 1, Some(1))).await;
    for some in &handled {
        assert!(some.is_sorted(), "each node gets them in order");
    }
    let mut all: Vec<MessageId> = handled.into_iter().flatten().collect();
    all.sort_unstable();
    assert_eq!(all, ids);
}

pub async fn a_priority_that_goes_first_is_taken_before_higher_ones(f: Fixture) {
    let level = |level| Priority::new(level).unwrap();
    let mut ids = Vec::new();
    for priority in [9, 9, 2, 2, 0] {
        ids.push(f.enqueue(Message { priority: level(priority), ..f.message() }).await);
    }
    let claim = |limit| Claim {
        first: Some(level(2)),
        ..Claim::new(Queue::default(), f.process(), limit, at(60))
    };
    let claimed = f.storage.claim(claim(1), at(1)).await.unwrap();
    assert_eq!(ids_of(&claimed), [ids[2]]);
    let claimed = f.storage.claim(claim(9), at(1)).await.unwrap();
    assert_eq!(claimed[0].message.id, ids[3]);
    let mut rest = ids_of(&claimed[1..]);
    rest.sort_unstable();
    assert_eq!(rest, [ids[0], ids[1], ids[4]]);
}

fn request(name: &str, requested: u32) -> RateRequest {
    RateRequest { name: key(name), rate: Rate { count: 10, per: seconds(10) }, requested }
}

pub async fn a_rate_grants_starts_and_reports_when_the_next_is_possible(f: Fixture) {
    let first = f.storage.acquire_rate(request("mail", 25), at(0)).await.unwrap();
    assert_eq!((first.granted, first.next_at), (10, at(10)));
    let second = f.storage.acquire_rate(request("mail", 15), at(9)).await.unwrap();
    assert_eq!((second.granted, second.next_at), (0, at(10)));
    let third = f.storage.acquire_rate(request("mail", 15), at(10)).await.unwrap();
    assert_eq!((third.granted, third.next_at), (10, at(20)));
}

pub async fn no_window_of_a_rate_holds_more_starts_than_it_allows(f: Fixture) {
    let node = f.another_node().await;
    let mut started = Vec::new();
    for second in 0..60 {
        let storage = if second % 2 == 0 { &f.storage } else { &node.storage };
        let wanted = request("mail", u32::try_from(second * 7 % 5).unwrap_or(1));
        let granted = storage.acquire_rate(wanted, at(second)).await.unwrap().granted;
        started.push((second, granted));
    }
    for begin in 0..60 {
        let within = started.iter().filter(|(second, _)| (begin..begin + 10).contains(second));
        let starts: u32 = within.map(|(_, granted)| granted).sum();
        assert!(starts <= 10, "{starts} starts from second {begin} on: {started:?}");
    }
    let all: u32 = started.iter().map(|(_, granted)| granted).sum();
    assert!(all >= 50, "{all} starts in 60 seconds are far below the rate");
}

pub async fn a_rate_is_shared_by_all_nodes_and_kept_apart_by_name(f: Fixture) {
    let node = f.another_node().await;
    assert_eq!(f.storage.acquire_rate(request("mail", 8), at(0)).await.unwrap().granted, 8);
    assert_eq!(node.storage.acquire_rate(request("mail", 8), at(0)).await.unwrap().granted, 2);
    assert_eq!(node.storage.acquire_rate(request("fax", 8), at(0)).await.unwrap().granted, 8);
}

pub async fn many_nodes_at_once_are_not_granted_more_than_the_rate(f: Fixture) {
    let asking = together(f.nodes(4).await, |node| async move {
        let mut granted = 0;
        for _ in 0..10 {
            granted += node.storage.acquire_rate(request("mail", 1), at(0)).await.unwrap().granted;
        }
        granted
    });
    assert_eq!(asking.await.into_iter().sum::<u32>(), 10);
}
