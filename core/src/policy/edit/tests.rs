//! Tests of what an operator may change, what is refused, and where the cursor goes.

use super::*;
use crate::model::{Origin, Retirement};
use crate::policy::{Declaration, Reconciliation, reconcile};

fn at(time: &str) -> Timestamp {
    format!("2026-01-05T{time}Z").parse().unwrap()
}

fn declared(schedule: Schedule) -> JobRecord {
    let mut job = Job::new("nightly", schedule).unwrap();
    job.handler_options = std::sync::Arc::new(
        crate::model::HandlerOptions::new()
            .retry(Retry::intervals([Duration::from_secs(60)]))
            .timeout(Duration::from_secs(9)),
    );
    let declaration = Declaration {
        job,
        configured: None,
        app: "shop".to_owned(),
        release: 1,
        origin: Origin::Declared,
    };
    match reconcile(None, &declaration, at("12:00:00")) {
        Reconciliation::Create(record) => *record,
        other => panic!("{other:?}"),
    }
}

/// Hourly in Warsaw, at most nine times, so the cursor is at 13:00.
fn hourly() -> JobRecord {
    declared(Schedule::cron("0 * * * *", "Europe/Warsaw").unwrap().at_most(9))
}

fn edited(record: &JobRecord, edit: Edit, now: Timestamp) -> JobRecord {
    let overrides = edit.overrides(record, now).unwrap();
    record.with_command(&overridden(record, overrides, now), now).unwrap()
}

fn reset_field(record: &JobRecord, field: Option<Field>, now: Timestamp) -> JobRecord {
    record.with_command(&reset(record, field, now).unwrap(), now).unwrap()
}

// spec: T-49, T-20
#[test]
fn a_cron_text_keeps_zone_and_bounds_and_moves_the_cursor_past_now() {
    let after = edited(&hourly(), Edit::new().cron("30 6 * * *"), at("15:10:00"));
    assert_eq!(after.job.schedule.to_string(), "30 6 * * * in Europe/Warsaw");
    assert_eq!(after.job.schedule.runs_max(), Some(9));
    // Tomorrow in Warsaw: what was missed at 13:00, 14:00 and 15:00 is not replayed.
    assert_eq!(after.cursor, Some("2026-01-06T05:30:00Z".parse().unwrap()));
    let zone = edited(&after, Edit::new().zone("Asia/Kathmandu"), at("15:10:00"));
    assert_eq!(zone.job.schedule.to_string(), "30 6 * * * in Asia/Kathmandu");
    assert_eq!(zone.cursor, Some("2026-01-06T00:45:00Z".parse().unwrap()));
}

// spec: T-49
#[test]
fn other_edits_do_not_move_the_cursor() {
    let edit = Edit::new().retries_max(4).no_timeout().misfire(Misfire::skip_to_next());
    // At 15:10 the cursor of 13:00 is overdue, and stays so for the misfire policy to decide about.
    let after = edited(&hourly(), edit, at("15:10:00"));
    assert_eq!(after.cursor, Some(at("13:00:00")));
    let four = Retry::intervals([Duration::from_secs(60)]).retries_max(4);
    assert_eq!(after.job.handler_options.retry, Some(four));
    assert_eq!(after.job.handler_options.timeout, Some(Duration::ZERO));
    assert_eq!(after.job.misfire, Misfire::skip_to_next());
    assert_eq!(after.declared, hourly().declared, "the layer below is unchanged");
    let none = edited(&after, Edit::new().retry(Retry::none()), at("15:10:00"));
    let some = edited(&none, Edit::new().retries_max(2), at("15:10:00"));
    assert_eq!(
        some.job.handler_options.retry,
        Some(Retry::exponential().retries_max(2)),
        "it had no waits"
    );
}

#[test]
fn an_interval_keeps_its_grid_and_anything_else_counts_from_the_epoch() {
    let anchor = at("00:00:07");
    let record = declared(Schedule::every(Duration::from_secs(3_600), anchor).unwrap());
    let after = edited(&record, Edit::new().every(Duration::from_secs(60)), at("12:30:30"));
    assert_eq!(after.cursor, Some(at("12:31:07")));
    assert!(!after.job.schedule.follows_last_run());
    let every = Schedule::every(Duration::from_secs(3_600), anchor).unwrap();
    let record = declared(every.following_last_run());
    let after = edited(&record, Edit::new().every(Duration::from_secs(60)), at("12:30:30"));
    assert!(after.job.schedule.follows_last_run());
    let after = edited(&hourly(), Edit::new().every(Duration::from_secs(7 * 60)), at("12:00:00"));
    assert_eq!(after.job.schedule.as_interval().unwrap().anchor(), Timestamp::UNIX_EPOCH);
}

