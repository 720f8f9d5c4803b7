//! Background tasks of a node: process registry, statistics, queue settings, alerts, webhooks and the deletion of
//! expired documents.

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};

use crate::app::App;
use crate::{alerts, live, process_registry, pruner, queues, webhooks};

/// Runs all background tasks until the process stops.
pub async fn run_background(app: App) {
    let tasks: [BoxFuture<'static, ()>; 6] = [
        Box::pin(queues::follow(app.clone())),
        Box::pin(process_registry::follow(app.clone())),
        Box::pin(live::follow(app.clone())),
        Box::pin(pruner::follow(app.clone())),
        Box::pin(alerts::follow(app.clone())),
        Box::pin(webhooks::follow(app)),
    ];
    // Each task is woken by itself: frequent events must not wake tasks that wait for a timer.
    let mut tasks: FuturesUnordered<_> = tasks.into_iter().collect();
    while tasks.next().await.is_some() {}
}
