//! State of a connection, shared by its callers and its task: the pending requests, and whether it has ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, Semaphore, oneshot};

use super::batch::Batch;
use crate::codec::Version;
use crate::error::ConnectionError;

/// Shared state of a connection.
pub(super) struct SharedState {
    state: Mutex<ConnectionState>,
    /// Permits for unconfirmed messages.
    pub(super) window: Semaphore,
    pub(super) ended: Notify,
    pub(super) version: Version,
}

#[derive(Default)]
pub(super) struct ConnectionState {
    last: u16,
    pending: HashMap<u16, PendingRequest>,
    pub(super) ended: Option<ConnectionError>,
}

/// A request waiting for its response.
pub(super) enum PendingRequest {
    /// With whether it fails when no subscription matches.
    Publish(Arc<Batch>, bool),
    Subscribe(oneshot::Sender<Vec<u8>>),
}

impl SharedState {
    pub(super) fn new(window: usize, version: Version) -> Self {
        let (state, window) = (Mutex::default(), Semaphore::new(window));
        Self { state, window, ended: Notify::new(), version }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, ConnectionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a request under an unused packet identifier.
    pub(super) fn expect(&self, pending: PendingRequest) -> Result<u16, ConnectionError> {
        let mut state = self.state();
        if state.ended.is_some() {
            return Err(state.error());
        }
        let mut id = state.last;
        // The window is smaller than the number of identifiers, so a free one exists.
        loop {
            id = id.checked_add(1).unwrap_or(1);
            if !state.pending.contains_key(&id) {
                break;
            }
        }
        state.last = id;
        state.pending.insert(id, pending);
        Ok(id)
    }

    /// Removes a message that was not sent.
    pub(super) fn forget(&self, id: u16) {
        if self.state().pending.remove(&id).is_some() {
            self.window.add_permits(1);
        }
    }

    pub(super) fn confirm(&self, id: u16, code: u8) {
        let pending = self.state().pending.remove(&id);
        if let Some(PendingRequest::Publish(batch, needs_subscriber)) = pending {
            self.window.add_permits(1);
            batch.confirm(code, needs_subscriber);
        }
    }

    pub(super) fn subscribed(&self, id: u16, codes: Vec<u8>) {
        let pending = self.state().pending.remove(&id);
        if let Some(PendingRequest::Subscribe(sender)) = pending {
            let _ = sender.send(codes);
        }
    }

    /// Ends the connection and fails all pending requests. The first error is kept.
    pub(super) fn end(&self, error: ConnectionError) {
        let pending = {
            let mut state = self.state();
            state.ended.get_or_insert_with(|| error.clone());
            std::mem::take(&mut state.pending)
        };
        self.window.close();
        for pending in pending.into_values() {
            if let PendingRequest::Publish(batch, _) = pending {
                batch.fail(error.clone());
            }
        }
        self.ended.notify_waiters();
    }
}

impl ConnectionState {
    pub(super) fn error(&self) -> ConnectionError {
        self.ended
            .clone()
            .unwrap_or_else(|| ConnectionError::Lost("the connection is closing".to_owned()))
    }
}
