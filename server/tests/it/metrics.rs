//! Metrics in the text format of Prometheus.

use std::collections::{BTreeMap, BTreeSet};

use punctual::measure::METERS;
use punctual::{Context, Job};
use punctual_server::{Identity, Meters};

use crate::running_server::{start, until};
use crate::site::Site;
use crate::work::publish_to;

const GUIDE: &str = include_str!("../../../docs/guide/telemetry.md");

async fn site() -> Site {
    let meters = Meters::default();
    let hook = meters.hook();
    let site = Site::with(|builder| {
        builder.on_event(hook).handler("mail", async |_: Context| {}).queue("default", 4)
    });
    let site = site.changed(|app| app.on_node(Identity::default(), meters, None));
    start(&site).await;
    site
}

/// Returns the value of a line.
fn value(text: &str, line: &str) -> String {
    let found = text.lines().find_map(|one| one.strip_prefix(line));
    found.unwrap_or_else(|| panic!("no line {line:?} in\n{text}")).trim().to_owned()
}

// spec: C-5
#[tokio::test]
async fn attempts_are_counted_and_measured() {
    let site = site().await;
    publish_to(&site, "mail").await;
    until(&site, "/api/v1/messages", |list| list["items"][0]["state"] == "done").await;
    let response = site.get("/metrics").await;
    assert_eq!(response.status, 200, "{}", response.text);
    assert!(response.headers["content-type"].to_str().unwrap().starts_with("text/plain"));
    let text = &response.text;
    let labels = "{topic=\"mail\",ending=\"succeeded\"}";
    assert_eq!(value(text, &format!("punctual_attempts_total{labels}")), "1");
    assert_eq!(value(text, &format!("punctual_attempt_duration_seconds_count{labels}")), "1");
    let last =
        "punctual_attempt_duration_seconds_bucket{topic=\"mail\",ending=\"succeeded\",le=\"+Inf\"}";
    assert_eq!(value(text, last), "1");
    assert_eq!(value(text, "punctual_messages{queue=\"default\",state=\"done\"}"), "1");
    assert_eq!(value(text, "punctual_health"), "0");
    assert!(value(text, "process_start_time_seconds").parse::<f64>().unwrap() > 1e9);
}

#[tokio::test]
async fn every_name_is_documented_and_every_line_is_well_formed() {
    let site = site().await;
    publish_to(&site, "we\"ird\\topic").await;
    let text = site.get("/metrics").await.text;
    let mut names = BTreeSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(names.insert(name), "{name} twice");
            assert!(GUIDE.contains(&format!("`{name}`")), "the guide on telemetry lacks {name}");
        } else if !line.starts_with("# HELP ") {
            let (name, number) = line.rsplit_once(' ').unwrap();
            assert!(number.parse::<f64>().is_ok(), "{line}");
            let name = name.split('{').next().unwrap();
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            let known = names.contains(name) || base.is_some_and(|base| names.contains(base));
            assert!(known, "{line} has no type");
        }
    }
    assert!(names.len() >= 14, "{names:?}");
}

/// Returns the labels of every metric: those of the meters, and those of a text.
fn labels_of(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut labels: BTreeMap<String, BTreeSet<String>> = METERS
        .iter()
        .map(|meter| {
            let labels = meter.labels.iter().map(ToString::to_string);
            (meter.flat_name.to_owned(), labels.collect())
        })
        .collect();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, _) = line.rsplit_once(' ').unwrap();
        let (name, of_line) = name.split_once('{').unwrap_or((name, ""));
        let of_line =
            of_line.split(',').filter_map(|label| Some(label.split_once('=')?.0.to_owned()));
        labels.entry(name.to_owned()).or_default().extend(of_line);
    }
    labels
}

/// Returns the names in a text that follow a prefix.
fn words<'t>(text: &'t str, beginning: &'t str) -> impl Iterator<Item = &'t str> {
    let is_other = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    text.split(beginning).skip(1).map(move |rest| rest.split(is_other).next().unwrap_or_default())
}

// Prometheus sets `job` and `instance` of a target itself: what is scraped under these names becomes
// `exported_job`, and `max by (job)` would make one number of all jobs.
#[tokio::test]
async fn the_rules_of_the_guide_use_labels_and_metrics_that_exist() {
    let job = Job::cron("nightly-report", "* * * * *");
    let meters = Meters::default();
    let hook = meters.hook();
    let site = Site::with(|builder| builder.on_event(hook).job(job, async |_: Context| {}));
    let site = site.changed(|app| app.on_node(Identity::default(), meters, None));
    start(&site).await;
    publish_to(&site, "mail").await;
    let ran = |list: &serde_json::Value| list["items"][0]["ending"] == "succeeded";
    until(&site, "/api/v1/executions", ran).await;
    let text = site.get("/metrics").await.text;
    let labels = labels_of(&text);
    for (name, of_metric) in &labels {
        for reserved in ["job", "instance"] {
            assert!(!of_metric.contains(reserved), "{name} has the label {reserved}");
        }
    }
    for gauge in ["last_end_timestamp_seconds", "last_success_timestamp_seconds"] {
        assert!(labels[&format!("punctual_job_{gauge}")].contains("job_name"), "{text}");
    }
    let (_, rules) = GUIDE.split_once("### Six rules for Prometheus").unwrap();
    let (rules, _) = rules.split_once("\n```\n").unwrap();
    let rules: Vec<&str> = rules.split("- alert: ").skip(1).collect();
    assert_eq!(rules.len(), 6);
    for rule in rules {
        let metrics: Vec<String> =
            words(rule, "punctual_").map(|rest| format!("punctual_{rest}")).collect();
        assert!(!metrics.is_empty(), "{rule}");
        // The label of `up` is that of Prometheus.
        let rule = rule.replace("up{job=", "up");
        let used: Vec<&str> = ["by (", "$labels.", "{"]
            .into_iter()
            .flat_map(|beginning| words(&rule, beginning))
            .filter(|label| !label.is_empty() && *label != "instance")
            .collect();
        for metric in &metrics {
            let known = labels.get(metric).unwrap_or_else(|| panic!("no metric {metric}: {rule}"));
            for label in &used {
                assert!(known.contains(*label), "{metric} has no label {label}: {rule}");
            }
        }
    }
}
