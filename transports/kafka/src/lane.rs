//! One partition of a subscription: what was read of it and not handed out yet, how much of it is in hand,
//! and up to where it is settled.

use std::collections::VecDeque;
use std::sync::Arc;

use punctual::Message;

use crate::window::Window;

/// How much of one partition is kept ready at most, in bytes; one record always is.
pub(crate) const READY_BYTES_MAX: usize = 8 * 1_024 * 1_024;

/// One partition.
pub(crate) struct Lane {
    given: u64,
    ready: VecDeque<Parcel>,
    ready_bytes: usize,
    window: Window,
    in_hand: usize,
    /// It is being taken away: nothing more is handed out.
    leaving: bool,
    /// The position that the client knows of.
    stored: Option<i64>,
}

impl Lane {
    /// A partition as it is given to us.
    pub(crate) fn new(given: u64) -> Self {
        let (ready, window) = (VecDeque::new(), Window::default());
        Self { given, ready, ready_bytes: 0, window, in_hand: 0, leaving: false, stored: None }
    }

    /// Which giving it is of.
    pub(crate) fn given(&self) -> u64 {
        self.given
    }

    /// How many records are ready.
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    pub(crate) fn is_in_hand(&self) -> bool {
        self.in_hand > 0
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// Whether too much stands behind one that is not settled.
    pub(crate) fn is_full(&self, window_max: usize) -> bool {
        self.window.len() >= window_max
    }

    /// How many more records may be read now.
    pub(crate) fn room(&self, ready_max: usize, window_max: usize) -> usize {
        if self.leaving || self.ready_bytes >= READY_BYTES_MAX {
            return 0;
        }
        let window = window_max.saturating_sub(self.window.len());
        ready_max.saturating_sub(self.ready.len()).min(window)
    }

    /// Nothing more is handed out.
    pub(crate) fn leave(&mut self) {
        self.leaving = true;
        self.ready.clear();
        self.ready_bytes = 0;
    }

    pub(crate) fn arrive(&mut self, arrival: Arrival) {
        let offset = arrival.slot().offset;
        // A client that lost its connection may read the same again.
        let is_new = self.window.open(offset);
        match arrival {
            Arrival::Parcel(parcel) if is_new => self.put(parcel),
            Arrival::Parcel(_) => {}
            Arrival::PassedOver(_) => drop(self.window.settle(offset)),
        }
    }

    /// Adds what is ready to parcels, until there are as many as that.
    pub(crate) fn hand_out(&mut self, limit: usize, parcels: &mut Vec<Parcel>) {
        while parcels.len() < limit {
            let Some(parcel) = self.ready.pop_front() else { break };
            self.ready_bytes = self.ready_bytes.saturating_sub(parcel.size());
            self.in_hand += 1;
            parcels.push(parcel);
        }
    }

    /// Settles what is in hand; false when it is not.
    pub(crate) fn settle(&mut self, offset: i64) -> bool {
        self.in_hand = self.in_hand.saturating_sub(1);
        self.window.settle(offset)
    }

    /// Takes back what was in hand, as one attempt more.
    pub(crate) fn put_back(&mut self, parcel: Parcel) {
        self.in_hand = self.in_hand.saturating_sub(1);
        let attempt = parcel.attempt.saturating_add(1);
        self.put(Parcel { attempt, ..parcel });
    }

    /// The position, when the client does not know of it yet; from now on it does.
    pub(crate) fn progress(&mut self) -> Option<i64> {
        let position = self.window.position().filter(|now| self.stored != Some(*now))?;
        self.stored = Some(position);
        Some(position)
    }

    /// By its offset, so that what comes back is first again.
    fn put(&mut self, parcel: Parcel) {
        if self.leaving {
            return;
        }
        self.ready_bytes += parcel.size();
        let at = self.ready.partition_point(|other| other.slot.offset < parcel.slot.offset);
        self.ready.insert(at, parcel);
    }
}

/// What was read, ready to be handed out.
#[derive(Clone, Debug)]
pub(crate) struct Parcel {
    pub(crate) slot: Slot,
    pub(crate) message: Arc<Message>,
    /// Which attempt the next delivery of it is.
    pub(crate) attempt: u32,
    pub(crate) poison: Option<Arc<str>>,
}

/// Where a parcel lies: its partition, as of when that was given to us, and its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) partition: i32,
    pub(crate) given: u64,
    pub(crate) offset: i64,
}

/// What came from a partition: a parcel, or something that is not for this group.
pub(crate) enum Arrival {
    Parcel(Parcel),
    PassedOver(Slot),
}

impl Parcel {
    fn size(&self) -> usize {
        self.message.body.bytes.len()
    }
}

impl Arrival {
    pub(crate) fn slot(&self) -> Slot {
        match self {
            Self::Parcel(parcel) => parcel.slot,
            Self::PassedOver(slot) => *slot,
        }
    }
}
