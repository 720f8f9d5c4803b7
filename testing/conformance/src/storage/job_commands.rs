//! Job commands: an operator's changes of a job, applied only to the expected version.

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{JobCommandResult, SettleResult, WakeSource};
use punctual::inspect::{ExecutionFilter, MessageFilter, PageRequest};
use punctual::model::{Job, JobCommand, JobName, JobPhase, JobRecord, Overrides, Retirement};
use punctual::{ErrorKind, Schedule};

use super::Fixture;
use super::fixture::{at, dead, seconds, together};

behaviours! {
    a_command_applies_to_the_expected_version_only,
    every_command_stores_the_resulting_record,
    an_override_is_stored_with_the_resulting_definition,
    a_job_cannot_be_renamed,
    of_many_operators_at_once_exactly_one_succeeds,
    removing_a_job_deletes_its_history_and_its_messages_that_do_not_run,
    a_job_is_removed_at_its_current_version_only,
}

fn stop() -> JobCommand {
    JobCommand::Pause { by: "ada".to_owned(), reason: "holiday".to_owned(), until: None }
}

pub async fn a_command_applies_to_the_expected_version_only(f: Fixture) {
    let stored = f.declare(Fixture::job("report", Some(at(60)))).await;
    let name = &stored.job.name;
    let result = f.storage.command_job(name, stop(), 1, at(5)).await.unwrap();
    let JobCommandResult::Applied(now) = result else { panic!("{result:?}") };
    assert_eq!((now.version, now.phase()), (2, JobPhase::Paused));
    assert_eq!(f.stored_job(name).await, *now);
    assert_eq!(f.storage.due_jobs(10, at(100)).await.unwrap(), []);

    assert_eq!(
        f.storage.command_job(name, stop(), 1, at(6)).await.unwrap(),
        JobCommandResult::Raced
    );
    let unknown = JobName::new("unknown").unwrap();
    assert_eq!(
        f.storage.command_job(&unknown, stop(), 1, at(6)).await.unwrap(),
        JobCommandResult::Unknown
    );

    let resume = JobCommand::Resume { cursor: Some(at(90)) };
    assert!(matches!(
        f.storage.command_job(name, resume, 2, at(7)).await,
        Ok(JobCommandResult::Applied(_))
    ));
    assert_eq!(f.storage.due_jobs(10, at(90)).await.unwrap().len(), 1);
}

pub async fn every_command_stores_the_resulting_record(f: Fixture) {
    let mut record = f.declare(Fixture::job("report", Some(at(60)))).await;
    let name = record.job.name.clone();
    let commands = [
        JobCommand::Pause {
            by: "ada".to_owned(),
            reason: "'quoted'".to_owned(),
            until: Some(at(75)),
        },
        JobCommand::Resume { cursor: Some(at(120)) },
        JobCommand::MoveCursor { cursor: Some(at(30)) },
        JobCommand::MoveCursor { cursor: None },
        JobCommand::Retire { reason: Retirement::Removed },
    ];
    let due = [Some(at(75)), Some(at(120)), Some(at(30)), None, None];
    for (command, due_at) in commands.into_iter().zip(due) {
        let now = at(9);
        let expected = record.with_command(&command, now).unwrap();
        let result = f.storage.command_job(&name, command, record.version, now).await.unwrap();
        assert_eq!(result, JobCommandResult::Applied(Box::new(expected.clone())));
        assert_eq!(f.stored_job(&name).await, expected);
        assert_eq!(f.storage.next_due(&WakeSource::Jobs).await.unwrap(), due_at);
        record = expected;
    }
}

