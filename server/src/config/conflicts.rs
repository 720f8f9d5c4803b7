//! Conflicts between valid entries, which would fail the start of the server: duplicate names, a topic of two
//! transports, a broker whose delays the storage would lose. Found without connecting to anything.

use std::collections::BTreeMap;

use punctual::model::Topic;
use punctual_backends::{Address, StorageNeed, storage_need};

use super::Config;
use crate::spec::Secret;
use crate::targets::resolve;
use crate::webhooks::WEBHOOK_QUEUE;

/// The parts of a key, and its problem.
pub(super) type Conflict = (Vec<String>, String);

fn conflict(key: &[&str], problem: impl Into<String>) -> Conflict {
    (key.iter().map(ToString::to_string).collect(), problem.into())
}

impl Config {
    /// Returns every conflict.
    pub(super) fn conflicts(&self) -> Vec<Conflict> {
        let mut found = self.duplicate_names();
        found.extend(self.duplicate_topics());
        found.extend(self.lost_delays());
        found
    }

    /// Returns entries with equal names: surrounding spaces are ignored, as is the case of job names.
    fn duplicate_names(&self) -> Vec<Conflict> {
        let jobs = self.jobs.iter().filter(|(_, spec)| spec.enabled);
        let jobs = jobs.map(|(name, _)| (name, name.trim().to_lowercase()));
        let trimmed = |name: &str| name.trim().to_owned();
        let mut found = duplicates("jobs", jobs);
        found.extend(duplicates("queues", self.queues.keys().map(|name| (name, trimmed(name)))));
        found.extend(duplicates(
            "transports",
            self.transports.keys().map(|name| (name, trimmed(name))),
        ));
        if self.webhooks.enabled {
            let taken = self.queues.keys().find(|name| name.trim() == WEBHOOK_QUEUE);
            found.extend(taken.map(|name| {
                let problem =
                    "the server configures the queue of its webhooks itself; remove this table";
                conflict(&["queues", name], problem)
            }));
        }
        found
    }

    /// Returns invalid and duplicate topics.
    fn duplicate_topics(&self) -> Vec<Conflict> {
        let mut found = Vec::new();
        let mut owners: BTreeMap<String, &str> = BTreeMap::new();
        for (name, transport) in &self.transports {
            for pattern in &transport.topics {
                let key = ["transports", name.as_str(), "topics"];
                match topics(pattern) {
                    Err(problem) => found.push(conflict(&key, problem)),
                    Ok(topics) => match owners.insert(topics.clone(), name) {
                        None => {}
                        Some(owner) if owner == name => {
                            let problem = format!("{topics:?} is listed twice; keep one of them");
                            found.push(conflict(&key, problem));
                        }
                        Some(owner) => {
                            let problem = format!(
                                "{topics:?} already belongs to the transport {owner:?}; keep one of them"
                            );
                            found.push(conflict(&key, problem));
                        }
                    },
                }
            }
        }
        found
    }

    /// Returns the conflict of a transport whose messages survive a restart with a storage that would lose their
    /// delays.
    fn lost_delays(&self) -> Option<Conflict> {
        let name = self.transport_beside_memory(StorageNeed::Durable)?;
        let problem = format!(
            "the messages of the transport {name:?} survive a restart, but delays that it does not support itself are kept in the memory of this process and would be lost; use a durable storage, such as \"sqlite:punctual.db\""
        );
        Some(conflict(&["storage", "address"], problem))
    }

    /// Returns the first transport with this need if the storage is in memory. Addresses that cannot be resolved
    /// here, such as an unset variable, are checked at the start.
    pub(super) fn transport_beside_memory(&self, need: StorageNeed) -> Option<&str> {
        let storage = resolved(&self.storage.address)?;
        if Address::parse(&storage).ok()? != Address::Memory {
            return None;
        }
        let transports = self.transports.iter();
        let address = |address| resolved(address).as_deref().and_then(storage_need);
        let mut found = transports.filter(|(_, one)| address(&one.address) == Some(need));
        found.next().map(|(name, _)| name.as_str())
    }
}

/// Returns the entries of a table whose normalized names are equal.
fn duplicates<'a>(table: &str, names: impl Iterator<Item = (&'a String, String)>) -> Vec<Conflict> {
    let mut first: BTreeMap<String, &str> = BTreeMap::new();
    let mut found = Vec::new();
    for (name, normalized) in names {
        if let Some(before) = first.get(&normalized) {
            let problem = format!("{name:?} and {before:?} are the same name; rename one of them");
            found.push(conflict(&[table, name], problem));
        } else {
            first.insert(normalized, name);
        }
    }
    found
}

/// Parses an entry of `topics`: a topic, or a prefix with `*`.
fn topics(pattern: &str) -> Result<String, String> {
    let pattern = pattern.trim();
    match pattern.strip_suffix('*') {
        None => Topic::new(pattern).map(|topic| topic.to_string()).map_err(|error| error.to_string()),
        Some("") => Err("\"*\" is every topic, which one transport cannot carry; list topics or prefixes such as \"orders.*\"".to_owned()),
        Some(beginning) if beginning.contains('*') => Err(format!(
            "{pattern:?} has a \"*\" before its end; use it only as the last character, as in \"orders.*\""
        )),
        Some(beginning) => match Topic::new(beginning) {
            Ok(_) => Ok(pattern.to_owned()),
            Err(error) => Err(error.to_string()),
        },
    }
}

/// Returns an address that is plain, or whose secret can be read here.
fn resolved(address: &Secret) -> Option<String> {
    resolve(address).ok()
}
