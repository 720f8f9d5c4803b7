//! The dashboard in an application's own router, which decides about access.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::routing::get;
use punctual::{Error, Job, MemoryStorage, Punctual, Result, SystemClock};
use punctual_server::{Access, Caller, Role, dashboard};
use tower::ServiceExt;

/// In production a layer of the application identifies the user; here a header does.
fn access() -> Access {
    Access::by(|request| {
        let user = request.headers.get("x-user")?.to_str().ok()?;
        Some(Caller::new(user, if user == "ada" { Role::Admin } else { Role::Viewer }))
    })
}

async fn status_of(app: &Router, method: &str, path: &str, user: &str) -> Result<StatusCode> {
    let request = Request::builder().method(method).uri(path).header("x-user", user);
    let request = request.header("content-type", "application/json").body(Body::from("{}"));
    let request = request.map_err(|error| Error::invalid("no request").caused_by(error))?;
    Ok(app.clone().oneshot(request).await.unwrap_or_else(|never| match never {}).status())
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<()> {
    let storage = Arc::new(MemoryStorage::new(Arc::new(SystemClock)));
    let builder = Punctual::builder().storage(storage.clone());
    let punctual = Arc::new(builder.job(Job::cron("tidy", "0 3 * * *"), async || {}).build()?);
    let mut events = punctual.events().listen();
    punctual.start().await?;
    // The scheduler stores the declared jobs shortly after the start.
    while let Ok(event) = events.recv().await
        && event.name() != "job.declared"
    {}
    let app = Router::new()
        .route("/", get(async || "the shop"))
        .nest_service("/punctual", dashboard(&punctual, &storage, access()));
    println!("the page: {}", status_of(&app, "GET", "/punctual/", "bob").await?);
    println!("its jobs: {}", status_of(&app, "GET", "/punctual/api/v1/jobs/tidy", "bob").await?);
    let trigger = "/punctual/api/v1/jobs/tidy/trigger";
    println!("bob runs one: {}", status_of(&app, "POST", trigger, "bob").await?);
    println!("ada runs one: {}", status_of(&app, "POST", trigger, "ada").await?);
    punctual.shutdown().await;
    Ok(())
}

// Output:
// the page: 200 OK
// its jobs: 200 OK
// bob runs one: 403 Forbidden
// ada runs one: 202 Accepted
