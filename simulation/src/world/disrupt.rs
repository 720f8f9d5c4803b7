//! Trouble for whole machines: standing still, wrong clocks, shutdowns, deploys, outages.

use std::sync::Arc;
use std::time::Duration;

use punctual::clock::add;
use punctual::jiff::SignedDuration;

use super::{Happening, World, draw_skew};
use crate::faults::Fault;
use crate::workload::User;

impl World {
    pub(super) fn disrupt(&mut self) {
        if self.shared.at_peace() {
            return;
        }
        let wait = self.shared.draw(|random| random.seconds(30, 300));
        self.plan(wait, Happening::Disrupt);
        let shared = self.shared.clone();
        if shared.strikes(Fault::StorageOutage) {
            let length = shared.draw(|random| random.seconds(5, 200));
            shared.note(|| format!("the storage is out of reach for {length:?}"));
            shared.set_outage(add(shared.now(), length));
        }
        if shared.strikes(Fault::ClusterOutage) {
            self.black_out();
            return;
        }
        let Some((index, user)) = self.pick() else {
            return;
        };
        if shared.strikes(Fault::Frozen) {
            let length = shared.draw(|random| random.seconds(61, 600));
            shared.note(|| format!("{} stands still for {length:?}", user.machine.name));
            user.machine.freeze(length);
        }
        if shared.strikes(Fault::ClockStepped) {
            let by = shared.draw(draw_skew);
            shared.note(|| format!("the clock of {} is set by {by:?}", user.machine.name));
            self.slots[index].skew += by;
            user.machine.step(by);
        }
        let deploys = self.release + 1 < self.releases.len() && shared.strikes(Fault::Deployed);
        if deploys {
            self.release += 1;
        }
        if deploys || shared.strikes(Fault::ShutDown) {
            self.shut_down(index, &user);
        }
    }

    /// A process that is up, if there is one.
    fn pick(&self) -> Option<(usize, User)> {
        let up = |(index, slot): (usize, &super::Slot)| {
            let user = slot.user.clone().filter(|user| !slot.leaving && !user.machine.is_dead());
            user.map(|user| (index, user))
        };
        let up: Vec<_> = self.slots.iter().enumerate().filter_map(up).collect();
        (!up.is_empty()).then(|| self.shared.draw(|random| random.pick(&up).clone()))
    }

    /// A graceful shutdown; the process comes back later.
    pub(super) fn shut_down(&mut self, index: usize, user: &User) {
        self.slots[index].leaving = true;
        leave(user.clone());
    }

    /// Everybody is gone for a while, some gracefully.
    fn black_out(&mut self) {
        let length = self.shared.draw(|random| match random.below(3) {
            0 => random.seconds(60, 600),
            1 => random.seconds(600, 7_200),
            _ => random.seconds(7_200, 100_000),
        });
        self.shared.note(|| format!("everybody is gone for {length:?}"));
        self.agenda.retain(|_, happening| !matches!(happening, Happening::Start(_)));
        for index in 0..self.slots.len() {
            let slot = &mut self.slots[index];
            if let Some(user) = slot.user.take() {
                user.machine.crash();
            }
            slot.leaving = false;
            let more = self.shared.draw(|random| random.millis(0, 30_000));
            self.plan(length + more, Happening::Start(index));
        }
    }
}

/// Longer than any shutdown may take.
pub(super) const SHUTDOWN_MAX: Duration = Duration::from_secs(40);

/// Shuts a process down in its own task, and holds it to its deadline.
pub(super) fn leave(user: User) {
    let User { punctual, machine } = user;
    let shared = machine.shared.clone();
    let (begun, peace) = (shared.now(), shared.at_peace());
    shared.note(|| format!("{} shuts down", machine.name));
    tokio::spawn(async move {
        let frozen = machine.was_frozen();
        let stopped = punctual.shutdown().await;
        machine.stop();
        let took = shared.now().duration_since(begun);
        shared.note(|| format!("{} has shut down after {took:?}: {stopped:?}", machine.name));
        let excused = frozen || machine.was_frozen();
        let most = SignedDuration::try_from(SHUTDOWN_MAX).unwrap_or_default() + machine.wandered();
        let abandoned = stopped.abandoned;
        let mut ledger = shared.ledger();
        ledger.must(excused || took <= most, "shutdown ends within its deadline", || {
            format!("{} took {took:?}", machine.name)
        });
        ledger.must(!peace || abandoned == 0, "a shutdown at peace abandons nothing", || {
            machine.name.clone()
        });
        drop(ledger);
        // Kept until here, so that its services live as long as the shutdown wants them to.
        drop(Arc::clone(&punctual));
    });
}
