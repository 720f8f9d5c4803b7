//! Tests of declarations, layers, deployments side by side, and what an operator's values survive.

use std::time::Duration;

use super::*;
use crate::model::{JobPhase, Misfire, Pause, Retry};
use crate::policy::plan::plan;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A time of day on the day the tests are set on.
fn today(time: &str) -> Timestamp {
    at(&format!("2026-01-05T{time}Z"))
}

fn cron(text: &str) -> Schedule {
    Schedule::cron(text, "UTC").unwrap()
}

fn job(schedule: Schedule) -> Job {
    Job::new("nightly", schedule).unwrap()
}

fn declaration(schedule: Schedule, release: u64) -> Declaration {
    Declaration {
        job: job(schedule),
        configured: None,
        app: "shop".to_owned(),
        release,
        origin: Origin::Declared,
    }
}

/// Declared at noon in release 1: hourly, so the cursor is at 13:00.
fn stored() -> JobRecord {
    let Reconciliation::Create(record) =
        reconcile(None, &declaration(cron("0 * * * *"), 1), today("12:00:00"))
    else {
        panic!("a new job is created");
    };
    *record
}

fn change(stored: &JobRecord, declaration: &Declaration, now: Timestamp) -> JobRecord {
    match reconcile(Some(stored), declaration, now) {
        Reconciliation::Change(record) => *record,
        other => panic!("{other:?}"),
    }
}

fn paused(record: JobRecord) -> JobRecord {
    let pause = Pause {
        by: "ann".to_owned(),
        reason: "audit".to_owned(),
        at: today("12:01:00"),
        until: None,
    };
    JobRecord { paused: Some(pause), ..record }
}

fn retired(record: &JobRecord, release: u64, now: Timestamp) -> Vec<JobRecord> {
    let names = BTreeSet::from([JobName::new("other").unwrap()]);
    let set = DeclaredSet { app: "shop", release, names: &names, allow_empty: false };
    retire_vanished(std::slice::from_ref(record), &set, now)
}

fn overrides() -> Overrides {
    Overrides { schedule: Some(cron("30 * * * *")), ..Overrides::default() }
}

// spec: U-39, U-39a, H-23
#[test]
fn a_new_job_is_created_with_its_cursor_on_the_next_occurrence() {
    let record = stored();
    assert_eq!(record.cursor, Some(today("13:00:00")));
    assert_eq!((record.version, record.release, record.runs), (1, 1, 0));
    assert_eq!((record.created_at, record.updated_at), (today("12:00:00"), today("12:00:00")));
    assert_eq!(record.job, record.declared);
    assert_eq!(record.phase(), JobPhase::Active);
}

#[test]
fn a_new_job_whose_schedule_is_over_has_finished() {
    for schedule in [Schedule::once(today("11:00:00")), cron("0 * * * *").at_most(0)] {
        let Reconciliation::Create(record) =
            reconcile(None, &declaration(schedule, 1), today("12:00:00"))
        else {
            panic!("a new job is created");
        };
        assert_eq!((record.cursor, record.retired), (None, Some(Retirement::Finished)));
    }
}

// spec: U-39b, T-46
#[test]
fn another_schedule_moves_the_cursor_to_its_next_occurrence() {
    let record = change(&stored(), &declaration(cron("*/10 * * * *"), 2), today("12:34:00"));
    assert_eq!(record.cursor, Some(today("12:40:00")));
    assert_eq!(record.job.schedule, cron("*/10 * * * *"));
    assert_eq!((record.version, record.release, record.updated_at), (2, 2, today("12:34:00")));
    assert_eq!(record.created_at, today("12:00:00"));
    // Exactly on an occurrence, the next one counts.
    let record = change(&stored(), &declaration(cron("*/10 * * * *"), 2), today("12:40:00"));
    assert_eq!(record.cursor, Some(today("12:50:00")));
    // Another zone is another schedule.
    let zoned = Schedule::cron("0 * * * *", "Asia/Kolkata").unwrap();
    let record = change(&stored(), &declaration(zoned, 1), today("12:34:00"));
    assert_eq!(record.cursor, Some(today("13:30:00")));
}

