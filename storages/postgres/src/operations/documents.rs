//! Documents: one table for every kind. The statement that writes compares the expected version, so one of many
//! concurrent writers succeeds; the others read the stored version afterwards.

use async_trait::async_trait;
use punctual::backend::documents::{
    Document, DocumentStore, ExpectedVersion, KeyRange, NewDocument, PutResult, RemoveResult,
};
use punctual::jiff::Timestamp;
use punctual::{Error, ErrorKind, Result};
use punctual_columns::instant::{instant, micros, micros_up};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::PostgresStorage;
use crate::error::StorageError;
use crate::inner::{Inner, attempt};
use crate::session::Session;
use crate::value::{Micros, Param};

impl Inner {
    async fn put_document(
        &self,
        session: &Session<'_>,
        (draft, body): &(NewDocument, String),
        seen: ExpectedVersion,
        now: Timestamp,
    ) -> Result<PutResult, StorageError> {
        let NewDocument { kind, key, .. } = draft;
        let (expires_at, now) = (draft.expires_at.map(expiry), Micros(micros(now)));
        let version = match seen {
            ExpectedVersion::Version(version) => version_column(version),
            ExpectedVersion::Any | ExpectedVersion::New => 0,
        };
        let params: [Param<'_>; 6] = [
            (kind, Type::TEXT),
            (key, Type::TEXT),
            (body, Type::TEXT),
            (&expires_at, Type::TIMESTAMPTZ),
            (&now, Type::TIMESTAMPTZ),
            (&version, Type::INT8),
        ];
        let rows = match seen {
            ExpectedVersion::Any => {
                return Ok(PutResult::Stored(
                    self.put_documents(session, &[(draft, body)], now).await?.unwrap_or_default(),
                ));
            }
            ExpectedVersion::New => session.query(&self.sql.document_put_new, &params[..5]).await?,
            ExpectedVersion::Version(_) => {
                session.query(&self.sql.document_put_version, &params).await?
            }
        };
        if let Some(row) = rows.first() {
            return Ok(PutResult::Stored(version_of(row)?));
        }
        let put = seen.put(self.document_version(session, (kind, key), Some(now)).await?);
        // The document that prevented the write has expired by now.
        if matches!(put, PutResult::Stored(_)) { Err(StorageError::Raced) } else { Ok(put) }
    }

    /// Writes documents in the order of their keys, so that two such calls cannot deadlock. Returns the version
    /// of the first.
    async fn put_documents(
        &self,
        session: &Session<'_>,
        drafts: &[(&NewDocument, &String)],
        now: Micros,
    ) -> Result<Option<u64>, StorageError> {
        let kinds: Vec<&str> = drafts.iter().map(|(draft, _)| &*draft.kind).collect();
        let keys: Vec<&str> = drafts.iter().map(|(draft, _)| &*draft.key).collect();
        let bodies: Vec<&str> = drafts.iter().map(|(_, body)| body.as_str()).collect();
        let expire: Vec<Option<Micros>> =
            drafts.iter().map(|(draft, _)| draft.expires_at.map(expiry)).collect();
        let params: [Param<'_>; 5] = [
            (&kinds, Type::TEXT_ARRAY),
            (&keys, Type::TEXT_ARRAY),
            (&bodies, Type::TEXT_ARRAY),
            (&expire, Type::TIMESTAMPTZ_ARRAY),
            (&now, Type::TIMESTAMPTZ),
        ];
        let rows = session.query(&self.sql.document_put, &params).await?;
        rows.first().map(version_of).transpose()
    }

