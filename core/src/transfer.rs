//! Transfer between storages: export and import of jobs and unfinished messages as JSON lines. The first line
//! names the format and the last line counts the lines between, so that a truncated export is detected.
//!
//! An import can be repeated: it does not change existing jobs and messages. Export a storage while no process
//! writes to it; rows that are written during the export may be missing.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::documents::{
    DOCUMENTS_MAX, DocumentStore, ExpectedVersion, KeyRange, NewDocument, PutResult,
};
use crate::error::{Error, Result};
use crate::inspect::{Inspect, JobFilter, MessageFilter, PAGE_LIMIT_MAX, PageRequest};
use crate::model::{JobRecord, MessageRecord, MessageState, Topic};
use crate::storage::{DeclareResult, EnqueueResult, Storage};

/// Version of the format; an import refuses a greater one.
const FORMAT: u32 = 1;

/// Number of messages that are stored in one step.
const BATCH: usize = 500;

/// A line of an export.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Record {
    /// The first line.
    Punctual { format: u32, exported_at: Timestamp },
    /// A job.
    Job(Box<JobRecord>),
    /// A message.
    Message(Box<MessageRecord>),
    /// The last line, which counts the lines before it.
    End(ExportSummary),
}

/// Numbers of exported records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportSummary {
    /// Number of jobs.
    pub jobs: u64,
    /// Number of pending, running and dead messages.
    pub messages: u64,
}

/// Numbers of imported records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportSummary {
    /// Number of imported jobs.
    pub jobs: u64,
    /// Number of jobs whose name existed; the existing job was not changed.
    pub jobs_known: u64,
    /// Number of imported messages.
    pub messages: u64,
    /// Number of messages that existed, or whose deduplication key was alive.
    pub messages_known: u64,
}

/// Numbers of copied documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DocumentCopySummary {
    /// Number of documents that were copied.
    pub copied: u64,
    /// Number of documents whose key existed in the target; the existing document was not changed.
    pub known: u64,
}

/// Copies the documents of a kind from one storage to another, with their expiry. Versions begin at 1 again.
pub async fn copy_documents(
    source: &dyn DocumentStore,
    target: &dyn DocumentStore,
    kind: &str,
    now: Timestamp,
) -> Result<DocumentCopySummary> {
    let mut copied = DocumentCopySummary::default();
    let mut range = KeyRange::default();
    loop {
        let documents = source.list(kind, range.clone(), now).await?;
        let is_last_page = documents.len() < DOCUMENTS_MAX;
        range.after = documents.last().map(|document| document.key.clone());
        for document in documents {
            let draft = NewDocument {
                kind: document.kind,
                key: document.key,
                body: document.body,
                expires_at: document.expires_at,
            };
            match target.put(draft, ExpectedVersion::New, now).await? {
                PutResult::Stored(_) => copied.copied += 1,
                PutResult::Raced(_) => copied.known += 1,
            }
        }
        if is_last_page {
            return Ok(copied);
        }
    }
}

/// Copies the registered groups of one storage to another, so that a group that has not started there yet
/// misses no message. Returns the number of new groups.
pub async fn copy_groups(
    source: &dyn Storage,
    target: &dyn Storage,
    now: Timestamp,
) -> Result<u64> {
    let known: BTreeSet<(Topic, String)> = target.groups().await?.into_iter().collect();
    let mut copied = 0;
    for pair in source.groups().await?.into_iter().filter(|pair| !known.contains(pair)) {
        target.register_group(&pair.0, &pair.1, now).await?;
        copied += 1;
    }
    Ok(copied)
}

/// Writes every job and every unfinished message, one line each.
pub async fn export(
    inspect: &dyn Inspect,
    now: Timestamp,
    mut write: impl AsyncFnMut(String) -> Result<()>,
) -> Result<ExportSummary> {
    write(line(&Record::Punctual { format: FORMAT, exported_at: now })?).await?;
    let mut exported = ExportSummary::default();
    for job in inspect.jobs(JobFilter::default()).await? {
        write(line(&Record::Job(Box::new(job)))?).await?;
        exported.jobs += 1;
    }
    let states = vec![MessageState::Pending, MessageState::Running, MessageState::Dead];
    let filter = MessageFilter { states, ..MessageFilter::default() };
    let mut page = PageRequest::first(PAGE_LIMIT_MAX);
    loop {
        let messages = inspect.messages(filter.clone(), page).await?;
        for message in messages.rows {
            write(line(&Record::Message(Box::new(message)))?).await?;
            exported.messages += 1;
        }
        match messages.next {
            Some(last) => page = PageRequest::after(last, PAGE_LIMIT_MAX),
            None => break,
        }
    }
    write(line(&Record::End(exported))?).await?;
    Ok(exported)
}

fn line(record: &Record) -> Result<String> {
    serde_json::to_string(record)
        .map_err(|error| Error::internal("a record cannot be written as JSON").caused_by(error))
}

/// Imports the lines of an export into a storage.
///
/// Pass every line to [`Importer::line`], then call [`Importer::finish`]. The lines before an unreadable one
/// are stored; the import can be repeated from the beginning.
pub struct Importer<'a> {
    storage: &'a dyn Storage,
    now: Timestamp,
    buffer: Vec<MessageRecord>,
    read: ExportSummary,
    imported: ImportSummary,
    line_number: u64,
    position: Position,
    is_trusted: bool,
}

