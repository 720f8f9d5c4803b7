//! Documents: one table for every kind. Reads run on the reader threads; writes are serialized, so a write
//! reads the stored version first and then writes.

use async_trait::async_trait;
use punctual::backend::documents::{
    Document, DocumentStore, ExpectedVersion, KeyRange, NewDocument, PutResult, RemoveResult,
};
use punctual::jiff::Timestamp;
use punctual::{Error, ErrorKind, Result, serde_json};
use punctual_columns::instant::{instant, micros, micros_up};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::effects::Effects;
use crate::error::StorageResult;
use crate::storage::SqliteStorage;

const VERSION: &str = "SELECT version FROM punctual_document WHERE kind = ?1 AND key = ?2 \
     AND (expires_at IS NULL OR expires_at > ?3)";
const WRITE: &str = "INSERT INTO punctual_document (kind, key, version, updated_at, expires_at, body) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (kind, key) DO UPDATE SET version = excluded.version, \
     updated_at = excluded.updated_at, expires_at = excluded.expires_at, body = excluded.body";
const GET: &str = "SELECT kind, key, version, updated_at, expires_at, body FROM punctual_document \
     WHERE kind = ?1 AND key = ?2 AND (expires_at IS NULL OR expires_at > ?3)";
pub(crate) const LIST: &str = "SELECT kind, key, version, updated_at, expires_at, body \
     FROM punctual_document WHERE kind = ?1 AND key >= ?2 AND key < ?3 \
     AND (expires_at IS NULL OR expires_at > ?4) ORDER BY key LIMIT ?5";
pub(crate) const LIST_BACK: &str = "SELECT kind, key, version, updated_at, expires_at, body \
     FROM punctual_document WHERE kind = ?1 AND key >= ?2 AND key < ?3 \
     AND (expires_at IS NULL OR expires_at > ?4) ORDER BY key DESC LIMIT ?5";
const REMOVE: &str = "DELETE FROM punctual_document WHERE kind = ?1 AND key = ?2";
pub(crate) const EXPIRE: &str = "DELETE FROM punctual_document WHERE rowid IN \
     (SELECT rowid FROM punctual_document WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)";

/// Returns the stored version; with `i64::MIN` for the time, also that of an expired document.
fn version(connection: &Connection, kind: &str, key: &str, now: i64) -> StorageResult<Option<u64>> {
    let mut statement = connection.prepare_cached(VERSION)?;
    let found: Option<i64> =
        statement.query_row(params![kind, key, now], |row| row.get(0)).optional()?;
    Ok(found.map(version_from_column))
}

fn version_from_column(version: i64) -> u64 {
    u64::try_from(version).unwrap_or_default()
}

fn put(
    transaction: &Connection,
    (draft, body): &(NewDocument, String),
    seen: ExpectedVersion,
    now: Timestamp,
) -> StorageResult<PutResult> {
    let NewDocument { kind, key, expires_at, .. } = draft;
    let put = seen.put(version(transaction, kind, key, micros(now))?);
    if let PutResult::Stored(version) = put {
        let version = i64::try_from(version).unwrap_or(i64::MAX);
        let row = params![kind, key, version, micros(now), expires_at.map(micros_up), body];
        transaction.prepare_cached(WRITE)?.execute(row)?;
    }
    Ok(put)
}

fn get(
    connection: &Connection,
    kind: &str,
    key: &str,
    now: Timestamp,
) -> StorageResult<Option<Document>> {
    let mut statement = connection.prepare_cached(GET)?;
    let row =
        statement.query_row(params![kind, key, micros(now)], |row| Ok(read(row))).optional()?;
    row.transpose()
}

fn list(
    connection: &Connection,
    kind: &str,
    range: &KeyRange,
    now: Timestamp,
) -> StorageResult<Vec<Document>> {
    let span = range.span()?;
    if span.is_empty() {
        return Ok(Vec::new());
    }
    let sql = if range.descending { LIST_BACK } else { LIST };
    let limit = i64::try_from(range.bounded()).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![kind, span.start, span.end, micros(now), limit])?;
    let mut documents = Vec::new();
    while let Some(row) = rows.next()? {
        documents.push(read(row)?);
    }
    Ok(documents)
}

fn read(row: &Row<'_>) -> StorageResult<Document> {
    let (kind, key): (String, String) = (row.get(0)?, row.get(1)?);
    let body = serde_json::from_str(row.get_ref(5)?.as_str()?);
    let body = body.map_err(|error| {
        let sentence = format!("the body of the document {kind:?} {key:?} is not JSON: {error}");
        Error::new(ErrorKind::Corrupt, sentence)
    })?;
    Ok(Document {
        kind,
        key,
        version: version_from_column(row.get(2)?),
        body,
        updated_at: instant(row.get(3)?)?,
        expires_at: row.get::<_, Option<i64>>(4)?.map(instant).transpose()?,
    })
}

fn remove(
    transaction: &Connection,
    kind: &str,
    key: &str,
    seen: ExpectedVersion,
) -> StorageResult<RemoveResult> {
    let removed = seen.remove(version(transaction, kind, key, i64::MIN)?);
    if removed == RemoveResult::Removed {
        transaction.prepare_cached(REMOVE)?.execute(params![kind, key])?;
    }
    Ok(removed)
}

fn expire(transaction: &Connection, limit: usize, now: Timestamp) -> StorageResult<u64> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    Ok(transaction.prepare_cached(EXPIRE)?.execute(params![micros(now), limit])? as u64)
}

#[async_trait]
impl DocumentStore for SqliteStorage {
    async fn put(
        &self,
        draft: NewDocument,
        seen: ExpectedVersion,
        now: Timestamp,
    ) -> Result<PutResult> {
        let body = Document::check(&draft)?;
        let checked = (draft, body);
        self.writer.write(1, move |tx, _| put(tx, &checked, seen, now)).await
    }

    async fn put_all(&self, drafts: Vec<NewDocument>, now: Timestamp) -> Result<()> {
        let checked = NewDocument::check_all(drafts)?;
        let rows = checked.len();
        let write = move |tx: &Connection, _: &mut Effects| {
            for one in &checked {
                let _ = put(tx, one, ExpectedVersion::Any, now)?;
            }
            Ok(())
        };
        self.writer.write(rows, write).await
    }

    async fn get(&self, kind: &str, key: &str, now: Timestamp) -> Result<Option<Document>> {
        Document::check_names(kind, key)?;
        let (kind, key) = (kind.to_owned(), key.to_owned());
        self.readers.read(move |connection| get(connection, &kind, &key, now)).await
    }

    async fn list(&self, kind: &str, range: KeyRange, now: Timestamp) -> Result<Vec<Document>> {
        Document::check_kind(kind)?;
        let kind = kind.to_owned();
        self.readers.read(move |connection| list(connection, &kind, &range, now)).await
    }

    async fn remove(&self, kind: &str, key: &str, seen: ExpectedVersion) -> Result<RemoveResult> {
        Document::check_names(kind, key)?;
        let (kind, key) = (kind.to_owned(), key.to_owned());
        self.writer.write(1, move |tx, _| remove(tx, &kind, &key, seen)).await
    }

    async fn expire(&self, limit: usize, now: Timestamp) -> Result<u64> {
        self.writer.write(limit, move |tx, _| expire(tx, limit, now)).await
    }
}
