//! What a node does besides answering and working: writes itself down, takes figures, obeys what operators
//! said of queues, and turns events into webhooks.

use crate::app::App;
use crate::{live, queues, register, webhooks};

/// Does all of it until the process stops.
pub async fn attend(app: App) {
    tokio::join!(
        queues::follow(app.clone()),
        register::follow(app.clone()),
        live::follow(app.clone()),
        webhooks::follow(app),
    );
}
