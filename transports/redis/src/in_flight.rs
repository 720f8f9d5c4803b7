//! In-flight deliveries of a consumer. While a delivery is in flight its visibility timeout is extended, however
//! long its handler runs; after it is dropped the timeout ends and another consumer may claim the entry.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use punctual::clock::{Clock, add};
use punctual::transport::settler::Settler;
use tokio::task::JoinSet;

use crate::group_consumer::{CONSUMER, GroupConsumer};
use crate::settler::{self, Settling};
use crate::streams::{EntryPosition, StreamKind};

/// Extensions per visibility timeout.
const EXTENSIONS_PER_TIMEOUT: u32 = 3;
/// Idle time after which consumers of crashed processes are removed from the group.
const IDLE_CONSUMER_TTL: Duration = Duration::from_secs(60 * 60);
/// Extensions between two removals of idle consumers.
const REMOVE_IDLE_ROUNDS: u64 = 64;

/// Unsettled deliveries of one consumer.
pub(crate) struct InFlight {
    pub(crate) group_consumer: Arc<GroupConsumer>,
    pub(crate) settler: Settler<Settling>,
    entries: Mutex<HashSet<EntryPosition>>,
    /// Ends with the last reference to this struct.
    _extender: JoinSet<()>,
}

/// Visibility timeout and trimming of a consumer.
pub(crate) struct VisibilitySettings {
    pub(crate) clock: Arc<dyn Clock>,
    /// Time without an extension after which other consumers may claim an entry.
    pub(crate) visibility_timeout: Duration,
    /// Whether entries are removed that every group has handled.
    pub(crate) trims: bool,
}

impl InFlight {
    pub(crate) fn new(
        group_consumer: Arc<GroupConsumer>,
        settings: VisibilitySettings,
    ) -> Arc<Self> {
        let settler = settler::start(group_consumer.clone(), settings.trims);
        Arc::new_cyclic(|in_flight| {
            let mut extender = JoinSet::new();
            extender.spawn(extend_and_trim(Weak::clone(in_flight), settings));
            Self { group_consumer, settler, entries: Mutex::default(), _extender: extender }
        })
    }

    pub(crate) fn insert(&self, positions: impl Iterator<Item = EntryPosition>) {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).extend(positions);
    }

    pub(crate) fn remove(&self, position: EntryPosition) {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).remove(&position);
    }

    pub(crate) fn contains(&self, position: EntryPosition) -> bool {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).contains(&position)
    }

    pub(crate) fn entries(&self) -> Vec<EntryPosition> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }

    async fn extend(&self) {
        let entries = self.entries();
        if entries.is_empty() {
            return;
        }
        let stream = &self.group_consumer.streams.shared;
        match self.group_consumer.extend(&entries).await {
            Ok(0) => {}
            // Some entries may have been settled during the call.
            Ok(count) => tracing::debug!(
                stream,
                count,
                "some deliveries were no longer pending for this consumer"
            ),
            Err(error) => {
                tracing::warn!(stream, %error, "the visibility timeout of deliveries was not extended");
            }
        }
    }
}

/// Extends the visibility timeout of in-flight deliveries, and regularly trims the streams and removes idle
/// consumers.
async fn extend_and_trim(in_flight: Weak<InFlight>, settings: VisibilitySettings) {
    let VisibilitySettings { clock, visibility_timeout, trims } = settings;
    let mut rounds = 0_u64;
    loop {
        clock.sleep_until(add(clock.now(), visibility_timeout / EXTENSIONS_PER_TIMEOUT)).await;
        let Some(in_flight) = in_flight.upgrade() else { return };
        in_flight.extend().await;
        rounds += 1;
        // A crash between acknowledging and deleting leaves an entry in the group's own stream.
        let mut trimmed = in_flight.group_consumer.trim(StreamKind::Own).await;
        if trims {
            trimmed = trimmed.and(in_flight.group_consumer.trim(StreamKind::Shared).await);
        }
        if rounds.is_multiple_of(REMOVE_IDLE_ROUNDS) {
            trimmed = trimmed.and(
                in_flight.group_consumer.remove_idle_consumers(CONSUMER, IDLE_CONSUMER_TTL).await,
            );
        }
        if let Err(error) = trimmed {
            let stream = &in_flight.group_consumer.streams.shared;
            tracing::warn!(stream, %error, "a stream was not trimmed");
        }
    }
}
