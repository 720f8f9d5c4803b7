//! Query plans of the frequent statements: by an index, without sorting, and with the same number of steps
//! however many messages are due on a later day.

use std::sync::Arc;
use std::time::Duration;

use punctual::SystemClock;
use punctual::backend::storage::{TopicFilter, WakeSource};
use punctual::inspect::{MessageFilter, PageRequest};
use punctual::model::{BatchId, JobName, Key, MessageState, Queue, Topic};
use punctual::uuid;
use punctual_columns::page_bounds::DEPTHS;
use rusqlite::{Connection, StatementStatus, params};

use crate::builder::{Durability, Settings};
use crate::connection::open_writer;
use crate::operations::{
    NEXT_PRIORITY, NOT_BLOCKED, documents, due_of_priority, jobs, maintenance, next_due,
    planned_statements,
};
use crate::row::Table;
use crate::{counts, page_bounds, queries};

/// Inserts messages of priorities 9 and 5 due in the future, and five due messages of priority 1.
const FILL: &str = "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < ?1)
    INSERT INTO punctual_message (id, queue, topic, priority, due_at, planned_at, created_at, source, exclusive, body)
    SELECT randomblob(16), 'default', 'mail', CASE n % 2 WHEN 0 THEN 9 ELSE 5 END, 1000000 + n, 0, 0, 0, 0, x'00'
    FROM number";
const DUE: &str = "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 5)
    INSERT INTO punctual_message (id, queue, topic, priority, due_at, planned_at, created_at, source, exclusive, body)
    SELECT randomblob(16), 'default', 'mail', 1, n, 0, 0, 0, 0, x'00' FROM number";

fn filled(folder: &tempfile::TempDir, count: u32) -> Connection {
    let settings = Settings {
        path: folder.path().join("punctual.db"),
        durability: Durability::Normal,
        timeout: Duration::ZERO,
        clock: Arc::new(SystemClock),
        readers: 1,
        pages_max: None,
    };
    let connection = open_writer(&settings).unwrap();
    connection.execute(FILL, [count]).unwrap();
    connection.execute(DUE, []).unwrap();
    connection
}

fn lines() -> [WakeSource; 2] {
    [WakeSource::Queue(Queue::default()), WakeSource::Jobs]
}

fn some() -> TopicFilter {
    TopicFilter::only([Topic::new("mail").unwrap()])
}

fn plan(connection: &Connection, sql: &str) -> String {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    // Nothing is bound: the statement is explained, not run.
    let mut rows = statement.raw_query();
    let mut lines: Vec<String> = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        lines.push(row.get(3).unwrap());
    }
    lines.join("; ")
}

#[test]
fn frequent_statements_use_an_index_and_do_not_sort() {
    let folder = tempfile::tempdir().unwrap();
    let connection = filled(&folder, 10);
    let statements = [
        due_of_priority(&TopicFilter::All, false),
        due_of_priority(&TopicFilter::All, true),
        due_of_priority(&TopicFilter::NotSystem, true),
        due_of_priority(&some(), false),
        due_of_priority(&some(), true),
        next_due::statement(&[WakeSource::Topics(Queue::default(), some()), WakeSource::Jobs]),
        next_due::statement(&[WakeSource::Topics(Queue::default(), TopicFilter::NotSystem)]),
        NEXT_PRIORITY.to_owned(),
        next_due::statement(&lines()),
        jobs::DUE.to_owned(),
        maintenance::LAPSED.to_owned(),
        maintenance::NEXT_OWNER.to_owned(),
        maintenance::OLD.to_owned(),
        maintenance::OLD_STRAYED.to_owned(),
        "SELECT id FROM punctual_dead WHERE ended_at < ?1 ORDER BY ended_at, id LIMIT ?2"
            .to_owned(),
        planned_statements::ALIVE_WITH_KEY.to_owned(),
        planned_statements::RUNNING.to_owned(),
        planned_statements::NEXT_LIMIT.to_owned(),
        planned_statements::NEXT_QUEUE.to_owned(),
        planned_statements::pending_of_limit(NOT_BLOCKED),
        planned_statements::WAIT.to_owned(),
        planned_statements::FREE_WAITING.to_owned(),
        planned_statements::FORGET_WAITING.to_owned(),
        planned_statements::KEY_RESERVATION.to_owned(),
        planned_statements::DELETE_EXPIRED_KEYS.to_owned(),
        counts::BATCH.to_owned(),
        documents::LIST.to_owned(),
        documents::LIST_BACK.to_owned(),
        documents::EXPIRE.to_owned(),
        "SELECT id FROM punctual_message WHERE topic = ?1 AND key = ?2 AND state = 0".to_owned(),
        "SELECT id FROM punctual_message WHERE job = ?1 AND state = 0".to_owned(),
        "DELETE FROM punctual_history WHERE message = ?1".to_owned(),
        "SELECT body FROM punctual_history WHERE message = ?1 AND state >= 0".to_owned(),
    ];
    for sql in statements {
        let plan = plan(&connection, &sql);
        // The ten priorities, and the first job of its index, are the only full scans.
        let plan = plan.replace("SCAN level", "").replace("SCAN 10 CONSTANT ROWS", "");
        let plan = plan.replace("SCAN CONSTANT ROW", "");
        // The list of a filter, and the first messages it is compared with.
        let plan = plan.replace("SCAN json_each", "").replace("SCAN near", "");
        assert!(!plan.contains("SCAN"), "{sql}: {plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{sql}: {plan}");
        assert!(plan.contains("USING"), "{sql}: {plan}");
    }
}

