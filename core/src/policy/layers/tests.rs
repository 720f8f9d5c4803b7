//! Tests of which layer wins, field by field, and of the reason shown.

use jiff::Timestamp;

use super::*;
use crate::model::{Job, Pause};
use crate::policy::{
    Declaration, Edit, Reconciliation, configured_schedule, overridden, reconcile,
};

fn now() -> Timestamp {
    "2026-01-05T12:00:00Z".parse().unwrap()
}

fn record(configured: Option<&str>) -> JobRecord {
    let job = Job::new("nightly", Schedule::cron("0 2 * * *", "Europe/Warsaw").unwrap()).unwrap();
    let configured = configured.map(|text| configured_schedule(&job, text).unwrap());
    let (app, origin) = ("shop".to_owned(), Origin::Declared);
    let declaration = Declaration { job, configured, app, release: 1, origin };
    match reconcile(None, &declaration, now()) {
        Reconciliation::Create(record) => *record,
        other => panic!("{other:?}"),
    }
}

fn edited(record: &JobRecord, edit: Edit) -> JobRecord {
    let overrides = edit.overrides(record, now()).unwrap();
    record.with_command(&overridden(record, overrides, now()), now()).unwrap()
}

fn layer(record: &JobRecord, field: Field) -> Layer {
    layers(record).into_iter().find(|layer| layer.field == field).unwrap()
}

// spec: H-54, H-56, H-57, T-49
#[test]
fn the_operator_wins_over_the_configuration_and_that_over_the_code() {
    let code = layer(&record(None), Field::Schedule);
    assert_eq!((code.in_force.as_str(), code.winner), ("0 2 * * *", EffectiveLayer::Code));
    let configured = record(Some("0 3 * * *"));
    let file = layer(&configured, Field::Schedule);
    assert_eq!((file.in_force.as_str(), file.winner), ("0 3 * * *", EffectiveLayer::Configuration));
    let operator = layer(&edited(&configured, Edit::new().cron("0 4 * * *")), Field::Schedule);
    assert_eq!(operator.winner, EffectiveLayer::Operator);
    let values = (operator.declared, operator.configured, operator.overridden, operator.in_force);
    let [two, three, four] = ["0 2 * * *", "0 3 * * *", "0 4 * * *"].map(str::to_owned);
    assert_eq!(values, (two, Some(three), Some(four.clone()), four));
    assert!(operator.why.contains("operator") && operator.why.contains("configuration"));
}

#[test]
fn every_field_is_listed_once_and_the_untouched_ones_are_the_codes() {
    let edited = edited(&record(None), Edit::new().retries_max(0));
    let layers = layers(&edited);
    let fields: Vec<Field> = layers.iter().map(|layer| layer.field).collect();
    assert_eq!(fields, Field::ALL);
    for layer in layers {
        let expected = if layer.field == Field::Retry {
            EffectiveLayer::Operator
        } else {
            EffectiveLayer::Code
        };
        assert_eq!(layer.winner, expected, "{:?}", layer.field);
    }
}

#[test]
fn a_pause_is_attributed_to_the_operator_and_a_removal_to_the_code() {
    let mut paused = record(None);
    let (by, reason) = ("ada".to_owned(), "audit".to_owned());
    paused.paused = Some(Pause { by, reason, at: now(), until: None });
    let layer_of = |record: &JobRecord| layer(record, Field::Enabled);
    let enabled = layer_of(&paused);
    assert_eq!((enabled.in_force.as_str(), enabled.winner), ("no", EffectiveLayer::Operator));
    assert!(enabled.why.contains("ada") && enabled.why.contains("audit"), "{}", enabled.why);
    paused.retired = Some(Retirement::Removed);
    assert_eq!(layer_of(&paused).winner, EffectiveLayer::Code);
    assert_eq!(layer_of(&record(None)).in_force, "yes");
}

#[test]
fn values_are_in_words() {
    let record = edited(
        &record(None),
        Edit::new()
            .retry(Retry::exponential())
            .timeout(std::time::Duration::from_secs(90))
            .misfire(Misfire::fire_all().threshold(std::time::Duration::from_secs(600))),
    );
    let text = |field| layer(&record, field).in_force;
    assert_eq!(text(Field::Retry), "4 retries after 30s, then 2 times longer each, at most 1h");
    assert_eq!(text(Field::Timeout), "1m 30s");
    assert_eq!(text(Field::Misfire), "fire_all, later than 10m");
    assert_eq!(text(Field::Zone), "Europe/Warsaw");
    let declared = layer(&record, Field::Timeout).declared;
    assert_eq!(declared, "the handler's, else the process's default");
}
