//! Occurrences over HTTP: decisions, upcoming runs, the preview of an outage, and backfills.

use axum::http::StatusCode;
use punctual::{Builder, Job, Misfire, Occurrence, Retry};
use serde_json::{Value, json};

use crate::site::Site;

async fn nothing(_: Occurrence) {}

fn hourly(builder: Builder) -> Builder {
    builder.job(Job::cron("hourly", "0 * * * *"), nothing)
}

/// Returns `13:00 ran` for each occurrence.
async fn decided(site: &Site, query: &str) -> Vec<String> {
    let response = site.get(&format!("/api/v1/jobs/hourly/occurrences{query}")).await;
    assert_eq!(response.status, StatusCode::OK, "{}", response.text);
    response.json["items"].as_array().unwrap().iter().map(line).collect()
}

fn line(item: &Value) -> String {
    let clock = &item["nominal"].as_str().unwrap()[11..16];
    format!("{clock} {}", item["decision"].as_str().unwrap())
}

#[tokio::test]
async fn every_occurrence_has_a_decision_and_a_reason() {
    let site = Site::started(hourly).await;
    site.advance_to("2026-03-01T13:30:00Z").await;
    site.post("/api/v1/jobs/hourly/skip", &json!({"nominal": "2026-03-01T14:00:00Z"})).await;
    site.advance_to("2026-03-01T15:30:00Z").await;
    site.post("/api/v1/jobs/hourly/pause", &json!({"reason": "audit"})).await;
    site.advance_to("2026-03-01T18:30:00Z").await;
    site.post("/api/v1/jobs/hourly/resume", &json!({})).await;
    site.post("/api/v1/jobs/hourly/skip", &json!({"nominal": "2026-03-01T20:00:00Z"})).await;
    let path = "/api/v1/jobs/hourly/occurrences?to=2026-03-01T21:00:00Z";
    let response = site.get(path).await;
    let items = response.json["items"].as_array().unwrap();
    let lines: Vec<String> = items.iter().map(line).collect();
    assert_eq!(
        lines,
        [
            "13:00 ran",
            "14:00 skipped",
            "15:00 ran",
            "16:00 skipped",
            "17:00 skipped",
            "18:00 skipped",
            "19:00 planned",
            "20:00 skipped",
            "21:00 planned"
        ],
        "it was declared at twelve, so its first time is one o'clock: {}",
        response.text
    );
    let reasons: Vec<&str> = items.iter().filter_map(|item| item["reason"].as_str()).collect();
    assert_eq!(
        reasons,
        ["skipped by an operator", "paused", "paused", "paused", "skipped by an operator"]
    );
    assert_eq!((&items[0]["late_ms"], &items[0]["attempts"]), (&json!(0), &json!(1)));
    assert!(items[0]["message"].is_string() && items[0]["execution"].is_string());
}

#[tokio::test]
async fn occurrences_covered_by_one_run_name_it() {
    let site = Site::started(hourly).await;
    site.jump_to("2026-03-01T16:30:00Z").await;
    let all = site.get("/api/v1/jobs/hourly/occurrences?to=2026-03-01T17:00:00Z").await.json;
    let items = all["items"].as_array().unwrap();
    let lines: Vec<String> = items.iter().map(line).collect();
    assert_eq!(
        lines,
        ["13:00 ran", "14:00 skipped", "15:00 skipped", "16:00 skipped", "17:00 planned"],
        "{all}"
    );
    let reason = items[1]["reason"].as_str().unwrap();
    assert!(
        reason.contains("4 missed occurrences, with the nominal time 2026-03-01T13:00:00Z"),
        "{reason}"
    );
    assert_eq!(items[1]["message"], items[0]["message"]);
    assert_eq!(items[0]["late_ms"], 3_600_000_u64 * 7 / 2);
}

