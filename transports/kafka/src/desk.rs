//! The desk between the reader's thread and the consumer: what was read and not handed out yet, and what was
//! handed out and not settled, partition by partition. A partition that is taken away leaves with all of
//! that; receipts of it are stale from then on.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual::Error;
use tokio::sync::Notify;

use crate::bell::Bell;
use crate::lane::{Arrival, Lane, Parcel, Slot};

/// How much of one partition is kept ready at least and at most, in records.
const READY_MIN: usize = 16;
const READY_MAX: usize = 1_024;

/// Shared by the reader, the consumer and its receipts.
pub(crate) struct Desk {
    state: Mutex<State>,
    /// Something may be handed out, or there is trouble, or it is over.
    changed: Notify,
    /// Something of a partition that is leaving was settled or let go.
    let_go: Condvar,
    /// Wakes the reader.
    pub(crate) bell: Arc<Bell>,
    prefetch: usize,
    window_max: usize,
}

#[derive(Default)]
struct State {
    lanes: BTreeMap<i32, Lane>,
    /// Handed out and not settled, of all partitions, lost ones included.
    in_hand: usize,
    /// Whose turn it is.
    turn: i32,
    /// How often the group gave us partitions, none of them included.
    given: u64,
    trouble: Option<Error>,
    phase: Phase,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    #[default]
    Open,
    Closing,
    Closed,
}

/// What is there to receive.
pub(crate) enum Taken {
    Parcels(Vec<Parcel>),
    Trouble(Error),
    Over,
    Nothing,
}

impl Desk {
    pub(crate) fn new(prefetch: usize, window_max: usize) -> Self {
        let (state, changed, let_go) = (Mutex::default(), Notify::new(), Condvar::new());
        let (bell, prefetch) = (Arc::new(Bell::default()), prefetch.max(1));
        // A window smaller than what may be in hand would stop a partition for nothing.
        Self { state, changed, let_go, bell, prefetch, window_max: window_max.max(prefetch) }
    }

