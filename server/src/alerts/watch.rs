//! Tells of alerts as events: once when one is raised, once when it is cleared, by one node of all. What was
//! told is kept as documents, so that a restart repeats nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual::clock::add;
use punctual::documents::{
    DOCUMENTS_MAX, ExpectedVersion, KEY_LEN_MAX, KeyRange, NewDocument, PutResult,
};
use punctual::{Event, Result};
use serde_json::{Value, json};

use super::{Alert, AlertKind, current, refused_configurations};
use crate::app::App;

/// How often it is looked for changes.
const INTERVAL: Duration = Duration::from_secs(5);
/// The kind of the documents of alerts that were told.
const KIND: &str = "alert";
/// The kind and the key of the document that says which node tells.
const WATCHER: &str = "alert_watcher";
/// How long a node tells without renewing that.
const WATCHES_FOR: Duration = Duration::from_secs(20);
/// The most alerts that are told of.
const ALERTS_MAX: usize = 500;

/// Tells of alerts until the process stops.
pub(crate) async fn follow(app: App) {
    let mut is_refusal_told = false;
    while !app.punctual.is_stopping() {
        if let Err(error) = refused_configurations::tell(&app, &mut is_refusal_told).await {
            tracing::debug!(%error, "the other processes do not know that the configuration was refused");
        }
        if let Err(error) = watch(&app).await {
            tracing::debug!(%error, "alerts were not looked for");
        }
        app.rest_until(add(app.clock.now(), INTERVAL)).await;
    }
}

async fn watch(app: &App) -> Result<()> {
    if !is_watcher(app).await? {
        return Ok(());
    }
    let alerts = current(app).await?;
    let now = app.clock.now();
    let range = KeyRange { limit: DOCUMENTS_MAX, ..KeyRange::default() };
    let mut told: BTreeMap<String, Value> = app
        .documents
        .list(KIND, range, now)
        .await?
        .into_iter()
        .map(|document| (document.key, document.body))
        .collect();
    // A refused configuration has an event of its own, which the process that refused it emits.
    let shared = alerts.list.iter().filter(|alert| alert.kind != AlertKind::ConfigurationRefused);
    for alert in shared.take(ALERTS_MAX) {
        let key = key(alert);
        if told.remove(&key).is_none() {
            let body = json!({ "alert": alert.kind.as_str(), "subject": alert.subject });
            app.documents.put_all(vec![NewDocument::new(KIND, &key, body)], now).await?;
            app.punctual.events().emit(Event::AlertRaised {
                alert: alert.kind.as_str().to_owned(),
                subject: alert.subject.clone(),
                text: alert.text.clone(),
            });
        }
    }
    for (key, body) in told {
        let _ = app.documents.remove(KIND, &key, ExpectedVersion::Any).await?;
        app.punctual.events().emit(Event::AlertCleared {
            alert: body["alert"].as_str().unwrap_or_default().to_owned(),
            subject: body["subject"].as_str().map(ToOwned::to_owned),
        });
    }
    Ok(())
}

/// Whether this node is the one that tells; becomes it when no other is.
async fn is_watcher(app: &App) -> Result<bool> {
    let (now, ours) = (app.clock.now(), app.punctual.process_id().to_string());
    let present = app.documents.get(WATCHER, WATCHER, now).await?;
    let seen = match &present {
        Some(document) if document.body != ours.as_str() => return Ok(false),
        Some(document) => ExpectedVersion::Version(document.version),
        None => ExpectedVersion::New,
    };
    let draft = NewDocument::new(WATCHER, WATCHER, ours.into()).expires_at(add(now, WATCHES_FOR));
    Ok(matches!(app.documents.put(draft, seen, now).await?, PutResult::Stored(_)))
}

/// The key of the document of an alert; within the bound of keys.
fn key(alert: &Alert) -> String {
    let subject = alert.subject.as_deref().unwrap_or("-");
    format!("{}/{subject}", alert.kind.as_str()).chars().take(KEY_LEN_MAX).collect()
}
