//! Pages of the dashboard as the server delivers them, with every module they need.

use std::path::Path;

use axum::http::StatusCode;

use crate::work::idle;

/// Pages and their names.
const PAGES: [&str; 13] = [
    "overview",
    "jobs",
    "calendar",
    "batches",
    "messages",
    "executions",
    "queues",
    "dead",
    "topics",
    "workers",
    "storage",
    "audit",
    "settings",
];

// spec: C-9
#[tokio::test]
async fn every_page_and_module_is_served() {
    let site = idle();
    let frame = site.get("/").await;
    assert_eq!(frame.status, StatusCode::OK);
    assert!(frame.text.contains("app.js"), "{}", frame.text);
    let list = site.get("/pages.js").await;
    assert_eq!(list.headers["content-type"], "text/javascript; charset=utf-8");
    for page in PAGES {
        let line = list.text.lines().find(|line| line.trim().starts_with(&format!("{page}: ")));
        assert!(line.is_some(), "there is no page {page}: {}", list.text);
    }
    let is_page = |part: &&str| {
        let extension = Path::new(part).extension();
        part.starts_with("./pages/") && extension.is_some_and(|extension| extension == "js")
    };
    let modules: Vec<&str> = list.text.split('\'').filter(is_page).collect();
    assert!(modules.len() >= PAGES.len() - 1, "{modules:?}");
    for module in modules {
        let served = site.get(module.trim_start_matches('.')).await;
        assert_eq!(served.status, StatusCode::OK, "{module}");
        assert!(served.text.contains("export "), "{module} shows nothing");
    }
}
