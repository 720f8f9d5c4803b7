//! Moving from one storage to another: jobs and messages that are not finished, as JSON lines. A file
//! begins with a line that says what it is and ends with one that counts what came between, so that a
//! part of an export is never taken for all of it.
//!
//! An import can be repeated: what is there already is left alone. Export a storage while nobody works
//! on it; what is stored meanwhile may be missing from the file.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::documents::{
    DOCUMENTS_MAX, DocumentStore, ExpectedVersion, KeyRange, NewDocument, PutResult,
};
use crate::error::{Error, Result};
use crate::inspect::{Inspect, JobFilter, MessageFilter, PAGE_LIMIT_MAX, PageRequest};
use crate::model::{JobRecord, MessageRecord, MessageState, Topic};
use crate::storage::{DeclareResult, EnqueueResult, Storage};

/// The form of the lines; a greater one is refused by who does not know it.
pub const FORMAT: u32 = 1;

/// How many messages are stored in one step.
const BATCH: usize = 500;

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Record {
    /// The first line.
    Punctual { format: u32, exported_at: Timestamp },
    /// A job, as it stood.
    Job(Box<JobRecord>),
    /// A message, as it stood.
    Message(Box<MessageRecord>),
    /// The last line: how much came before it.
    End(ExportSummary),
}

/// How much was exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportSummary {
    /// Jobs.
    pub jobs: u64,
    /// Messages: pending, running and dead.
    pub messages: u64,
}

/// How much was imported, and how much was there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportSummary {
    /// Jobs that are new here.
    pub jobs: u64,
    /// Jobs of which one of the same name was here, which stays as it is.
    pub jobs_known: u64,
    /// Messages that are new here.
    pub messages: u64,
    /// Messages that were here, or whose deduplication key is alive here.
    pub messages_known: u64,
}

/// How many documents were copied, and how many were there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DocumentCopySummary {
    /// Documents that are new in the target.
    pub copied: u64,
    /// Documents of which one of the same key was there, which stays as it is.
    pub known: u64,
}

/// Copies the documents of a kind from one storage to another, with the times at which they expire. Their versions
/// begin at 1 again.
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

/// Notes in one storage which groups receive which topics in another, so that a group that has not started there yet misses no
/// message. Returns how many were new.
pub async fn copy_groups(
    source: &dyn Storage,
    target: &dyn Storage,
    now: Timestamp,
) -> Result<u64> {
    let known: BTreeSet<(Topic, String)> = target.groups().await?.into_iter().collect();
    let mut copied = 0;
    for joined in source.groups().await?.into_iter().filter(|joined| !known.contains(joined)) {
        target.register_group(&joined.0, &joined.1, now).await?;
        copied += 1;
    }
    Ok(copied)
}

/// Writes every job, and every message that is not finished, one line each.
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

/// Reads lines into a storage.
///
/// Give every line to [`Importer::line`], then ask [`Importer::finish`] how it went. What came before a
/// line that cannot be read has been stored; the rest can be imported again from the beginning.
pub struct Importer<'a> {
    storage: &'a dyn Storage,
    now: Timestamp,
    waiting: Vec<MessageRecord>,
    read: ExportSummary,
    imported: ImportSummary,
    number: u64,
    place: Place,
    is_trusted: bool,
}

#[derive(PartialEq)]
enum Place {
    Before,
    Within,
    After,
}

impl<'a> Importer<'a> {
    /// An import into a storage.
    pub fn new(storage: &'a dyn Storage, now: Timestamp) -> Self {
        Self {
            storage,
            now,
            waiting: Vec::new(),
            read: ExportSummary::default(),
            imported: ImportSummary::default(),
            number: 0,
            place: Place::Before,
            is_trusted: false,
        }
    }

    /// Also takes in jobs and messages of Punctual's own topics, which run programs and call addresses with
    /// secrets. Only for an export whose writer is trusted.
    #[must_use]
    pub fn with_system_topics(self) -> Self {
        Self { is_trusted: true, ..self }
    }

    /// Takes the next line; empty ones are passed over.
    pub async fn line(&mut self, text: &str) -> Result<()> {
        self.number += 1;
        if text.trim().is_empty() {
            return Ok(());
        }
        let record: Record = serde_json::from_str(text)
            .map_err(|error| self.refuse(&format!("cannot be read: {error}")).caused_by(error))?;
        match (&self.place, record) {
            (Place::Before, Record::Punctual { format, .. }) if format <= FORMAT => {
                self.place = Place::Within;
                Ok(())
            }
            (Place::Before, Record::Punctual { format, .. }) => Err(self.refuse(&format!(
                "says format {format}, and this version reads up to {FORMAT}; use the version that made the export, or a newer one"
            ))),
            (Place::Before, _) => {
                Err(self.refuse("is not the beginning of an export made by `punctual export`"))
            }
            (Place::Within, Record::Job(job)) => {
                let what = format!("the job {:?}", job.job.name);
                let topics = [&job.job.topic, &job.declared.topic];
                self.check_topics(&what, topics)?;
                self.job(*job).await
            }
            (Place::Within, Record::Message(message)) => {
                let what = format!("the message {}", message.message.id);
                let follows = message.message.relations.iter().flat_map(|relations| relations.links());
                let follows = follows.map(|link| &link.topic);
                self.check_topics(&what, follows.chain([&message.message.topic]))?;
                self.message(*message).await
            }
            (Place::Within, Record::End(counts)) => {
                if counts != self.read {
                    return Err(self.refuse(&format!(
                        "says that {} jobs and {} messages came before it, but {} and {} did; the file is damaged",
                        counts.jobs, counts.messages, self.read.jobs, self.read.messages
                    )));
                }
                self.place = Place::After;
                self.store().await
            }
            (Place::Within, Record::Punctual { .. }) | (Place::After, _) => {
                Err(self.refuse("does not belong here; import one export at a time"))
            }
        }
    }

    /// Says how it went; an error when the last line did not come.
    pub async fn finish(mut self) -> Result<ImportSummary> {
        self.store().await?;
        if self.place != Place::After {
            return Err(Error::invalid(format!(
                "the export ends after {} lines without its last one, so a part of it is missing; what came was imported ({} jobs, {} messages), export again and import the whole",
                self.number, self.imported.jobs, self.imported.messages
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

    async fn message(&mut self, message: MessageRecord) -> Result<()> {
        self.read.messages += 1;
        self.waiting.push(message);
        if self.waiting.len() < BATCH { Ok(()) } else { self.store().await }
    }

    async fn store(&mut self) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let records = std::mem::take(&mut self.waiting);
        for answer in self.storage.import_messages(records, self.now).await? {
            match answer {
                EnqueueResult::Duplicate(_) => self.imported.messages_known += 1,
                EnqueueResult::Stored | EnqueueResult::Replaced(_) => self.imported.messages += 1,
            }
        }
        Ok(())
    }

    /// Refuses what only Punctual may make, unless the export is trusted.
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
        Error::invalid(format!("line {} {what}", self.number))
    }
}
