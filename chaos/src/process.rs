//! A process that is killed: started with its log and its fuse, struck, paused, stopped, and how it ended.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use punctual::clock::add;
use punctual::jiff::Timestamp;
use punctual::{Clock, SystemClock};

use crate::check::Fate;
use crate::fuse::FuseLength;

/// How often a driver looks at its processes.
pub(crate) const LOOK: Duration = Duration::from_millis(20);
/// A process that is told to stop has this long.
const STOP_MAX: Duration = Duration::from_secs(30);
/// The signal of a process that aborts.
const ABORTED: i32 = 6;
/// The signal that cannot be refused.
const KILLED: i32 = 9;

/// One process of a run, which is gone when this is.
pub(crate) struct Process {
    name: String,
    child: Child,
    fuse: Option<FuseLength>,
    struck: bool,
    paused_until: Option<Timestamp>,
}

impl Process {
    /// Starts a command, with its fuse; what it says goes into a log of its name.
    pub(crate) fn start(
        (name, fuse): (String, Option<FuseLength>),
        mut command: Command,
        folder: &Path,
    ) -> Result<Self> {
        let log = File::create(folder.join(format!("{name}.log")))?;
        if let Some(fuse) = fuse {
            command.args(["--fuse", &fuse.to_string()]);
        }
        let command = command.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("start {name}"))?;
        Ok(Self { name, child, fuse, struck: false, paused_until: None })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn is_awake(&self) -> bool {
        self.paused_until.is_none()
    }

    /// Wakes it when its pause is over; returns how it ended, if it has.
    pub(crate) fn look(&mut self) -> Result<Option<ExitStatus>> {
        if self.paused_until.is_some_and(|until| SystemClock.now() >= until) {
            self.wake()?;
        }
        Ok(self.child.try_wait()?)
    }

    /// Kills it from outside.
    pub(crate) fn strike(&mut self) -> Result<()> {
        self.struck = true;
        self.child.kill().with_context(|| format!("kill {}", self.name))
    }

    /// Stops it as if its machine stood still.
    pub(crate) fn pause(&mut self, length: Duration) -> Result<()> {
        self.signal("STOP")?;
        self.paused_until = Some(add(SystemClock.now(), length));
        Ok(())
    }

    /// Lets it go on if it is paused.
    pub(crate) fn wake(&mut self) -> Result<()> {
        if self.paused_until.take().is_some() {
            self.signal("CONT")?;
        }
        Ok(())
    }

    /// Tells it to stop and waits for that; returns how it ended.
    pub(crate) async fn stop(mut self, troubles: &mut Vec<String>) -> Result<(Self, ExitStatus)> {
        drop(self.child.stdin.take());
        let deadline = add(SystemClock.now(), STOP_MAX);
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok((self, status));
            }
            if SystemClock.now() >= deadline {
                troubles.push(format!("{} did not stop in {STOP_MAX:?}", self.name));
                self.child.kill()?;
            }
            SystemClock.sleep_until(add(SystemClock.now(), LOOK)).await;
        }
    }

    /// Returns what an end means; one that nobody meant is a trouble.
    pub(crate) fn fate(
        &self,
        (status, told): (ExitStatus, bool),
        folder: &Path,
        troubles: &mut Vec<String>,
    ) -> Fate {
        match (status.signal(), self.fuse) {
            (Some(ABORTED), Some(fuse)) => Fate::Crashed(fuse.point),
            (Some(KILLED), _) if self.struck => Fate::Killed,
            (None, _) if told && status.success() => Fate::Ended,
            _ => {
                let log = folder.join(format!("{}.log", self.name));
                let log = std::fs::read_to_string(log).unwrap_or_default();
                let last = log.lines().next_back().unwrap_or_default();
                troubles.push(format!("{} ended with {status}: {last}", self.name));
                Fate::Ended
            }
        }
    }

    /// Through the shell's own `kill`. One that has ended meanwhile is not there to hear it.
    fn signal(&self, name: &str) -> Result<()> {
        let line = format!("kill -s {name} {} 2>/dev/null", self.child.id());
        Command::new("sh").args(["-c", &line]).status().context("start sh")?;
        Ok(())
    }
}

impl Drop for Process {
    /// Whatever went wrong, no process is left behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
