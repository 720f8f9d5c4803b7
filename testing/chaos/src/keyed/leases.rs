//! Leases of idempotency keys: each server records in a ledger which leases it writes and reads; after the run, the
//! proven ones are matched with the keys of the callers.
//!
//! A lease is proven when its server learned that the write was stored, or when any server read it. A server that is
//! killed while it writes does not learn whether the lease was stored, so its own line proves nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use punctual::backend::documents::{Document, NewDocument};
use punctual::jiff::Timestamp;
use punctual::{Clock, SystemClock};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::callers::milliseconds_since;
use super::check::{KeyHistory, KeyLease, LeaseFacts};
use super::servers::Servers;
use crate::ledger::Ledger;

/// Kind of the documents that are records of keys.
const KIND: &str = "idempotency";
/// Identity of the callers of a server without authentication.
const CALLER: &str = "nobody";

/// Lease of a key: the key of its document, and its end, which differs between all leases of a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lease {
    place: String,
    until: Timestamp,
}

impl Lease {
    /// Returns the lease in a document; none when it is no record of a running request.
    fn of(kind: &str, place: &str, body: &Value) -> Option<Self> {
        if kind != KIND || !body["answer"].is_null() {
            return None;
        }
        Some(Self { place: place.to_owned(), until: body["until"].as_str()?.parse().ok()? })
    }
}

/// Event of a lease in a server.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LeaseEvent {
    /// The server is about to write the lease.
    Writing(Lease, Timestamp),
    /// The write was stored.
    Stored(Lease),
    /// The server found the lease in the storage.
    Read(Lease),
}

impl fmt::Display for LeaseEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Writing(Lease { place, until }, at) => write!(f, "writing {place} {until} {at}"),
            Self::Stored(Lease { place, until }) => write!(f, "stored {place} {until}"),
            Self::Read(Lease { place, until }) => write!(f, "read {place} {until}"),
        }
    }
}

impl FromStr for LeaseEvent {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        let lease = |place: &str, until: &str| -> Result<Lease> {
            Ok(Lease { place: place.to_owned(), until: until.parse()? })
        };
        Ok(match words[..] {
            ["writing", place, until, at] => Self::Writing(lease(place, until)?, at.parse()?),
            ["stored", place, until] => Self::Stored(lease(place, until)?),
            ["read", place, until] => Self::Read(lease(place, until)?),
            _ => bail!("{text:?} is not an event of a lease"),
        })
    }
}

/// Ledger of the leases of one server.
pub(super) struct LeaseLedger(Ledger);

impl LeaseLedger {
    /// Creates the ledger of a server.
    pub(super) fn create(folder: &Path, server: &str) -> Result<Self> {
        Ok(Self(Ledger::create(folder, &ledger_name(server))?))
    }

    /// Records that a document is about to be written; returns its lease. A write that ends a lease is none.
    pub(super) fn write_begins(&self, draft: &NewDocument) -> Option<Lease> {
        let now = SystemClock.now();
        let lease = Lease::of(&draft.kind, &draft.key, &draft.body)?;
        if lease.until <= now {
            return None;
        }
        self.0.write([LeaseEvent::Writing(lease.clone(), now)]);
        Some(lease)
    }

    /// Records that the write of a lease was stored.
    pub(super) fn write_ended(&self, lease: Lease) {
        self.0.write([LeaseEvent::Stored(lease)]);
    }

    /// Records that a document was read.
    pub(super) fn was_read(&self, document: &Document) {
        let lease = Lease::of(&document.kind, &document.key, &document.body);
        self.0.write(lease.map(LeaseEvent::Read));
    }
}

/// Reads the ledgers of all servers of a run: the leases of each key.
pub(super) fn read(
    folder: &Path,
    servers: &Servers,
    (histories, begun): (&[KeyHistory], Timestamp),
) -> Result<LeaseFacts> {
    let mut events = Vec::new();
    for server in servers.names() {
        let of_server: Vec<LeaseEvent> = Ledger::read(folder, &ledger_name(&server))
            .with_context(|| format!("read the leases of {server}"))?;
        events.extend(of_server.into_iter().map(|event| (server.clone(), event)));
    }
    let mut by_place = leases_by_place(&events, begun);
    let of_key =
        |history: &KeyHistory| Some((history.key.clone(), by_place.remove(&place(&history.key))?));
    let leases = histories.iter().filter_map(of_key).collect();
    Ok(LeaseFacts { leases, servers: servers.facts(begun) })
}