    /// Returns the stored version; without a time, also that of an expired document.
    async fn document_version(
        &self,
        session: &Session<'_>,
        (kind, key): (&str, &str),
        now: Option<Micros>,
    ) -> Result<Option<u64>, StorageError> {
        let params: [Param<'_>; 3] =
            [(&kind, Type::TEXT), (&key, Type::TEXT), (&now, Type::TIMESTAMPTZ)];
        let rows = session.query(&self.sql.document_version, &params).await?;
        rows.first().map(version_of).transpose()
    }

    async fn remove_document(
        &self,
        session: &Session<'_>,
        (kind, key): (&str, &str),
        seen: ExpectedVersion,
    ) -> Result<RemoveResult, StorageError> {
        let version = match seen {
            ExpectedVersion::Any => None,
            ExpectedVersion::New => Some(0),
            ExpectedVersion::Version(version) => Some(version_column(version)),
        };
        let params: [Param<'_>; 3] =
            [(&kind, Type::TEXT), (&key, Type::TEXT), (&version, Type::INT8)];
        if session.execute(&self.sql.document_remove, &params).await? == 1 {
            return Ok(RemoveResult::Removed);
        }
        match seen.remove(self.document_version(session, (kind, key), None).await?) {
            // The document was written after the statement.
            RemoveResult::Removed => Err(StorageError::Raced),
            removed => Ok(removed),
        }
    }
}

#[async_trait]
impl DocumentStore for PostgresStorage {
    async fn put(
        &self,
        draft: NewDocument,
        seen: ExpectedVersion,
        now: Timestamp,
    ) -> Result<PutResult> {
        let body = Document::check(&draft)?;
        let checked = (draft, body);
        attempt!(self.inner, |session| self.inner.put_document(session, &checked, seen, now))
    }

    async fn put_all(&self, drafts: Vec<NewDocument>, now: Timestamp) -> Result<()> {
        let checked = NewDocument::check_all(drafts)?;
        if checked.is_empty() {
            return Ok(());
        }
        let drafts: Vec<_> = checked.iter().map(|(draft, body)| (draft, body)).collect();
        let now = Micros(micros(now));
        attempt!(self.inner, |session| self.inner.put_documents(session, &drafts, now)).map(|_| ())
    }

    async fn get(&self, kind: &str, key: &str, now: Timestamp) -> Result<Option<Document>> {
        Document::check_names(kind, key)?;
        let now = Micros(micros(now));
        attempt!(self.inner, |session| async {
            let params: [Param<'_>; 3] =
                [(&kind, Type::TEXT), (&key, Type::TEXT), (&now, Type::TIMESTAMPTZ)];
            let rows = session.query(&self.inner.sql.document_get, &params).await?;
            rows.first().map(read).transpose()
        })
    }

    async fn list(&self, kind: &str, range: KeyRange, now: Timestamp) -> Result<Vec<Document>> {
        Document::check_kind(kind)?;
        let span = range.span()?;
        if span.is_empty() {
            return Ok(Vec::new());
        }
        let now = Micros(micros(now));
        let limit = i64::try_from(range.bounded()).unwrap_or(i64::MAX);
        let sql = &self.inner.sql;
        let sql = if range.descending { &sql.document_list_back } else { &sql.document_list };
        attempt!(self.inner, |session| async {
            let params: [Param<'_>; 5] = [
                (&kind, Type::TEXT),
                (&span.start, Type::TEXT),
                (&span.end, Type::TEXT),
                (&now, Type::TIMESTAMPTZ),
                (&limit, Type::INT8),
            ];
            session.query(sql, &params).await?.iter().map(read).collect()
        })
    }

    async fn remove(&self, kind: &str, key: &str, seen: ExpectedVersion) -> Result<RemoveResult> {
        Document::check_names(kind, key)?;
        attempt!(self.inner, |session| self.inner.remove_document(session, (kind, key), seen))
    }

    async fn expire(&self, limit: usize, now: Timestamp) -> Result<u64> {
        let (now, limit) = (Micros(micros(now)), i64::try_from(limit).unwrap_or(i64::MAX));
        attempt!(self.inner, |session| async {
            let params: [Param<'_>; 2] = [(&now, Type::TIMESTAMPTZ), (&limit, Type::INT8)];
            session.execute(&self.inner.sql.document_expire, &params).await
        })
    }
}

fn expiry(instant: Timestamp) -> Micros {
    Micros(micros_up(instant))
}

/// Converts a version for its column; a version that is too large for it matches no document.
fn version_column(version: u64) -> i64 {
    i64::try_from(version).unwrap_or(0)
}

fn version_of(row: &Row) -> Result<u64, StorageError> {
    version(row.try_get("version")?)
}

fn version(column: i64) -> Result<u64, StorageError> {
    u64::try_from(column).map_err(|_| {
        let sentence = format!("the stored version {column} of a document is negative");
        Error::new(ErrorKind::Corrupt, sentence).into()
    })
}

fn read(row: &Row) -> Result<Document, StorageError> {
    let (kind, key): (String, String) = (row.try_get(0)?, row.try_get(1)?);
    let body = serde_json::from_str(row.try_get(5)?).map_err(|error| {
        let sentence = format!("the body of the document {kind:?} {key:?} is not JSON: {error}");
        Error::new(ErrorKind::Corrupt, sentence)
    })?;
    let expires_at: Option<Micros> = row.try_get(4)?;
    Ok(Document {
        kind,
        key,
        version: version_of(row)?,
        body,
        updated_at: instant(row.try_get::<_, Micros>(3)?.0)?,
        expires_at: expires_at.map(|at| instant(at.0)).transpose()?,
    })
}
