//! Declarations and operator commands on jobs: checks what each may change.

use punctual::backend::policy::effective;
use punctual::backend::storage::{DeclareResult, JobCommandResult};
use punctual::jiff::Timestamp;
use punctual::model::{JobCommand, JobName, JobRecord, Retirement};

use super::Ledger;
use crate::reference::next_undecided;

impl Ledger {
    /// Applies a declaration and checks its result.
    pub(crate) fn declared(
        &mut self,
        record: &JobRecord,
        version: Option<u64>,
        now: Timestamp,
        answer: DeclareResult,
    ) {
        let name = record.job.name.clone();
        let Some(before) = self.jobs.get(&name).cloned() else {
            self.must(
                answer == DeclareResult::Created,
                "a declaration follows its contract",
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
        } else if version != Some(before.version) {
            DeclareResult::Raced
        } else {
            DeclareResult::Changed
        };
        self.must(answer == expected, "a declaration follows its contract", || {
            format!("{name}: {answer:?}, expected {expected:?}")
        });
        if expected == DeclareResult::Changed {
            self.check_redeclaration(&before, &after, now);
            self.jobs
                .insert(name, JobRecord { version: before.version + 1, updated_at: now, ..after });
            self.tally.declarations += 1;
        }
    }

    /// Checks that a changed declaration changes only what it may.
    fn check_redeclaration(&mut self, before: &JobRecord, after: &JobRecord, now: Timestamp) {
        let name = &before.job.name;
        self.must(after.release >= before.release, "an older release changes nothing", || {
            format!("{name}: {} after {}", after.release, before.release)
        });
        self.must(
            after.paused == before.paused && after.overrides == before.overrides,
            "a deploy keeps the operator's changes",
            || format!("{name}"),
        );
        let layers = |record: &JobRecord| {
            effective(&record.declared, record.configured.as_ref(), &record.overrides).schedule
        };
        let schedule_unchanged = layers(before) == layers(after);
        let over = after.job.schedule.runs_max().is_some_and(|most| after.runs >= most);
        let next = next_undecided(after, now).filter(|_| !over);
        let (cursor, retired) = match (after.retired, before.retired) {
            (Some(Retirement::Removed), _) => (None, after.retired),
            (_, None | Some(Retirement::Finished)) if schedule_unchanged => {
                (before.cursor, before.retired)
            }
            _ => (next, next.is_none().then_some(Retirement::Finished)),
        };
        self.must(
            (after.cursor, after.retired) == (cursor, retired),
            "the cursor moves only when the schedule changes",
            || {
                format!(
                    "{name}: {:?} {:?}, expected {cursor:?} {retired:?}",
                    after.cursor, after.retired
                )
            },
        );
    }

    /// Applies an operator command on a job and checks its result.
    pub(crate) fn job_commanded(
        &mut self,
        name: &JobName,
        command: &JobCommand,
        version: u64,
        answer: &JobCommandResult,
    ) {
        let before = self.jobs.get(name).cloned();
        match (answer, before) {
            (JobCommandResult::Unknown, None) => {}
            (JobCommandResult::Raced, Some(before)) if before.version != version => {}
            (JobCommandResult::Applied(record), Some(before)) if before.version == version => {
                self.tally.commands += 1;
                if let JobCommand::Resume { cursor: Some(cursor) } = command {
                    let decided = before.last_nominal.is_some_and(|last| *cursor <= last);
                    self.must(!decided, "a resume never goes back to decided occurrences", || {
                        format!("{name}: {cursor}")
                    });
                }
                self.jobs.insert(name.clone(), (**record).clone());
            }
            (answer, before) => {
                let stored = before.map(|record| record.version);
                self.record_violation(
                    "a command on a job requires the version it read",
                    format!("{name}: {answer:?}, expected version {version} of {stored:?}"),
                );
            }
        }
    }
}