/// Returns the leases by the key of their document, in the order of their writes.
fn leases_by_place(
    events: &[(String, LeaseEvent)],
    begun: Timestamp,
) -> BTreeMap<String, Vec<KeyLease>> {
    let proofs: BTreeSet<&Lease> = events
        .iter()
        .filter_map(|(_, event)| match event {
            LeaseEvent::Stored(lease) | LeaseEvent::Read(lease) => Some(lease),
            LeaseEvent::Writing(..) => None,
        })
        .collect();
    let mut leases: BTreeMap<String, Vec<KeyLease>> = BTreeMap::new();
    for (server, event) in events {
        let LeaseEvent::Writing(lease, at) = event else { continue };
        let (at_ms, server) = (milliseconds_since(begun, *at), server.clone());
        let is_proven = proofs.contains(lease);
        leases.entry(lease.place.clone()).or_default().push(KeyLease { at_ms, server, is_proven });
    }
    for leases in leases.values_mut() {
        leases.sort();
    }
    leases
}

/// Returns the key of the document of an idempotency key, as the server computes it. If the server computed it
/// differently, no key would have a lease, which is a violation.
fn place(key: &str) -> String {
    let mut hash = Sha256::new();
    for part in [CALLER, key] {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    BASE64.encode(hash.finalize())
}

fn ledger_name(server: &str) -> String {
    format!("{server}-leases")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lease(until: &str) -> Lease {
        let body = json!({ "until": until, "runs": 1, "answer": null });
        Lease::of(KIND, "p+/=", &body).unwrap()
    }

    #[test]
    fn a_line_reads_back_as_it_was_written() {
        let lease = lease("2030-01-01T00:00:10.000000001Z");
        let lines = [
            LeaseEvent::Writing(lease.clone(), "2030-01-01T00:00:00.5Z".parse().unwrap()),
            LeaseEvent::Stored(lease.clone()),
            LeaseEvent::Read(lease),
        ];
        for line in lines {
            assert_eq!(line.to_string().parse::<LeaseEvent>().unwrap(), line);
        }
        assert!("stored p".parse::<LeaseEvent>().is_err());
        assert!("unknown p 2030-01-01T00:00:10Z".parse::<LeaseEvent>().is_err());
    }

    #[test]
    fn an_answered_record_and_other_documents_have_no_lease() {
        let body = json!({ "until": "2030-01-01T00:00:10Z", "answer": { "status": 201 } });
        assert_eq!(Lease::of(KIND, "p", &body), None);
        let body = json!({ "until": "2030-01-01T00:00:10Z", "answer": null });
        assert_eq!(Lease::of("user", "p", &body), None);
        assert!(Lease::of(KIND, "p", &body).is_some());
    }

    #[test]
    fn a_lease_is_proven_by_its_server_or_by_a_reader() {
        let (first, second, third) = (
            lease("2030-01-01T00:00:10Z"),
            lease("2030-01-01T00:00:11Z"),
            lease("2030-01-01T00:00:12Z"),
        );
        let at = |second: i64| Timestamp::from_second(1_893_456_000 + second).unwrap();
        let event = |server: &str, event| (server.to_owned(), event);
        let events = [
            event("a", LeaseEvent::Writing(first.clone(), at(0))),
            event("a", LeaseEvent::Stored(first)),
            event("a", LeaseEvent::Writing(second, at(1))),
            event("b", LeaseEvent::Read(third.clone())),
            event("c", LeaseEvent::Writing(third, at(2))),
        ];
        let key_lease = |server: &str, at_ms, is_proven| KeyLease {
            at_ms,
            server: server.to_owned(),
            is_proven,
        };
        let expected = vec![
            key_lease("a", 0, true),
            key_lease("a", 1_000, false),
            key_lease("c", 2_000, true),
        ];
        let leases = leases_by_place(&events, at(0));
        assert_eq!(leases, BTreeMap::from([("p+/=".to_owned(), expected)]));
    }
}
