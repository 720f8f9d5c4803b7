//! Declarations and an operator's changes: what each may change in a job, and what not.

use punctual::jiff::Timestamp;
use punctual::model::{JobCommand, JobName, JobRecord, Retirement};
use punctual::policy::effective;
use punctual::storage::{DeclareResult, JobCommandResult};

use super::Ledger;
use crate::reference::after_all;

impl Ledger {
    /// A declaration was stored, or was not.
    pub(crate) fn declared(
        &mut self,
        record: &JobRecord,
        seen: Option<u64>,
        now: Timestamp,
        answer: DeclareResult,
    ) {
        let name = record.job.name.clone();
        let Some(before) = self.jobs.get(&name).cloned() else {
            self.must(
                answer == DeclareResult::Created,
                "a declaration answers by its contract",
                || format!("{name}: {answer:?}"),
            );
            let cursor = record.job.schedule.next(now);
            self.must(record.cursor == cursor, "a new job starts at its next occurrence", || {
                format!("{name}: {:?}", record.cursor)
            });
            self.jobs.insert(name, JobRecord { version: 1, updated_at: now, ..record.clone() });
            self.tally.declarations += 1;
            return;
        };
        let after = JobRecord {
            created_at: before.created_at,
            updated_at: before.updated_at,
            version: before.version,
            ..record.clone()
        };
        let expected = if after == before {
            DeclareResult::Unchanged
        } else if seen != Some(before.version) {
            DeclareResult::Raced
        } else {
            DeclareResult::Changed
        };
        self.must(answer == expected, "a declaration answers by its contract", || {
            format!("{name}: {answer:?}, expected {expected:?}")
        });
        if expected == DeclareResult::Changed {
            self.redeclared(&before, &after, now);
            self.jobs
                .insert(name, JobRecord { version: before.version + 1, updated_at: now, ..after });
            self.tally.declarations += 1;
        }
    }

    /// What a declaration may change.
    fn redeclared(&mut self, before: &JobRecord, after: &JobRecord, now: Timestamp) {
        let name = &before.job.name;
        self.must(after.release >= before.release, "an older release changes nothing", || {
            format!("{name}: {} after {}", after.release, before.release)
        });
        self.must(
            after.paused == before.paused && after.overrides == before.overrides,
            "a deploy leaves the operator's word alone",
            || format!("{name}"),
        );
        let layers = |record: &JobRecord| {
            effective(&record.declared, record.configured.as_ref(), &record.overrides).schedule
        };
        let kept = layers(before) == layers(after);
        let over = after.job.schedule.runs_max().is_some_and(|most| after.runs >= most);
        let next = after_all(after, now).filter(|_| !over);
        let (cursor, retired) = match (after.retired, before.retired) {
            (Some(Retirement::Removed), _) => (None, after.retired),
            (_, None | Some(Retirement::Finished)) if kept => (before.cursor, before.retired),
            _ => (next, next.is_none().then_some(Retirement::Finished)),
        };
        self.must(
            (after.cursor, after.retired) == (cursor, retired),
            "the cursor moves only when the schedule does",
            || {
                format!(
                    "{name}: {:?} {:?}, expected {cursor:?} {retired:?}",
                    after.cursor, after.retired
                )
            },
        );
    }

    /// An operator changed a job, or did not.
    pub(crate) fn steered(
        &mut self,
        name: &JobName,
        steer: &JobCommand,
        seen: u64,
        answer: &JobCommandResult,
    ) {
        let before = self.jobs.get(name).cloned();
        match (answer, before) {
            (JobCommandResult::Unknown, None) => {}
            (JobCommandResult::Raced, Some(before)) if before.version != seen => {}
            (JobCommandResult::Applied(record), Some(before)) if before.version == seen => {
                self.tally.commands += 1;
                if let JobCommand::Resume { cursor: Some(cursor) } = steer {
                    let decided = before.last_nominal.is_some_and(|last| *cursor <= last);
                    self.must(!decided, "a resume never goes back to what was decided", || {
                        format!("{name}: {cursor}")
                    });
                }
                self.jobs.insert(name.clone(), (**record).clone());
            }
            (answer, before) => {
                let version = before.map(|record| record.version);
                self.broken(
                    "a steer stands on the version it has seen",
                    format!("{name}: {answer:?}, seen {seen} of {version:?}"),
                );
            }
        }
    }
}
