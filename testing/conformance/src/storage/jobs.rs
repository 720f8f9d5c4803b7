//! Jobs: declared by name, written only by a call with the current version.

use std::sync::{Arc, Mutex};

use punctual::Schedule;
use punctual::backend::policy::Verdict;
use punctual::backend::storage::DeclareResult;
use punctual::inspect::JobFilter;
use punctual::model::{
    Body, HandlerOptions, Job, JobName, JobPhase, JobRecord, Misfire, Origin, Overlap, Overrides,
    Pause, Priority, Rescue, Retirement, Retry, Topic,
};
use punctual::schedule::{Spread, SpreadLimit};

use super::Fixture;
use super::fixture::{again, at, queue, seconds, together};

behaviours! {
    a_declaration_creates_or_replaces_the_job_of_that_name,
    a_declaration_that_changes_nothing_writes_nothing,
    a_declaration_with_another_version_is_refused,
    due_jobs_come_oldest_first_then_by_name_and_within_the_limit,
    paused_and_retired_jobs_are_not_due_until_their_pause_ends,
    a_due_job_reports_how_many_of_its_messages_are_alive,
    jobs_are_listed_by_name_and_found_by_app_phase_and_tag,
    every_field_of_a_job_reads_back,
    of_many_that_declare_a_job_at_once_exactly_one_creates_it,
    of_many_that_change_a_job_at_once_exactly_one_succeeds,
    a_declaration_keeps_what_an_operator_overrode,
    jobs_are_found_by_several_fields_at_once,
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
    assert_eq!(created, DeclareResult::Created);
    let stored = f.stored_job(&record.job.name).await;
    assert_eq!((stored.version, stored.created_at), (1, at(0)));

    let changed = JobRecord { cursor: Some(at(30)), created_at: at(7), ..stored };
    let result = f.storage.declare(changed, Some(1), at(7)).await.unwrap();
    assert_eq!(result, DeclareResult::Changed);
    let stored = f.stored_job(&record.job.name).await;
    assert_eq!((stored.version, stored.cursor), (2, Some(at(30))));
    assert_eq!((stored.created_at, stored.updated_at), (at(0), at(7)));
    assert_eq!(f.inspect.jobs(JobFilter::default()).await.unwrap().len(), 1);
}

pub async fn a_declaration_that_changes_nothing_writes_nothing(f: Fixture) {
    let stored = f.declare(Fixture::job("report", Some(at(60)))).await;
    let same = JobRecord { version: 9, created_at: at(5), updated_at: at(5), ..stored.clone() };
    let result = f.storage.declare(same.clone(), Some(1), at(5)).await.unwrap();
    assert_eq!(result, DeclareResult::Unchanged);
    // The response to the first declaration may have been lost.
    assert_eq!(f.storage.declare(same, None, at(5)).await.unwrap(), DeclareResult::Unchanged);
    assert_eq!(f.stored_job(&stored.job.name).await, stored);
}

