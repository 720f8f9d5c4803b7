//! Steer: what an operator changes about a job, by who has seen its current version.

use punctual::inspect::{ExecutionFilter, MessageFilter, PageRequest};
use punctual::model::{Job, JobCommand, JobName, JobPhase, JobRecord, Overrides, Retirement};
use punctual::policy::Verdict;
use punctual::storage::{JobCommandResult, SettleResult, WakeSource};
use punctual::{ErrorKind, Schedule};

use super::Fixture;
use super::fixture::{at, dead, seconds, together};

behaviours! {
    an_operator_changes_the_version_that_was_seen_and_no_other,
    every_change_is_stored_as_the_record_it_leads_to,
    an_override_is_stored_with_the_definition_that_results,
    a_job_cannot_be_renamed,
    of_many_operators_at_once_exactly_one_has_seen_the_job,
    a_removed_job_takes_its_history_and_what_does_not_run_with_it,
    a_job_is_removed_only_by_who_has_seen_it,
}

fn stop() -> JobCommand {
    JobCommand::Pause { by: "ada".to_owned(), reason: "holiday".to_owned(), until: None }
}

pub async fn an_operator_changes_the_version_that_was_seen_and_no_other(f: Fixture) {
    let stored = f.declare(Fixture::job("report", Some(at(60)))).await;
    let name = &stored.job.name;
    let answer = f.storage.command_job(name, stop(), 1, at(5)).await.unwrap();
    let JobCommandResult::Applied(now) = answer else { panic!("{answer:?}") };
    assert_eq!((now.version, now.phase()), (2, JobPhase::Paused));
    assert_eq!(f.stored_job(name).await, *now);
    assert_eq!(f.storage.due_jobs(10, at(100)).await.unwrap(), []);

    assert_eq!(
        f.storage.command_job(name, stop(), 1, at(6)).await.unwrap(),
        JobCommandResult::Raced
    );
    let unheard = JobName::new("unheard of").unwrap();
    assert_eq!(
        f.storage.command_job(&unheard, stop(), 1, at(6)).await.unwrap(),
        JobCommandResult::Unknown
    );

    let resume = JobCommand::Resume { cursor: Some(at(90)) };
    assert!(matches!(
        f.storage.command_job(name, resume, 2, at(7)).await,
        Ok(JobCommandResult::Applied(_))
    ));
    assert_eq!(f.storage.due_jobs(10, at(90)).await.unwrap().len(), 1);
}

pub async fn every_change_is_stored_as_the_record_it_leads_to(f: Fixture) {
    let mut record = f.declare(Fixture::job("report", Some(at(60)))).await;
    let name = record.job.name.clone();
    let steers = [
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
    for (steer, due_at) in steers.into_iter().zip(due) {
        let now = at(9);
        let expected = record.steered(&steer, now).unwrap();
        let answer = f.storage.command_job(&name, steer, record.version, now).await.unwrap();
        assert_eq!(answer, JobCommandResult::Applied(Box::new(expected.clone())));
        assert_eq!(f.stored_job(&name).await, expected);
        assert_eq!(f.storage.next_due(&WakeSource::Jobs).await.unwrap(), due_at);
        record = expected;
    }
}

pub async fn an_override_is_stored_with_the_definition_that_results(f: Fixture) {
    let finished = Some(Retirement::Finished);
    let stored = f.declare(JobRecord { retired: finished, ..Fixture::job("report", None) }).await;
    let schedule = Schedule::cron("0 4 * * *", "Asia/Tokyo").unwrap();
    let overrides = Overrides { schedule: Some(schedule.clone()), ..Overrides::default() };
    let job = Job { schedule, ..stored.job.clone() };
    let steer = JobCommand::Override {
        overrides: Box::new(overrides.clone()),
        job: Box::new(job.clone()),
        cursor: Some(at(90)),
    };
    f.storage.command_job(&stored.job.name, steer, 1, at(5)).await.unwrap();
    let now = f.stored_job(&stored.job.name).await;
    assert_eq!((now.overrides, now.job, now.cursor), (overrides, job, Some(at(90))));
    assert_eq!((now.declared, now.retired), (stored.declared, None));
    assert_eq!(f.storage.due_jobs(9, at(90)).await.unwrap().len(), 1, "it has more to do");
}

pub async fn a_job_cannot_be_renamed(f: Fixture) {
    let stored = f.declare(Fixture::job("report", Some(at(60)))).await;
    let other = Job::new("other", Schedule::every(seconds(60), at(0)).unwrap()).unwrap();
    let steer =
        JobCommand::Override { overrides: Box::default(), job: Box::new(other), cursor: None };
    let error = f.storage.command_job(&stored.job.name, steer, 1, at(5)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(f.stored_job(&stored.job.name).await, stored);
}

pub async fn of_many_operators_at_once_exactly_one_has_seen_the_job(f: Fixture) {
    let stored = f.declare(Fixture::job("report", Some(at(60)))).await;
    let name = stored.job.name;
    let nodes = f.nodes(4).await.into_iter().cycle().take(12).collect();
    let answers = together(nodes, |node| {
        let name = name.clone();
        async move { node.storage.command_job(&name, stop(), 1, at(5)).await.unwrap() }
    });
    let raced =
        answers.await.into_iter().filter(|answer| *answer == JobCommandResult::Raced).count();
    assert_eq!(raced, 11);
    assert_eq!(f.stored_job(&name).await.version, 2);
}

pub async fn a_removed_job_takes_its_history_and_what_does_not_run_with_it(f: Fixture) {
    let job = f.declare(Fixture::job("report", Some(at(60)))).await;
    f.finish(f.run_of("report", at(1)), Verdict::Done, at(1)).await;
    f.finish(f.run_of("report", at(2)), dead(), at(2)).await;
    let other = f.finish(f.run_of("billing", at(1)), Verdict::Done, at(2)).await;
    f.enqueue(f.run_of("report", at(3))).await;
    let running = f.claim_one(at(3)).await;
    f.enqueue(f.run_of("report", at(4))).await;
    let answer = f.storage.remove_job(&job.job.name, job.version, at(5)).await.unwrap();
    assert_eq!(answer, JobCommandResult::Applied(Box::new(job.clone())));
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

pub async fn a_job_is_removed_only_by_who_has_seen_it(f: Fixture) {
    let job = f.declare(Fixture::job("report", Some(at(60)))).await;
    let name = &job.job.name;
    assert_eq!(f.storage.remove_job(name, 9, at(1)).await.unwrap(), JobCommandResult::Raced);
    let unheard = JobName::new("unheard of").unwrap();
    assert_eq!(f.storage.remove_job(&unheard, 1, at(1)).await.unwrap(), JobCommandResult::Unknown);
    f.storage.remove_job(name, job.version, at(1)).await.unwrap();
    assert_eq!(f.declare(Fixture::job("report", Some(at(60)))).await.version, 1);
}
