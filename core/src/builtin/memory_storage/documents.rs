//! Documents: by kind and key, and by when they expire. Their number is limited; more are refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{DOCUMENTS_MAX_DEFAULT, MemoryStorage};
use crate::documents::{
    DOCUMENTS_MAX, Document, DocumentStore, ExpectedVersion, KeyRange, NewDocument, PutResult,
    RemoveResult,
};
use crate::error::{Error, Result};

/// The documents, and the order they expire in.
pub(super) struct Documents {
    kinds: BTreeMap<String, BTreeMap<String, Arc<Document>>>,
    expiring: BTreeSet<(Timestamp, String, String)>,
    count: usize,
    count_max: usize,
}

impl Default for Documents {
    fn default() -> Self {
        Self {
            kinds: BTreeMap::new(),
            expiring: BTreeSet::new(),
            count: 0,
            count_max: DOCUMENTS_MAX_DEFAULT,
        }
    }
}

impl Documents {
    pub(super) fn set_count_max(&mut self, count: usize) {
        self.count_max = count;
    }

    fn put(
        &mut self,
        draft: NewDocument,
        seen: ExpectedVersion,
        now: Timestamp,
    ) -> Result<PutResult> {
        let present = self.get(&draft.kind, &draft.key, now).map(|document| document.version);
        let put = seen.put(present);
        if let PutResult::Stored(version) = put {
            self.check_room(std::slice::from_ref(&draft), now)?;
            self.write(draft, version, now);
        }
        Ok(put)
    }

    fn put_all(&mut self, drafts: Vec<NewDocument>, now: Timestamp) -> Result<()> {
        self.check_room(&drafts, now)?;
        for draft in drafts {
            let present = self.get(&draft.kind, &draft.key, now).map_or(0, |one| one.version);
            self.write(draft, present + 1, now);
        }
        Ok(())
    }

    /// Fails when documents would exceed the limit; expired ones are removed first.
    fn check_room(&mut self, drafts: &[NewDocument], now: Timestamp) -> Result<()> {
        let is_new = |draft: &&NewDocument| self.kept(&draft.kind, &draft.key).is_none();
        let more = drafts.iter().filter(is_new).count();
        if self.count + more <= self.count_max {
            return Ok(());
        }
        self.expire(DOCUMENTS_MAX, now);
        if self.count + more <= self.count_max {
            return Ok(());
        }
        Err(Error::unavailable(format!(
            "the memory storage holds {} documents and {more} more would exceed documents_max ({}); \
             remove some, raise the limit, or use a durable storage",
            self.count, self.count_max
        )))
    }

    fn write(&mut self, draft: NewDocument, version: u64, now: Timestamp) {
        let NewDocument { kind, key, body, expires_at } = draft;
        self.take(&kind, &key);
        if let Some(expires_at) = expires_at {
            self.expiring.insert((expires_at, kind.clone(), key.clone()));
        }
        let document = Document {
            kind: kind.clone(),
            key: key.clone(),
            version,
            body,
            updated_at: now,
            expires_at,
        };
        self.kinds.entry(kind).or_default().insert(key, Arc::new(document));
        self.count += 1;
    }

    /// Removes a document from both maps.
    fn take(&mut self, kind: &str, key: &str) {
        let Some(documents) = self.kinds.get_mut(kind) else { return };
        let Some(document) = documents.remove(key) else { return };
        if documents.is_empty() {
            self.kinds.remove(kind);
        }
        if let Some(expires_at) = document.expires_at {
            self.expiring.remove(&(expires_at, kind.to_owned(), key.to_owned()));
        }
        self.count -= 1;
    }

    /// Returns a stored document, also when it has expired.
    fn kept(&self, kind: &str, key: &str) -> Option<&Arc<Document>> {
        self.kinds.get(kind)?.get(key)
    }

    fn get(&self, kind: &str, key: &str, now: Timestamp) -> Option<Arc<Document>> {
        self.kept(kind, key).filter(|document| !document.has_expired(now)).cloned()
    }

    fn list(&self, kind: &str, range: &KeyRange, now: Timestamp) -> Result<Vec<Arc<Document>>> {
        let span = range.span()?;
        let Some(documents) = self.kinds.get(kind).filter(|_| !span.is_empty()) else {
            return Ok(Vec::new());
        };
        let limit = range.bounded();
        let found = documents.range(span).map(|(_, document)| document);
        let is_there = |document: &&Arc<Document>| !document.has_expired(now);
        Ok(if range.descending {
            found.rev().filter(is_there).take(limit).cloned().collect()
        } else {
            found.filter(is_there).take(limit).cloned().collect()
        })
    }

    fn remove(&mut self, kind: &str, key: &str, seen: ExpectedVersion) -> RemoveResult {
        let removed = seen.remove(self.kept(kind, key).map(|document| document.version));
        if removed == RemoveResult::Removed {
            self.take(kind, key);
        }
        removed
    }

    fn expire(&mut self, limit: usize, now: Timestamp) -> u64 {
        let mut count = 0;
        while count < limit {
            let Some((_, kind, key)) =
                self.expiring.first().filter(|(expires_at, ..)| *expires_at <= now).cloned()
            else {
                break;
            };
            self.take(&kind, &key);
            count += 1;
        }
        count as u64
    }
}

#[async_trait]
impl DocumentStore for MemoryStorage {
    async fn put(
        &self,
        draft: NewDocument,
        seen: ExpectedVersion,
        now: Timestamp,
    ) -> Result<PutResult> {
        Document::check(&draft)?;
        self.act(|memory| memory.documents.put(draft, seen, now))
    }

    async fn put_all(&self, drafts: Vec<NewDocument>, now: Timestamp) -> Result<()> {
        let drafts = NewDocument::check_all(drafts)?.into_iter().map(|(draft, _)| draft).collect();
        self.act(|memory| memory.documents.put_all(drafts, now))
    }

    async fn get(&self, kind: &str, key: &str, now: Timestamp) -> Result<Option<Document>> {
        Document::check_names(kind, key)?;
        let found = self.act(|memory| memory.documents.get(kind, key, now));
        Ok(found.map(Arc::unwrap_or_clone))
    }

    async fn list(&self, kind: &str, range: KeyRange, now: Timestamp) -> Result<Vec<Document>> {
        Document::check_kind(kind)?;
        let found = self.act(|memory| memory.documents.list(kind, &range, now))?;
        // Copied here, after the lock was released.
        Ok(found.into_iter().map(Arc::unwrap_or_clone).collect())
    }

    async fn remove(&self, kind: &str, key: &str, seen: ExpectedVersion) -> Result<RemoveResult> {
        Document::check_names(kind, key)?;
        Ok(self.act(|memory| memory.documents.remove(kind, key, seen)))
    }

    async fn expire(&self, limit: usize, now: Timestamp) -> Result<u64> {
        Ok(self.act(|memory| memory.documents.expire(limit, now)))
    }
}
