//! Faults: their rates in one seed, and counts of their occurrences. Every seed draws its own mix, so that rare
//! combinations occur in some seeds and some seeds have no fault at all.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::random::Random;

/// Kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Fault {
    /// A storage call yields to others before or after it takes effect.
    Interleaved,
    /// A storage call fails without effect.
    CallRefused,
    /// A storage call fails after its effect.
    ResponseLost,
    /// The process crashes before a storage call takes effect.
    CrashBefore,
    /// The process crashes after a storage call took effect, before it has the result.
    CrashAfter,
    /// A storage call is slow, before or after its effect.
    CallDelayed,
    /// A whole process is frozen for longer than a lease.
    Frozen,
    /// The clock of a machine is set forwards or backwards.
    ClockStepped,
    /// A process starts on a machine whose clock is wrong.
    StartedSkewed,
    /// A process is shut down gracefully during work.
    ShutDown,
    /// A process starts with changed declarations and a newer release.
    Deployed,
    /// A process starts with an older release than other processes.
    DeployedOld,
    /// No process reaches the storage for some time.
    StorageOutage,
    /// All processes are down for some time.
    ClusterOutage,
    /// The broker delivers a message twice.
    DeliveryDuplicated,
    /// The broker delivers a message late.
    DeliveryLate,
    /// The broker delivers messages in another order.
    DeliveryReordered,
    /// An acknowledgement does not reach the broker.
    AckLost,
    /// The broker refuses a message.
    PublishRefused,
    /// The broker stores a message and its confirmation is lost.
    PublishUnconfirmed,
}

impl Fault {
    pub(crate) const ALL: [Self; 20] = [
        Self::Interleaved,
        Self::CallRefused,
        Self::ResponseLost,
        Self::CrashBefore,
        Self::CrashAfter,
        Self::CallDelayed,
        Self::Frozen,
        Self::ClockStepped,
        Self::StartedSkewed,
        Self::ShutDown,
        Self::Deployed,
        Self::DeployedOld,
        Self::StorageOutage,
        Self::ClusterOutage,
        Self::DeliveryDuplicated,
        Self::DeliveryLate,
        Self::DeliveryReordered,
        Self::AckLost,
        Self::PublishRefused,
        Self::PublishUnconfirmed,
    ];

    /// Returns the usual rate per ten thousand opportunities, in a seed that has this fault. Faults of single calls
    /// have many opportunities; the others one per event of the world.
    fn usual_rate(self) -> u64 {
        match self {
            Self::Interleaved => 2_500,
            Self::CallRefused | Self::ResponseLost => 150,
            Self::CrashBefore | Self::CrashAfter => 12,
            Self::CallDelayed => 100,
            _ => 1_500,
        }
    }
}

/// Faults of one seed.
pub(crate) struct Faults {
    rates: [u64; Fault::ALL.len()],
    counts: [AtomicU64; Fault::ALL.len()],
    stopped: AtomicBool,
}

impl Faults {
    /// Draws the rates: one seed in ten has no faults; the others have each fault with about even odds.
    pub(crate) fn draw(random: &mut Random) -> Self {
        let fault_free = random.percent(10);
        let mut rates = [0; Fault::ALL.len()];
        for fault in Fault::ALL {
            let scale = random.between(5, 30);
            if random.percent(55) && !fault_free {
                rates[fault as usize] = fault.usual_rate() * scale / 10;
            }
        }
        rates[Fault::Interleaved as usize] = random.between(0, 6_000);
        Self {
            rates,
            counts: [const { AtomicU64::new(0) }; Fault::ALL.len()],
            stopped: AtomicBool::new(false),
        }
    }

    /// Returns whether this seed has no fault except interleaved calls.
    pub(crate) fn is_fault_free(&self) -> bool {
        Fault::ALL
            .iter()
            .all(|fault| *fault == Fault::Interleaved || self.rates[*fault as usize] == 0)
    }

    /// Decides whether a fault occurs at this opportunity, and counts it.
    pub(crate) fn occurs(&self, fault: Fault, random: &mut Random) -> bool {
        let rate = self.rates[fault as usize];
        let stopped = self.stopped.load(Ordering::Relaxed);
        let occurs = rate > 0 && !stopped && random.chance(rate);
        if occurs {
            self.count(fault);
        }
        occurs
    }

    pub(crate) fn count(&self, fault: Fault) {
        self.counts[fault as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counted(&self, fault: Fault) -> u64 {
        self.counts[fault as usize].load(Ordering::Relaxed)
    }

    /// Stops all faults.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(crate) fn have_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}
