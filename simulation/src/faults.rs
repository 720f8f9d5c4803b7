//! What goes wrong, how often in this seed, and how often it did. Every seed draws its own mix, so
//! that rare combinations get seeds of their own and some seeds see no fault at all.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::random::Random;

/// Everything that can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Fault {
    /// A storage call gives way to others before or after it takes effect.
    Interleaved,
    /// A storage call fails and had no effect.
    CallRefused,
    /// A storage call fails and had its effect.
    AnswerLost,
    /// The process dies before a storage call takes effect.
    CrashBefore,
    /// The process dies after a storage call took effect, before it hears of it.
    CrashAfter,
    /// A storage call is slow, before or after its effect.
    CallDelayed,
    /// A whole process stands still, longer than a lease.
    Frozen,
    /// The clock of a machine is set forward or back.
    ClockStepped,
    /// A process starts on a machine whose clock is wrong.
    StartedSkewed,
    /// A graceful shutdown in the middle of work.
    ShutDown,
    /// A process starts with changed declarations and a newer release.
    Deployed,
    /// A process starts with an older release than others have.
    DeployedOld,
    /// No node reaches the storage for a while.
    StorageOutage,
    /// All processes are gone for a while.
    ClusterOutage,
    /// The broker delivers a message twice.
    DeliveryDuplicated,
    /// The broker delivers a message late.
    DeliveryLate,
    /// The broker delivers messages in another order.
    DeliveryReordered,
    /// The broker does not hear an acknowledgement.
    AckLost,
    /// The broker refuses a message.
    PublishRefused,
    /// The broker takes a message and its confirmation is lost.
    PublishUnconfirmed,
}

impl Fault {
    pub(crate) const ALL: [Self; 20] = [
        Self::Interleaved,
        Self::CallRefused,
        Self::AnswerLost,
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

    /// How often in ten thousand opportunities, in a seed that has this fault at all. Faults of
    /// single calls have many opportunities; the others one per event of the world.
    fn usual_rate(self) -> u64 {
        match self {
            Self::Interleaved => 2_500,
            Self::CallRefused | Self::AnswerLost => 150,
            Self::CrashBefore | Self::CrashAfter => 12,
            Self::CallDelayed => 100,
            _ => 1_500,
        }
    }
}

/// The faults of one seed.
pub(crate) struct Faults {
    rates: [u64; Fault::ALL.len()],
    counts: [AtomicU64; Fault::ALL.len()],
    stopped: AtomicBool,
}

impl Faults {
    /// One seed in ten is calm; the others have each fault with even odds, at a rate of their own.
    pub(crate) fn draw(random: &mut Random) -> Self {
        let calm = random.percent(10);
        let mut rates = [0; Fault::ALL.len()];
        for fault in Fault::ALL {
            let scale = random.between(5, 30);
            if random.percent(55) && !calm {
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

    /// Whether anything but the interleaving of calls may go wrong in this seed.
    pub(crate) fn is_calm(&self) -> bool {
        Fault::ALL
            .iter()
            .all(|fault| *fault == Fault::Interleaved || self.rates[*fault as usize] == 0)
    }

    /// Whether a fault happens at this opportunity; counted when it does.
    pub(crate) fn strikes(&self, fault: Fault, random: &mut Random) -> bool {
        let rate = self.rates[fault as usize];
        let stopped = self.stopped.load(Ordering::Relaxed);
        let strikes = rate > 0 && !stopped && random.chance(rate);
        if strikes {
            self.count(fault);
        }
        strikes
    }

    pub(crate) fn count(&self, fault: Fault) {
        self.counts[fault as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counted(&self, fault: Fault) -> u64 {
        self.counts[fault as usize].load(Ordering::Relaxed)
    }

    /// From now on nothing goes wrong any more.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(crate) fn have_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}