// spec: U-39d, T-46
#[test]
fn the_same_declaration_writes_nothing_and_keeps_what_was_missed() {
    for release in [1, 2] {
        let same = declaration(cron("0 * * * *"), release);
        assert_eq!(
            reconcile(Some(&stored()), &same, at("2026-01-09T00:00:00Z")),
            Reconciliation::Unchanged
        );
    }
    // Down from 12:00 to 17:30: another retry policy is written, the cursor stays overdue.
    let mut other = declaration(cron("0 * * * *"), 2);
    other.job.handler_options = Arc::new(HandlerOptions::new().retry(Retry::default()));
    let record = change(&stored(), &other, today("17:30:00"));
    assert_eq!(record.cursor, Some(today("13:00:00")));
    let plan = plan(
        &record.job.schedule,
        today("13:00:00"),
        &record.job.misfire,
        Duration::from_mins(1),
        today("17:30:00"),
    );
    assert_eq!(plan.missed_count, 5);
}

// spec: T-46, T-59
#[test]
fn a_pause_outlives_every_declaration() {
    let stored = paused(stored());
    assert_eq!(
        reconcile(Some(&stored), &declaration(cron("0 * * * *"), 2), today("12:34:00")),
        Reconciliation::Unchanged
    );
    let record = change(&stored, &declaration(cron("*/10 * * * *"), 2), today("12:34:00"));
    assert_eq!(record.paused, stored.paused);
    assert_eq!(record.phase(), JobPhase::Paused);
}

// spec: U-39c
#[test]
fn a_vanished_job_is_retired_and_comes_back_when_it_is_declared_again() {
    let removed = retired(&stored(), 2, today("14:00:00"));
    assert_eq!(removed.len(), 1);
    let removed = &removed[0];
    assert_eq!(
        (removed.retired, removed.cursor, removed.due_at()),
        (Some(Retirement::Removed), None, None)
    );
    assert_eq!((removed.version, removed.release, removed.updated_at), (2, 2, today("14:00:00")));
    assert!(retired(removed, 3, today("15:00:00")).is_empty(), "retired once");

    let back = change(removed, &declaration(cron("0 * * * *"), 3), today("16:20:00"));
    assert_eq!((back.retired, back.cursor, back.version), (None, Some(today("17:00:00")), 3));
    assert_eq!(back.phase(), JobPhase::Active);

    let removed = &retired(&paused(stored()), 2, today("14:00:00"))[0];
    let back = change(removed, &declaration(cron("0 * * * *"), 3), today("16:20:00"));
    assert_eq!(back.retired, None);
    assert_eq!(back.phase(), JobPhase::Paused);
}

// spec: U-40
#[test]
fn only_declared_jobs_of_the_same_application_are_retired() {
    let spared = [
        JobRecord { origin: Origin::Runtime, ..stored() },
        JobRecord { origin: Origin::Seeded, ..stored() },
        JobRecord { app: "bank".to_owned(), ..stored() },
        JobRecord { release: 3, ..stored() },
        JobRecord { retired: Some(Retirement::Finished), ..stored() },
        JobRecord { declared: Job::new("other", cron("@daily")).unwrap(), ..stored() },
    ];
    for record in spared {
        assert!(retired(&record, 2, today("14:00:00")).is_empty(), "{record:?}");
    }
}

#[test]
fn an_empty_set_retires_only_when_that_is_meant() {
    let (records, names) = ([stored()], BTreeSet::new());
    let careful = DeclaredSet { app: "shop", release: 2, names: &names, allow_empty: false };
    assert!(retire_vanished(&records, &careful, today("14:00:00")).is_empty());
    let meant = DeclaredSet { allow_empty: true, ..careful };
    assert_eq!(retire_vanished(&records, &meant, today("14:00:00")).len(), 1);
}

