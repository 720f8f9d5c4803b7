//! What the callers of a connection and its task share: who waits for which answer, and whether it has
//! ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, Semaphore, oneshot};

use super::batch::Batch;
use crate::codec::Version;
use crate::fault::Trouble;

/// The state of a connection.
pub(super) struct Shared {
    state: Mutex<State>,
    /// Room for unconfirmed messages.
    pub(super) window: Semaphore,
    pub(super) ended: Notify,
    pub(super) version: Version,
}

#[derive(Default)]
pub(super) struct State {
    last: u16,
    waiting: HashMap<u16, Waiting>,
    pub(super) ended: Option<Trouble>,
}

/// Who waits for an answer.
pub(super) enum Waiting {
    /// With whether it is of no use when nobody has subscribed to it.
    Publish(Arc<Batch>, bool),
    Subscribe(oneshot::Sender<Vec<u8>>),
}

impl Shared {
    pub(super) fn new(window: usize, version: Version) -> Self {
        let (state, window) = (Mutex::default(), Semaphore::new(window));
        Self { state, window, ended: Notify::new(), version }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down who waits, under a number that nobody else waits under.
    pub(super) fn expect(&self, waiting: Waiting) -> Result<u16, Trouble> {
        let mut state = self.state();
        if state.ended.is_some() {
            return Err(state.trouble());
        }
        let mut id = state.last;
        // The window is smaller than the numbers there are, so this finds one.
        loop {
            id = id.checked_add(1).unwrap_or(1);
            if !state.waiting.contains_key(&id) {
                break;
            }
        }
        state.last = id;
        state.waiting.insert(id, waiting);
        Ok(id)
    }

    /// A message that was not sent after all.
    pub(super) fn forget(&self, id: u16) {
        if self.state().waiting.remove(&id).is_some() {
            self.window.add_permits(1);
        }
    }

    pub(super) fn confirm(&self, id: u16, code: u8) {
        let waiting = self.state().waiting.remove(&id);
        if let Some(Waiting::Publish(batch, is_awaited)) = waiting {
            self.window.add_permits(1);
            batch.confirm(code, is_awaited);
        }
    }

    pub(super) fn subscribed(&self, id: u16, codes: Vec<u8>) {
        let waiting = self.state().waiting.remove(&id);
        if let Some(Waiting::Subscribe(answer)) = waiting {
            let _ = answer.send(codes);
        }
    }

    /// The end: nobody waits any longer. The first reason stays.
    pub(super) fn end(&self, trouble: Trouble) {
        let waiting = {
            let mut state = self.state();
            state.ended.get_or_insert_with(|| trouble.clone());
            std::mem::take(&mut state.waiting)
        };
        self.window.close();
        for waiting in waiting.into_values() {
            if let Waiting::Publish(batch, _) = waiting {
                batch.fail(trouble.clone());
            }
        }
        self.ended.notify_waiters();
    }
}

impl State {
    pub(super) fn trouble(&self) -> Trouble {
        self.ended.clone().unwrap_or_else(|| Trouble::Lost("it is ending".to_owned()))
    }
}
