//! Views for queries with an sqlite3 shell.

use std::sync::Arc;

use punctual::backend::policy::Verdict;
use punctual::model::{JobCommand, JobName, Message, Occurrence, Source};
use punctual::{Job, Schedule, Storage as _};
use punctual_conformance::backend_tests::views;

use crate::fixture::{Fixture, at, claim, job_record, offer, settle};

// spec: U-14, T-36
#[tokio::test]
async fn jobs_are_listed_with_text_values_and_times() {
    let f = Fixture::new();
    let storage = f.open().await;
    let cron = Schedule::cron("0 2 * * *", "Europe/Warsaw").unwrap();
    let once = Schedule::once(at(90));
    for (name, schedule) in [("nightly", cron), ("invoice", once)] {
        let job = Job::new(name, schedule).unwrap();
        storage.declare(job_record(job), None, at(0)).await.unwrap();
    }
    let name = JobName::new("nightly").unwrap();
    let run = Message {
        source: Source::Scheduled,
        occurrence: Some(Occurrence {
            job: name.clone(),
            nominal: at(0),
            schedule: None,
            misfire: None,
        }),
        ..f.message()
    };
    offer(&storage, run).await;
    let owner = f.process();
    let claimed = claim(&storage, owner, 1).await.remove(0);
    let other = f.other_connection();
    let line = |name: &str| -> String {
        let sql = "SELECT concat_ws('|', type, cron, zone, status, next_run_at, retry_count, \
                   skip_if_running, lock_holder, locked_until, enabled) \
                   FROM punctual_scheduled_jobs WHERE name = ?";
        other.query_row(sql, [name], |row| row.get(0)).unwrap()
    };
    let holder = owner.as_uuid().simple();
    let running = format!(
        "Recurring|0 2 * * *|Europe/Warsaw|Running|1970-01-01T00:01:00.000Z|0|1|{holder}|\
         1970-01-01T00:01:00.000Z|1"
    );
    assert_eq!(line("nightly"), running);
    assert_eq!(line("invoice"), "OneTime|UTC|Pending|1970-01-01T00:01:00.000Z|0|1|1");
    settle(&storage, vec![f.settlement(&claimed, Verdict::Done)]).await;
    let pause = JobCommand::Pause { by: String::new(), reason: String::new(), until: None };
    storage.command_job(&name, pause, 1, at(0)).await.unwrap();
    assert_eq!(line("nightly"), "Recurring|0 2 * * *|Europe/Warsaw|Disabled|0|1|0");
}

// spec: U-14, T-36, T-75, U-34
#[tokio::test]
async fn jobs_have_the_same_values_in_every_storage() {
    let f = Fixture::new();
    let storage = f.open().await;
    views::fill(&storage).await;
    let sql = "SELECT concat_ws('|', name, type, coalesce(cron, '-'), zone, payload, status, \
               coalesce(next_run_at, '-'), coalesce(last_run_at, '-'), coalesce(last_duration_ms, '-'), \
               retry_count, skip_if_running, lock_holder IS NOT NULL, enabled, coalesce(key, '-')) \
               FROM punctual_scheduled_jobs ORDER BY name, coalesce(key, '')";
    let other = f.other_connection();
    let mut statement = other.prepare(sql).unwrap();
    let lines: Vec<String> =
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(lines, views::SCHEDULED_JOBS);
}

// spec: U-15
#[tokio::test]
async fn executions_and_messages_are_listed_with_text_values_and_times() {
    let f = Fixture::new();
    let storage = f.open().await;
    offer(&storage, f.message()).await;
    offer(&storage, f.due(at(99))).await;
    let claimed = claim(&storage, f.process(), 1).await.remove(0);
    let mut settlement = f.settlement(&claimed, Verdict::Done);
    let mut execution = (**settlement.execution.as_ref().unwrap()).clone();
    execution.job = Some(JobName::new("nightly").unwrap());
    execution.note = Some(Arc::from("all well"));
    settlement.execution = Some(Arc::new(execution));
    settle(&storage, vec![settlement]).await;
    let other = f.other_connection();
    let sql = "SELECT concat_ws('|', job, scheduled_time, started_at, completed_at, status, duration_ms, \
               retry_attempt, error, message = ?, topic) FROM punctual_job_executions";
    let message = claimed.message.id.as_uuid().simple().to_string();
    let line: String = other.query_row(sql, [message], |row| row.get(0)).unwrap();
    let expected = "nightly|1970-01-01T00:00:00.000Z|1970-01-01T00:00:01.000Z|\
                    1970-01-01T00:00:02.000Z|Succeeded|1000|1|all well|1|mail";
    assert_eq!(line, expected);
    let sql = "SELECT group_concat(concat_ws('|', state, due, ended), ', ' ORDER BY id) \
               FROM punctual_messages";
    let lines: String = other.query_row(sql, [], |row| row.get(0)).unwrap();
    let expected = "done|1970-01-01T00:00:00.000Z|1970-01-01T00:00:11.000Z, \
                    pending|1970-01-01T00:01:39.000Z";
    assert_eq!(lines, expected);
}
