//! How SQLite goes about the statements that are asked again and again: by an index, without sorting,
//! and with the same number of steps however many messages wait for a later day.

use std::sync::Arc;
use std::time::Duration;

use punctual::SystemClock;
use punctual::inspect::{MessageFilter, Page};
use punctual::model::{BatchId, JobName, Key, Queue, State, Topic};
use punctual::storage::{Line, TopicFilter};
use punctual::uuid;
use rusqlite::{Connection, StatementStatus, params};

use crate::connection::open_writer;
use crate::row::Table;
use crate::settings::{Durability, Settings};
use crate::work::{NEXT_PRIORITY, NOT_WAITING, due_of_priority, searched};
use crate::{documents, due, jobs, looked, reading, upkeep};

/// Of priority 9 and 5 in the future, and five that are due, of priority 1.
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
        patience: Duration::ZERO,
        clock: Arc::new(SystemClock),
        readers: 1,
        pages_max: None,
    };
    let connection = open_writer(&settings).unwrap();
    connection.execute(FILL, [count]).unwrap();
    connection.execute(DUE, []).unwrap();
    connection
}

fn lines() -> [Line; 2] {
    [Line::Queue(Queue::default()), Line::Jobs]
}

fn some() -> TopicFilter {
    TopicFilter::only([Topic::new("mail").unwrap()])
}

fn plan(connection: &Connection, sql: &str) -> String {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    // Nothing is bound: it is explained, not run.
    let mut rows = statement.raw_query();
    let mut lines: Vec<String> = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        lines.push(row.get(3).unwrap());
    }
    lines.join("; ")
}

#[test]
fn what_is_asked_again_and_again_is_found_by_an_index_and_not_sorted() {
    let folder = tempfile::tempdir().unwrap();
    let connection = filled(&folder, 10);
    let statements = [
        due_of_priority(&TopicFilter::All, false),
        due_of_priority(&TopicFilter::All, true),
        due_of_priority(&TopicFilter::NotSystem, true),
        due_of_priority(&some(), false),
        due_of_priority(&some(), true),
        due::statement(&[Line::Topics(Queue::default(), some()), Line::Jobs]),
        due::statement(&[Line::Topics(Queue::default(), TopicFilter::NotSystem)]),
        NEXT_PRIORITY.to_owned(),
        due::statement(&lines()),
        jobs::DUE.to_owned(),
        upkeep::LAPSED.to_owned(),
        upkeep::NEXT_OWNER.to_owned(),
        upkeep::OLD.to_owned(),
        upkeep::OLD_STRAYED.to_owned(),
        "SELECT id FROM punctual_dead WHERE ended_at < ?1 ORDER BY ended_at, id LIMIT ?2"
            .to_owned(),
        searched::TWIN.to_owned(),
        searched::RUNNING.to_owned(),
        searched::NEXT_LANE.to_owned(),
        searched::NEXT_QUEUE.to_owned(),
        searched::pending_of_lane(NOT_WAITING),
        searched::WAIT.to_owned(),
        searched::FREE_WAITING.to_owned(),
        searched::FORGET_WAITING.to_owned(),
        searched::HOLDER.to_owned(),
        searched::FORGET.to_owned(),
        reading::BATCH.to_owned(),
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
        // The ten priorities, and the first job of its index, are all that is walked through.
        let plan = plan.replace("SCAN level", "").replace("SCAN 10 CONSTANT ROWS", "");
        let plan = plan.replace("SCAN CONSTANT ROW", "");
        // The list of a filter, and the first messages it is compared with.
        let plan = plan.replace("SCAN json_each", "").replace("SCAN near", "");
        assert!(!plan.contains("SCAN"), "{sql}: {plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{sql}: {plan}");
        assert!(plan.contains("USING"), "{sql}: {plan}");
    }
}

