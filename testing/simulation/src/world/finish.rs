//! End of a seed: faults stop, all processes are started, time advances until all work is done, and then no message
//! may be left.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual::Inspect;
use punctual::client::PauseRequest;
use punctual::inspect::{ExecutionFilter, JobFilter, PageRequest};
use punctual::model::{Ending, JobPhase, MessageId, MessageState};

use super::disrupt::{SHUTDOWN_MAX, shut_down_process};
use super::{JobPlan, World, WorldEvent};

/// Time after the end of faults: longer than any freeze, slow call or late delivery still pending.
const RECOVERY_TIME: Duration = Duration::from_secs(900);
/// Time for the last retries and redeliveries.
const DRAIN_TIME: Duration = Duration::from_secs(1_200);

impl World {
    pub(super) async fn finish(&mut self) {
        if self.is_over() {
            return;
        }
        self.shared.note(|| "faults stop".to_owned());
        self.shared.stop_faults();
        self.shared.set_outage(self.shared.now());
        self.agenda.clear();
        for index in 0..self.slots.len() {
            self.plan(Duration::ZERO, WorldEvent::Start(index));
        }
        self.run_for(RECOVERY_TIME).await;
        self.check_schedules().await;
        self.pause_all().await;
        self.run_for(DRAIN_TIME).await;
        if self.is_over() {
            return;
        }
        self.compare_all().await;
        self.check_leftovers();
        self.check_history().await;
        let users = self.users();
        for user in users.iter().cloned() {
            shut_down_process(user);
        }
        self.run_for(SHUTDOWN_MAX + Duration::from_secs(60)).await;
        let left = users.iter().filter(|user| !user.machine.has_stopped()).count();
        self.shared.ledger().must(left == 0, "shutdown ends within its deadline", || {
            format!("{left} are still running")
        });
    }

    /// Checks that no schedule is stuck: when idle, no due occurrence is undecided.
    async fn check_schedules(&self) {
        let now = self.shared.now();
        for record in self.shared.storage.jobs(JobFilter::default()).await.expect("memory storage")
        {
            let stuck = record.phase() == JobPhase::Active
                && record.cursor.is_none_or(|cursor| cursor <= now);
            self.shared.ledger().must(!stuck, "no schedule is stuck", || {
                format!("{} has its cursor at {:?}", record.job.name, record.cursor)
            });
        }
    }

    async fn pause_all(&mut self) {
        let Some(user) = self.users().first().cloned() else {
            return;
        };
        let admin = user.punctual.admin();
        tokio::spawn(async move {
            for record in admin.jobs().await.unwrap_or_default() {
                let request = PauseRequest {
                    by: "world".to_owned(),
                    reason: "the end".to_owned(),
                    until: None,
                };
                let _ = admin.pause(record.job.name.as_str(), request).await;
            }
        });
        self.run_until_idle().await;
    }

    /// Returns whether a message is a run of a job that the newest release, or the one before it, does not declare.
    /// It waits for a process that handles it, which may not exist.
    fn may_lack_a_handler(&self, record: &punctual::model::MessageRecord) -> bool {
        let lacks = |release: usize| {
            let has = |plan: &JobPlan| plan.name.as_str() == record.message.topic.as_str();
            !self.releases[release].iter().any(has)
        };
        let is_run = record.message.occurrence.is_some();
        is_run && (lacks(self.release) || lacks(self.release.saturating_sub(1)))
    }

    /// Checks that every message has ended or waits for its due time, its turn or a process that handles it.
    fn check_leftovers(&self) {
        let now = self.shared.now();
        let mut ledger = self.shared.ledger();
        let unfinished = |record: &&punctual::model::MessageRecord| {
            let late = record.state == MessageState::Pending && record.due_at <= now;
            let waits = ledger.must_wait(record) || self.may_lack_a_handler(record);
            record.state == MessageState::Running || (late && !waits)
        };
        let left: Vec<_> = ledger
            .messages
            .values()
            .filter(unfinished)
            .map(|record| (record.message.id, record.state, record.due_at))
            .collect();
        ledger.must(left.is_empty(), "every accepted message comes to its end", || {
            format!("{left:?}")
        });
        let lost: Vec<MessageId> = ledger
            .carried
            .iter()
            .filter(|(_, finished)| !**finished)
            .map(|(id, _)| *id)
            .filter(|id| !self.broker.contains(*id) && !ledger.is_stored(*id))
            .collect();
        ledger.must(lost.is_empty(), "no carried message disappears", || format!("{lost:?}"));
        let carried = self.broker.len();
        ledger.must(carried == 0, "every delivery is settled", || {
            format!("{carried} are left in the broker")
        });
    }

    /// Checks that the history has one success for each time a message was done.
    async fn check_history(&self) {
        let mut succeeded: BTreeMap<MessageId, u64> = BTreeMap::new();
        let mut page = PageRequest::first(1_000);
        let filter = ExecutionFilter { endings: vec!["succeeded"], ..ExecutionFilter::default() };
        loop {
            let rows =
                self.shared.storage.executions(filter.clone(), page).await.expect("memory storage");
            for execution in
                rows.rows.iter().filter(|execution| execution.ending == Ending::Succeeded)
            {
                if let Some(id) = execution.message {
                    *succeeded.entry(id).or_default() += 1;
                }
            }
            let Some(next) = rows.next else { break };
            page = PageRequest::after(next, 1_000);
        }
        let mut ledger = self.shared.ledger();
        for (id, done) in ledger.done() {
            let found = succeeded.get(&id).copied().unwrap_or(0);
            ledger.must(found == done, "each success is in the history once", || {
                format!("{id}: {found} times, expected {done}")
            });
        }
    }
}
