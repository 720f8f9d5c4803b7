//! What a node does besides answering and working: writes itself down, takes figures, obeys what operators
//! said of queues, turns events into webhooks, and deletes what has expired.

use crate::app::App;
use crate::{live, pruner, queues, register, webhooks};

/// Does all of it until the process stops.
pub async fn attend(app: App) {
    tokio::join!(
        queues::follow(app.clone()),
        register::follow(app.clone()),
        live::follow(app.clone()),
        pruner::follow(app.clone()),
        webhooks::follow(app),
    );
}
