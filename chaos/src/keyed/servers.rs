//! The servers of a run: started, killed or paused, started again on the same port, stopped.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::Result;
use punctual::clock::between;
use punctual::jiff::Timestamp;
use punctual::{Clock, SystemClock};

use super::Plan;
use crate::check::Fate;
use crate::dice::Dice;
use crate::fuse::{FuseLength, Point};
use crate::process::Process;
use crate::table::kills;

/// The schema, where there are schemas.
pub(super) const SCHEMA: &str = "keyed";
/// How many servers share the storage.
const SERVERS: usize = 2;
/// How many of a hundred servers get a fuse.
const FUSES: u64 = 90;
/// What a fuse is set to, by turns: mostly the two moments in which an effect exists and its answer does not.
const POINTS: [Point; 5] =
    [Point::Publishing, Point::Published, Point::Published, Point::Publishing, Point::Recording];
/// The most visits before a fuse ends its server; most requests pass each point once or a few times.
const VISITS_MAX: u64 = 12;
/// How many of a hundred strikes are a pause instead of a kill.
const PAUSES: u64 = 12;
/// How long a pause is: longer than the lease of a request, which the other server takes over meanwhile.
const PAUSE: Duration = Duration::from_millis(11_500);
/// A server is not struck before it had this long to start.
const YOUNG: Duration = Duration::from_millis(700);

/// The servers of one run.
pub(super) struct Servers {
    program: PathBuf,
    address: String,
    folder: PathBuf,
    dice: Dice,
    started: usize,
    members: Vec<Member>,
    fates: BTreeMap<Fate, usize>,
    pauses: usize,
    troubles: Vec<String>,
}

struct Member {
    port: u16,
    began: Timestamp,
    process: Process,
}

impl Servers {
    pub(super) fn start(plan: &Plan, address: &str, folder: &Path, dice: Dice) -> Result<Self> {
        let mut servers = Self {
            program: plan.program.clone(),
            address: address.to_owned(),
            folder: folder.to_owned(),
            dice,
            started: 0,
            members: Vec::new(),
            fates: BTreeMap::new(),
            pauses: 0,
            troubles: Vec::new(),
        };
        for _ in 0..SERVERS {
            let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
            let member = servers.member(port, true)?;
            servers.members.push(member);
        }
        Ok(servers)
    }

    pub(super) fn ports(&self) -> Vec<u16> {
        self.members.iter().map(|member| member.port).collect()
    }

    pub(super) fn fates(&self) -> &BTreeMap<Fate, usize> {
        &self.fates
    }

    /// Returns what servers did that they were not asked for.
    pub(super) fn troubles(&self) -> &[String] {
        &self.troubles
    }

    /// Returns how often a server was paused.
    pub(super) fn pauses(&self) -> usize {
        self.pauses
    }

    pub(super) fn kills(&self) -> usize {
        kills(&self.fates)
    }

    /// Starts servers again that have ended, with or without fuses.
    pub(super) fn look(&mut self, with_fuses: bool) -> Result<()> {
        for place in 0..self.members.len() {
            if let Some(status) = self.members[place].process.look()? {
                let next = self.member(self.members[place].port, with_fuses)?;
                let gone = std::mem::replace(&mut self.members[place], next);
                self.bury(&gone.process, status, false);
            }
        }
        Ok(())
    }

    /// Kills one server that has had time to start, or pauses it for longer than its leases last.
    pub(super) fn strike(&mut self, dice: &mut Dice) -> Result<()> {
        let now = SystemClock.now();
        let pause = dice.percent(PAUSES) && self.members.iter().all(|one| one.process.is_awake());
        let may = |one: &&mut Member| between(one.began, now) > YOUNG && one.process.is_awake();
        let mut grown: Vec<&mut Member> = self.members.iter_mut().filter(may).collect();
        let chosen = usize::try_from(dice.below(grown.len() as u64))?;
        let Some(member) = grown.get_mut(chosen) else { return Ok(()) };
        if !pause {
            return member.process.strike();
        }
        self.pauses += 1;
        member.process.pause(PAUSE)
    }

    /// Lets everybody who is paused go on.
    pub(super) fn wake_all(&mut self) -> Result<()> {
        self.members.iter_mut().try_for_each(|member| member.process.wake())
    }

    /// Tells every server to stop and waits for it.
    pub(super) async fn stop(&mut self) -> Result<()> {
        for member in std::mem::take(&mut self.members) {
            let (process, status) = member.process.stop(&mut self.troubles).await?;
            self.bury(&process, status, true);
        }
        Ok(())
    }

    fn bury(&mut self, gone: &Process, status: ExitStatus, told: bool) {
        let fate = gone.fate((status, told), &self.folder, &mut self.troubles);
        *self.fates.entry(fate).or_default() += 1;
    }

    fn member(&mut self, port: u16, with_fuse: bool) -> Result<Member> {
        self.started += 1;
        let name = format!("server-{}", self.started);
        let fuse = (with_fuse && self.dice.percent(FUSES)).then(|| self.fuse());
        let mut command = Command::new(&self.program);
        command.args(["server", "--name", &name, "--storage", &self.address]);
        command.args(["--schema", SCHEMA, "--port", &port.to_string(), "--ledgers"]);
        command.arg(&self.folder);
        let process = Process::start((name, fuse), command, &self.folder)?;
        Ok(Member { port, began: SystemClock.now(), process })
    }

    /// The points in turn, so that a short run visits each of them.
    fn fuse(&mut self) -> FuseLength {
        let point = POINTS[self.started % POINTS.len()];
        let visit = 1 + u32::try_from(self.dice.below(VISITS_MAX)).unwrap_or_default();
        let middle = point != Point::Published;
        let microseconds = if middle { 1 + self.dice.below(3_000) } else { 0 };
        FuseLength { point, visit, microseconds }
    }
}
