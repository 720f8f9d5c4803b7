//! Job edits by operators: they win until they are reset, across deploys, and the past is never replayed.

use punctual::client::PauseRequest;
use punctual::policy::{Edit, EffectiveLayer, Field, Layer};
use punctual::{Builder, ErrorKind, Job, Misfire, Occurrence, Retry};

use crate::harness::{Bench, Log, instant, seconds, world};
use crate::test_handlers::{failing, logging};

fn hourly(builder: Builder, log: &Log) -> Builder {
    let ran = logging::<Occurrence>(log, |occurrence, _| occurrence.nominal.to_string());
    builder.job(Job::cron("hourly", "0 * * * *").misfire(Misfire::fire_all()), ran)
}

async fn started(log: &Log) -> Bench {
    Bench::start(|builder| hourly(builder, log)).await
}

// spec: T-20, T-49, T-19
#[tokio::test]
async fn an_edited_schedule_is_followed_from_the_next_occurrence_on() {
    let log = Log::default();
    let bench = started(&log).await;
    let admin = bench.punctual.admin();
    bench.advance(seconds(600)).await;
    let record = admin.edit("hourly", Edit::new().cron("5/15 * * * *")).await.unwrap();
    // 07:05 has passed and is not replayed, although the policy is to make up for everything.
    assert_eq!(record.cursor, Some(instant("2026-03-02T07:20:00Z")));
    bench.advance(seconds(1_800)).await;
    assert_eq!(log.lines(), ["2026-03-02T07:20:00Z", "2026-03-02T07:35:00Z"]);
    admin.reset("hourly").await.unwrap();
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.lines()[2..], ["2026-03-02T08:00:00Z"], "the declared one is back");
}

// spec: T-20, T-49
#[tokio::test]
async fn edited_retries_apply_to_the_next_run() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder.job(Job::cron("hourly", "0 * * * *"), failing::<Occurrence>(&log))
    })
    .await;
    let admin = bench.punctual.admin();
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.len(), 1);
    let retry = Retry::intervals([seconds(10), seconds(20)]);
    admin.edit("hourly", Edit::new().retry(retry)).await.unwrap();
    bench.advance(seconds(3_600 + 60)).await;
    let expected = [
        "1 2026-03-02T08:00:00Z",
        "1 2026-03-02T09:00:00Z",
        "2 2026-03-02T09:00:10Z",
        "3 2026-03-02T09:00:30Z",
    ];
    assert_eq!(log.lines(), expected);
    let error = admin.edit("hourly", Edit::new().timeout(seconds(0))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let missing = admin.edit("weekly", Edit::new().retries_max(1)).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_preview_stores_nothing() {
    let bench = started(&Log::default()).await;
    let admin = bench.punctual.admin();
    let before = admin.job("hourly").await.unwrap();
    let edit = Edit::new().cron("30 9 * * *").zone("America/New_York");
    let shown = admin.preview("hourly", &edit, 3).await.unwrap();
    // New York changes its clocks on the 8th; until then half past nine there is 14:30 here.
    let expected = ["2026-03-02T14:30:00Z", "2026-03-03T14:30:00Z", "2026-03-04T14:30:00Z"];
    assert_eq!(shown.next, expected.map(instant));
    assert_eq!(shown.changed, [Field::Schedule, Field::Zone]);
    assert!(shown.description.contains("America/New_York"), "{}", shown.description);
    assert_eq!(admin.job("hourly").await.unwrap(), before);
    let error = admin.preview("hourly", &Edit::new().cron("* * * *"), 3).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(admin.upcoming("hourly", 2).await.unwrap().len(), 2);
}

// Decision 3.5: overrides survive deploys, which still bring the layer below up to date.
// spec: T-46, T-49
#[tokio::test]
async fn an_edit_survives_deploys_and_its_reset_brings_the_newest_code_back() {
    let world = world();
    let deploy = |cron: &'static str, release| {
        let world = world.clone();
        async move {
            Bench::start_in(world, |builder| {
                builder.release(release).declare(Job::cron("report", cron))
            })
            .await
        }
    };
    let first = deploy("0 8 * * *", 1).await;
    let edit = Edit::new().cron("0 10 * * *").retries_max(0);
    first.punctual.admin().edit("report", edit).await.unwrap();
    first.punctual.shutdown().await;
    let second = deploy("0 9 * * *", 2).await;
    let admin = second.punctual.admin();
    let record = admin.job("report").await.unwrap();
    assert_eq!(record.cursor, Some(instant("2026-03-02T10:00:00Z")), "the operator still wins");
    assert_eq!(record.declared.schedule.to_string(), "0 9 * * * in UTC", "the code is followed");
    let record = admin.reset_field("report", Field::Schedule).await.unwrap();
    assert_eq!(record.cursor, Some(instant("2026-03-02T09:00:00Z")));
    assert!(record.overrides.retry.is_some(), "the other field stays");
    assert!(admin.reset("report").await.unwrap().overrides.is_empty());
}

// spec: H-54, H-56, T-46
#[tokio::test]
async fn the_winning_layer_is_reported_field_by_field() {
    let bench = Bench::start(|builder| {
        builder
            .declare(Job::cron("report", "0 8 * * *").zone("Europe/Warsaw"))
            .cron_override("report", "0 9 * * *")
    })
    .await;
    let admin = bench.punctual.admin();
    admin.edit("report", Edit::new().timeout(seconds(30))).await.unwrap();
    let request = PauseRequest { by: "ada".to_owned(), reason: "audit".to_owned(), until: None };
    admin.pause("report", request).await.unwrap();
    let layers = admin.layers("report").await.unwrap();
    let winner = |field| {
        let of = |layer: &&Layer| layer.field == field;
        let layer = layers.iter().find(of).unwrap();
        (layer.winner, layer.in_force.clone())
    };
    assert_eq!(winner(Field::Schedule), (EffectiveLayer::Configuration, "0 9 * * *".to_owned()));
    assert_eq!(winner(Field::Zone), (EffectiveLayer::Code, "Europe/Warsaw".to_owned()));
    assert_eq!(winner(Field::Timeout), (EffectiveLayer::Operator, "30s".to_owned()));
    assert_eq!(winner(Field::Enabled), (EffectiveLayer::Operator, "no".to_owned()));
    assert!(layers[5].why.contains("ada paused it"), "{}", layers[5].why);
}

#[tokio::test]
async fn a_change_based_on_the_same_version_is_made_once() {
    let log = Log::default();
    let bench = started(&log).await;
    let admin = bench.punctual.admin();
    let seen = admin.job("hourly").await.unwrap();
    let is_as_seen = |record: &punctual::model::JobRecord| record.version == seen.version;
    let edit = || Edit::new().retries_max(1);
    assert!(admin.edit_if("hourly", edit(), is_as_seen).await.unwrap().is_some());
    assert!(admin.edit_if("hourly", edit(), is_as_seen).await.unwrap().is_none());
    assert!(admin.delete_job_if("hourly", is_as_seen).await.unwrap().is_none());
    let job = || Job::every("made", seconds(60)).topic("t");
    let new = |record: Option<&punctual::model::JobRecord>| record.is_none();
    assert!(admin.declare_if(job(), new).await.unwrap().is_some());
    assert!(admin.declare_if(job().priority(9), new).await.unwrap().is_none());
    assert_eq!(admin.job("made").await.unwrap().version, 1, "nothing was changed");
}
