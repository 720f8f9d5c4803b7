//! What the server keeps of its own, on every storage: users, tokens, views, webhooks, the audit trail.

use std::sync::Arc;
use std::time::Duration;

use punctual::clock::add;
use punctual::documents::NewDocument;
use punctual::{Clock, ManualClock, SystemClock};
use punctual_server::attend;
use serde_json::{Value, json};

use crate::place::{Place, app};
use crate::talk::Talk;

/// How many documents expire, more than one call deletes.
const EXPIRING: usize = 1_500;
/// How long a storage has between two looks, and how often is looked.
const MOMENT: Duration = Duration::from_millis(10);
const LOOKS_MAX: usize = 3_000;

pub(crate) async fn kept(talk: &mut Talk) {
    let ada = json!({"name": "ada", "role": "operator", "password": "correct horse"});
    talk.ask("POST /users", ada.clone(), 201).await;
    talk.ask("POST /users", ada, 409).await;
    talk.ask("POST /users", json!({"name": "bo", "role": "viewer", "password": "short"}), 422)
        .await;
    talk.later(60);
    talk.ask("PATCH /users/ada", json!({"role": "viewer"}), 200).await;
    talk.get("/users").await;
    let token = json!({"name": "ci", "scopes": ["read"], "expires_in": "1h"});
    let token = talk.ask("POST /tokens", token, 201).await;
    assert!(token["secret"].is_string(), "{token}");
    talk.get("/tokens").await;
    talk.later(3_600);
    talk.get("/tokens").await;
    let view = json!({"page": "messages", "query": "state:dead"});
    talk.ask("PUT /views/Failing%20mail", view, 200).await;
    talk.get("/views").await;
    talk.ask("DELETE /views/Failing%20mail", Value::Null, 204).await;
    talk.ask("DELETE /views/Failing%20mail", Value::Null, 404).await;
    talk.ask("DELETE /users/ada", Value::Null, 204).await;
    talk.get("/users").await;
    let first = talk.get("/audit?limit=2").await;
    talk.get(&format!("/audit?limit=2&after={}", first["next"].as_str().unwrap())).await;
    talk.get("/audit?who=nobody").await;
    talk.get("/audit?what=user").await;
}

/// The server itself deletes what it keeps no longer; nobody has to ask for it.
pub(crate) async fn expired(place: &Place) {
    let opened = place.open().await;
    let clock = Arc::new(ManualClock::new("2026-03-01T12:00:00Z".parse().unwrap()));
    let app =
        app(&opened, clock.clone(), |builder| builder).auditing_for(Duration::from_secs(3_600));
    let caller = punctual_server::Caller::new("ada", punctual_server::Role::Admin);
    // Written while entries were kept longer.
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
    let attending = tokio::spawn(attend(app.clone()));
    for turn in 0..LOOKS_MAX {
        assert!(turn < LOOKS_MAX - 1, "the entries of the audit trail stay");
        if app.audit().list(None, 10).await.unwrap().len() == 1 {
            break;
        }
        clock.advance(Duration::from_secs(1));
        SystemClock.sleep_until(add(SystemClock.now(), MOMENT)).await;
    }
    // What asked only now finds nothing to delete: the expiry ran before the audit trail was pruned.
    let left = app.documents.expire(10_000, ends).await.unwrap();
    assert_eq!(left, 0, "documents that have expired are still kept");
    attending.abort();
    app.punctual.shutdown().await;
    opened.close().await.unwrap();
}
