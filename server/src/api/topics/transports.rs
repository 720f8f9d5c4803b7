//! Transports: what each can do, what it carries, and what waits for it.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use punctual::clock::{add, between, within};
use punctual::model::{MessageState as Stored, Queue, TransportName};
use punctual::policy::Circuit;
use punctual::storage::WakeSource;
use punctual::subscription::SubscriptionStatus;
use punctual::{Clock, Transport};
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use utoipa::ToSchema;

use crate::api::executions::milliseconds;
use crate::app::App;
use crate::caller::{Caller, Role};
use crate::page::Listing;
use crate::problem::Answer;

/// How long a broker may take to list its topics.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A transport.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct TransportView {
    /// The name it was given.
    name: String,
    /// `stored` when a storage is behind it, else `broker`.
    kind: &'static str,
    /// What it can do by itself.
    #[schema(value_type = Object)]
    capabilities: Value,
    /// The topics it knows of, or that this process receives by it where it does not tell.
    topics: BTreeSet<String>,
    /// Whether every subscription of this process is in touch with it; null when there is none.
    connected: Option<bool>,
    /// What waits for it.
    relay: RelayView,
    /// How the circuits of this process's subscriptions stand, the worst of them; null when there is none.
    circuit: Option<&'static str>,
}

/// What waits in the storage for a transport.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct RelayView {
    /// How many messages.
    depth: u64,
    /// How long the oldest of them is due.
    oldest_age_ms: Option<u64>,
}

/// Every transport, by name.
#[utoipa::path(get, path = "/transports", tag = "topics",
    responses((status = 200, body = Listing<TransportView>)))]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
) -> Answer<Json<Listing<TransportView>>> {
    caller.must_be(Role::Viewer)?;
    let subscriptions = app.punctual.subscriptions().list();
    let mut items = Vec::new();
    for (name, transport) in app.punctual.transports() {
        let ours: Vec<&SubscriptionStatus> =
            subscriptions.iter().filter(|status| status.name.transport == name).collect();
        items.push(view(&app, name, &transport, &ours).await?);
    }
    Ok(Json(Listing::whole(items)))
}

async fn view(
    app: &App,
    name: TransportName,
    transport: &Arc<dyn Transport>,
    ours: &[&SubscriptionStatus],
) -> Answer<TransportView> {
    let now = app.clock.now();
    let line = Queue::of_relay(&name);
    let counts = app.inspect.estimate(now).await?;
    let depth = counts.messages.get(&(line.clone(), Stored::Pending)).copied().unwrap_or(0);
    let oldest = app.storage.next_due(&WakeSource::Queue(line)).await?.filter(|due| *due <= now);
    let clock: &dyn Clock = &*app.clock;
    let told = within(clock, add(now, TIMEOUT), transport.topics()).await;
    let mut topics: BTreeSet<String> =
        ours.iter().map(|status| status.name.topic.to_string()).collect();
    topics.extend(told.and_then(Result::ok).into_iter().flatten().map(String::from));
    let connected = (!ours.is_empty()).then(|| ours.iter().all(|status| status.connected));
    Ok(TransportView {
        name: name.to_string(),
        kind: if transport.storage().is_some() { "stored" } else { "broker" },
        capabilities: serde_json::to_value(transport.capabilities()).unwrap_or(Value::Null),
        topics,
        connected,
        relay: RelayView {
            depth,
            oldest_age_ms: oldest.map(|due| milliseconds(between(due, now))),
        },
        circuit: ours.iter().map(|status| status.circuit).max_by_key(severity).map(Circuit::as_str),
    })
}

/// How bad a circuit stands.
fn severity(circuit: &Circuit) -> u8 {
    match circuit {
        Circuit::Closed { .. } => 0,
        Circuit::HalfOpen { .. } => 1,
        Circuit::Open { .. } => 2,
    }
}