#[test]
fn two_releases_side_by_side_do_not_flip_a_job() {
    let old = declaration(cron("0 * * * *"), 1);
    let new = declaration(cron("*/10 * * * *"), 2);
    let record = change(&stored(), &new, today("12:34:00"));
    assert_eq!(reconcile(Some(&record), &old, today("12:35:00")), Reconciliation::Outdated);
    assert_eq!(reconcile(Some(&record), &new, today("12:36:00")), Reconciliation::Unchanged);
    // Release 2 has dropped it: release 1 can neither bring it back nor retire what release 2 added.
    let removed = &retired(&stored(), 2, today("14:00:00"))[0];
    assert_eq!(reconcile(Some(removed), &old, today("14:01:00")), Reconciliation::Outdated);
    assert!(retired(&record, 1, today("14:00:00")).is_empty());
}

// spec: T-48
#[test]
fn a_name_has_one_owner() {
    let mut other = declaration(cron("*/10 * * * *"), 9);
    other.app = "bank".to_owned();
    assert_eq!(
        reconcile(Some(&stored()), &other, today("12:34:00")),
        Reconciliation::Foreign("shop".to_owned())
    );
    // A job that its owner no longer declares may be taken over; the release numbers of two owners are not
    // compared.
    let removed = &retired(&stored(), 7, today("14:00:00"))[0];
    other.release = 1;
    let taken = change(removed, &other, today("14:34:00"));
    assert_eq!((taken.app.as_str(), taken.release, taken.retired), ("bank", 1, None));
    // Made at run time, then declared in code: code takes over.
    let runtime = JobRecord { origin: Origin::Runtime, app: String::new(), ..stored() };
    let taken = change(&runtime, &declaration(cron("0 * * * *"), 1), today("12:34:00"));
    assert_eq!((taken.origin, taken.cursor), (Origin::Declared, runtime.cursor));
    let made = Declaration { origin: Origin::Runtime, ..declaration(cron("*/10 * * * *"), 1) };
    assert_eq!(
        reconcile(Some(&stored()), &made, today("12:34:00")),
        Reconciliation::Foreign("shop".to_owned())
    );
    // A job that one application has made at run time is not replaced by another application.
    let own = JobRecord { origin: Origin::Runtime, ..stored() };
    assert!(matches!(reconcile(Some(&own), &made, today("12:34:00")), Reconciliation::Change(_)));
    let others = Declaration { app: "bank".to_owned(), ..made };
    assert_eq!(
        reconcile(Some(&own), &others, today("12:34:00")),
        Reconciliation::Foreign("shop".to_owned())
    );
    // A seed only creates a missing job.
    let seed = Declaration { origin: Origin::Seeded, ..declaration(cron("*/10 * * * *"), 9) };
    assert_eq!(reconcile(Some(&stored()), &seed, today("12:34:00")), Reconciliation::Unchanged);
    assert!(matches!(reconcile(None, &seed, today("12:34:00")), Reconciliation::Create(_)));
}

// spec: H-53, H-54, H-56, H-57, T-49
#[test]
fn an_operators_schedule_wins_over_the_configured_one_and_that_over_the_declared_one() {
    let declared = job(cron("0 1 * * *"));
    let configured = cron("0 2 * * *");
    let overridden = Overrides { schedule: Some(cron("0 3 * * *")), ..Overrides::default() };
    for (configured, overrides, expected) in [
        (None, &Overrides::default(), "0 1 * * *"),
        (Some(&configured), &Overrides::default(), "0 2 * * *"),
        (Some(&configured), &overridden, "0 3 * * *"),
        (None, &overridden, "0 3 * * *"),
    ] {
        let effective = effective(&declared, configured, overrides);
        assert_eq!(effective, Job { schedule: cron(expected), ..declared.clone() });
    }
}