#[tokio::test]
async fn running_pending_and_failed_occurrences_are_distinct() {
    let site = Site::started(|builder| {
        let job = Job::cron("hourly", "0 * * * *")
            .retry(Retry::intervals([std::time::Duration::from_mins(10)]));
        builder.job(job, |_: Occurrence| async { Err::<(), _>(std::io::Error::other("no disk")) })
    })
    .await;
    site.advance_to("2026-03-01T13:05:00Z").await;
    let query = "?to=2026-03-01T13:30:00Z";
    assert_eq!(decided(&site, query).await, ["13:00 waiting"]);
    let item =
        site.get(&format!("/api/v1/jobs/hourly/occurrences{query}")).await.json["items"][0].clone();
    assert!(item["reason"].as_str().unwrap().contains("retried at 2026-03-01T13:10:00Z"), "{item}");
    site.advance_to("2026-03-01T13:15:00Z").await;
    assert_eq!(decided(&site, query).await, ["13:00 failed"]);
    let item =
        site.get(&format!("/api/v1/jobs/hourly/occurrences{query}")).await.json["items"][0].clone();
    assert_eq!(item["attempts"], 2, "{item}");
    assert!(item["reason"].as_str().unwrap().contains("no disk"), "{item}");
}

#[tokio::test]
async fn occurrences_are_paged_and_an_invalid_range_is_refused() {
    let site = Site::started(hourly).await;
    let range = "from=2026-03-01T12:00:00Z&to=2026-03-01T17:00:00Z";
    let first = site.get(&format!("/api/v1/jobs/hourly/occurrences?{range}&limit=3")).await.json;
    assert_eq!(first["items"].as_array().unwrap().len(), 3);
    let next = first["next"].as_str().unwrap();
    assert_eq!(decided(&site, &format!("?{range}&limit=3&after={next}")).await.len(), 2);
    for (query, field) in [
        ("from=2026-03-02T00:00:00Z&to=2026-03-01T00:00:00Z", "from"),
        ("limit=0", "limit"),
        ("from=yesterday", "from"),
    ] {
        let response = site.get(&format!("/api/v1/jobs/hourly/occurrences?{query}")).await;
        assert_eq!(response.status, StatusCode::UNPROCESSABLE_ENTITY, "{query} {}", response.text);
        assert_eq!(response.json["errors"][0]["field"], field, "{}", response.text);
    }
    assert_eq!(decided(&site, "?limit=8").await, ["13:00 planned", "14:00 planned"]);
}

