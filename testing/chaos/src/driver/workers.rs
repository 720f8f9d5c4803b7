//! Workers of a run: starts, kills, pauses, replaces and stops them.

use std::path::PathBuf;
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result};

use super::plan::KillPlan;
use crate::check::ProcessEnd;
use crate::fuse::{CrashPoint, FuseSetting};
use crate::process::Process;
use crate::random::SeededRandom;
use crate::worker::LEASE_DURATION;

/// Share of workers with a fuse, in percent.
const FUSE_PERCENT: u64 = 65;
/// Share of pauses among kills and pauses, in percent.
const PAUSE_PERCENT: u64 = 20;

/// Workers of one run.
pub(super) struct Workers {
    program: PathBuf,
    address: String,
    schema: String,
    folder: PathBuf,
    random: SeededRandom,
    started: usize,
    members: Vec<Process>,
    ended: Vec<(String, ProcessEnd)>,
    problems: Vec<String>,
    pauses: usize,
}

impl Workers {
    /// Starts the planned number of workers.
    pub(super) fn new(
        plan: &KillPlan,
        address: String,
        folder: PathBuf,
        random: SeededRandom,
    ) -> Result<Self> {
        let program = std::env::current_exe().context("find this program")?;
        let mut workers = Self {
            program,
            address,
            schema: plan.schema.clone(),
            folder,
            random,
            started: 0,
            members: Vec::new(),
            ended: Vec::new(),
            problems: Vec::new(),
            pauses: 0,
        };
        for _ in 0..plan.workers {
            let member = workers.start(true)?;
            workers.members.push(member);
        }
        Ok(workers)
    }

    /// Returns the number of killed workers.
    pub(super) fn kills(&self) -> usize {
        self.ended.iter().filter(|(_, end)| *end != ProcessEnd::Stopped).count()
    }

    /// Returns the number of pauses.
    pub(super) fn pauses(&self) -> usize {
        self.pauses
    }

    /// Returns every ended worker with its end.
    pub(super) fn ended(&self) -> &[(String, ProcessEnd)] {
        &self.ended
    }

    /// Returns descriptions of unexpected ends.
    pub(super) fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Replaces ended workers, with or without fuses, and resumes those whose pause is over.
    pub(super) fn replace_ended(&mut self, with_fuses: bool) -> Result<()> {
        for index in 0..self.members.len() {
            if let Some(status) = self.members[index].poll()? {
                let next = self.start(with_fuses)?;
                let process = std::mem::replace(&mut self.members[index], next);
                self.record_end(&process, status, false);
            }
        }
        Ok(())
    }

    /// Kills one worker, or pauses it for longer than its leases last.
    pub(super) fn kill_or_pause(&mut self, random: &mut SeededRandom) -> Result<()> {
        let pause = random.percent(PAUSE_PERCENT);
        let mut active: Vec<&mut Process> =
            self.members.iter_mut().filter(|member| member.is_active()).collect();
        let chosen = usize::try_from(random.below(active.len() as u64))?;
        // Another worker must be left to take over the messages of a paused one.
        let others_left = active.len() > 1;
        let Some(member) = active.get_mut(chosen) else { return Ok(()) };
        if pause && others_left {
            member.pause(LEASE_DURATION * 2)?;
            self.pauses += 1;
            return Ok(());
        }
        member.kill()
    }

    /// Resumes all paused workers.
    pub(super) fn resume_all(&mut self) -> Result<()> {
        self.members.iter_mut().try_for_each(Process::resume)
    }

    /// Stops every worker and waits for its end.
    pub(super) async fn stop(&mut self) -> Result<()> {
        for member in std::mem::take(&mut self.members) {
            let (member, status) = member.stop(&mut self.problems).await?;
            self.record_end(&member, status, true);
        }
        Ok(())
    }

    fn record_end(&mut self, process: &Process, status: ExitStatus, was_stopped: bool) {
        let end = process.end((status, was_stopped), &self.folder, &mut self.problems);
        self.ended.push((process.name().to_owned(), end));
    }

    fn start(&mut self, with_fuses: bool) -> Result<Process> {
        self.started += 1;
        let name = format!("worker-{}", self.started);
        let fuse = (with_fuses && self.random.percent(FUSE_PERCENT)).then(|| self.fuse());
        let mut command = Command::new(&self.program);
        command.args(["worker", "--name", &name, "--storage", &self.address]);
        command.args(["--schema", &self.schema, "--ledgers"]).arg(&self.folder);
        Process::start((name, fuse), command, &self.folder)
    }

    /// Returns the next fuse; points rotate so that a run of fifty kills uses each of them.
    fn fuse(&mut self) -> FuseSetting {
        let point = CrashPoint::WORKER_POINTS[self.started % CrashPoint::WORKER_POINTS.len()];
        let visit = match point {
            // Only a worker started after a kill has messages to rescue.
            CrashPoint::Reclaimed => 1,
            _ => 1 + u32::try_from(self.random.below(120)).unwrap_or_default(),
        };
        let middle = point == CrashPoint::Settling;
        let microseconds = if middle { 1 + self.random.below(4_000) } else { 0 };
        FuseSetting { point, visit, microseconds }
    }
}