// spec: T-49
#[test]
fn an_operator_overrides_retries_timeout_and_misfire_and_the_rest_stays() {
    let declared = job(cron("0 1 * * *"));
    let overrides = Overrides {
        schedule: None,
        retry: Some(Retry::default()),
        timeout: Some(Some(Duration::from_secs(9))),
        misfire: Some(Misfire::skip_to_next()),
        ..Overrides::default()
    };
    let job = effective(&declared, None, &overrides);
    assert_eq!(job.handler_options.retry, Some(Retry::default()));
    assert_eq!(job.handler_options.timeout, Some(Duration::from_secs(9)));
    assert_eq!(job.handler_options.crashes_max, declared.handler_options.crashes_max);
    assert_eq!(job.misfire, Misfire::skip_to_next());
    assert_eq!((job.schedule, job.overlap), (declared.schedule.clone(), declared.overlap));
    // One of them alone leaves the other as declared, and "no timeout" can be set.
    let mut limited = declared.clone();
    limited.handler_options = Arc::new(HandlerOptions::new().timeout(Duration::from_secs(5)));
    let only = Overrides { timeout: Some(None), ..Overrides::default() };
    let job = effective(&limited, None, &only);
    assert_eq!(
        (job.handler_options.timeout, &job.handler_options.retry),
        (Some(Duration::ZERO), &limited.handler_options.retry)
    );
}

// spec: H-55, H-56
#[test]
fn a_configured_cron_keeps_zone_and_bounds_and_an_invalid_one_is_an_error() {
    let declared = job(Schedule::cron("0 1 * * *", "Europe/Warsaw")
        .unwrap()
        .ending(today("00:00:00"))
        .unwrap()
        .at_most(7));
    let schedule = configured_schedule(&declared, "0 2 * * *").unwrap();
    let expected = Schedule::cron("0 2 * * *", "Europe/Warsaw")
        .unwrap()
        .ending(today("00:00:00"))
        .unwrap()
        .at_most(7);
    assert_eq!(schedule, expected);
    let error = configured_schedule(&declared, "0 25 * * *").unwrap_err().to_string();
    assert!(error.contains("configured cron text of job \"nightly\""), "{error}");
    // Only the cron text: a zone cannot be smuggled in.
    assert!(configured_schedule(&declared, "0 2 * * * in Asia/Tokyo").is_err());
    assert!(configured_schedule(&job(cron("0 1 * * *")), "H 2 * * *").is_ok());
}

// spec: H-54, H-57
#[test]
fn configuration_that_comes_and_goes_moves_the_cursor_each_time() {
    let configured =
        Declaration { configured: Some(cron("15 * * * *")), ..declaration(cron("0 * * * *"), 1) };
    let record = change(&stored(), &configured, today("12:10:00"));
    assert_eq!(record.cursor, Some(today("12:15:00")));
    assert_eq!(record.declared.schedule, cron("0 * * * *"));
    assert_eq!(reconcile(Some(&record), &configured, today("12:50:00")), Reconciliation::Unchanged);
    let record = change(&record, &declaration(cron("0 * * * *"), 1), today("12:20:00"));
    assert_eq!((record.cursor, record.configured), (Some(today("13:00:00")), None));
}

// spec: T-20, T-49
#[test]
fn overrides_take_effect_from_the_next_occurrence_and_survive_deploys() {
    let command = overridden(&stored(), overrides(), today("12:10:00"));
    let record = stored().with_command(&command, today("12:10:00")).unwrap();
    assert_eq!(record.cursor, Some(today("12:30:00")));
    assert_eq!(record.job.schedule, cron("30 * * * *"));
    // Code changes underneath: kept as declared, not in force, cursor untouched.
    let record = change(&record, &declaration(cron("*/10 * * * *"), 2), today("12:40:00"));
    assert_eq!((record.cursor, &record.overrides), (Some(today("12:30:00")), &overrides()));
    assert_eq!(record.job.schedule, cron("30 * * * *"));
    // Reset: the present declaration is in force.
    let command = overridden(&record, Overrides::default(), today("12:41:00"));
    let record = record.with_command(&command, today("12:41:00")).unwrap();
    assert_eq!((record.cursor, record.job), (Some(today("12:50:00")), record.declared));
    // Other retries alone leave the cursor.
    let retry = Overrides { retry: Some(Retry::default()), ..Overrides::default() };
    let command = overridden(&stored(), retry, today("17:00:00"));
    let record = stored().with_command(&command, today("17:00:00")).unwrap();
    assert_eq!(record.cursor, Some(today("13:00:00")));
}