#[tokio::test]
async fn upcoming_runs_show_clock_changes_skips_and_pauses() {
    let site = Site::started(|builder| {
        builder.job(Job::cron("nightly", "30 2 * * *").zone("Europe/Berlin"), nothing)
    })
    .await;
    site.jump_to("2026-03-27T12:00:00Z").await;
    site.post("/api/v1/jobs/nightly/skip", &json!({"nominal": "2026-03-30T00:30:00Z"})).await;
    let path = "/api/v1/jobs/nightly/upcoming?count=3";
    let items = site.get(path).await.json["items"].clone();
    assert_eq!(
        items[0],
        json!({"at": "2026-03-28T01:30:00Z", "local": "2026-03-28T02:30:00", "zone": "Europe/Berlin",
            "offset": "+01:00", "note": null, "skipped": false})
    );
    assert_eq!(
        (&items[1]["local"], &items[1]["offset"]),
        (&json!("2026-03-29T03:00:00"), &json!("+02:00"))
    );
    assert!(items[1]["note"].as_str().unwrap().starts_with("clock change"), "{items}");
    assert_eq!(items[2]["skipped"], true);
    let pause = json!({"reason": "x", "until": "2026-03-28T12:00:00Z"});
    site.post("/api/v1/jobs/nightly/pause", &pause).await;
    let skipped: Vec<bool> = site.get(path).await.json["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["skipped"].as_bool().unwrap())
        .collect();
    assert_eq!(skipped, [true, false, true]);
    let many = site.get("/api/v1/jobs/nightly/upcoming?count=1001").await;
    assert_eq!(many.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(many.json["errors"][0]["field"], "count");
}

#[tokio::test]
async fn an_outage_preview_changes_nothing() {
    let site = Site::started(|builder| {
        builder.job(Job::cron("once", "*/30 * * * *"), nothing).job(
            Job::cron("all", "*/30 * * * *").misfire(Misfire::fire_all().catch_up_max(2)),
            nothing,
        )
    })
    .await;
    let once = site.get("/api/v1/jobs/once/misfire-preview?down=2h").await.json;
    assert_eq!(
        (&once["down_from"], &once["down_to"]),
        (&json!("2026-03-01T12:00:00Z"), &json!("2026-03-01T14:00:00Z"))
    );
    assert_eq!(once["missed"], 3, "14:00 is in time: {once}");
    assert_eq!(once["runs"][0]["nominal"], "2026-03-01T12:30:00Z");
    assert!(
        once["in_words"].as_str().unwrap().contains("fire_now one run would start at once"),
        "{once}"
    );
    let all = site.get("/api/v1/jobs/all/misfire-preview?down=2h").await.json;
    let runs: Vec<&str> = all["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["nominal"].as_str().unwrap())
        .collect();
    let newest = ["2026-03-01T13:00:00Z", "2026-03-01T13:30:00Z", "2026-03-01T14:00:00Z"];
    assert_eq!(runs, newest, "the newest missed ones, and the one in time: {all}");
    for (down, words) in [("5", "has no unit"), ("500d", "at most 366 days")] {
        let response = site.get(&format!("/api/v1/jobs/all/misfire-preview?down={down}")).await;
        assert_eq!(response.status, StatusCode::UNPROCESSABLE_ENTITY);
        assert!(response.text.contains(words), "{}", response.text);
    }
    assert_eq!(
        site.get("/api/v1/jobs/all/misfire-preview").await.status,
        StatusCode::UNPROCESSABLE_ENTITY
    );
    assert_eq!(site.get("/api/v1/jobs/all").await.json["version"], 1);
}

#[tokio::test]
async fn a_backfill_runs_past_occurrences_once_and_a_dry_run_none() {
    let site = Site::started(hourly).await;
    let path = "/api/v1/jobs/hourly/backfill";
    let mut body = json!({"from": "2026-03-01T08:00:00Z", "to": "2026-03-01T12:00:00Z", "max": 3,
        "order": "newest", "dry_run": true});
    let dry = site.post(path, &body).await;
    assert_eq!(dry.status, StatusCode::OK, "{}", dry.text);
    assert_eq!(
        dry.json["nominals"],
        json!(["2026-03-01T11:00:00Z", "2026-03-01T10:00:00Z", "2026-03-01T09:00:00Z"])
    );
    assert_eq!((&dry.json["stored"], &dry.json["more"]), (&json!(0), &json!(true)));
    body["dry_run"] = json!(false);
    let done = site.post(path, &body).await.json;
    assert_eq!(done["stored"], 3, "{done}");
    // One after the other.
    site.advance_to("2026-03-01T12:01:00Z").await;
    let before = decided(&site, "?from=2026-03-01T08:00:00Z&to=2026-03-01T13:00:00Z").await;
    assert_eq!(before, ["09:00 ran", "10:00 ran", "11:00 ran", "13:00 planned"]);
    let again = site.post(path, &body).await.json;
    assert_eq!(
        (&again["present"], &again["nominals"]),
        (&json!(3), &json!(["2026-03-01T08:00:00Z"]))
    );
    let noted = site.app.audit().list(None, 9).await.unwrap();
    assert_eq!(noted.len(), 2, "a dry run is no change");
    for (change, words) in [
        (json!({"to": "2026-03-09T00:00:00Z"}), "in the future"),
        (json!({"to": "2026-03-01T07:00:00Z"}), "is empty"),
        (json!({"max": 0}), "give 1 to 10000"),
        (json!({"which": "some"}), "which"),
        (json!({"order": "random"}), "order"),
    ] {
        let mut body = body.clone();
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let response = site.post(path, &body).await;
        assert_eq!(response.status, StatusCode::UNPROCESSABLE_ENTITY, "{change} {}", response.text);
        assert!(response.text.contains(words), "{}", response.text);
    }
}
