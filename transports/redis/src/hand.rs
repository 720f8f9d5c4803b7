//! What a consumer has in hand. While a delivery is in hand its entry is kept from being taken over, however
//! long its handler runs; what is let go of runs out and is somebody else's then.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use punctual::clock::{Clock, add};
use tokio::task::JoinSet;

use crate::desk::{CONSUMER, Desk};
use crate::settler::Settler;
use crate::streams::{Lane, Spot};

/// A hold is extended so many times before it could run out.
const EXTENSIONS: u32 = 3;
/// Consumers of processes that crashed are taken off the group after so long.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60 * 60);
/// Every so many extensions somebody looks for them.
const SWEEP_EVERY: u64 = 64;

/// The deliveries of one consumer that are not settled.
pub(crate) struct Hand {
    pub(crate) desk: Arc<Desk>,
    pub(crate) settler: Settler,
    held: Mutex<HashSet<Spot>>,
    /// Ends with the last who holds anything.
    _keeper: JoinSet<()>,
}

/// How long and how an entry is held.
pub(crate) struct Holding {
    pub(crate) clock: Arc<dyn Clock>,
    /// Without an extension for so long, others may take an entry over.
    pub(crate) length: Duration,
    /// Whether what every group has handled is removed.
    pub(crate) trims: bool,
}

impl Hand {
    pub(crate) fn new(desk: Arc<Desk>, holding: Holding) -> Arc<Self> {
        let settler = Settler::start(desk.clone(), holding.trims);
        Arc::new_cyclic(|hand| {
            let mut keeper = JoinSet::new();
            keeper.spawn(keep(Weak::clone(hand), holding));
            Self { desk, settler, held: Mutex::default(), _keeper: keeper }
        })
    }

    pub(crate) fn hold(&self, spots: impl Iterator<Item = Spot>) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).extend(spots);
    }

    pub(crate) fn release(&self, spot: Spot) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).remove(&spot);
    }

    pub(crate) fn has(&self, spot: Spot) -> bool {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).contains(&spot)
    }

    pub(crate) fn held(&self) -> Vec<Spot> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }

    async fn extend(&self) {
        let held = self.held();
        if held.is_empty() {
            return;
        }
        let stream = &self.desk.streams.shared;
        match self.desk.extend(&held).await {
            Ok(0) => {}
            // Some may have been settled while we asked.
            Ok(count) => tracing::debug!(stream, count, "deliveries were not ours to hold"),
            Err(error) => tracing::warn!(stream, %error, "deliveries were not held longer"),
        }
    }
}

/// Extends what is in hand, and tidies up now and then.
async fn keep(hand: Weak<Hand>, holding: Holding) {
    let Holding { clock, length, trims } = holding;
    let mut rounds = 0_u64;
    loop {
        clock.sleep_until(add(clock.now(), length / EXTENSIONS)).await;
        let Some(hand) = hand.upgrade() else { return };
        hand.extend().await;
        rounds += 1;
        // An end between acknowledging and removing leaves an entry in the group's own stream.
        let mut tidied = hand.desk.trim(Lane::Own).await;
        if trims {
            tidied = tidied.and(hand.desk.trim(Lane::Shared).await);
        }
        if rounds.is_multiple_of(SWEEP_EVERY) {
            tidied = tidied.and(hand.desk.sweep(CONSUMER, FORGOTTEN_AFTER).await);
        }
        if let Err(error) = tidied {
            let stream = &hand.desk.streams.shared;
            tracing::warn!(stream, %error, "a stream was not tidied up");
        }
    }
}
