//! Backfill: past occurrences run once with their nominal times, and the schedule continues unchanged.

use punctual::client::{Backfill, BackfillOrder, BackfillResult, BackfillSelection, PauseRequest};
use punctual::jiff::Timestamp;
use punctual::model::Source;
use punctual::{Context, ErrorKind, Job, Misfire, Occurrence, Overlap};

use crate::harness::{Bench, Log, instant, seconds};
use crate::test_handlers::logging;

async fn hourly(log: &Log) -> Bench {
    let line = |occurrence: &Occurrence, context: &Context| {
        let source = if context.source() == Source::Manual { " by hand" } else { "" };
        format!("{}{source}", occurrence.nominal.strftime("%H:%M"))
    };
    let job = Job::cron("hourly", "0 * * * *").misfire(Misfire::skip_to_next());
    Bench::start(|builder| builder.job(job, logging(log, line))).await
}

fn hour(hour: i64) -> Timestamp {
    Timestamp::from_second(instant("2026-03-02T00:00:00Z").as_second() + hour * 3_600).unwrap()
}

fn dry() -> Backfill {
    Backfill { dry_run: true, ..Backfill::default() }
}

async fn filled(bench: &Bench, range: (i64, i64), backfill: &Backfill) -> BackfillResult {
    let admin = bench.punctual.admin();
    let done = admin.backfill("hourly", hour(range.0), hour(range.1), backfill).await.unwrap();
    bench.advance(seconds(1)).await;
    done
}

#[tokio::test]
async fn a_dry_run_lists_the_runs_and_the_backfill_runs_each_once() {
    let log = Log::default();
    let bench = hourly(&log).await;
    let before = bench.punctual.admin().job("hourly").await.unwrap();
    let shown = filled(&bench, (4, 7), &dry()).await;
    assert_eq!(shown.nominals, [hour(4), hour(5), hour(6)], "the end is not part of it");
    assert_eq!((shown.stored.len(), log.len()), (0, 0), "nothing was stored");
    let done = filled(&bench, (4, 7), &Backfill::default()).await;
    assert_eq!((done.nominals, done.stored.len()), (shown.nominals, 3));
    assert_eq!(log.lines(), ["04:00 by hand", "05:00 by hand", "06:00 by hand"]);
    let again = filled(&bench, (4, 7), &Backfill::default()).await;
    assert_eq!((again.nominals.len(), again.present, log.len()), (0, 3, 3), "asked again, nothing");
    let after = bench.punctual.admin().job("hourly").await.unwrap();
    assert_eq!((after.cursor, after.runs, after.version), (before.cursor, 0, before.version));
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.lines()[3..], ["08:00"], "the schedule continues");
}

#[tokio::test]
async fn only_missing_occurrences_run_unless_all_are_requested() {
    let log = Log::default();
    let bench = hourly(&log).await;
    let admin = bench.punctual.admin();
    bench.advance(seconds(3_600)).await;
    admin.skip_next("hourly").await.unwrap();
    bench.advance(seconds(2 * 3_600)).await;
    assert_eq!(log.lines(), ["08:00", "10:00"]);
    let done = filled(&bench, (7, 10), &Backfill::default()).await;
    assert_eq!((done.nominals, done.present), (vec![hour(7), hour(9)], 1));
    assert_eq!(log.lines()[2..], ["07:00 by hand", "09:00 by hand"]);
    let all = Backfill { which: BackfillSelection::All, ..Backfill::default() };
    let done = filled(&bench, (7, 10), &all).await;
    assert_eq!((done.stored.len(), done.duplicates), (1, 2), "a backfill never doubles its own");
    assert_eq!(log.lines()[4..], ["08:00 by hand"]);
    let labelled = Backfill { label: "corrected prices".to_owned(), ..all };
    assert_eq!(
        filled(&bench, (7, 10), &labelled).await.stored.len(),
        3,
        "unless it is another one"
    );
}

#[tokio::test]
async fn a_backfill_is_capped_and_ordered() {
    let log = Log::default();
    let bench = hourly(&log).await;
    let newest = Backfill { max: 2, order: BackfillOrder::NewestFirst, ..Backfill::default() };
    let done = filled(&bench, (0, 7), &newest).await;
    assert_eq!((done.nominals, done.more), (vec![hour(6), hour(5)], true));
    assert_eq!(log.lines(), ["06:00 by hand", "05:00 by hand"]);
    let oldest = Backfill { max: 2, ..Backfill::default() };
    filled(&bench, (0, 7), &oldest).await;
    assert_eq!(log.lines()[2..], ["00:00 by hand", "01:00 by hand"]);
}

#[tokio::test]
async fn undecided_occurrences_are_fired_by_the_schedule() {
    let log = Log::default();
    let bench = hourly(&log).await;
    let admin = bench.punctual.admin();
    // Back to three o'clock: later occurrences belong to the schedule again, which skips them.
    bench.punctual.shutdown().await;
    admin.move_cursor("hourly", hour(3)).await.unwrap();
    let shown = admin.backfill("hourly", hour(1), hour(6), &dry()).await.unwrap();
    assert_eq!(shown.nominals, [hour(1), hour(2)]);
    let request = PauseRequest { by: "ada".to_owned(), reason: "audit".to_owned(), until: None };
    admin.pause("hourly", request).await.unwrap();
    let shown = admin.backfill("hourly", hour(1), hour(6), &dry()).await.unwrap();
    assert_eq!(shown.nominals.len(), 5, "a paused job decides about nothing");
}

// A backfill works on a paused job, as a trigger does.
#[tokio::test]
async fn a_paused_job_can_be_backfilled() {
    let log = Log::default();
    let bench = hourly(&log).await;
    let request = PauseRequest { by: "ada".to_owned(), reason: "audit".to_owned(), until: None };
    bench.punctual.admin().pause("hourly", request).await.unwrap();
    filled(&bench, (5, 7), &Backfill::default()).await;
    assert_eq!(log.lines(), ["05:00 by hand", "06:00 by hand"]);
}

#[tokio::test]
async fn ranges_that_cannot_be_are_refused() {
    let bench = hourly(&Log::default()).await;
    let admin = bench.punctual.admin();
    let none = Backfill { max: 0, ..Backfill::default() };
    for (from, to, backfill) in
        [(5, 5, dry()), (6, 5, dry()), (5, 8, dry()), (5, 6, none), (-999_999, 6, dry())]
    {
        let error = admin.backfill("hourly", hour(from), hour(to), &backfill).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{from} {to}: {error}");
    }
    let error = admin.backfill("weekly", hour(5), hour(6), &dry()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn runs_wait_for_each_other_unless_the_job_allows_overlaps() {
    for (overlap, most) in [(Overlap::Skip, 1), (Overlap::Allow { parallel_max: None }, 3)] {
        let (log, gate) = (Log::default(), crate::test_handlers::Gate::shut());
        let job = Job::cron("hourly", "0 * * * *").overlap(overlap);
        let waiting = crate::test_handlers::waiting::<Occurrence>(&log, &gate);
        let bench = Bench::start(|builder| builder.queue("default", 9).job(job, waiting)).await;
        filled(&bench, (4, 7), &Backfill::default()).await;
        assert_eq!(log.len(), most, "{overlap:?}");
        gate.open(3);
        bench.advance(seconds(1)).await;
        assert_eq!(log.len(), 6);
    }
}