/// Steps of SQLite's machine for one claim's search and one look.
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
    let sql = due::statement(&lines());
    let mut look = connection.prepare(&sql).unwrap();
    let first: i64 = look.query_row(["default"], |row| row.get(0)).unwrap();
    assert_eq!(first, 1);
    (search, look.get_status(StatementStatus::VmStep))
}

/// A lane that is full, with so many that wait in it, and one behind it that is not.
const CROWD: &str = "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < ?1)
    INSERT INTO punctual_message (id, queue, topic, priority, due_at, planned_at, created_at, source, exclusive,
      lane, lane_max, state, body)
    SELECT randomblob(16), 'default', 'mail', 1, 1, 0, 0, 0, 0, 'mail', 2, n <= 2, x'00' FROM number
    UNION ALL SELECT randomblob(16), 'default', 'mail', 1, 2, 0, 0, 0, 0, 'post', 1, 0, x'00'";

/// Steps of SQLite's machine for all that a claim asks about the lanes of a priority.
fn steps_through_lanes(connection: &Connection) -> i32 {
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
        let found = asked(searched::NEXT_LANE, &[&"default", &1, &last, &3]);
        assert_eq!(found, next.map(|next| next.to_owned().into()));
    }
    assert_eq!(asked(searched::RUNNING, &[&"mail"]), Some(2.into()), "it is full");
    assert_eq!(asked(searched::NEXT_QUEUE, &[&"mail", &""]), Some("default".to_owned().into()));
    let sql = searched::pending_of_lane(NOT_WAITING);
    let wanted: [&dyn rusqlite::ToSql; 6] = [&"default", &1, &"post", &1, &100, &9];
    assert_eq!(asked(&sql, &wanted), Some(2.into()));
    steps
}

#[test]
fn a_crowd_that_is_over_its_limit_costs_a_claim_nothing() {
    let crowded = |count: u32| {
        let folder = tempfile::tempdir().unwrap();
        let connection = filled(&folder, 10);
        connection.execute(CROWD, [count]).unwrap();
        steps_through_lanes(&connection)
    };
    assert_eq!(crowded(5), crowded(50_000));
}

#[test]
fn two_hundred_thousand_messages_of_the_future_cost_a_claim_and_a_look_nothing() {
    let (few, many) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (few, many) = (steps(&filled(&few, 10)), steps(&filled(&many, 200_000)));
    assert_eq!(few, many);
}

/// Dead letters and finished messages, with ids that follow one another, as long as those of [`FILL`].
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

/// Steps of SQLite's machine for the statements of a page.
fn steps_of_page(connection: &Connection, filter: &MessageFilter) -> i32 {
    let page = Page::first(50);
    let [_, depth] = looked::DEPTHS;
    let floor = looked::floor_of_messages(connection, filter, page, depth).unwrap();
    let mut steps = 0;
    for table in Table::ALL {
        let Some((sql, values)) = reading::messages_sql(filter, table, page, floor) else {
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
fn a_list_costs_the_same_however_many_messages_there_are_that_it_is_not_about() {
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
    let of = |states: &[State]| MessageFilter { states: states.to_vec(), ..all() };
    let topic = Some(Topic::new("nothing").unwrap());
    for filter in [
        all(),
        of(&[State::Pending]),
        of(&[State::Running]),
        of(&[State::Cancelled]),
        of(&[State::Dead, State::Running]),
        MessageFilter { topic: topic.clone(), ..all() },
        MessageFilter { topic, ..of(&[State::Pending]) },
        MessageFilter { queue: Some(Queue::from("nowhere".to_owned())), ..all() },
        MessageFilter { key: Some(Key::written("nobody")), ..all() },
        MessageFilter { job: Some(JobName::new("nightly").unwrap()), ..all() },
        MessageFilter { batch: Some(BatchId::from_uuid(uuid::Uuid::nil())), ..all() },
    ] {
        let (few, many) = (steps_of_page(&few, &filter), steps_of_page(&many, &filter));
        assert!(
            many <= few + few / 5 + 500,
            "{filter:?}: {few} steps, and {many} among four times as many"
        );
    }
}
