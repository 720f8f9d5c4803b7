//! Servers of a run: starts, kills, pauses, restarts on the same port, and stops them.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::Result;
use punctual::clock::between;
use punctual::jiff::Timestamp;
use punctual::{Clock, SystemClock};

use super::KeyedPlan;
use super::callers::milliseconds_since;
use super::check::ServerFacts;
use crate::check::ProcessEnd;
use crate::fuse::{CrashPoint, FuseSetting};
use crate::process::Process;
use crate::random::SeededRandom;
use crate::table::kills;

/// Schema on PostgreSQL.
pub(super) const SCHEMA: &str = "keyed";
/// Number of servers that share the storage.
const SERVERS: usize = 2;
/// Share of servers with a fuse, in percent.
const FUSE_PERCENT: u64 = 90;
/// Crash points in rotation: mostly the two between the stored messages and the recorded response.
const POINTS: [CrashPoint; 5] = [
    CrashPoint::Publishing,
    CrashPoint::Published,
    CrashPoint::Published,
    CrashPoint::Publishing,
    CrashPoint::Recording,
];
/// Largest number of the visit to abort at; most requests visit each point once or a few times.
const VISITS_MAX: u64 = 12;
/// Share of pauses among kills and pauses, in percent.
const PAUSE_PERCENT: u64 = 12;
/// Duration of a pause: longer than the lease of a request, which the other server takes over meanwhile, and than the
/// check allows a key to be refused, so that it can find a lease that does not end.
const PAUSE: Duration = Duration::from_secs(14);
/// Time a server has to start before it may be killed.
const START_TIME: Duration = Duration::from_millis(700);

/// Servers of one run.
pub(super) struct Servers {
    program: PathBuf,
    address: String,
    folder: PathBuf,
    random: SeededRandom,
    started: usize,
    members: Vec<Member>,
    ends: BTreeMap<ProcessEnd, usize>,
    pauses: usize,
    problems: Vec<String>,
    facts: Vec<(String, u16, Vec<Timestamp>)>,
}

struct Member {
    port: u16,
    started_at: Timestamp,
    process: Process,
}

impl Servers {
    pub(super) fn start(
        plan: &KeyedPlan,
        address: &str,
        folder: &Path,
        random: SeededRandom,
    ) -> Result<Self> {
        let mut servers = Self {
            program: plan.program.clone(),
            address: address.to_owned(),
            folder: folder.to_owned(),
            random,
            started: 0,
            members: Vec::new(),
            ends: BTreeMap::new(),
            pauses: 0,
            problems: Vec::new(),
            facts: Vec::new(),
        };
        for _ in 0..SERVERS {
            let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
            let member = servers.start_member(port, true)?;
            servers.members.push(member);
        }
        Ok(servers)
    }

    pub(super) fn ports(&self) -> Vec<u16> {
        self.members.iter().map(|member| member.port).collect()
    }

    /// Returns the names of all servers that were started.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        (1..=self.started).map(name)
    }

    /// Returns the ports and pauses of ended servers by name.
    pub(super) fn facts(&self, begun: Timestamp) -> BTreeMap<String, ServerFacts> {
        let facts = self.facts.iter().map(|(server, port, resumed_at)| {
            let resumed_ms = resumed_at.iter().map(|at| milliseconds_since(begun, *at)).collect();
            (server.clone(), ServerFacts { port: *port, resumed_ms })
        });
        facts.collect()
    }

    pub(super) fn ends(&self) -> &BTreeMap<ProcessEnd, usize> {
        &self.ends
    }

    /// Returns descriptions of unexpected ends.
    pub(super) fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Returns the number of pauses.
    pub(super) fn pauses(&self) -> usize {
        self.pauses
    }

    pub(super) fn kills(&self) -> usize {
        kills(&self.ends)
    }

    /// Restarts ended servers, with or without fuses.
    pub(super) fn restart_ended(&mut self, with_fuses: bool) -> Result<()> {
        for index in 0..self.members.len() {
            if let Some(status) = self.members[index].process.poll()? {
                let next = self.start_member(self.members[index].port, with_fuses)?;
                let member = std::mem::replace(&mut self.members[index], next);
                self.record_end((member.port, &member.process), status, false);
            }
        }
        Ok(())
    }

    /// Kills one server that had time to start, or pauses it for longer than its leases.
    pub(super) fn kill_or_pause(&mut self, random: &mut SeededRandom) -> Result<()> {
        let now = SystemClock.now();
        let pause =
            random.percent(PAUSE_PERCENT) && self.members.iter().all(|one| one.process.is_active());
        let may = |one: &&mut Member| {
            between(one.started_at, now) > START_TIME && one.process.is_active()
        };
        let mut candidates: Vec<&mut Member> = self.members.iter_mut().filter(may).collect();
        let chosen = usize::try_from(random.below(candidates.len() as u64))?;
        let Some(member) = candidates.get_mut(chosen) else { return Ok(()) };
        if !pause {
            return member.process.kill();
        }
        self.pauses += 1;
        member.process.pause(PAUSE)
    }

    /// Resumes all paused servers.
    pub(super) fn resume_all(&mut self) -> Result<()> {
        self.members.iter_mut().try_for_each(|member| member.process.resume())
    }

    /// Stops every server and waits for its end.
    pub(super) async fn stop(&mut self) -> Result<()> {
        for member in std::mem::take(&mut self.members) {
            let (process, status) = member.process.stop(&mut self.problems).await?;
            self.record_end((member.port, &process), status, true);
        }
        Ok(())
    }

    fn record_end(
        &mut self,
        (port, process): (u16, &Process),
        status: ExitStatus,
        was_stopped: bool,
    ) {
        self.facts.push((process.name().to_owned(), port, process.resumed_at().to_vec()));
        let end = process.end((status, was_stopped), &self.folder, &mut self.problems);
        *self.ends.entry(end).or_default() += 1;
    }

    fn start_member(&mut self, port: u16, with_fuse: bool) -> Result<Member> {
        self.started += 1;
        let name = name(self.started);
        let fuse = (with_fuse && self.random.percent(FUSE_PERCENT)).then(|| self.fuse());
        let mut command = Command::new(&self.program);
        command.args(["server", "--name", &name, "--storage", &self.address]);
        command.args(["--schema", SCHEMA, "--port", &port.to_string(), "--ledgers"]);
        command.arg(&self.folder);
        let process = Process::start((name, fuse), command, &self.folder)?;
        Ok(Member { port, started_at: SystemClock.now(), process })
    }

    /// Returns the next fuse; points rotate so that a short run uses each of them.
    fn fuse(&mut self) -> FuseSetting {
        let point = POINTS[self.started % POINTS.len()];
        let visit = 1 + u32::try_from(self.random.below(VISITS_MAX)).unwrap_or_default();
        let middle = point != CrashPoint::Published;
        let microseconds = if middle { 1 + self.random.below(3_000) } else { 0 };
        FuseSetting { point, visit, microseconds }
    }
}

/// Returns the name of the nth server.
fn name(number: usize) -> String {
    format!("server-{number}")
}
