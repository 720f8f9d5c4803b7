//! Disruptions of whole machines: freezes, wrong clocks, shutdowns, deploys, outages.

use std::sync::Arc;
use std::time::Duration;

use punctual::clock::add;
use punctual::jiff::SignedDuration;

use super::{World, WorldEvent, draw_skew};
use crate::faults::Fault;
use crate::workload::User;

impl World {
    pub(super) fn disrupt(&mut self) {
        if self.shared.faults_stopped() {
            return;
        }
        let wait = self.shared.draw(|random| random.seconds(30, 300));
        self.plan(wait, WorldEvent::Disrupt);
        let shared = self.shared.clone();
        if shared.occurs(Fault::StorageOutage) {
            let duration = shared.draw(|random| random.seconds(5, 200));
            shared.note(|| format!("the storage is unavailable for {duration:?}"));
            shared.set_outage(add(shared.now(), duration));
        }
        if shared.occurs(Fault::ClusterOutage) {
            self.crash_all();
            return;
        }
        let Some((index, user)) = self.pick_running() else {
            return;
        };
        if shared.occurs(Fault::Frozen) {
            let duration = shared.draw(|random| random.seconds(61, 600));
            shared.note(|| format!("{} is frozen for {duration:?}", user.machine.name));
            user.machine.freeze(duration);
        }
        if shared.occurs(Fault::ClockStepped) {
            let by = shared.draw(draw_skew);
            shared.note(|| format!("the clock of {} is set by {by:?}", user.machine.name));
            self.slots[index].skew += by;
            user.machine.step(by);
        }
        let deploys = self.release + 1 < self.releases.len() && shared.occurs(Fault::Deployed);
        if deploys {
            self.release += 1;
        }
        if deploys || shared.occurs(Fault::ShutDown) {
            self.shut_down(index, &user);
        }
    }

    /// Picks a running process, if there is one.
    fn pick_running(&self) -> Option<(usize, User)> {
        let up = |(index, slot): (usize, &super::Slot)| {
            let user =
                slot.user.clone().filter(|user| !slot.shutting_down && !user.machine.is_dead());
            user.map(|user| (index, user))
        };
        let up: Vec<_> = self.slots.iter().enumerate().filter_map(up).collect();
        (!up.is_empty()).then(|| self.shared.draw(|random| random.pick(&up).clone()))
    }

    /// Shuts a process down gracefully; it is started again later.
    pub(super) fn shut_down(&mut self, index: usize, user: &User) {
        self.slots[index].shutting_down = true;
        shut_down_process(user.clone());
    }

    /// Crashes all processes and plans their next starts.
    fn crash_all(&mut self) {
        let duration = self.shared.draw(|random| match random.below(3) {
            0 => random.seconds(60, 600),
            1 => random.seconds(600, 7_200),
            _ => random.seconds(7_200, 100_000),
        });
        self.shared.note(|| format!("all processes are down for {duration:?}"));
        self.agenda.retain(|_, event| !matches!(event, WorldEvent::Start(_)));
        for index in 0..self.slots.len() {
            let slot = &mut self.slots[index];
            if let Some(user) = slot.user.take() {
                user.machine.crash();
            }
            slot.shutting_down = false;
            let more = self.shared.draw(|random| random.millis(0, 30_000));
            self.plan(duration + more, WorldEvent::Start(index));
        }
    }
}

/// Longest time of a shutdown.
pub(super) const SHUTDOWN_MAX: Duration = Duration::from_secs(40);

/// Shuts a process down in its own task, and checks its deadline.
pub(super) fn shut_down_process(user: User) {
    let User { punctual, machine } = user;
    let shared = machine.shared.clone();
    let (begun, without_faults) = (shared.now(), shared.faults_stopped());
    shared.note(|| format!("{} shuts down", machine.name));
    tokio::spawn(async move {
        let frozen = machine.was_frozen();
        let stopped = punctual.shutdown().await;
        machine.stop();
        let took = shared.now().duration_since(begun);
        shared.note(|| format!("{} has shut down after {took:?}: {stopped:?}", machine.name));
        let was_frozen = frozen || machine.was_frozen();
        let longest =
            SignedDuration::try_from(SHUTDOWN_MAX).unwrap_or_default() + machine.clock_error();
        let abandoned = stopped.abandoned;
        let mut ledger = shared.ledger();
        ledger.must(was_frozen || took <= longest, "shutdown ends within its deadline", || {
            format!("{} took {took:?}", machine.name)
        });
        ledger.must(
            !without_faults || abandoned == 0,
            "a shutdown without faults abandons nothing",
            || machine.name.clone(),
        );
        drop(ledger);
        // Dropped only now, so that services live until the shutdown has ended.
        drop(Arc::clone(&punctual));
    });
}
