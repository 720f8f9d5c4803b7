//! Schedule previews, and the calendar of all jobs.

use axum::http::StatusCode;
use punctual::{Job, Occurrence};
use serde_json::json;

use crate::site::Site;

async fn nothing(_: Occurrence) {}

#[tokio::test]
async fn a_schedule_is_previewed_without_storing_anything() {
    let site = Site::with(|builder| builder);
    let body = json!({"cron": "30 2 * * *", "zone": "Europe/Berlin", "count": 2,
        "from": "2026-03-28T12:00:00Z"});
    let tried = site.post("/api/v1/schedule/preview", &body).await;
    assert_eq!(tried.status, StatusCode::OK, "{}", tried.text);
    assert!(tried.json["in_words"].as_str().unwrap().starts_with("at 02:30, every day"));
    assert_eq!(tried.json["canonical"], "30 2 * * * in Europe/Berlin");
    let times = &tried.json["occurrences"];
    assert_eq!(times[0]["local"], "2026-03-29T03:00:00");
    assert!(times[0]["note"].as_str().unwrap().contains("jump from 02:00 to 03:00"));
    assert_eq!(
        (&times[1]["at"], &times[1]["note"]),
        (&json!("2026-03-30T00:30:00Z"), &json!(null))
    );
    for (body, first) in [
        (json!({"every": "90m"}), "2026-03-01T12:00:00Z"),
        (json!({"at": "2026-05-01T00:00:00Z"}), "2026-05-01T00:00:00Z"),
        (json!({"cron": "H H * * *", "name": "nightly"}), "2026-03-01T20:"),
    ] {
        let tried = site.post("/api/v1/schedule/preview", &body).await;
        assert_eq!(tried.status, StatusCode::OK, "{}", tried.text);
        let at = tried.json["occurrences"][0]["at"].as_str().unwrap();
        assert!(at.starts_with(first) || body["name"].is_string(), "{body}: {at}");
    }
}

#[tokio::test]
async fn common_mistakes_are_warnings() {
    let site = Site::with(|builder| builder);
    for (body, words) in [
        (json!({"cron": "0 0 13 * FRI"}), "both must match"),
        (json!({"cron": "0 0 30 2 *"}), "it never runs"),
        (json!({"at": "2020-01-01T00:00:00Z"}), "no occurrence at or after"),
        (json!({"cron": "0 2 * * *", "zone": "Europe/Berlin"}), "clocks of Europe/Berlin change"),
    ] {
        let tried = site.post("/api/v1/schedule/preview", &body).await;
        assert_eq!(tried.status, StatusCode::OK, "{}", tried.text);
        let warnings = tried.json["warnings"].to_string();
        assert!(warnings.contains(words), "{body}: {warnings}");
    }
    let plain = site.post("/api/v1/schedule/preview", &json!({"cron": "*/5 * * * *"})).await;
    assert_eq!(plain.json["warnings"], json!([]));
}

#[tokio::test]
async fn an_invalid_schedule_is_refused_with_field_and_position() {
    let site = Site::with(|builder| builder);
    for (body, field, words) in [
        (json!({"cron": "0 25 * * *"}), "cron", "hour (position 3)"),
        (json!({"cron": "0 2 * *"}), "cron", "field"),
        (json!({"cron": "* * * * *", "zone": "Berlin"}), "zone", "did you mean Europe/Berlin?"),
        (json!({"every": "0s"}), "every", "is zero"),
        (json!({"every": "5m", "zone": "UTC"}), "zone", "leave it out"),
        (json!({"at": "soon"}), "at", "at"),
        (json!({}), "cron", "give one of"),
        (json!({"cron": "* * * * *", "every": "5m"}), "cron", "only one of"),
        (json!({"cron": "* * * * *", "count": 0}), "count", "between 1 and 1000"),
        (json!({"croon": "* * * * *"}), "croon", "unknown key"),
    ] {
        let response = site.post("/api/v1/schedule/preview", &body).await;
        assert_eq!(response.status, StatusCode::UNPROCESSABLE_ENTITY, "{body} {}", response.text);
        assert_eq!(response.json["errors"][0]["field"], field, "{}", response.text);
        assert!(response.text.contains(words), "{}", response.text);
    }
    let both = json!({"cron": "61 * * * *", "zone": "Mars"});
    let response = site.post("/api/v1/schedule/preview", &both).await;
    assert_eq!(response.json["errors"].as_array().unwrap().len(), 2, "{}", response.text);
}

#[tokio::test]
async fn the_calendar_shows_runs_peaks_and_clock_changes() {
    let site = Site::started(|builder| {
        (1..=5).fold(builder, |builder, number| {
            let job = Job::cron(format!("job-{number}"), "0 * * * *").zone("Europe/Berlin");
            builder.job(job, nothing)
        })
    })
    .await;
    site.advance_to("2026-03-01T13:30:00Z").await;
    let path = "/api/v1/calendar?from=2026-03-01T12:30:00Z&to=2026-03-01T14:30:00Z";
    let shown = site.get(path).await.json;
    let items = shown["items"].as_array().unwrap();
    assert_eq!(items.len(), 10, "{shown}");
    assert_eq!(
        items[0],
        json!({"job": "job-1", "at": "2026-03-01T13:00:00Z", "kind": "past", "ending": "succeeded"})
    );
    assert_eq!((&items[9]["kind"], &items[9]["ending"]), (&json!("future"), &json!(null)));
    assert_eq!(
        shown["minutes"],
        json!([{"at": "2026-03-01T13:00:00Z", "count": 5}, {"at": "2026-03-01T14:00:00Z", "count": 5}])
    );
    assert_eq!((&shown["more"], &shown["transitions"]), (&json!(false), &json!([])));
    let few = site.get(&format!("{path}&limit=4")).await.json;
    assert_eq!((few["items"].as_array().unwrap().len(), &few["more"]), (4, &json!(true)));
    let spring = site
        .get("/api/v1/calendar?from=2026-03-28T00:00:00Z&to=2026-03-30T00:00:00Z&limit=1")
        .await;
    assert_eq!(spring.json["transitions"][0]["at"], "2026-03-29T01:00:00Z");
    let note = spring.json["transitions"][0]["note"].as_str().unwrap();
    assert!(note.contains("go forward by 1h, from 02:00 to 03:00"), "{note}");
    for (query, field) in [
        ("from=2026-03-01T00:00:00Z&to=2026-03-01T00:00:00Z", "to"),
        ("from=2026-03-01T00:00:00Z&to=2028-03-01T00:00:00Z", "to"),
        ("limit=0", "limit"),
        ("from=spring", "from"),
    ] {
        let response = site.get(&format!("/api/v1/calendar?{query}")).await;
        assert_eq!(response.status, StatusCode::UNPROCESSABLE_ENTITY, "{query} {}", response.text);
        assert_eq!(response.json["errors"][0]["field"], field, "{}", response.text);
    }
    let plain = site.get("/api/v1/calendar").await;
    assert_eq!(plain.status, StatusCode::OK, "{}", plain.text);
}
