//! Typed document store: documents of one kind as values of one type, read and written as a whole.

use std::marker::PhantomData;
use std::sync::Arc;

use jiff::Timestamp;
use punctual::backend::documents::{
    Document, DocumentStore, ExpectedVersion, KeyRange, NewDocument, PutResult, RemoveResult,
};
use punctual::{Clock, Error, ErrorKind, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// All documents of one kind.
#[derive(Clone)]
pub(crate) struct TypedStore<T> {
    documents: Arc<dyn DocumentStore>,
    clock: Arc<dyn Clock>,
    kind: &'static str,
    value: PhantomData<fn() -> T>,
}

impl<T: Serialize + DeserializeOwned> TypedStore<T> {
    pub(crate) fn new(
        kind: &'static str,
        documents: Arc<dyn DocumentStore>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { documents, clock, kind, value: PhantomData }
    }

    /// Returns the value of a key and its version.
    pub(crate) async fn get(&self, key: &str) -> Result<Option<(T, u64)>> {
        let found = self.documents.get(self.kind, key, self.clock.now()).await?;
        found.map(|document| Ok((read(&document)?, document.version))).transpose()
    }

    /// Writes a value if the version matches; returns whether it did.
    pub(crate) async fn put(
        &self,
        key: &str,
        value: &T,
        expected: ExpectedVersion,
        expires_at: Option<Timestamp>,
    ) -> Result<bool> {
        let body = serde_json::to_value(value).map_err(|error| {
            Error::internal(format!("the {} {key:?} cannot be written", self.kind)).caused_by(error)
        })?;
        let draft =
            NewDocument { kind: self.kind.to_owned(), key: key.to_owned(), body, expires_at };
        let put = self.documents.put(draft, expected, self.clock.now()).await?;
        Ok(matches!(put, PutResult::Stored(_)))
    }

    /// Returns up to `limit` values after a key, ordered by key.
    pub(crate) async fn list(
        &self,
        after: Option<String>,
        limit: usize,
    ) -> Result<Vec<(String, T)>> {
        let range = KeyRange { after, limit, ..KeyRange::default() };
        let found = self.documents.list(self.kind, range, self.clock.now()).await?;
        found.into_iter().map(|document| Ok((document.key.clone(), read(&document)?))).collect()
    }

    /// Removes a value; returns whether it existed.
    pub(crate) async fn remove(&self, key: &str) -> Result<bool> {
        self.remove_version(key, ExpectedVersion::Any).await
    }

    /// Removes a value if the version matches; returns whether it did.
    pub(crate) async fn remove_version(
        &self,
        key: &str,
        expected: ExpectedVersion,
    ) -> Result<bool> {
        let removed = self.documents.remove(self.kind, key, expected).await?;
        Ok(removed == RemoveResult::Removed)
    }
}

fn read<T: DeserializeOwned>(document: &Document) -> Result<T> {
    T::deserialize(&document.body).map_err(|error| {
        let sentence = format!("the {} {:?} cannot be read", document.kind, document.key);
        Error::new(ErrorKind::Corrupt, sentence).caused_by(error)
    })
}
