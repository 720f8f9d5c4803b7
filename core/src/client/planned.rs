//! Planned one-time jobs: lists those of all names, and lists, pauses, resumes and triggers those of a name or of a
//! name and a key. Each is a message, so every change is a command of the storage; running jobs are not affected.

use std::sync::Arc;

use super::PauseRequest;
use super::admin::BULK_MAX;
use crate::compression::decompressed;
use crate::engine::Process;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::inspect::{MessageFilter, PAGE_LIMIT_MAX, PageRequest, PageResult};
use crate::model::{JobName, Key, MessageId, MessageRecord, MessageState, Pause};
use crate::storage::{Command, CommandResult};

/// The pending and running one-time jobs of a name; see [`Jobs::planned`](super::Jobs::planned).
#[derive(Clone)]
#[must_use = "a selection of one-time jobs does nothing until they are listed or changed"]
pub struct PlannedJobs {
    process: Arc<Process>,
    name: String,
    key: Option<String>,
}

/// The result of a change of planned one-time jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlannedChange {
    /// The jobs that were changed.
    pub changed: Vec<MessageId>,
    /// Number of changed jobs that were paused before; a trigger runs paused jobs, too.
    pub were_paused: u64,
    /// Number of jobs that needed no change, or were already running.
    pub unchanged: u64,
    /// Whether more jobs match than one call changes; repeat the call for the rest.
    pub more: bool,
}

impl PlannedJobs {
    pub(super) fn new(process: Arc<Process>, name: String) -> Self {
        Self { process, name, key: None }
    }

    /// Narrows the selection to a key.
    pub fn key(mut self, key: impl AsRef<str>) -> Self {
        self.key = Some(key.as_ref().to_owned());
        self
    }

    /// Returns the pending and running jobs, newest first.
    pub async fn list(
        &self,
        page: PageRequest<MessageId>,
    ) -> Result<PageResult<MessageRecord, MessageId>> {
        list(&self.process, self.filter()?, page).await
    }

    /// Pauses the pending jobs until they are resumed, also across restarts. The replacement of a paused job is
    /// not paused.
    pub async fn pause(&self, request: PauseRequest) -> Result<PlannedChange> {
        let PauseRequest { by, reason, until } = request;
        if until.is_some() {
            return Err(Error::invalid(
                "the pause of a one-time job cannot end by itself; leave the end out, or reschedule the message",
            ));
        }
        let at = self.process.now();
        let pause = Pause { by, reason, at, until };
        self.change("pause", "paused", |id| Command::Pause { id, pause: pause.clone() }).await
    }

    /// Resumes the paused jobs at their own time, or now if it has passed.
    pub async fn resume(&self) -> Result<PlannedChange> {
        self.change("resume", "resumed", |id| Command::Resume { id, due_at: None }).await
    }

    /// Makes the pending jobs due now, also paused ones. Each runs once, only earlier.
    pub async fn trigger(&self) -> Result<PlannedChange> {
        let due_at = Some(self.process.now());
        self.change("trigger", "triggered", |id| Command::Resume { id, due_at }).await
    }

    fn filter(&self) -> Result<MessageFilter> {
        Ok(MessageFilter {
            job: Some(JobName::new(&self.name)?),
            key: self.key.as_ref().map(Key::new).transpose()?,
            ..all_names()
        })
    }

    async fn change(
        &self,
        command: &'static str,
        change: &'static str,
        to: impl Fn(MessageId) -> Command,
    ) -> Result<PlannedChange> {
        let (found, more) = self.matching().await?;
        if found.is_empty() {
            return Err(self.unknown());
        }
        let mut total = PlannedChange { more, ..PlannedChange::default() };
        for (id, was_paused) in found {
            let result = self.process.env.storage.command(to(id), self.process.now()).await?;
            if result != CommandResult::Applied(1) {
                total.unchanged += 1;
                continue;
            }
            if was_paused {
                total.were_paused += 1;
            }
            total.changed.push(id);
            self.process.env.events.emit(Event::MessageChanged { message: id, command });
        }
        if !total.changed.is_empty() {
            let job = JobName::new(&self.name)?;
            self.process.env.events.emit(Event::JobChanged { job, change });
        }
        Ok(total)
    }

    /// Returns the matching jobs, each with whether it is paused, and whether there are more.
    async fn matching(&self) -> Result<(Vec<(MessageId, bool)>, bool)> {
        let (filter, mut found, mut after) = (self.filter()?, Vec::new(), None);
        for _ in 0..BULK_MAX.div_ceil(PAGE_LIMIT_MAX) {
            let page = PageRequest { after, ..PageRequest::first(PAGE_LIMIT_MAX) };
            let paged = self.process.env.inspect.messages(filter.clone(), page).await?;
            let rows = paged.rows.iter();
            found.extend(rows.map(|record| (record.message.id, record.paused.is_some())));
            after = paged.next;
            if after.is_none() {
                return Ok((found, false));
            }
        }
        Ok((found, true))
    }

    fn unknown(&self) -> Error {
        let key = self.key.as_ref().map(|key| format!(" with the key {key:?}"));
        let key = key.unwrap_or_default();
        Error::not_found(format!("no one-time job {:?}{key} is planned", self.name))
    }
}

/// Returns the filter of the pending and running one-time jobs of all names.
pub(super) fn all_names() -> MessageFilter {
    MessageFilter {
        states: vec![MessageState::Pending, MessageState::Running],
        planned: true,
        ..MessageFilter::default()
    }
}

/// Returns a page of one-time jobs, with decompressed bodies.
pub(super) async fn list(
    process: &Process,
    filter: MessageFilter,
    page: PageRequest<MessageId>,
) -> Result<PageResult<MessageRecord, MessageId>> {
    let paged = process.env.inspect.messages(filter, page).await?;
    let payload_max = process.env.options.payload_max;
    let rows = paged.rows.into_iter().map(|row| decompressed(row, payload_max)).collect();
    Ok(PageResult { rows, ..paged })
}