#[test]
fn a_moved_anchor_survives_deploys() {
    let every = Schedule::every(Duration::from_hours(1), today("00:00:00")).unwrap();
    let every = every.following_last_run();
    let Reconciliation::Create(created) =
        reconcile(None, &declaration(every.clone(), 1), today("12:10:00"))
    else {
        panic!("a new job is created");
    };
    // A misfire at 15:20 moved the anchor.
    let mut record = *created;
    record.job.schedule = every.reanchored(today("15:20:00"));
    record.cursor = Some(today("16:20:00"));
    assert_eq!(
        reconcile(Some(&record), &declaration(every, 2), today("15:30:00")),
        Reconciliation::Unchanged
    );
    let command = overridden(&record, Overrides::default(), today("15:30:00"));
    assert_eq!(record.with_command(&command, today("15:30:00")).unwrap().job, record.job);
    // Another interval is another schedule.
    let half = Schedule::every(Duration::from_mins(30), today("00:00:00")).unwrap();
    let changed = change(&record, &declaration(half, 2), today("15:30:00"));
    assert_eq!(changed.cursor, Some(today("16:00:00")));
}

#[test]
fn an_anchor_that_should_not_have_moved_goes_back_to_the_grid() {
    let every = Schedule::every(Duration::from_hours(1), today("00:00:00")).unwrap();
    let Reconciliation::Create(created) =
        reconcile(None, &declaration(every.clone(), 1), today("12:10:00"))
    else {
        panic!("a new job is created");
    };
    // As releases before did at a misfire.
    let mut record = *created;
    record.job.schedule = every.reanchored(today("15:20:00"));
    record.cursor = Some(today("16:20:00"));
    let changed = change(&record, &declaration(every.clone(), 2), today("15:30:00"));
    assert_eq!((changed.job.schedule, changed.cursor), (every, Some(today("16:00:00"))));
}

#[test]
fn a_finished_job_stays_finished_until_its_schedule_has_more() {
    let schedule = cron("0 * * * *").at_most(2);
    let finished = JobRecord {
        declared: job(schedule.clone()),
        job: job(schedule.clone()),
        runs: 2,
        cursor: None,
        retired: Some(Retirement::Finished),
        ..stored()
    };
    assert_eq!(
        reconcile(Some(&finished), &declaration(schedule, 2), today("15:30:00")),
        Reconciliation::Unchanged
    );
    let ended_early = JobRecord { runs: 1, ..finished.clone() };
    let again = declaration(ended_early.declared.schedule.clone(), 2);
    assert_eq!(reconcile(Some(&ended_early), &again, today("15:30:00")), Reconciliation::Unchanged);
    let more = change(&finished, &declaration(cron("0 * * * *").at_most(3), 2), today("15:30:00"));
    assert_eq!((more.cursor, more.retired), (Some(today("16:00:00")), None));
    let moved = change(&finished, &declaration(cron("5 * * * *").at_most(2), 2), today("15:30:00"));
    assert_eq!((moved.cursor, moved.retired), (None, Some(Retirement::Finished)));
}

// spec: U-34
#[test]
fn resuming_never_replays_the_pause_but_keeps_a_one_time_job() {
    let record = paused(stored());
    assert_eq!(cursor_after_pause(&record, today("17:00:00")), Some(today("18:00:00")));
    let once = JobRecord { job: job(Schedule::once(today("13:00:00"))), ..record };
    assert_eq!(cursor_after_pause(&once, today("17:00:00")), Some(today("13:00:00")));
}

/// Found by the simulation: a node whose clock was behind resumed, or changed the schedule, and fired
/// again what had been fired.
#[test]
fn a_clock_that_is_behind_never_leads_back_to_what_was_decided() {
    let record = JobRecord {
        cursor: Some(today("18:00:00")),
        last_nominal: Some(today("17:00:00")),
        ..paused(stored())
    };
    assert_eq!(cursor_after_pause(&record, today("15:10:00")), Some(today("18:00:00")));
    let changed = change(&record, &declaration(cron("0,30 * * * *"), 2), today("15:10:00"));
    assert_eq!(changed.cursor, Some(today("17:30:00")));
}