#[test]
fn what_cannot_work_is_refused_with_the_job_and_the_way_out() {
    let zero = Duration::ZERO;
    let refused = [
        (Edit::new(), "set at least one field"),
        (Edit::new().cron("61 * * * *"), "minute"),
        (Edit::new().zone("Europe/Warschau"), "Europe/Warschau"),
        (Edit::new().every(zero), "0s"),
        (Edit::new().every(Duration::from_secs(60)).zone("Asia/Tokyo"), "Asia/Tokyo"),
        (Edit::new().schedule(Schedule::once(at("11:00:00"))), "no occurrence after"),
        (Edit::new().timeout(zero), "timeout of zero"),
        (Edit::new().misfire(Misfire::fire_all().catch_up_max(0)), "catch_up_max"),
        (Edit::new().retry(Retry::intervals([]).unlimited()), "at least one interval"),
    ];
    for (edit, expected) in refused {
        let error = edit.overrides(&hourly(), at("12:00:00")).unwrap_err().to_string();
        assert!(error.contains("\"nightly\"") && error.contains(expected), "{edit:?}: {error}");
    }
}

#[test]
fn fields_are_reset_one_by_one_or_all_at_once() {
    let now = at("12:20:00");
    let edit = Edit::new().cron("45 * * * *").zone("Asia/Tokyo").retries_max(7);
    let after = edited(&hourly(), edit.timeout(Duration::from_secs(1)), now);
    let zone = reset_field(&after, Some(Field::Zone), now);
    assert_eq!(zone.job.schedule.to_string(), "45 * * * * in Europe/Warsaw");
    let schedule = reset_field(&after, Some(Field::Schedule), now);
    assert_eq!(schedule.job.schedule, hourly().job.schedule);
    assert_eq!(schedule.cursor, Some(at("13:00:00")));
    let retry = schedule.job.handler_options.retry.as_ref().unwrap();
    assert_eq!(retry.attempts_max, Some(8), "the others stay");
    let all = reset_field(&after, None, now);
    assert_eq!(all.job, hourly().job);
    assert!(all.overrides.is_empty());
    assert!(reset(&after, Some(Field::Enabled), now).is_err(), "a pause is ended by resume");
    let only_zone = edited(&hourly(), Edit::new().zone("Asia/Tokyo"), now);
    assert!(reset_field(&only_zone, Some(Field::Zone), now).overrides.is_empty());
}

#[test]
fn resetting_a_schedule_may_finish_a_job_and_setting_one_may_revive_it() {
    let once = declared(Schedule::once(at("12:30:00")));
    let edited_to = edited(&once, Edit::new().cron("0 * * * *"), at("12:10:00"));
    let ended = reset_field(&edited_to, None, at("14:00:00"));
    assert_eq!((ended.cursor, ended.retired), (None, Some(Retirement::Finished)));
    let revived = edited(&ended, Edit::new().cron("0 * * * *"), at("14:00:00"));
    assert_eq!((revived.cursor, revived.retired), (Some(at("15:00:00")), None));
}

#[test]
fn a_preview_shows_description_times_and_changed_fields_and_changes_nothing() {
    let record = hourly();
    let shown =
        preview(&record, &Edit::new().cron("30 * * * *"), 3, at("12:10:00"), Schedule::next)
            .unwrap();
    assert_eq!(shown.next, [at("12:30:00"), at("13:30:00"), at("14:30:00")]);
    assert_eq!(shown.changed, [Field::Schedule]);
    assert!(shown.description.contains("Europe/Warsaw"), "{}", shown.description);
    let shown =
        preview(&record, &Edit::new().zone("Europe/Warsaw"), 20, at("12:10:00"), Schedule::next)
            .unwrap();
    assert_eq!((shown.changed.len(), shown.next.len()), (0, 9), "no more than it may run");
    assert_eq!(record, hourly());
}

#[test]
fn skipped_occurrences_are_not_upcoming_and_outlive_a_reset() {
    let mut record = hourly();
    record.overrides.skips.insert(at("14:00:00"));
    assert_eq!(upcoming(&record, 2, Schedule::next), [at("13:00:00"), at("15:00:00")]);
    let after = reset_field(&record, None, at("12:00:00"));
    assert!(after.overrides.skips.contains(&at("14:00:00")));
}

#[test]
fn fields_are_read_in_any_spelling() {
    for field in Field::ALL {
        assert_eq!(field.as_str().to_uppercase().parse::<Field>().unwrap(), field);
    }
    assert!("colour".parse::<Field>().unwrap_err().to_string().contains("misfire"));
}