/// Position within an export.
#[derive(PartialEq)]
enum Position {
    BeforeHeader,
    Records,
    AfterEnd,
}

impl<'a> Importer<'a> {
    /// Creates an import into a storage.
    pub fn new(storage: &'a dyn Storage, now: Timestamp) -> Self {
        Self {
            storage,
            now,
            buffer: Vec::new(),
            read: ExportSummary::default(),
            imported: ImportSummary::default(),
            line_number: 0,
            position: Position::BeforeHeader,
            is_trusted: false,
        }
    }

    /// Also imports jobs and messages of Punctual's own topics, which run programs and send secrets to
    /// addresses. Only for an export from a trusted source.
    #[must_use]
    pub fn with_system_topics(self) -> Self {
        Self { is_trusted: true, ..self }
    }

    /// Imports the next line; ignores an empty one.
    pub async fn line(&mut self, text: &str) -> Result<()> {
        self.line_number += 1;
        if text.trim().is_empty() {
            return Ok(());
        }
        let record: Record = serde_json::from_str(text)
            .map_err(|error| self.refuse(&format!("cannot be read: {error}")).caused_by(error))?;
        match (&self.position, record) {
            (Position::BeforeHeader, Record::Punctual { format, .. }) if format <= FORMAT => {
                self.position = Position::Records;
                Ok(())
            }
            (Position::BeforeHeader, Record::Punctual { format, .. }) => Err(self.refuse(&format!(
                "has format {format}, and this version reads up to {FORMAT}; use the version that made the export, or a newer one"
            ))),
            (Position::BeforeHeader, _) => {
                Err(self.refuse("is not the beginning of an export made by `punctual export`"))
            }
            (Position::Records, Record::Job(job)) => {
                let what = format!("the job {:?}", job.job.name);
                let topics = [&job.job.topic, &job.declared.topic];
                self.check_topics(&what, topics)?;
                self.job(*job).await
            }
            (Position::Records, Record::Message(message)) => {
                let what = format!("the message {}", message.message.id);
                let follows = message.message.relations.iter().flat_map(|relations| relations.links());
                let follows = follows.map(|link| &link.topic);
                self.check_topics(&what, follows.chain([&message.message.topic]))?;
                self.message(*message).await
            }
            (Position::Records, Record::End(counts)) => {
                if counts != self.read {
                    return Err(self.refuse(&format!(
                        "counts {} jobs and {} messages before it, but there were {} and {}; the file is damaged",
                        counts.jobs, counts.messages, self.read.jobs, self.read.messages
                    )));
                }
                self.position = Position::AfterEnd;
                self.store().await
            }
            (Position::Records, Record::Punctual { .. }) | (Position::AfterEnd, _) => {
                Err(self.refuse("does not belong to this export; import one export at a time"))
            }
        }
    }

    /// Finishes the import and returns its numbers; fails when the last line is missing.
    pub async fn finish(mut self) -> Result<ImportSummary> {
        self.store().await?;
        if self.position != Position::AfterEnd {
            return Err(Error::invalid(format!(
                "the export ends after {} lines without its last line, so a part of it is missing; imported so far: {} jobs, {} messages; export again and import the whole file",
                self.line_number, self.imported.jobs, self.imported.messages
            )));
        }
        Ok(self.imported)
    }

    async fn job(&mut self, job: JobRecord) -> Result<()> {
        self.read.jobs += 1;
        match self.storage.declare(job, None, self.now).await? {
            DeclareResult::Created | DeclareResult::Changed => self.imported.jobs += 1,
            DeclareResult::Unchanged | DeclareResult::Raced => self.imported.jobs_known += 1,
        }
        Ok(())
    }

    async fn message(&mut self, mut record: MessageRecord) -> Result<()> {
        self.read.messages += 1;
        Arc::make_mut(&mut record.message).restore_route();
        self.buffer.push(record);
        if self.buffer.len() < BATCH { Ok(()) } else { self.store().await }
    }

    async fn store(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let records = std::mem::take(&mut self.buffer);
        for result in self.storage.import_messages(records, self.now).await? {
            match result {
                EnqueueResult::Duplicate(_) => self.imported.messages_known += 1,
                EnqueueResult::Stored | EnqueueResult::Replaced(_) => self.imported.messages += 1,
            }
        }
        Ok(())
    }

    /// Refuses topics that only Punctual may use, unless the export is trusted.
    fn check_topics<'t>(
        &self,
        what: &str,
        topics: impl IntoIterator<Item = &'t Topic>,
    ) -> Result<()> {
        match topics.into_iter().find(|topic| topic.is_system() && !self.is_trusted) {
            None => Ok(()),
            Some(topic) => Err(self.refuse(&format!(
                "has {what} of the topic {topic:?}, which can run programs and use secrets; import a file that you trust with `punctual import --with-targets`"
            ))),
        }
    }

    fn refuse(&self, what: &str) -> Error {
        Error::invalid(format!("line {} {what}", self.line_number))
    }
}