/// Returns the steps of SQLite's virtual machine for the search of one claim and for one due-time query.
fn steps(connection: &Connection) -> (i32, i32) {
    let mut search = 0;
    for priority in [9, 5, 1] {
        let sql = due_of_priority(&TopicFilter::All, false);
        let mut statement = connection.prepare(&sql).unwrap();
        let mut rows = statement.query(params!["default", priority, 100]).unwrap();
        let mut found = 0;
        while rows.next().unwrap().is_some() {
            found += 1;
        }
        drop(rows);
        assert_eq!(found, if priority == 1 { 5 } else { 0 });
        search += statement.get_status(StatementStatus::VmStep);
    }
    let sql = next_due::statement(&lines());
    let mut look = connection.prepare(&sql).unwrap();
    let first: i64 = look.query_row(["default"], |row| row.get(0)).unwrap();
    assert_eq!(first, 1);
    (search, look.get_status(StatementStatus::VmStep))
}

/// Inserts a limit that is reached, with many messages that wait for it, and one behind it that is not.
const REACHED_LIMIT: &str = "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < ?1)
    INSERT INTO punctual_message (id, queue, topic, priority, due_at, planned_at, created_at, source, exclusive,
      lane, lane_max, state, body)
    SELECT randomblob(16), 'default', 'mail', 1, 1, 0, 0, 0, 0, 'mail', 2, n <= 2, x'00' FROM number
    UNION ALL SELECT randomblob(16), 'default', 'mail', 1, 2, 0, 0, 0, 0, 'post', 1, 0, x'00'";

/// Returns the steps of SQLite's virtual machine for all queries of a claim about the limits of a priority.
fn steps_through_limits(connection: &Connection) -> i32 {
    let mut steps = 0;
    let mut asked = |sql: &str, values: &[&dyn rusqlite::ToSql]| {
        let mut statement = connection.prepare(sql).unwrap();
        let mut rows = statement.query(values).unwrap();
        let found = rows.next().unwrap().map(|row| row.get::<_, rusqlite::types::Value>(0));
        let found = found.transpose().unwrap();
        drop(rows);
        steps += statement.get_status(StatementStatus::VmStep);
        found
    };
    for (last, next) in [("", Some("mail")), ("mail", Some("post")), ("post", None)] {
        let found = asked(planned_statements::NEXT_LIMIT, &[&"default", &1, &last, &3]);
        assert_eq!(found, next.map(|next| next.to_owned().into()));
    }
    assert_eq!(asked(planned_statements::RUNNING, &[&"mail"]), Some(2.into()), "it is full");
    assert_eq!(
        asked(planned_statements::NEXT_QUEUE, &[&"mail", &""]),
        Some("default".to_owned().into())
    );
    let sql = planned_statements::pending_of_limit(NOT_BLOCKED);
    let wanted: [&dyn rusqlite::ToSql; 6] = [&"default", &1, &"post", &1, &100, &9];
    assert_eq!(asked(&sql, &wanted), Some(2.into()));
    steps
}

#[test]
fn messages_that_wait_for_a_limit_cost_a_claim_nothing() {
    let steps_with = |count: u32| {
        let folder = tempfile::tempdir().unwrap();
        let connection = filled(&folder, 10);
        connection.execute(REACHED_LIMIT, [count]).unwrap();
        steps_through_limits(&connection)
    };
    assert_eq!(steps_with(5), steps_with(50_000));
}

