//! Routes: health, status, and mounted routers.

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::routing::get as getting;
use punctual::{Admin, ErrorKind, Job, Occurrence, Punctual};
use punctual_axum::{Client, Routes, router};

use crate::fixture::{built, get, get_json, run_until_idle, started};

async fn nothing(_: Occurrence) {}

// spec: H-47, H-50, H-51
#[tokio::test]
async fn a_healthy_process_reports_it_with_stable_keys() {
    let punctual = started(|builder| builder.job(Job::cron("night", "0 2 * * *"), nothing)).await;
    let app: Router = Router::new().nest("/ops", router(&punctual).unwrap());
    let (status, health) = get_json(&app, "/ops/health").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(health["condition"], "healthy", "{health}");
    let mut keys: Vec<&str> = health.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    let expected = [
        "condition",
        "dead_letters",
        "last_tick_age_ms",
        "late_schedules",
        "lifecycle",
        "queue_depth",
        "reasons",
        "stale_count",
        "storage_latency_ms",
    ];
    assert_eq!(keys, expected);
    assert_eq!(get(&app, "/ops/health").await.headers()[CACHE_CONTROL], "no-store");
    assert_eq!(
        get(&app, "/health").await.status(),
        StatusCode::NOT_FOUND,
        "only where it is nested"
    );
}

// spec: H-48
#[tokio::test]
async fn a_degraded_process_is_ready() {
    let punctual = started(|builder| {
        builder
            .job(Job::cron("night", "0 2 * * *"), nothing)
            .cron_override("night", "every full moon")
    })
    .await;
    let app: Router = router(&punctual).unwrap();
    let (status, health) = get_json(&app, "/health").await;
    assert_eq!((status, &health["condition"]), (StatusCode::OK, &"degraded".into()));
    assert!(health["reasons"][0].as_str().unwrap().contains("night"), "{health}");
    let (status, ready) = get_json(&app, "/health/ready").await;
    assert_eq!((status, &ready["ready"]), (StatusCode::OK, &true.into()));
}

// spec: H-49
#[tokio::test]
async fn an_unhealthy_process_is_live_but_not_ready() {
    let app: Router = router(&built(|builder| builder)).unwrap();
    let (status, health) = get_json(&app, "/health").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(health["reasons"][0], "the services have not begun to work");
    let (status, ready) = get_json(&app, "/health/ready").await;
    assert_eq!((status, &ready["ready"]), (StatusCode::SERVICE_UNAVAILABLE, &false.into()));
    assert_eq!(get(&app, "/health/live").await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_process_that_stops_is_not_ready_any_more() {
    let punctual = started(|builder| builder).await;
    let app: Router = router(&punctual).unwrap();
    assert_eq!(get(&app, "/health/ready").await.status(), StatusCode::OK);
    punctual.shutdown().await;
    let (status, ready) = get_json(&app, "/health/ready").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(ready["reasons"][0], "the process has stopped");
}

// spec: H-51
#[tokio::test]
async fn without_a_storage_the_routes_are_refused() {
    let punctual = built(punctual::Builder::without_storage);
    let error = router::<()>(&punctual).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("without_storage()"), "{error}");
}

// spec: T-56
#[tokio::test]
async fn status_lists_jobs_before_anything_ran() {
    let job = Job::cron("night", "0 2 * * *").zone("Europe/Warsaw").description("counts sheep");
    let punctual = started(|builder| builder.job(job, nothing)).await;
    let app: Router = router(&punctual).unwrap();
    let (status, all) = get_json(&app, "/status").await;
    assert_eq!((status, all["jobs"].as_array().unwrap().len()), (StatusCode::OK, 1));
    let job = &all["jobs"][0];
    assert_eq!((&job["name"], &job["never_run"]), (&"night".into(), &true.into()));
    assert_eq!(job["next_at"], "2026-03-03T01:00:00Z");
    assert_eq!(job["description"], "counts sheep");
    punctual.admin().trigger("night", false).await.unwrap();
    run_until_idle().await;
    let (_, all) = get_json(&app, "/status").await;
    assert_eq!(all["jobs"][0]["never_run"], false);
}

#[tokio::test]
async fn only_health_can_be_exposed() {
    let punctual = started(|builder| builder).await;
    let app: Router = Routes::new(&punctual).only_health().build().unwrap();
    assert_eq!(get(&app, "/health").await.status(), StatusCode::OK);
    for path in ["/status", "/events"] {
        assert_eq!(get(&app, path).await.status(), StatusCode::NOT_FOUND, "{path}");
    }
}

async fn count(Client(admin): Client<Admin>) -> String {
    format!("{} jobs", admin.status().await.jobs.len())
}

#[tokio::test]
async fn other_routers_are_mounted_beside_the_routes() {
    let punctual = started(|builder| builder.job(Job::cron("night", "0 2 * * *"), nothing)).await;
    let view = || Router::new().route("/count", getting(count));
    let app: Router = Routes::new(&punctual).mount("/dashboard", view()).build().unwrap();
    assert_eq!(get(&app, "/dashboard/count").await.status(), StatusCode::OK);
    let refused = |path: &str| {
        let routes = Routes::new(&punctual).mount("/dashboard", view()).mount(path, view());
        routes.build::<()>().unwrap_err().to_string()
    };
    for path in ["", "/", "dashboard", "/views/", "/{view}"] {
        assert!(refused(path).contains("plain path"), "{path}");
    }
    for path in ["/health", "/health/deep", "/dashboard", "/dashboard/more"] {
        assert!(refused(path).contains("a path of its own"), "{path}");
    }
    let _: Router<Arc<Punctual>> =
        Routes::new(&punctual).mount("/healthy", view()).build().unwrap();
}
