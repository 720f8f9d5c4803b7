//! Documents of the server on every storage: users, tokens, views, webhooks and the audit log.

use std::sync::Arc;
use std::time::Duration;

use punctual::backend::documents::NewDocument;
use punctual::clock::add;
use punctual::{Clock, ManualClock, SystemClock};
use punctual_server::run_background;
use serde_json::{Value, json};

use crate::test_storage::{TestStorage, app};
use crate::transcript::Transcript;

/// Number of expiring documents, more than one call deletes.
const EXPIRING: usize = 1_500;
/// Interval between two checks, and their largest number.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
const CHECKS_MAX: usize = 3_000;

pub(crate) async fn stored(transcript: &mut Transcript) {
    let ada = json!({"name": "ada", "role": "operator", "password": "correct horse"});
    transcript.ask("POST /users", ada.clone(), 201).await;
    transcript.ask("POST /users", ada, 409).await;
    transcript
        .ask("POST /users", json!({"name": "bo", "role": "viewer", "password": "short"}), 422)
        .await;
    transcript.later(60);
    transcript.ask("PATCH /users/ada", json!({"role": "viewer"}), 200).await;
    transcript.get("/users").await;
    let token = json!({"name": "ci", "scopes": ["read"], "expires_in": "1h"});
    let token = transcript.ask("POST /tokens", token, 201).await;
    assert!(token["secret"].is_string(), "{token}");
    transcript.get("/tokens").await;
    transcript.later(3_600);
    transcript.get("/tokens").await;
    let view = json!({"page": "messages", "query": "state:dead"});
    transcript.ask("PUT /views/Failing%20mail", view, 200).await;
    transcript.get("/views").await;
    transcript.ask("DELETE /views/Failing%20mail", Value::Null, 204).await;
    transcript.ask("DELETE /views/Failing%20mail", Value::Null, 404).await;
    transcript.ask("DELETE /users/ada", Value::Null, 204).await;
    transcript.get("/users").await;
    let first = transcript.get("/audit?limit=2").await;
    transcript.get(&format!("/audit?limit=2&after={}", first["next"].as_str().unwrap())).await;
    transcript.get("/audit?who=unknown").await;
    transcript.get("/audit?what=user").await;
}

/// The server itself deletes expired documents in the background.
pub(crate) async fn expired(test_storage: &TestStorage) {
    let opened = test_storage.open().await;
    let clock = Arc::new(ManualClock::new("2026-03-01T12:00:00Z".parse().unwrap()));
    let app =
        app(&opened, clock.clone(), |builder| builder).auditing_for(Duration::from_secs(3_600));
    let caller = punctual_server::Caller::new("ada", punctual_server::Role::Admin);
    // Written with a longer retention.
    let longer = app.clone().auditing_for(Duration::from_secs(9_999_999));
    let change = || punctual_server::Change::new("job.pause", "nightly");
    longer.audit().note(&caller, change()).await.unwrap();
    let ends = add(clock.now(), Duration::from_secs(60));
    let drafts = (0..EXPIRING).map(|number| {
        NewDocument::new("short", format!("{number:05}"), Value::Null).expires_at(ends)
    });
    let drafts: Vec<NewDocument> = drafts.collect();
    for drafts in drafts.chunks(1_000) {
        app.documents.put_all(drafts.to_vec(), clock.now()).await.unwrap();
    }
    clock.advance(Duration::from_secs(3_601));
    longer.audit().note(&caller, change()).await.unwrap();
    app.punctual.start().await.unwrap();
    let attending = tokio::spawn(run_background(app.clone()));
    for turn in 0..CHECKS_MAX {
        assert!(turn < CHECKS_MAX - 1, "the entries of the audit trail stay");
        if app.audit().list(None, 10).await.unwrap().len() == 1 {
            break;
        }
        clock.advance(Duration::from_secs(1));
        SystemClock.sleep_until(add(SystemClock.now(), CHECK_INTERVAL)).await;
    }
    // No expired documents are left, because they are deleted before the audit log is pruned.
    let left = app.documents.expire(10_000, ends).await.unwrap();
    assert_eq!(left, 0, "documents that have expired are still kept");
    attending.abort();
    app.punctual.shutdown().await;
    opened.close().await.unwrap();
}