#[test]
fn two_hundred_thousand_messages_of_the_future_cost_a_claim_and_a_due_query_nothing() {
    let (few, many) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (few, many) = (steps(&filled(&few, 10)), steps(&filled(&many, 200_000)));
    assert_eq!(few, many);
}

/// Inserts dead letters and finished messages, as many as [`FILL`] inserts.
const ENDED: [&str; 2] = [
    "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < ?1)
    INSERT INTO punctual_dead (id, queue, topic, priority, due_at, planned_at, created_at, source, exclusive, key,
      attempt, crashes, snoozes, ended_at, body)
    SELECT randomblob(16), 'default', 'mail', 5, 0, 0, 0, 0, 0, 'k' || n, 1, 0, 0, 0, x'00' FROM number",
    "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < ?1)
    INSERT INTO punctual_history (id, message, state, ending, ended_at, finished_at, queue, topic, source, attempt,
      due_at, key, priority, planned_at, created_at, exclusive, crashes, snoozes, body)
    SELECT randomblob(16), randomblob(16), 2, 0, 0, 0, 'default', 'mail', 0, 1, 0, 'k' || n, 5, 0, 0, 0, 0, 0, x'00'
    FROM number",
];

/// Returns the steps of SQLite's virtual machine for the statements of a page.
fn steps_of_page(connection: &Connection, filter: &MessageFilter) -> i32 {
    let page = PageRequest::first(50);
    let [_, depth] = DEPTHS;
    let floor = page_bounds::floor_of_messages(connection, filter, page, depth).unwrap();
    let mut steps = 0;
    for table in Table::ALL {
        let Some((sql, values)) = queries::messages_sql(filter, table, page, floor) else {
            continue;
        };
        let mut statement = connection.prepare(&sql).unwrap();
        let mut rows = statement.query(rusqlite::params_from_iter(values)).unwrap();
        while rows.next().unwrap().is_some() {}
        drop(rows);
        steps += statement.get_status(StatementStatus::VmStep);
    }
    steps
}

#[test]
fn a_list_costs_the_same_however_many_messages_do_not_match() {
    let filled = |count: u32| {
        let folder = tempfile::tempdir().unwrap();
        let connection = filled(&folder, count);
        for sql in ENDED {
            connection.execute(sql, [count]).unwrap();
        }
        (folder, connection)
    };
    let (_few_folder, few) = filled(15_000);
    let (_many_folder, many) = filled(60_000);
    let all = MessageFilter::default;
    let of = |states: &[MessageState]| MessageFilter { states: states.to_vec(), ..all() };
    let topic = Some(Topic::new("nothing").unwrap());
    for filter in [
        all(),
        of(&[MessageState::Pending]),
        of(&[MessageState::Running]),
        of(&[MessageState::Cancelled]),
        of(&[MessageState::Dead, MessageState::Running]),
        MessageFilter { topic: topic.clone(), ..all() },
        MessageFilter { topic, ..of(&[MessageState::Pending]) },
        MessageFilter { queue: Some(Queue::from("nowhere".to_owned())), ..all() },
        MessageFilter { key: Some(Key::stored("unknown")), ..all() },
        MessageFilter { job: Some(JobName::new("nightly").unwrap()), ..all() },
        MessageFilter { batch: Some(BatchId::from_uuid(uuid::Uuid::nil())), ..all() },
        MessageFilter { planned: true, ..all() },
        MessageFilter { planned: true, ..of(&[MessageState::Pending, MessageState::Running]) },
    ] {
        let (few, many) = (steps_of_page(&few, &filter), steps_of_page(&many, &filter));
        assert!(
            many <= few + few / 5 + 500,
            "{filter:?}: {few} steps, and {many} among four times as many"
        );
    }
}

#[test]
fn planned_one_time_jobs_are_found_by_their_own_index_and_not_sorted() {
    let folder = tempfile::tempdir().unwrap();
    let connection = filled(&folder, 10);
    let alive = vec![MessageState::Pending, MessageState::Running];
    let filter = MessageFilter { states: alive, planned: true, ..MessageFilter::default() };
    let (sql, _) =
        queries::messages_sql(&filter, Table::Message, PageRequest::first(9), None).unwrap();
    let plan = plan(&connection, &sql);
    assert!(plan.contains("INDEX punctual_message_planned"), "{plan}");
    assert!(!plan.contains("TEMP B-TREE"), "{plan}");
}
