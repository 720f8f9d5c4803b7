//! The workers of a run: started, struck, replaced, stopped.

use std::path::PathBuf;
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result};

use super::plan::Plan;
use crate::check::Fate;
use crate::dice::Dice;
use crate::fuse::{FuseLength, Point};
use crate::process::Process;
use crate::worker::LEASE_DURATION;

/// How many of a hundred workers get a fuse.
const FUSES: u64 = 65;
/// How many of a hundred strikes are a pause instead of a kill.
const PAUSES: u64 = 20;

/// The workers of one run.
pub(super) struct Fleet {
    program: PathBuf,
    address: String,
    schema: String,
    folder: PathBuf,
    dice: Dice,
    started: usize,
    members: Vec<Process>,
    ended: Vec<(String, Fate)>,
    troubles: Vec<String>,
    pauses: usize,
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
            if let Some(status) = self.members[place].look()? {
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
        let mut awake: Vec<&mut Process> =
            self.members.iter_mut().filter(|member| member.is_awake()).collect();
        let chosen = usize::try_from(dice.below(awake.len() as u64))?;
        // Somebody has to be left to take over what a paused worker holds.
        let many = awake.len() > 1;
        let Some(member) = awake.get_mut(chosen) else { return Ok(()) };
        if pause && many {
            member.pause(LEASE_DURATION * 2)?;
            self.pauses += 1;
            return Ok(());
        }
        member.strike()
    }

    /// Lets everybody who is paused go on.
    pub(super) fn wake_all(&mut self) -> Result<()> {
        self.members.iter_mut().try_for_each(Process::wake)
    }

    /// Tells every worker to stop and waits for it.
    pub(super) async fn stop(&mut self) -> Result<()> {
        for member in std::mem::take(&mut self.members) {
            let (member, status) = member.stop(&mut self.troubles).await?;
            self.bury(&member, status, true);
        }
        Ok(())
    }

    fn bury(&mut self, gone: &Process, status: ExitStatus, told: bool) {
        let fate = gone.fate((status, told), &self.folder, &mut self.troubles);
        self.ended.push((gone.name().to_owned(), fate));
    }

    fn start(&mut self, with_fuses: bool) -> Result<Process> {
        self.started += 1;
        let name = format!("worker-{}", self.started);
        let fuse = (with_fuses && self.dice.percent(FUSES)).then(|| self.fuse());
        let mut command = Command::new(&self.program);
        command.args(["worker", "--name", &name, "--storage", &self.address]);
        command.args(["--schema", &self.schema, "--ledgers"]).arg(&self.folder);
        Process::start((name, fuse), command, &self.folder)
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
