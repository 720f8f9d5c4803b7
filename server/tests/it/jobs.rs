//! Jobs over HTTP.

use axum::http::StatusCode;
use punctual::{Job, Occurrence};

use crate::site::Site;

// spec: C-7, T-57
#[tokio::test]
async fn the_list_is_complete_before_anything_ran() {
    let nightly = |_: Occurrence| async {};
    let site = Site::with(|builder| builder.job(Job::cron("nightly", "0 2 * * *"), nightly));
    let answered = site.get("/api/v1/jobs").await;
    assert_eq!(answered.status, StatusCode::OK, "{}", answered.text);
    assert_eq!(answered.json["items"][0]["name"], "nightly");
}
