//! Planned one-time jobs: those of every name listed, and those of a name, or of a name and a key, listed and steered
//! while they wait. Each is a message, so every change is a command that the storage answers; running ones are left
//! alone.

use std::sync::Arc;

use super::PauseRequest;
use super::admin::SWEEP_MAX;
use crate::compression::opened;
use crate::engine::Process;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::inspect::{MessageFilter, PAGE_LIMIT_MAX, PageRequest, PageResult};
use crate::model::{JobName, Key, MessageId, MessageRecord, MessageState, Pause};
use crate::storage::{Command, CommandResult};

/// The one-time jobs of a name that wait or run; see [`Jobs::planned`](super::Jobs::planned).
#[derive(Clone)]
#[must_use = "it only says which one-time jobs; list or steer them"]
pub struct PlannedJobs {
    process: Arc<Process>,
    name: String,
    key: Option<String>,
}

/// What a change of planned one-time jobs came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlannedChange {
    /// Those that were changed.
    pub changed: Vec<MessageId>,
    /// How many of them were paused before. A trigger runs these too, and this is how it says so.
    pub were_paused: u64,
    /// How many needed no change, or were running by then.
    pub unchanged: u64,
    /// Whether more match than one call changes; repeat it for the rest.
    pub more: bool,
}

impl PlannedJobs {
    pub(super) fn new(process: Arc<Process>, name: String) -> Self {
        Self { process, name, key: None }
    }

    /// Narrows it to those about a key.
    pub fn key(mut self, key: impl AsRef<str>) -> Self {
        self.key = Some(key.as_ref().to_owned());
        self
    }

    /// Returns those that wait or run, newest first.
    pub async fn list(
        &self,
        page: PageRequest<MessageId>,
    ) -> Result<PageResult<MessageRecord, MessageId>> {
        list(&self.process, self.filter()?, page).await
    }

    /// Holds those that wait back until they are resumed, also over restarts. A replacement of one that is
    /// paused is a new one and not paused.
    pub async fn pause(&self, request: PauseRequest) -> Result<PlannedChange> {
        let PauseRequest { by, reason, until } = request;
        if until.is_some() {
            return Err(Error::invalid(
                "the pause of a one-time job has no end; leave it out, or reschedule the message",
            ));
        }
        let at = self.process.now();
        let pause = Pause { by, reason, at, until };
        self.change("pause", "paused", |id| Command::Pause { id, pause: pause.clone() }).await
    }

    /// Lets those that are paused run at their own time, or now if it has passed.
    pub async fn resume(&self) -> Result<PlannedChange> {
        self.change("resume", "resumed", |id| Command::Resume { id, due_at: None }).await
    }

    /// Makes those that wait due now, also paused ones. Each runs once, as planned, only earlier.
    pub async fn trigger(&self) -> Result<PlannedChange> {
        let due_at = Some(self.process.now());
        self.change("trigger", "triggered", |id| Command::Resume { id, due_at }).await
    }

    fn filter(&self) -> Result<MessageFilter> {
        Ok(MessageFilter {
            job: Some(JobName::new(&self.name)?),
            key: self.key.as_ref().map(Key::new).transpose()?,
            ..of_every_name()
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
        let mut done = PlannedChange { more, ..PlannedChange::default() };
        for (id, was_paused) in found {
            let answer = self.process.storage.command(to(id), self.process.now()).await?;
            if answer != CommandResult::Applied(1) {
                done.unchanged += 1;
                continue;
            }
            if was_paused {
                done.were_paused += 1;
            }
            done.changed.push(id);
            self.process.events.emit(Event::MessageCommanded { message: id, command });
        }
        if !done.changed.is_empty() {
            let job = JobName::new(&self.name)?;
            self.process.events.emit(Event::JobSteered { job, change });
        }
        Ok(done)
    }

    /// Those that match, each with whether it is paused; and whether there are more.
    async fn matching(&self) -> Result<(Vec<(MessageId, bool)>, bool)> {
        let (filter, mut found, mut after) = (self.filter()?, Vec::new(), None);
        for _ in 0..SWEEP_MAX.div_ceil(PAGE_LIMIT_MAX) {
            let page = PageRequest { after, ..PageRequest::first(PAGE_LIMIT_MAX) };
            let paged = self.process.inspect.messages(filter.clone(), page).await?;
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
        let about = self.key.as_ref().map(|key| format!(" about {key:?}")).unwrap_or_default();
        Error::not_found(format!("no one-time job {:?}{about} is planned", self.name))
    }
}

/// Those of every name that wait or run.
pub(super) fn of_every_name() -> MessageFilter {
    MessageFilter {
        states: vec![MessageState::Pending, MessageState::Running],
        planned: true,
        ..MessageFilter::default()
    }
}

/// A page of them, with bodies that can be read.
pub(super) async fn list(
    process: &Process,
    filter: MessageFilter,
    page: PageRequest<MessageId>,
) -> Result<PageResult<MessageRecord, MessageId>> {
    let paged = process.inspect.messages(filter, page).await?;
    let payload_max = process.options.payload_max;
    let rows = paged.rows.into_iter().map(|row| opened(row, payload_max)).collect();
    Ok(PageResult { rows, ..paged })
}
