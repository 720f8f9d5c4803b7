//! Metrics as a scraper sees them.

use std::collections::BTreeSet;

use punctual::Context;
use punctual_server::{Identity, Meters};

use crate::living::{start, until};
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

/// The value of a line.
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
    let answered = site.get("/metrics").await;
    assert_eq!(answered.status, 200, "{}", answered.text);
    assert!(answered.headers["content-type"].to_str().unwrap().starts_with("text/plain"));
    let text = &answered.text;
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
