//! The workers of a run: started, struck, replaced, stopped.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use punctual::clock::add;
use punctual::jiff::Timestamp;
use punctual::{Clock, SystemClock};

use super::LOOK;
use super::plan::Plan;
use crate::check::Fate;
use crate::dice::Dice;
use crate::fuse::{FuseLength, Point};
use crate::worker::LEASE_LENGTH;

/// How many of a hundred workers get a fuse.
const FUSES: u64 = 65;
/// How many of a hundred strikes are a pause instead of a kill.
const PAUSES: u64 = 20;
/// A worker that is told to stop has this long.
const STOP_MAX: Duration = Duration::from_secs(30);
/// The signal of a process that aborts.
const ABORTED: i32 = 6;
/// The signal that cannot be refused.
const KILLED: i32 = 9;

/// The workers of one run.
pub(super) struct Fleet {
    program: PathBuf,
    address: String,
    schema: String,
    folder: PathBuf,
    dice: Dice,
    started: usize,
    members: Vec<Member>,
    ended: Vec<(String, Fate)>,
    troubles: Vec<String>,
    pauses: usize,
}

struct Member {
    name: String,
    child: Child,
    fuse: Option<FuseLength>,
    struck: bool,
    paused_until: Option<Timestamp>,
}

impl Fleet {
    /// Starts as many workers as planned.
    pub(super) fn new(plan: &Plan, address: String, folder: PathBuf, dice: Dice) -> Result<Self> {
        let program = std::env::current_exe().context("find this program")?;
        let mut fleet = Self {
            program,
            address,
            schema: plan.schema.clone(),
            folder,
            dice,
            started: 0,
            members: Vec::new(),
            ended: Vec::new(),
            troubles: Vec::new(),
            pauses: 0,
        };
        for _ in 0..plan.workers {
            let member = fleet.start(true)?;
            fleet.members.push(member);
        }
        Ok(fleet)
    }

    /// How many workers have been killed.
    pub(super) fn kills(&self) -> usize {
        self.ended.iter().filter(|(_, fate)| *fate != Fate::Ended).count()
    }

    /// How often a worker was paused.
    pub(super) fn pauses(&self) -> usize {
        self.pauses
    }

    /// Every worker that has ended, and how.
    pub(super) fn ended(&self) -> &[(String, Fate)] {
        &self.ended
    }

    /// What workers did that nobody asked for.
    pub(super) fn troubles(&self) -> &[String] {
        &self.troubles
    }

    /// Replaces workers that have ended, with or without fuses, and wakes those whose pause is over.
    pub(super) fn look(&mut self, with_fuses: bool) -> Result<()> {
        for place in 0..self.members.len() {
            let member = &mut self.members[place];
            if member.paused_until.is_some_and(|until| SystemClock.now() >= until) {
                member.wake()?;
            }
            if let Some(status) = member.child.try_wait()? {
                let next = self.start(with_fuses)?;
                let gone = std::mem::replace(&mut self.members[place], next);
                self.bury(&gone, status, false);
            }
        }
        Ok(())
    }

    /// Kills one worker, or pauses it for longer than its leases last.
    pub(super) fn strike(&mut self, dice: &mut Dice) -> Result<()> {
        let pause = dice.percent(PAUSES);
        let mut awake: Vec<&mut Member> =
            self.members.iter_mut().filter(|member| member.paused_until.is_none()).collect();
        let chosen = usize::try_from(dice.below(awake.len() as u64))?;
        // Somebody has to be left to take over what a paused worker holds.
        let many = awake.len() > 1;
        let Some(member) = awake.get_mut(chosen) else { return Ok(()) };
        if pause && many {
            member.signal("STOP")?;
            member.paused_until = Some(add(SystemClock.now(), LEASE_LENGTH * 2));
            self.pauses += 1;
        } else {
            member.struck = true;
            member.child.kill().context("kill a worker")?;
        }
        Ok(())
    }

    /// Lets everybody who is paused go on.
    pub(super) fn wake_all(&mut self) -> Result<()> {
        self.members.iter_mut().try_for_each(Member::wake)
    }

    /// Tells every worker to stop and waits for it.
    pub(super) async fn stop(&mut self) -> Result<()> {
        for mut member in std::mem::take(&mut self.members) {
            drop(member.child.stdin.take());
            let deadline = add(SystemClock.now(), STOP_MAX);
            let status = loop {
                if let Some(status) = member.child.try_wait()? {
                    break status;
                }
                if SystemClock.now() >= deadline {
                    self.troubles.push(format!("{} did not stop in {STOP_MAX:?}", member.name));
                    member.child.kill()?;
                }
                SystemClock.sleep_until(add(SystemClock.now(), LOOK)).await;
            };
            self.bury(&member, status, true);
        }
        Ok(())
    }

    fn bury(&mut self, gone: &Member, status: ExitStatus, told: bool) {
        let fate = match (status.signal(), gone.fuse) {
            (Some(ABORTED), Some(fuse)) => Fate::Crashed(fuse.point),
            (Some(KILLED), _) if gone.struck => Fate::Killed,
            (None, _) if told && status.success() => Fate::Ended,
            _ => {
                let log = self.folder.join(format!("{}.log", gone.name));
                let log = std::fs::read_to_string(log).unwrap_or_default();
                let last = log.lines().next_back().unwrap_or_default();
                self.troubles.push(format!("{} ended with {status}: {last}", gone.name));
                Fate::Ended
            }
        };
        self.ended.push((gone.name.clone(), fate));
    }

    fn start(&mut self, with_fuse: bool) -> Result<Member> {
        self.started += 1;
        let name = format!("worker-{}", self.started);
        let fuse = (with_fuse && self.dice.percent(FUSES)).then(|| self.fuse());
        let log = File::create(self.folder.join(format!("{name}.log")))?;
        let mut command = Command::new(&self.program);
        command.args(["worker", "--name", &name, "--storage", &self.address]);
        command.args(["--schema", &self.schema, "--ledgers"]).arg(&self.folder);
        if let Some(fuse) = fuse {
            command.args(["--fuse", &fuse.to_string()]);
        }
        let child = command
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("start a worker")?;
        Ok(Member { name, child, fuse, struck: false, paused_until: None })
    }

    /// The points in turn, so that a run of fifty kills visits each of them.
    fn fuse(&mut self) -> FuseLength {
        let point = Point::ALL[self.started % Point::ALL.len()];
        let visit = match point {
            // Only a worker that comes after a kill has something to rescue.
            Point::Reclaimed => 1,
            _ => 1 + u32::try_from(self.dice.below(120)).unwrap_or_default(),
        };
        let middle = point == Point::Settling;
        let microseconds = if middle { 1 + self.dice.below(4_000) } else { 0 };
        FuseLength { point, visit, microseconds }
    }
}

impl Member {
    fn wake(&mut self) -> Result<()> {
        if self.paused_until.take().is_some() {
            self.signal("CONT")?;
        }
        Ok(())
    }

    /// Through the shell's own `kill`. One that has ended meanwhile is not there to hear it.
    fn signal(&self, name: &str) -> Result<()> {
        let line = format!("kill -s {name} {} 2>/dev/null", self.child.id());
        Command::new("sh").args(["-c", &line]).status().context("start sh")?;
        Ok(())
    }
}

impl Drop for Fleet {
    /// Whatever went wrong, no worker is left behind.
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}
