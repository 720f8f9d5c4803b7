//! Transports: capabilities, topics and pending messages.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use punctual::backend::storage::WakeSource;
use punctual::clock::{add, between, within};
use punctual::model::{MessageState as Stored, Queue, TransportName};
use punctual::policy::Circuit;
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
use crate::problem::ApiResult;

/// Timeout of listing the topics of a broker.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A transport.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct TransportView {
    /// Name of the transport.
    name: String,
    /// Kind: `stored` with a storage behind it, or `broker`.
    kind: &'static str,
    /// Native capabilities.
    #[schema(value_type = Object)]
    capabilities: Value,
    /// Topics of the transport, or the ones this process receives when it cannot list them.
    topics: BTreeSet<String>,
    /// Whether all subscriptions of this process are connected; null without subscriptions.
    connected: Option<bool>,
    /// Messages in the storage that wait for it.
    relay: RelayView,
    /// Worst state of the circuit breakers of this process's subscriptions; null without subscriptions.
    circuit: Option<&'static str>,
}

/// Messages in the storage that wait for a transport.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct RelayView {
    /// Number of messages.
    depth: u64,
    /// Time since the oldest of them is due, in milliseconds.
    oldest_age_ms: Option<u64>,
}

/// Lists transports by name.
#[utoipa::path(get, path = "/transports", tag = "topics",
    responses((status = 200, body = Listing<TransportView>)))]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
) -> ApiResult<Json<Listing<TransportView>>> {
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
) -> ApiResult<TransportView> {
    let now = app.clock.now();
    let queue = Queue::of_relay(&name);
    let counts = app.inspect.estimate(now).await?;
    let depth = counts.messages.get(&(queue.clone(), Stored::Pending)).copied().unwrap_or(0);
    let oldest = app.storage.next_due(&WakeSource::Queue(queue)).await?.filter(|due| *due <= now);
    let clock: &dyn Clock = &*app.clock;
    let listed = within(clock, add(now, TIMEOUT), transport.topics()).await;
    let mut topics: BTreeSet<String> =
        ours.iter().map(|status| status.name.topic.to_string()).collect();
    topics.extend(listed.and_then(Result::ok).into_iter().flatten().map(String::from));
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

/// Returns the severity of the state of a circuit breaker.
fn severity(circuit: &Circuit) -> u8 {
    match circuit {
        Circuit::Closed { .. } => 0,
        Circuit::HalfOpen { .. } => 1,
        Circuit::Open { .. } => 2,
    }
}
