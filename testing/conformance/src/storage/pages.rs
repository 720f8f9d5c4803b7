//! Pages: reading page after page returns every row once, in order, also while rows are added and deleted.

use std::collections::BTreeSet;

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{BrokerRecord, Command};
use punctual::inspect::{ExecutionFilter, MessageFilter, PAGE_LIMIT_MAX, PageRequest};
use punctual::model::{ExecutionId, MessageId, MessageState};

use super::Fixture;
use super::fixture::{again, at};

behaviours! {
    pages_of_messages_come_newest_id_first_and_end,
    pages_of_messages_list_each_once_while_others_are_added_and_deleted,
    pages_of_executions_list_each_once_while_others_are_added,
    pages_with_a_filter_skip_what_does_not_match,
    a_page_has_one_row_at_least_and_a_thousand_at_most,
    a_page_may_begin_after_a_deleted_row,
}

/// Reads all pages of matching messages, `limit` rows at a time, and calls `between` between two pages.
async fn read_pages(
    f: &Fixture,
    filter: MessageFilter,
    limit: usize,
    between: impl AsyncFn(),
) -> Vec<MessageId> {
    let mut seen = Vec::new();
    let mut page = PageRequest::first(limit);
    loop {
        let result = f.inspect.messages(filter.clone(), page).await.unwrap();
        assert!(result.rows.len() <= limit);
        seen.extend(result.rows.iter().map(|row| row.message.id));
        let Some(next) = result.next else { return seen };
        assert_eq!(Some(&next), seen.last(), "the next page begins after the last row");
        page = PageRequest::after(next, limit);
        between().await;
    }
}

pub async fn pages_of_messages_come_newest_id_first_and_end(f: Fixture) {
    let mut ids = f.enqueue_many(5).await;
    ids.reverse();
    let mut seen = Vec::new();
    let mut page = PageRequest::first(2);
    loop {
        let result = f.inspect.messages(MessageFilter::default(), page).await.unwrap();
        assert!(result.rows.len() <= 2);
        seen.extend(result.rows.iter().map(|row| row.message.id));
        let Some(next) = result.next else { break };
        page = PageRequest::after(next, 2);
    }
    assert_eq!(seen, ids);
    let all = f.inspect.messages(MessageFilter::default(), PageRequest::first(5)).await.unwrap();
    assert_eq!(all.next, None, "a page that is exactly full may be the last");
}

pub async fn pages_of_messages_list_each_once_while_others_are_added_and_deleted(f: Fixture) {
    let mut ids = f.enqueue_many(57).await;
    ids.reverse();
    let oldest = ids.len() - 1;
    let seen = read_pages(&f, MessageFilter::default(), 10, async || {
        f.enqueue_many(3).await;
        f.command(Command::Delete(ids[oldest])).await;
        f.command(Command::Delete(ids[0])).await;
        f.claim(f.process(), 2, at(0)).await;
    })
    .await;
    assert_eq!(seen, ids[..oldest], "newer ones are before the first page, and one is gone");
}

// spec: U-13
pub async fn pages_of_executions_list_each_once_while_others_are_added(f: Fixture) {
    let id = f.enqueue(f.message()).await;
    let attempt = async || {
        let claimed = f.claim(f.process(), 1, at(0)).await.remove(0);
        f.settle(&claimed, again(&claimed, at(0)), at(0)).await;
    };
    for _ in 0..33 {
        attempt().await;
    }
    let filter = ExecutionFilter { message: Some(id), ..ExecutionFilter::default() };
    let mut seen: Vec<(ExecutionId, u32)> = Vec::new();
    let mut page = PageRequest::first(7);
    loop {
        let result = f.inspect.executions(filter.clone(), page).await.unwrap();
        seen.extend(result.rows.iter().map(|row| (row.id, row.attempt)));
        let Some(next) = result.next else { break };
        page = PageRequest::after(next, 7);
        attempt().await;
    }
    assert!(seen.is_sorted_by(|(newer, _), (older, _)| newer > older));
    let attempts: Vec<u32> = seen.into_iter().map(|(_, attempt)| attempt).collect();
    assert_eq!(attempts, (1..=33).rev().collect::<Vec<_>>());
    let all = f.history(id).await.len();
    let page = f.inspect.executions(filter, PageRequest::first(all)).await.unwrap();
    assert_eq!(page.next, None, "a page that is exactly full may be the last");
}

pub async fn pages_with_a_filter_skip_what_does_not_match(f: Fixture) {
    let ids = f.enqueue_many(40).await;
    for (index, one) in f.claim(f.process(), 40, at(0)).await.into_iter().enumerate() {
        if index % 3 == 0 {
            f.settle(&one, Verdict::Done, at(1)).await;
        }
    }
    let of = |state| MessageFilter { states: vec![state], ..MessageFilter::default() };
    let done = read_pages(&f, of(MessageState::Done), 4, async || ()).await;
    let running = read_pages(&f, of(MessageState::Running), 5, async || ()).await;
    assert_eq!((done.len(), running.len()), (14, 26));
    assert!(done.is_sorted_by(|newer, older| newer > older));
    let both: BTreeSet<MessageId> = done.into_iter().chain(running).collect();
    assert_eq!(both, ids.into_iter().collect());
}

pub async fn a_page_has_one_row_at_least_and_a_thousand_at_most(f: Fixture) {
    f.enqueue_many(PAGE_LIMIT_MAX + 1).await;
    for (limit, count) in [(0, 1), (1, 1), (usize::MAX, PAGE_LIMIT_MAX)] {
        let all = MessageFilter::default();
        let page = f.inspect.messages(all, PageRequest::first(limit)).await.unwrap();
        assert_eq!(page.rows.len(), count);
        assert_eq!(page.next, page.rows.last().map(|row| row.message.id));
    }
    let all = f.claim(f.process(), usize::MAX, at(0)).await;
    let records = all.iter().map(|one| f.execution(one, at(1)).into());
    let records = records.map(|execution| BrokerRecord { execution, dead: None });
    f.storage.record(records.collect(), at(1)).await.unwrap();
    for (limit, count) in [(0, 1), (1, 1), (usize::MAX, PAGE_LIMIT_MAX)] {
        let all = ExecutionFilter::default();
        let page = f.inspect.executions(all, PageRequest::first(limit)).await.unwrap();
        assert_eq!(page.rows.len(), count);
        assert_eq!(page.next, page.rows.last().map(|row| row.id));
    }
}

pub async fn a_page_may_begin_after_a_deleted_row(f: Fixture) {
    let ids = f.enqueue_many(3).await;
    f.command(Command::Delete(ids[1])).await;
    let after = PageRequest::after(ids[1], 9);
    let page = f.inspect.messages(MessageFilter::default(), after).await.unwrap();
    assert_eq!(page.rows.iter().map(|row| row.message.id).collect::<Vec<_>>(), [ids[0]]);
}
