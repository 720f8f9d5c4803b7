//! Process to be killed: started with a log and a fuse, killed, paused, stopped, and its end.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use punctual::clock::add;
use punctual::jiff::Timestamp;
use punctual::{Clock, SystemClock};

use crate::check::ProcessEnd;
use crate::fuse::FuseSetting;

/// Time between two polls of processes by a driver.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Longest time of a graceful stop.
const STOP_MAX: Duration = Duration::from_secs(30);
/// Signal SIGABRT, of a process that aborts.
const ABORTED: i32 = 6;
/// Signal SIGKILL.
const KILLED: i32 = 9;

/// Process of a run; killed when dropped.
pub(crate) struct Process {
    name: String,
    child: Child,
    fuse: Option<FuseSetting>,
    was_killed: bool,
    paused_until: Option<Timestamp>,
    resumed_at: Vec<Timestamp>,
}

impl Process {
    /// Starts a command with a fuse; its output goes to a log file with its name.
    pub(crate) fn start(
        (name, fuse): (String, Option<FuseSetting>),
        mut command: Command,
        folder: &Path,
    ) -> Result<Self> {
        let log = File::create(folder.join(format!("{name}.log")))?;
        if let Some(fuse) = fuse {
            command.args(["--fuse", &fuse.to_string()]);
        }
        let command = command.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("start {name}"))?;
        let (was_killed, paused_until, resumed_at) = (false, None, Vec::new());
        Ok(Self { name, child, fuse, was_killed, paused_until, resumed_at })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the ends of its pauses.
    pub(crate) fn resumed_at(&self) -> &[Timestamp] {
        &self.resumed_at
    }

    pub(crate) fn is_active(&self) -> bool {
        self.paused_until.is_none()
    }

    /// Resumes the process when its pause is over; returns its exit status if it has ended.
    pub(crate) fn poll(&mut self) -> Result<Option<ExitStatus>> {
        if self.paused_until.is_some_and(|until| SystemClock.now() >= until) {
            self.resume()?;
        }
        Ok(self.child.try_wait()?)
    }

    /// Sends SIGKILL.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.was_killed = true;
        self.child.kill().with_context(|| format!("kill {}", self.name))
    }

    /// Stops the process with SIGSTOP for a duration.
    pub(crate) fn pause(&mut self, duration: Duration) -> Result<()> {
        self.signal("STOP")?;
        self.paused_until = Some(add(SystemClock.now(), duration));
        Ok(())
    }

    /// Resumes the process if it is paused.
    pub(crate) fn resume(&mut self) -> Result<()> {
        if self.paused_until.take().is_some() {
            self.signal("CONT")?;
            self.resumed_at.push(SystemClock.now());
        }
        Ok(())
    }

    /// Stops the process gracefully by closing its input and waits; returns its exit status.
    pub(crate) async fn stop(mut self, problems: &mut Vec<String>) -> Result<(Self, ExitStatus)> {
        drop(self.child.stdin.take());
        let deadline = add(SystemClock.now(), STOP_MAX);
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok((self, status));
            }
            if SystemClock.now() >= deadline {
                problems.push(format!("{} did not stop in {STOP_MAX:?}", self.name));
                self.child.kill()?;
            }
            SystemClock.sleep_until(add(SystemClock.now(), POLL_INTERVAL)).await;
        }
    }

    /// Returns the kind of end; adds a problem when the end was not expected.
    pub(crate) fn end(
        &self,
        (status, was_stopped): (ExitStatus, bool),
        folder: &Path,
        problems: &mut Vec<String>,
    ) -> ProcessEnd {
        match (status.signal(), self.fuse) {
            (Some(ABORTED), Some(fuse)) => ProcessEnd::Crashed(fuse.point),
            (Some(KILLED), _) if self.was_killed => ProcessEnd::Killed,
            (None, _) if was_stopped && status.success() => ProcessEnd::Stopped,
            _ => {
                let log = folder.join(format!("{}.log", self.name));
                let log = std::fs::read_to_string(log).unwrap_or_default();
                let last = log.lines().next_back().unwrap_or_default();
                problems.push(format!("{} ended with {status}: {last}", self.name));
                ProcessEnd::Stopped
            }
        }
    }

    /// Sends a signal with the shell's `kill`; fails silently when the process has ended.
    fn signal(&self, name: &str) -> Result<()> {
        let line = format!("kill -s {name} {} 2>/dev/null", self.child.id());
        Command::new("sh").args(["-c", &line]).status().context("start sh")?;
        Ok(())
    }
}

impl Drop for Process {
    /// Kills the process, so that none is left after a failure.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
