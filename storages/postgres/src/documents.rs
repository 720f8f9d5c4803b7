//! Documents: one table for every kind. What was seen is compared by the statement that writes, so of
//! many writers one is right; the others look afterwards what is there.

use async_trait::async_trait;
use punctual::documents::{Document, Documents, Draft, KeyRange, Put, Removed, Seen};
use punctual::jiff::Timestamp;
use punctual::{Error, ErrorKind, Result};
use punctual_rows::instant::{instant, micros, micros_up};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::PostgresStorage;
use crate::failure::Failure;
use crate::inner::{Inner, attempt};
use crate::session::Session;
use crate::value::{Micros, Param};

impl Inner {
    async fn put_document(
        &self,
        held: &Session<'_>,
        (draft, body): &(Draft, String),
        seen: Seen,
        now: Timestamp,
    ) -> Result<Put, Failure> {
        let Draft { kind, key, .. } = draft;
        let (expires_at, now) = (draft.expires_at.map(expiry), Micros(micros(now)));
        let version = match seen {
            Seen::Version(version) => written(version),
            Seen::Any | Seen::New => 0,
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
            Seen::Any => {
                return Ok(Put::Stored(
                    self.put_documents(held, &[(draft, body)], now).await?.unwrap_or_default(),
                ));
            }
            Seen::New => held.query(&self.sql.document_put_new, &params[..5]).await?,
            Seen::Version(_) => held.query(&self.sql.document_put_seen, &params).await?,
        };
        if let Some(row) = rows.first() {
            return Ok(Put::Stored(counted(row)?));
        }
        let put = seen.put(self.document_version(held, (kind, key), Some(now)).await?);
        // What stood in the way is gone by now.
        if matches!(put, Put::Stored(_)) { Err(Failure::Raced) } else { Ok(put) }
    }

    /// Writes documents in the order of their keys, so that two such calls wait for each other instead
    /// of both. Answers the version of the first.
    async fn put_documents(
        &self,
        held: &Session<'_>,
        drafts: &[(&Draft, &String)],
        now: Micros,
    ) -> Result<Option<u64>, Failure> {
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
        let rows = held.query(&self.sql.document_put, &params).await?;
        rows.first().map(counted).transpose()
    }

    /// The version that is there; without a time, also of what has expired.
    async fn document_version(
        &self,
        held: &Session<'_>,
        (kind, key): (&str, &str),
        now: Option<Micros>,
    ) -> Result<Option<u64>, Failure> {
        let params: [Param<'_>; 3] =
            [(&kind, Type::TEXT), (&key, Type::TEXT), (&now, Type::TIMESTAMPTZ)];
        let rows = held.query(&self.sql.document_version, &params).await?;
        rows.first().map(counted).transpose()
    }

    async fn remove_document(
        &self,
        held: &Session<'_>,
        (kind, key): (&str, &str),
        seen: Seen,
    ) -> Result<Removed, Failure> {
        let version = match seen {
            Seen::Any => None,
            Seen::New => Some(0),
            Seen::Version(version) => Some(written(version)),
        };
        let params: [Param<'_>; 3] =
            [(&kind, Type::TEXT), (&key, Type::TEXT), (&version, Type::INT8)];
        if held.execute(&self.sql.document_remove, &params).await? == 1 {
            return Ok(Removed::Removed);
        }
        match seen.remove(self.document_version(held, (kind, key), None).await?) {
            // It came after we looked.
            Removed::Removed => Err(Failure::Raced),
            removed => Ok(removed),
        }
    }
}

#[async_trait]
impl Documents for PostgresStorage {
    async fn put(&self, draft: Draft, seen: Seen, now: Timestamp) -> Result<Put> {
        let body = Document::check(&draft)?;
        let checked = (draft, body);
        attempt!(self.inner, |held| self.inner.put_document(held, &checked, seen, now))
    }

    async fn put_all(&self, drafts: Vec<Draft>, now: Timestamp) -> Result<()> {
        let checked = Draft::check_all(drafts)?;
        if checked.is_empty() {
            return Ok(());
        }
        let drafts: Vec<_> = checked.iter().map(|(draft, body)| (draft, body)).collect();
        let now = Micros(micros(now));
        attempt!(self.inner, |held| self.inner.put_documents(held, &drafts, now)).map(|_| ())
    }

    async fn get(&self, kind: &str, key: &str, now: Timestamp) -> Result<Option<Document>> {
        Document::check_names(kind, key)?;
        let now = Micros(micros(now));
        attempt!(self.inner, |held| async {
            let params: [Param<'_>; 3] =
                [(&kind, Type::TEXT), (&key, Type::TEXT), (&now, Type::TIMESTAMPTZ)];
            let rows = held.query(&self.inner.sql.document_get, &params).await?;
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
        attempt!(self.inner, |held| async {
            let params: [Param<'_>; 5] = [
                (&kind, Type::TEXT),
                (&span.start, Type::TEXT),
                (&span.end, Type::TEXT),
                (&now, Type::TIMESTAMPTZ),
                (&limit, Type::INT8),
            ];
            held.query(sql, &params).await?.iter().map(read).collect()
        })
    }

    async fn remove(&self, kind: &str, key: &str, seen: Seen) -> Result<Removed> {
        Document::check_names(kind, key)?;
        attempt!(self.inner, |held| self.inner.remove_document(held, (kind, key), seen))
    }

    async fn expire(&self, limit: usize, now: Timestamp) -> Result<u64> {
        let (now, limit) = (Micros(micros(now)), i64::try_from(limit).unwrap_or(i64::MAX));
        attempt!(self.inner, |held| async {
            let params: [Param<'_>; 2] = [(&now, Type::TIMESTAMPTZ), (&limit, Type::INT8)];
            held.execute(&self.inner.sql.document_expire, &params).await
        })
    }
}

fn expiry(instant: Timestamp) -> Micros {
    Micros(micros_up(instant))
}

/// A version as the column holds it; one that is too large for it is nobody's.
fn written(version: u64) -> i64 {
    i64::try_from(version).unwrap_or(0)
}

fn counted(row: &Row) -> Result<u64, Failure> {
    version(row.try_get("version")?)
}

fn version(column: i64) -> Result<u64, Failure> {
    u64::try_from(column).map_err(|_| {
        let sentence = format!("a document has the version {column}, which is none");
        Error::new(ErrorKind::Corrupt, sentence).into()
    })
}

fn read(row: &Row) -> Result<Document, Failure> {
    let (kind, key): (String, String) = (row.try_get(0)?, row.try_get(1)?);
    let body = serde_json::from_str(row.try_get(5)?).map_err(|error| {
        let sentence = format!("the body of the document {kind:?} {key:?} is no JSON: {error}");
        Error::new(ErrorKind::Corrupt, sentence)
    })?;
    let expires_at: Option<Micros> = row.try_get(4)?;
    Ok(Document {
        kind,
        key,
        version: counted(row)?,
        body,
        updated_at: instant(row.try_get::<_, Micros>(3)?.0)?,
        expires_at: expires_at.map(|at| instant(at.0)).transpose()?,
    })
}
