//! What a node does besides answering and working: writes itself down, takes figures, obeys what operators
//! said of queues, tells of alerts, turns events into webhooks, and deletes what has expired.

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};

use crate::app::App;
use crate::{alerts, live, pruner, queues, register, webhooks};

/// Does all of it until the process stops.
pub async fn attend(app: App) {
    let parts: [BoxFuture<'static, ()>; 6] = [
        Box::pin(queues::follow(app.clone())),
        Box::pin(register::follow(app.clone())),
        Box::pin(live::follow(app.clone())),
        Box::pin(pruner::follow(app.clone())),
        Box::pin(alerts::follow(app.clone())),
        Box::pin(webhooks::follow(app)),
    ];
    // Each is woken for itself: an event, of which there are many, must not wake those that wait for a time.
    let mut parts: FuturesUnordered<_> = parts.into_iter().collect();
    while parts.next().await.is_some() {}
}
