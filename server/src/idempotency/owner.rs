//! Owner of a keyed request: the process that runs it, and whether that process still exists.
//!
//! A process on the same machine is looked up in `/proc`, so that a retry after a crash need not wait. For a
//! process on another machine, or on a system without `/proc`, the lease decides.

use std::fs;

use jiff::Timestamp;
use punctual::model::{IdSource as _, Ids};
use serde::{Deserialize, Serialize};

/// Identity of one start of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RequestOwner {
    /// Unique per server, also for two in one process.
    node: String,
    /// The process in `/proc`, if available.
    process: Option<ProcessIdentity>,
}

/// A process in `/proc`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ProcessIdentity {
    /// The boot id of the machine and the namespace of its process ids.
    machine: String,
    pid: u32,
    /// Start time of the process in ticks since boot, because process ids are reused.
    began: u64,
}

impl RequestOwner {
    /// Returns the owner of requests of a new server in this process.
    pub(crate) fn new(now: Timestamp) -> Self {
        let pid = std::process::id();
        let process = machine().zip(began(pid));
        let process = process.map(|(machine, began)| ProcessIdentity { machine, pid, began });
        Self { node: Ids::random().next(now).simple().to_string(), process }
    }

    /// Returns whether the process of another owner is known to have ended; `self` identifies this machine.
    pub(super) fn detects_end_of(&self, other: &Self) -> bool {
        match (&self.process, &other.process) {
            (Some(own), Some(other)) if own.machine == other.machine => {
                began(other.pid) != Some(other.began)
            }
            _ => false,
        }
    }
}

/// Returns the boot id of this machine and the namespace of its process ids.
fn machine() -> Option<String> {
    let start = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", start.trim(), namespace.display()))
}

/// Returns the start time of a process; none when it has ended, also as a zombie.
fn began(pid: u32) -> Option<u64> {
    read_began(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Parses the state and the 22nd field; the name before them may contain spaces and parentheses.
fn read_began(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X" | "x") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ended_process_and_a_reused_id_are_detected() {
        let own = RequestOwner::new(Timestamp::UNIX_EPOCH);
        let twin = RequestOwner::new(Timestamp::UNIX_EPOCH);
        assert_ne!(own, twin, "two servers of one process");
        assert!(!own.detects_end_of(&twin));
        let Some(identity) = own.process.clone() else { return };
        let changed =
            |identity: ProcessIdentity| RequestOwner { process: Some(identity), ..twin.clone() };
        assert!(own.detects_end_of(&changed(ProcessIdentity {
            began: identity.began + 1,
            ..identity.clone()
        })));
        assert!(
            own.detects_end_of(&changed(ProcessIdentity { pid: u32::MAX, ..identity.clone() }))
        );
        let remote = ProcessIdentity { machine: "another".to_owned(), pid: u32::MAX, began: 1 };
        assert!(!own.detects_end_of(&changed(remote)), "nothing is known of another machine");
        assert!(!own.detects_end_of(&RequestOwner::default()));
    }

    #[test]
    fn the_start_of_a_process_is_read_behind_its_name() {
        let line = |state: &str| {
            format!(
                "7 (a (b) c) {state} 1 7 7 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 1 0 4711 1000 2\n"
            )
        };
        assert_eq!(read_began(&line("S")), Some(4_711));
        assert_eq!(read_began(&line("Z")), None, "a zombie");
        assert_eq!(read_began("7 (cut"), None);
    }
}
