//! Processes of the system: checks whether one runs and whose it is, sends signals, waits with a timeout.
//!
//! A process id is not sufficient, because ids are reused: before a signal is sent, the command line of the process
//! has to name our scratch folder. Signals are sent by the `kill` of the shell, which every system has.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// Interval between two checks of a condition.
const LOOK: Duration = Duration::from_millis(50);

/// Returns whether the process runs and uses this folder.
pub(super) fn is_ours(pid: u32, folder: &Path) -> bool {
    command_line(pid).is_some_and(|line| line.contains(&*folder.to_string_lossy()))
}

/// Returns whether the process runs and is one of these tools or their tests.
pub(super) fn is_alive(pid: u32) -> bool {
    command_line(pid).is_some_and(|line| !line.trim().is_empty())
}

/// Returns the child processes of a process.
pub(super) fn children(pid: u32) -> Vec<u32> {
    let tasks = format!("/proc/{pid}/task/{pid}/children");
    let list = std::fs::read_to_string(tasks).unwrap_or_default();
    list.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// Sends a signal, named without `SIG`. A negative id means the whole group.
pub(super) fn signal(name: &str, pid: i64) -> Result<()> {
    let status = Command::new("sh")
        .args(["-c", r#"kill -s "$1" -- "$2" 2>/dev/null"#, "sh", name, &pid.to_string()])
        .status()
        .context("start sh")?;
    if !status.success() {
        bail!("process {pid} could not be sent SIG{name}");
    }
    Ok(())
}

/// Checks a condition until it holds or the timeout has passed; returns whether it holds.
pub(super) fn eventually(at_most: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let polls = at_most.as_millis() / LOOK.as_millis();
    (0..polls).any(|_| {
        let so = is_so();
        if !so {
            pause(LOOK);
        }
        so
    }) || is_so()
}

/// Ends a server: sends its signal, then SIGKILL when it does not end.
pub(super) fn end(pid: u32, folder: &Path, stop_signal: &str) -> Result<()> {
    if !is_ours(pid, folder) {
        return Ok(());
    }
    signal(stop_signal, i64::from(pid))?;
    if eventually(Duration::from_secs(20), || !is_ours(pid, folder)) {
        return Ok(());
    }
    eprintln!("process {pid} did not end after SIG{stop_signal}; it is killed");
    signal("KILL", i64::from(pid))?;
    if !eventually(Duration::from_secs(5), || !is_ours(pid, folder)) {
        bail!("process {pid} cannot be ended");
    }
    Ok(())
}

/// Waits by receiving from a channel without a sender.
fn pause(length: Duration) {
    let (_never, wait) = mpsc::channel::<()>();
    let _ = wait.recv_timeout(length);
}

fn command_line(pid: u32) -> Option<String> {
    if Path::new("/proc/self").exists() {
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        return Some(String::from_utf8_lossy(&line).replace('\0', " "));
    }
    let output =
        Command::new("ps").args(["-o", "command=", "-p", &pid.to_string()]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_is_no_server() {
        let own = std::process::id();
        assert!(is_alive(own));
        assert!(!is_ours(own, Path::new("/no/folder/of/this/name")));
        assert!(!is_alive(u32::MAX));
    }

    #[test]
    fn waiting_ends_with_the_condition_and_with_the_timeout() {
        let mut polls = 0;
        assert!(eventually(Duration::from_secs(1), || {
            polls += 1;
            polls == 2
        }));
        assert_eq!(polls, 2);
        assert!(!eventually(Duration::ZERO, || false));
    }

    #[test]
    fn a_process_that_is_not_there_is_not_signalled() {
        assert!(signal("TERM", i64::from(u32::MAX)).is_err());
        end(u32::MAX, Path::new("/nowhere"), "TERM").unwrap();
    }
}
