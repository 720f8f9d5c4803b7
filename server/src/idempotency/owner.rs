//! The owner of a request: which process works on it, and whether that process still runs.
//!
//! A process of the same machine is looked up in `/proc`, so that a retry after a crash need not wait. Of a
//! process elsewhere, or on a system without `/proc`, nothing is known; there the lease decides.

use std::fs;

use jiff::Timestamp;
use punctual::model::{IdSource as _, Ids};
use serde::{Deserialize, Serialize};

/// Identifies one start of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    /// Differs for every server, also for two of one process.
    node: String,
    /// Where the process can be looked up.
    process: Option<Running>,
}

/// A process as its machine knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Running {
    /// The start of the machine and the namespace that process ids belong to.
    machine: String,
    pid: u32,
    /// When the process began, in ticks since the machine did; process ids are used again.
    began: u64,
}

impl Owner {
    /// Returns the owner of requests that a new server of this process works on.
    pub(crate) fn new(now: Timestamp) -> Self {
        let pid = std::process::id();
        let process = machine().zip(began(pid));
        let process = process.map(|(machine, began)| Running { machine, pid, began });
        Self { node: Ids::random().next(now).simple().to_string(), process }
    }

    /// Whether the process of another owner is known to have ended; `self` says which machine this is.
    pub(super) fn knows_gone(&self, other: &Self) -> bool {
        match (&self.process, &other.process) {
            (Some(own), Some(other)) if own.machine == other.machine => {
                began(other.pid) != Some(other.began)
            }
            _ => false,
        }
    }
}

/// Returns the start of this machine and the namespace of its process ids.
fn machine() -> Option<String> {
    let start = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", start.trim(), namespace.display()))
}

/// Returns when a process began; none when it has ended, also when its parent has not noticed yet.
fn began(pid: u32) -> Option<u64> {
    read_began(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Reads the state and the 22nd field; the name before them may hold spaces and parentheses.
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
    fn a_process_that_ended_or_another_of_its_id_is_gone() {
        let own = Owner::new(Timestamp::UNIX_EPOCH);
        let twin = Owner::new(Timestamp::UNIX_EPOCH);
        assert_ne!(own, twin, "two servers of one process");
        assert!(!own.knows_gone(&twin));
        let Some(running) = own.process.clone() else { return };
        let changed = |running: Running| Owner { process: Some(running), ..twin.clone() };
        assert!(own.knows_gone(&changed(Running { began: running.began + 1, ..running.clone() })));
        assert!(own.knows_gone(&changed(Running { pid: u32::MAX, ..running.clone() })));
        let elsewhere = Running { machine: "another".to_owned(), pid: u32::MAX, began: 1 };
        assert!(!own.knows_gone(&changed(elsewhere)), "nothing is known of another machine");
        assert!(!own.knows_gone(&Owner::default()));
    }

    #[test]
    fn the_start_of_a_process_is_read_behind_its_name() {
        let line = |state: &str| {
            format!(
                "7 (a (b) c) {state} 1 7 7 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 1 0 4711 1000 2\n"
            )
        };
        assert_eq!(read_began(&line("S")), Some(4_711));
        assert_eq!(read_began(&line("Z")), None, "ended, and its parent has not noticed");
        assert_eq!(read_began("7 (cut"), None);
    }
}
