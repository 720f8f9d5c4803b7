//! Jobs: declared by name, written only by who has seen the current version.

use punctual::inspect::JobFilter;
use punctual::model::{JobName, JobPhase, JobRecord, Pause, Retirement, Steer};
use punctual::storage::{Declared, Steered};

use super::Fixture;
use super::fixture::at;

behaviours! {
    a_declaration_creates_or_replaces_the_job_of_that_name,
    a_declaration_that_changes_nothing_writes_nothing,
    a_declaration_that_has_not_seen_the_current_version_is_refused,
    due_jobs_come_oldest_first_then_by_name_and_within_the_limit,
    paused_and_retired_jobs_are_not_due_until_their_pause_ends,
    a_due_job_says_how_many_of_its_messages_are_alive,
    an_operator_changes_the_version_that_was_seen_and_no_other,
    jobs_are_listed_by_name_and_found_by_app_phase_and_tag,
}

async fn due(f: &Fixture, limit: usize, second: i64) -> Vec<String> {
    let due = f.storage.due_jobs(limit, at(second)).await.unwrap();
    due.into_iter().map(|due| due.record.job.name.into()).collect()
}

fn pause(until: Option<i64>) -> Pause {
    let (by, reason) = ("ada".to_owned(), "maintenance".to_owned());
    Pause { by, reason, at: at(0), until: until.map(at) }
}

// spec: H-61, U-12
pub async fn a_declaration_creates_or_replaces_the_job_of_that_name(f: Fixture) {
    let record = Fixture::job("report", Some(at(60)));
    let created = f.storage.declare(record.clone(), None, at(1)).await.unwrap();
    assert_eq!(created, Declared::Created);
    let stored = f.stored_job(&record.job.name).await;
    assert_eq!((stored.version, stored.created_at), (1, at(0)));

    let changed = JobRecord { cursor: Some(at(30)), created_at: at(7), ..stored };
    let answer = f.storage.declare(changed, Some(1), at(7)).await.unwrap();
    assert_eq!(answer, Declared::Changed);
    let stored = f.stored_job(&record.job.name).await;
    assert_eq!((stored.version, stored.cursor), (2, Some(at(30))));
    assert_eq!((stored.created_at, stored.updated_at), (at(0), at(7)));
    assert_eq!(f.inspect.jobs(JobFilter::default()).await.unwrap().len(), 1);
}

pub async fn a_declaration_that_changes_nothing_writes_nothing(f: Fixture) {
    let stored = f.declare(Fixture::job("report", Some(at(60)))).await;
    let same = JobRecord { version: 9, created_at: at(5), updated_at: at(5), ..stored.clone() };
    let answer = f.storage.declare(same.clone(), Some(1), at(5)).await.unwrap();
    assert_eq!(answer, Declared::Unchanged);
    // The answer of the first declaration may have been lost.
    assert_eq!(f.storage.declare(same, None, at(5)).await.unwrap(), Declared::Unchanged);
    assert_eq!(f.stored_job(&stored.job.name).await, stored);
}

pub async fn a_declaration_that_has_not_seen_the_current_version_is_refused(f: Fixture) {
    let stored = f.declare(Fixture::job("report", Some(at(60)))).await;
    let other = JobRecord { release: 2, ..stored.clone() };
    for seen in [None, Some(0), Some(2)] {
        let answer = f.storage.declare(other.clone(), seen, at(1)).await.unwrap();
        assert_eq!(answer, Declared::Raced, "{seen:?}");
    }
    let unheard = Fixture::job("unheard of", None);
    assert_eq!(f.storage.declare(unheard, Some(1), at(1)).await.unwrap(), Declared::Raced);
    assert_eq!(f.stored_job(&stored.job.name).await, stored);
}

// spec: U-11
pub async fn due_jobs_come_oldest_first_then_by_name_and_within_the_limit(f: Fixture) {
    for (name, second) in [("c", 5), ("b", 5), ("a", 9), ("late", 11)] {
        f.declare(Fixture::job(name, Some(at(second)))).await;
    }
    f.declare(Fixture::job("without", None)).await;
    assert_eq!(due(&f, 10, 10).await, ["b", "c", "a"]);
    assert_eq!(due(&f, 2, 10).await, ["b", "c"]);
    assert_eq!(due(&f, 10, 4).await, [""; 0]);
    assert_eq!(due(&f, 10, 11).await.len(), 4, "due exactly at its cursor");
}

