//! API description, and the reference page.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use serde_json::Value;

use crate::site::Site;

/// Returns the schema that a reference points to.
pub(crate) fn resolved<'a>(document: &'a Value, thing: &'a Value) -> &'a Value {
    match thing["$ref"].as_str() {
        Some(place) => document.pointer(place.trim_start_matches('#')).unwrap(),
        None => thing,
    }
}

/// Checks the names, tags and errors of the description.
#[tokio::test]
async fn every_operation_is_described_once_and_in_full() {
    let site = Site::with(|builder| builder);
    let document = site.get("/api/openapi.json").await.json;
    assert_eq!(document["openapi"], "3.1.0");
    let known: Vec<&str> = document["tags"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tag| tag["name"].as_str().unwrap())
        .collect();
    let mut ids = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, one) in item.as_object().unwrap() {
            ids.push(one["operationId"].as_str().unwrap());
            assert!(
                known.contains(&one["tags"][0].as_str().unwrap()),
                "{method} {path}: {}",
                one["tags"]
            );
            let summary = one["summary"].as_str().unwrap_or_default();
            assert!(summary.ends_with('.'), "{method} {path}: {summary:?} is no sentence");
            for (status, response) in one["responses"].as_object().unwrap() {
                let response = resolved(&document, response);
                assert!(response["description"].is_string(), "{method} {path}: {status}");
                let is_problem = response["content"]["application/problem+json"].is_object();
                assert_eq!(is_problem, status.as_str() >= "400", "{method} {path}: {status}");
            }
        }
    }
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "an id is there twice");
}

#[tokio::test]
async fn the_api_reference_page_has_a_strict_policy_and_works_under_any_prefix() {
    let site = Site::with(|builder| builder);
    let page = site.get("/api/docs").await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(page.headers[CONTENT_TYPE].to_str().unwrap().starts_with("text/html"));
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"), "{policy}");
    assert!(!page.text.contains("http://") && !page.text.contains("https://"), "no other host");
    for part in page.text.split(['"', '\'']).filter_map(|part| part.strip_prefix("../")) {
        assert_eq!(site.get(&format!("/{part}")).await.status, StatusCode::OK, "{part}");
    }
    let nested = axum::Router::new().nest("/inside", site.router.clone());
    let site = Site { router: nested, ..site };
    assert_eq!(site.get("/inside/api/docs").await.status, StatusCode::OK);
    let moved = site.get("/inside/api/docs/").await;
    assert_eq!(moved.headers["location"], "/inside/api/docs");
    for path in ["/inside/api/openapi.json", "/inside/openapi.json"] {
        let document = site.get(path).await.json;
        assert_eq!(document["servers"][0]["url"], "/inside", "{path}");
    }
}
