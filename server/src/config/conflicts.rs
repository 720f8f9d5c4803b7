//! Conflicts between entries that are right by themselves, which the start of a server would refuse: two entries of one
//! name, a topic of two transports, a broker whose delays the storage would forget. Each is found without connecting to
//! anything.

use std::collections::BTreeMap;

use punctual::model::Topic;
use punctual_connect::{Address, StorageNeed, storage_need};

use super::Config;
use crate::spec::Secret;
use crate::targets::resolve;
use crate::webhooks::WEBHOOK_QUEUE;

/// A key, part by part, and what is wrong with it.
pub(super) type Conflict = (Vec<String>, String);

fn conflict(key: &[&str], problem: impl Into<String>) -> Conflict {
    (key.iter().map(ToString::to_string).collect(), problem.into())
}

impl Config {
    /// Returns every conflict.
    pub(super) fn conflicts(&self) -> Vec<Conflict> {
        let mut found = self.same_names();
        found.extend(self.same_topics());
        found.extend(self.forgotten_delays());
        found
    }

    /// Finds entries whose names are the same once they are read: blanks around a name do not count, nor does the case of
    /// the name of a job.
    fn same_names(&self) -> Vec<Conflict> {
        let jobs = self.jobs.iter().filter(|(_, spec)| spec.enabled);
        let jobs = jobs.map(|(name, _)| (name, name.trim().to_lowercase()));
        let trimmed = |name: &str| name.trim().to_owned();
        let mut found = twice("jobs", jobs);
        found.extend(twice("queues", self.queues.keys().map(|name| (name, trimmed(name)))));
        found.extend(twice("transports", self.transports.keys().map(|name| (name, trimmed(name)))));
        if self.webhooks.enabled {
            let taken = self.queues.keys().find(|name| name.trim() == WEBHOOK_QUEUE);
            found.extend(taken.map(|name| {
                let problem =
                    "the server works on the queue of its webhooks by itself; take this table out";
                conflict(&["queues", name], problem)
            }));
        }
        found
    }

    /// Finds topics that are no topics, and those that are given twice.
    fn same_topics(&self) -> Vec<Conflict> {
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
                            let problem = format!("{topics:?} is given twice; keep one of them");
                            found.push(conflict(&key, problem));
                        }
                        Some(owner) => {
                            let problem = format!(
                                "{topics:?} is given to the transport {owner:?} already; keep one of them"
                            );
                            found.push(conflict(&key, problem));
                        }
                    },
                }
            }
        }
        found
    }

    /// Finds a transport whose messages survive a restart while the storage would forget how long they are delayed.
    fn forgotten_delays(&self) -> Option<Conflict> {
        let name = self.transport_beside_memory(StorageNeed::Durable)?;
        let problem = format!(
            "the messages of the transport {name:?} survive a restart, but delays that it cannot keep itself would be lost with the memory of this process; give a durable storage, such as \"sqlite:punctual.db\""
        );
        Some(conflict(&["storage", "address"], problem))
    }

    /// Returns the first transport of a need, where the storage is in memory. An address that cannot be known here, such
    /// as that of a variable which is not set, is left to the start.
    pub(super) fn transport_beside_memory(&self, need: StorageNeed) -> Option<&str> {
        let storage = known(&self.storage.address)?;
        if Address::parse(&storage).ok()? != Address::Memory {
            return None;
        }
        let transports = self.transports.iter();
        let address = |address| known(address).as_deref().and_then(storage_need);
        let mut found = transports.filter(|(_, one)| address(&one.address) == Some(need));
        found.next().map(|(name, _)| name.as_str())
    }
}

/// Finds entries of a table whose names mean the same.
fn twice<'a>(table: &str, names: impl Iterator<Item = (&'a String, String)>) -> Vec<Conflict> {
    let mut first: BTreeMap<String, &str> = BTreeMap::new();
    let mut found = Vec::new();
    for (name, meaning) in names {
        if let Some(before) = first.get(&meaning) {
            let problem = format!("{name:?} and {before:?} mean the same name; rename one of them");
            found.push(conflict(&[table, name], problem));
        } else {
            first.insert(meaning, name);
        }
    }
    found
}

/// Reads an entry of `topics`: a topic, or what topics begin with and a `*`.
fn topics(pattern: &str) -> Result<String, String> {
    let pattern = pattern.trim();
    match pattern.strip_suffix('*') {
        None => Topic::new(pattern).map(|topic| topic.to_string()).map_err(|error| error.to_string()),
        Some("") => Err("\"*\" is every topic, and a transport cannot carry them all; list topics, or what they begin with, such as \"orders.*\"".to_owned()),
        Some(beginning) if beginning.contains('*') => Err(format!(
            "{pattern:?} has a \"*\" before its end; it can only stand last, as in \"orders.*\""
        )),
        Some(beginning) => match Topic::new(beginning) {
            Ok(_) => Ok(pattern.to_owned()),
            Err(error) => Err(error.to_string()),
        },
    }
}

/// Returns an address that is written out, or that can be found here.
fn known(address: &Secret) -> Option<String> {
    resolve(address).ok()
}