// spec: U-11
pub async fn paused_and_retired_jobs_are_not_due_until_their_pause_ends(f: Fixture) {
    let job = |name, paused| JobRecord { paused, ..Fixture::job(name, Some(at(1))) };
    f.declare(job("for good", Some(pause(None)))).await;
    f.declare(job("for a while", Some(pause(Some(20))))).await;
    let retired = Some(Retirement::Finished);
    f.declare(JobRecord { retired, ..Fixture::job("retired", Some(at(1))) }).await;
    assert_eq!(due(&f, 10, 19).await, [""; 0]);
    assert_eq!(due(&f, 10, 20).await, ["for a while"]);
}

pub async fn a_due_job_says_how_many_of_its_messages_are_alive(f: Fixture) {
    f.declare(Fixture::job("report", Some(at(1)))).await;
    f.enqueue(f.run_of("report", at(-60))).await;
    f.enqueue(f.run_of("report", at(-30))).await;
    f.enqueue(f.run_of("other", at(-30))).await;
    let claimed = f.claim(f.process(), 1, at(0)).await;
    assert_eq!(f.storage.due_jobs(9, at(1)).await.unwrap()[0].alive, 2);
    f.settle(&claimed[0], punctual::policy::Verdict::Done, at(1)).await;
    assert_eq!(f.storage.due_jobs(9, at(1)).await.unwrap()[0].alive, 1);
}

pub async fn an_operator_changes_the_version_that_was_seen_and_no_other(f: Fixture) {
    let stored = f.declare(Fixture::job("report", Some(at(60)))).await;
    let name = &stored.job.name;
    let stop = Steer::Pause { by: "ada".to_owned(), reason: "holiday".to_owned(), until: None };
    let answer = f.storage.steer(name, stop.clone(), 1, at(5)).await.unwrap();
    let Steered::Applied(now) = answer else { panic!("{answer:?}") };
    assert_eq!((now.version, now.phase()), (2, JobPhase::Paused));
    assert_eq!(f.stored_job(name).await, *now);
    assert_eq!(due(&f, 10, 100).await, [""; 0]);

    assert_eq!(f.storage.steer(name, stop.clone(), 1, at(6)).await.unwrap(), Steered::Raced);
    let unheard = JobName::new("unheard of").unwrap();
    assert_eq!(f.storage.steer(&unheard, stop, 1, at(6)).await.unwrap(), Steered::Unknown);

    let resume = Steer::Resume { cursor: Some(at(90)) };
    assert!(matches!(f.storage.steer(name, resume, 2, at(7)).await, Ok(Steered::Applied(_))));
    assert_eq!(due(&f, 10, 90).await, ["report"]);
}

pub async fn jobs_are_listed_by_name_and_found_by_app_phase_and_tag(f: Fixture) {
    let mut tagged = Fixture::job("tagged", None);
    tagged.job.tags = vec!["money".to_owned()];
    f.declare(tagged).await;
    f.declare(JobRecord { app: "desk".to_owned(), ..Fixture::job("elsewhere", None) }).await;
    f.declare(JobRecord { paused: Some(pause(None)), ..Fixture::job("asleep", None) }).await;
    let found = async |filter| -> Vec<String> {
        let jobs = f.inspect.jobs(filter).await.unwrap();
        jobs.into_iter().map(|record| record.job.name.into()).collect()
    };
    assert_eq!(found(JobFilter::default()).await, ["asleep", "elsewhere", "tagged"]);
    let app = JobFilter { app: Some("desk".to_owned()), ..JobFilter::default() };
    assert_eq!(found(app).await, ["elsewhere"]);
    let phase = JobFilter { phase: Some(JobPhase::Paused), ..JobFilter::default() };
    assert_eq!(found(phase).await, ["asleep"]);
    let tag = JobFilter { tag: Some("money".to_owned()), ..JobFilter::default() };
    assert_eq!(found(tag).await, ["tagged"]);
}