pub async fn a_declaration_with_another_version_is_refused(f: Fixture) {
    let stored = f.declare(Fixture::job("report", Some(at(60)))).await;
    let other = JobRecord { release: 2, ..stored.clone() };
    for seen in [None, Some(0), Some(2)] {
        let result = f.storage.declare(other.clone(), seen, at(1)).await.unwrap();
        assert_eq!(result, DeclareResult::Raced, "{seen:?}");
    }
    let unknown = Fixture::job("unknown", None);
    assert_eq!(f.storage.declare(unknown, Some(1), at(1)).await.unwrap(), DeclareResult::Raced);
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

pub async fn a_due_job_reports_how_many_of_its_messages_are_alive(f: Fixture) {
    f.declare(Fixture::job("report", Some(at(1)))).await;
    f.enqueue(f.run_of("report", at(-60))).await;
    f.enqueue(f.run_of("report", at(-30))).await;
    f.enqueue(f.run_of("other", at(-30))).await;
    let claimed = f.claim(f.process(), 1, at(0)).await;
    assert_eq!(f.storage.due_jobs(9, at(1)).await.unwrap()[0].alive, 2);
    f.settle(&claimed[0], Verdict::Done, at(1)).await;
    assert_eq!(f.storage.due_jobs(9, at(1)).await.unwrap()[0].alive, 1);
    let claimed = f.claim(f.process(), 1, at(1)).await;
    f.settle(&claimed[0], again(&claimed[0], at(500)), at(1)).await;
    let waiting = f.storage.due_jobs(9, at(1)).await.unwrap();
    assert_eq!(waiting[0].alive, 1, "a message that waits for its retry is alive");
}

pub async fn jobs_are_listed_by_name_and_found_by_app_phase_and_tag(f: Fixture) {
    let mut tagged = Fixture::job("tagged", None);
    tagged.job.tags = vec!["money".to_owned()];
    f.declare(tagged).await;
    f.declare(JobRecord { app: "billing".to_owned(), ..Fixture::job("elsewhere", None) }).await;
    f.declare(JobRecord { paused: Some(pause(None)), ..Fixture::job("asleep", None) }).await;
    let found = async |filter| -> Vec<String> {
        let jobs = f.inspect.jobs(filter).await.unwrap();
        jobs.into_iter().map(|record| record.job.name.into()).collect()
    };
    assert_eq!(found(JobFilter::default()).await, ["asleep", "elsewhere", "tagged"]);
    let app = JobFilter { app: Some("billing".to_owned()), ..JobFilter::default() };
    assert_eq!(found(app).await, ["elsewhere"]);
    let phase = JobFilter { phase: Some(JobPhase::Paused), ..JobFilter::default() };
    assert_eq!(found(phase).await, ["asleep"]);
    let tag = JobFilter { tag: Some("money".to_owned()), ..JobFilter::default() };
    assert_eq!(found(tag).await, ["tagged"]);
}

/// Returns a job without a default value in any field.
fn full(name: &str) -> JobRecord {
    let schedule = Schedule::cron("0 30 2 * * MON-FRI", "Europe/Warsaw").unwrap();
    let schedule = schedule.starting(at(-9)).unwrap().ending(at(999_999)).unwrap().at_most(9);
    let job = Job {
        topic: Topic::new("reports").unwrap(),
        misfire: Misfire::fire_all().threshold(seconds(5)).window(seconds(600)).catch_up_max(7),
        overlap: Overlap::Allow { parallel_max: Some(3) },
        spread: Spread::Stable(SpreadLimit::Percent(20)),
        queue: queue("slow"),
        priority: Priority::HIGHEST,
        body: Body::raw("\0\u{1}", "application/octet-stream"),
        handler_options: Arc::new(
            HandlerOptions::new().retry(Retry::proportional()).rescue(Rescue::AsFailure),
        ),
        tags: vec!["money".to_owned(), "żółw".to_owned()],
        description: Some("counts 'everything' \"twice\"".to_owned()),
        ..Job::new(name, schedule.clone()).unwrap()
    };
    let overrides = Overrides {
        schedule: Some(Schedule::every(seconds(30), at(0)).unwrap()),
        retry: Some(Retry::exponential()),
        timeout: Some(None),
        misfire: Some(Misfire::skip_to_next()),
        skips: [at(120), at(240)].into(),
    };
    JobRecord {
        declared: job.clone(),
        configured: Some(schedule),
        overrides,
        job,
        origin: Origin::Seeded,
        app: "billing 'one'".to_owned(),
        release: 12,
        last_nominal: Some(at(-60)),
        runs: 4,
        paused: Some(pause(Some(500))),
        retired: Some(Retirement::Removed),
        ..Fixture::job(name, Some(at(60)))
    }
}

// spec: U-7, T-50
pub async fn every_field_of_a_job_reads_back(f: Fixture) {
    let record = full("nightly");
    let created = f.storage.declare(record.clone(), None, at(1)).await.unwrap();
    assert_eq!(created, DeclareResult::Created);
    let expected = JobRecord { version: 1, updated_at: at(1), ..record.clone() };
    assert_eq!(f.stored_job(&record.job.name).await, expected);
    let listed = f.inspect.jobs(JobFilter::default()).await.unwrap();
    assert_eq!(listed, std::slice::from_ref(&expected));
    // The record reads back as declared: declaring it again changes nothing.
    let again = f.another_node().await.storage.declare(record, Some(1), at(2)).await.unwrap();
    assert_eq!(again, DeclareResult::Unchanged);
    assert_eq!(f.stored_job(&expected.job.name).await, expected);
}

pub async fn of_many_that_declare_a_job_at_once_exactly_one_creates_it(f: Fixture) {
    let nodes = f.nodes(4).await.into_iter().cycle().take(12).collect();
    let results = together(nodes, |node| async move {
        node.storage.declare(full("nightly"), None, at(1)).await.unwrap()
    });
    let (created, others): (Vec<_>, Vec<_>) =
        results.await.into_iter().partition(|result| *result == DeclareResult::Created);
    assert_eq!(created.len(), 1);
    assert_eq!(others, [DeclareResult::Unchanged; 11], "all declarations are equal");
}

pub async fn of_many_that_change_a_job_at_once_exactly_one_succeeds(f: Fixture) {
    let stored = f.declare(Fixture::job("report", Some(at(60)))).await;
    let nodes = (2..10).zip(f.nodes(4).await.into_iter().cycle());
    let (releases, nodes): (Vec<u64>, Vec<Fixture>) = nodes.unzip();
    let releases = Mutex::new(releases.into_iter());
    let results = together(nodes, |node| {
        let release = releases.lock().unwrap().next().unwrap();
        let record = JobRecord { release, ..stored.clone() };
        async move { (release, node.storage.declare(record, Some(1), at(1)).await.unwrap()) }
    });
    let (changed, others): (Vec<_>, Vec<_>) =
        results.await.into_iter().partition(|(_, result)| *result == DeclareResult::Changed);
    assert_eq!((changed.len(), others.len()), (1, 7));
    assert!(others.iter().all(|(_, result)| *result == DeclareResult::Raced), "{others:?}");
    let now = f.stored_job(&stored.job.name).await;
    assert_eq!((now.release, now.version), (changed[0].0, 2));
}

/// A storage stores the decided record completely.
pub async fn a_declaration_keeps_what_an_operator_overrode(f: Fixture) {
    let stored = f.declare(full("nightly")).await;
    let released = JobRecord { release: 13, ..stored.clone() };
    f.storage.declare(released, Some(1), at(5)).await.unwrap();
    let now = f.stored_job(&stored.job.name).await;
    assert_eq!((&now.overrides, &now.configured), (&stored.overrides, &stored.configured));
    assert_eq!((now.paused, now.release), (stored.paused, 13));
}

pub async fn jobs_are_found_by_several_fields_at_once(f: Fixture) {
    f.declare(full("a")).await;
    f.declare(JobRecord { app: "other".to_owned(), ..full("b") }).await;
    f.declare(JobRecord { retired: None, ..full("c") }).await;
    let filter = JobFilter {
        app: Some("billing 'one'".to_owned()),
        phase: Some(JobPhase::Retired),
        tag: Some("żółw".to_owned()),
    };
    let found = f.inspect.jobs(filter.clone()).await.unwrap();
    assert_eq!(found.iter().map(|job| job.job.name.as_str()).collect::<Vec<_>>(), ["a"]);
    let part_of_a_tag = JobFilter { tag: Some("żół".to_owned()), ..filter };
    assert_eq!(f.inspect.jobs(part_of_a_tag).await.unwrap(), []);
    let unknown = JobName::new("unknown").unwrap();
    assert_eq!(f.inspect.job(&unknown).await.unwrap(), None);
}