pub async fn an_override_is_stored_with_the_resulting_definition(f: Fixture) {
    let finished = Some(Retirement::Finished);
    let stored = f.declare(JobRecord { retired: finished, ..Fixture::job("report", None) }).await;
    let schedule = Schedule::cron("0 4 * * *", "Asia/Tokyo").unwrap();
    let overrides = Overrides { schedule: Some(schedule.clone()), ..Overrides::default() };
    let job = Job { schedule, ..stored.job.clone() };
    let command = JobCommand::Override {
        overrides: Box::new(overrides.clone()),
        job: Box::new(job.clone()),
        cursor: Some(at(90)),
    };
    f.storage.command_job(&stored.job.name, command, 1, at(5)).await.unwrap();
    let now = f.stored_job(&stored.job.name).await;
    assert_eq!((now.overrides, now.job, now.cursor), (overrides, job, Some(at(90))));
    assert_eq!((now.declared, now.retired), (stored.declared, None));
    assert_eq!(f.storage.due_jobs(9, at(90)).await.unwrap().len(), 1, "it has another occurrence");
}

pub async fn a_job_cannot_be_renamed(f: Fixture) {
    let stored = f.declare(Fixture::job("report", Some(at(60)))).await;
    let other = Job::new("other", Schedule::every(seconds(60), at(0)).unwrap()).unwrap();
    let command =
        JobCommand::Override { overrides: Box::default(), job: Box::new(other), cursor: None };
    let error = f.storage.command_job(&stored.job.name, command, 1, at(5)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(f.stored_job(&stored.job.name).await, stored);
}

pub async fn of_many_operators_at_once_exactly_one_succeeds(f: Fixture) {
    let stored = f.declare(Fixture::job("report", Some(at(60)))).await;
    let name = stored.job.name;
    let nodes = f.nodes(4).await.into_iter().cycle().take(12).collect();
    let results = together(nodes, |node| {
        let name = name.clone();
        async move { node.storage.command_job(&name, stop(), 1, at(5)).await.unwrap() }
    });
    let raced =
        results.await.into_iter().filter(|result| *result == JobCommandResult::Raced).count();
    assert_eq!(raced, 11);
    assert_eq!(f.stored_job(&name).await.version, 2);
}

pub async fn removing_a_job_deletes_its_history_and_its_messages_that_do_not_run(f: Fixture) {
    let job = f.declare(Fixture::job("report", Some(at(60)))).await;
    f.finish(f.run_of("report", at(1)), Verdict::Done, at(1)).await;
    f.finish(f.run_of("report", at(2)), dead(), at(2)).await;
    let other = f.finish(f.run_of("billing", at(1)), Verdict::Done, at(2)).await;
    f.enqueue(f.run_of("report", at(3))).await;
    let running = f.claim_one(at(3)).await;
    f.enqueue(f.run_of("report", at(4))).await;
    let result = f.storage.remove_job(&job.job.name, job.version, at(5)).await.unwrap();
    assert_eq!(result, JobCommandResult::Applied(Box::new(job.clone())));
    assert_eq!(f.inspect.job(&job.job.name).await.unwrap(), None);
    assert_eq!(f.storage.due_jobs(9, at(900)).await.unwrap(), []);
    let of_it = MessageFilter { job: Some(job.job.name.clone()), ..MessageFilter::default() };
    let left = f.inspect.messages(of_it, PageRequest::first(9)).await.unwrap().rows;
    let left: Vec<_> = left.into_iter().map(|row| row.message.id).collect();
    assert_eq!(left, [running.message.id]);
    let of_it = ExecutionFilter { job: Some(job.job.name), ..ExecutionFilter::default() };
    let history = f.inspect.executions(of_it, PageRequest::first(9)).await.unwrap();
    assert_eq!(history.rows, []);
    assert_eq!(f.settle(&running, Verdict::Done, at(6)).await, SettleResult::Applied);
    assert!(f.inspect.message(other).await.unwrap().is_some());
}

pub async fn a_job_is_removed_at_its_current_version_only(f: Fixture) {
    let job = f.declare(Fixture::job("report", Some(at(60)))).await;
    let name = &job.job.name;
    assert_eq!(f.storage.remove_job(name, 9, at(1)).await.unwrap(), JobCommandResult::Raced);
    let unknown = JobName::new("unknown").unwrap();
    assert_eq!(f.storage.remove_job(&unknown, 1, at(1)).await.unwrap(), JobCommandResult::Unknown);
    f.storage.remove_job(name, job.version, at(1)).await.unwrap();
    assert_eq!(f.declare(Fixture::job("report", Some(at(60)))).await.version, 1);
}