    /// Partitions were given to us.
    pub(crate) fn give(&self, partitions: &[i32]) {
        let mut state = self.lock();
        state.given += 1;
        let given = state.given;
        for partition in partitions {
            state.lanes.insert(*partition, Lane::new(given));
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Waits until the group has taken us in.
    pub(crate) async fn joined(&self) {
        while self.lock().given == 0 {
            self.changed().await;
        }
    }

    /// Stops handing out of partitions that are about to be taken away, and waits until nothing of them is
    /// in hand, but not longer than the patience.
    pub(crate) fn leave(&self, partitions: &[i32], patience: Duration) {
        let mut state = self.lock();
        for partition in partitions {
            if let Some(lane) = state.lanes.get_mut(partition) {
                lane.leave();
            }
        }
        let busy = |state: &mut State| {
            let mut lanes = partitions.iter().filter_map(|one| state.lanes.get(one));
            state.phase == Phase::Open && lanes.any(Lane::is_in_hand)
        };
        drop(self.let_go.wait_timeout_while(state, patience, busy));
    }

    /// Forgets partitions; what is in hand of them is stale.
    pub(crate) fn take_away(&self, partitions: &[i32]) {
        let mut state = self.lock();
        for partition in partitions {
            state.lanes.remove(partition);
        }
    }

    /// The partitions that are ours, each with the number of its giving.
    pub(crate) fn lanes(&self) -> Vec<(i32, u64)> {
        self.lock().lanes.iter().map(|(partition, lane)| (*partition, lane.given())).collect()
    }

    /// How many more records of a partition may be read now.
    pub(crate) fn room(&self, partition: i32) -> usize {
        let state = self.lock();
        let lane = state.lanes.get(&partition);
        lane.map_or(0, |lane| lane.room(self.ready_max(), self.window_max))
    }

    /// Puts what was read on the desk.
    pub(crate) fn arrive(&self, arrivals: impl IntoIterator<Item = Arrival>) {
        let mut state = self.lock();
        for arrival in arrivals {
            if let Some(lane) = state.lanes.get_mut(&arrival.slot().partition) {
                lane.arrive(arrival);
            }
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Hands out what is ready, as much as may be in hand, each partition in its turn.
    pub(crate) fn take(&self, limit: usize) -> Taken {
        let mut state = self.lock();
        if state.phase > Phase::Open {
            return Taken::Over;
        }
        let limit = limit.min(self.prefetch.saturating_sub(state.in_hand));
        let mut parcels = Vec::new();
        let mut hungry = false;
        while parcels.len() < limit {
            let Some(lane) = state.next_lane() else { break };
            lane.hand_out(limit, &mut parcels);
            hungry |= lane.ready() < self.ready_max() / 2;
        }
        state.in_hand += parcels.len();
        let trouble = if parcels.is_empty() { state.trouble.take() } else { None };
        drop(state);
        if hungry {
            self.bell.ring();
        }
        match trouble {
            _ if !parcels.is_empty() => Taken::Parcels(parcels),
            Some(error) => Taken::Trouble(error),
            None => Taken::Nothing,
        }
    }

    /// Waits until there may be something to take.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Whether a parcel in hand is still ours to settle.
    pub(crate) fn is_ours(&self, slot: Slot) -> bool {
        self.lock().lane(slot).is_some()
    }

    /// Settles what is in hand; false when its partition was taken away meanwhile.
    pub(crate) fn settle(&self, slot: Slot) -> bool {
        let mut state = self.lock();
        state.in_hand = state.in_hand.saturating_sub(1);
        let lane = state.lane(slot);
        let was_full = lane.as_ref().is_some_and(|lane| lane.is_full(self.window_max));
        let is_awaited = lane.as_ref().is_some_and(|lane| lane.is_leaving());
        let settled = lane.is_some_and(|lane| lane.settle(slot.offset));
        drop(state);
        self.let_go(is_awaited);
        if was_full {
            self.bell.ring();
        }
        settled
    }

    /// Takes back what was in hand and not settled: it is handed out again, as one attempt more.
    pub(crate) fn put_back(&self, parcel: Parcel) {
        let mut state = self.lock();
        state.in_hand = state.in_hand.saturating_sub(1);
        let lane = state.lane(parcel.slot);
        let is_awaited = lane.as_ref().is_some_and(|lane| lane.is_leaving());
        if let Some(lane) = lane {
            lane.put_back(parcel);
        }
        drop(state);
        self.let_go(is_awaited);
    }

    /// Something is no longer in hand. Only a partition that is leaving is waited for, and telling that
    /// costs a call of the system.
    fn let_go(&self, is_awaited: bool) {
        if is_awaited {
            self.let_go.notify_all();
        }
        self.changed.notify_one();
    }

    /// The positions that the client does not know of yet, as partition and offset.
    pub(crate) fn progress(&self) -> Vec<(i32, i64)> {
        let mut state = self.lock();
        let moved = state
            .lanes
            .iter_mut()
            .filter_map(|(partition, lane)| Some((*partition, lane.progress()?)));
        moved.collect()
    }

    /// Whoever receives is told of it, once.
    pub(crate) fn trouble(&self, error: Error) {
        self.lock().trouble = Some(error);
        self.changed.notify_one();
    }

    /// Asks the reader to end.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.phase = state.phase.max(Phase::Closing);
        drop(state);
        self.let_go.notify_all();
        self.changed.notify_one();
        self.bell.ring();
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.lock().phase > Phase::Open
    }

    /// The reader has ended.
    pub(crate) fn closed(&self) {
        let mut state = self.lock();
        state.phase = Phase::Closed;
        state.lanes.clear();
        drop(state);
        self.changed.notify_one();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().phase == Phase::Closed
    }

    fn ready_max(&self) -> usize {
        self.prefetch.clamp(READY_MIN, READY_MAX)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The lane of a slot, unless it was taken away since.
    fn lane(&mut self, slot: Slot) -> Option<&mut Lane> {
        self.lanes.get_mut(&slot.partition).filter(|lane| lane.given() == slot.given)
    }

    /// The next lane with something ready, after the one that had its turn.
    fn next_lane(&mut self) -> Option<&mut Lane> {
        let turn = self.turn;
        let after = self.lanes.range(turn.saturating_add(1)..).chain(self.lanes.range(..=turn));
        let (partition, _) = after.into_iter().find(|(_, lane)| lane.ready() > 0)?;
        self.turn = *partition;
        self.lanes.get_mut(&self.turn)
    }
}

#[cfg(test)]
mod tests;
