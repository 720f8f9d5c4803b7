//! Alert events: one event when an alert is raised and one when it is cleared, emitted by one elected node. Raised
//! alerts are stored as documents, so that a restart repeats nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual::backend::documents::{
    DOCUMENTS_MAX, ExpectedVersion, KEY_LEN_MAX, KeyRange, NewDocument, PutResult,
};
use punctual::clock::add;
use punctual::{Event, Result};
use serde_json::{Value, json};

use super::{Alert, AlertKind, current, refused_configurations};
use crate::app::App;

/// How often alerts are compared with the stored ones.
const INTERVAL: Duration = Duration::from_secs(5);
/// The kind of the documents of raised alerts.
const KIND: &str = "alert";
/// The kind and the key of the document that names the elected node.
const WATCHER: &str = "alert_watcher";
/// How long an election is valid without renewal.
const ELECTION_TTL: Duration = Duration::from_secs(20);
/// Largest number of alerts with events.
const ALERTS_MAX: usize = 500;

/// Emits alert events until the process stops.
pub(crate) async fn follow(app: App) {
    let mut is_refusal_published = false;
    while !app.punctual.is_stopping() {
        if let Err(error) = refused_configurations::publish(&app, &mut is_refusal_published).await {
            tracing::debug!(%error, "the refused configuration was not published to the other processes");
        }
        if let Err(error) = watch(&app).await {
            tracing::debug!(%error, "alerts could not be checked");
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
    let mut raised: BTreeMap<String, Value> = app
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
        if raised.remove(&key).is_none() {
            let body = json!({ "alert": alert.kind.as_str(), "subject": alert.subject });
            app.documents.put_all(vec![NewDocument::new(KIND, &key, body)], now).await?;
            app.punctual.events().emit(Event::AlertRaised {
                alert: alert.kind.as_str().to_owned(),
                subject: alert.subject.clone(),
                text: alert.text.clone(),
            });
        }
    }
    for (key, body) in raised {
        let _ = app.documents.remove(KIND, &key, ExpectedVersion::Any).await?;
        app.punctual.events().emit(Event::AlertCleared {
            alert: body["alert"].as_str().unwrap_or_default().to_owned(),
            subject: body["subject"].as_str().map(ToOwned::to_owned),
        });
    }
    Ok(())
}

/// Returns whether this node is the elected one; elects it when no other is.
async fn is_watcher(app: &App) -> Result<bool> {
    let (now, own_id) = (app.clock.now(), app.punctual.process_id().to_string());
    let present = app.documents.get(WATCHER, WATCHER, now).await?;
    let expected = match &present {
        Some(document) if document.body != own_id.as_str() => return Ok(false),
        Some(document) => ExpectedVersion::Version(document.version),
        None => ExpectedVersion::New,
    };
    let draft =
        NewDocument::new(WATCHER, WATCHER, own_id.into()).expires_at(add(now, ELECTION_TTL));
    Ok(matches!(app.documents.put(draft, expected, now).await?, PutResult::Stored(_)))
}

/// Returns the document key of an alert, cut to the longest key allowed.
fn key(alert: &Alert) -> String {
    let subject = alert.subject.as_deref().unwrap_or("-");
    format!("{}/{subject}", alert.kind.as_str()).chars().take(KEY_LEN_MAX).collect()
}
