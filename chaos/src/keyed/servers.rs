//! The servers of a run: started, killed, started again on the same port, stopped.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use punctual::clock::{add, between};
use punctual::jiff::Timestamp;
use punctual::{Clock, SystemClock};

use super::{LOOK, Plan};
use crate::check::Fate;
use crate::dice::Dice;
use crate::fuse::{FuseLength, Point};

/// The schema, where there are schemas.
pub(super) const SCHEMA: &str = "keyed";
/// How many servers share the storage.
const SERVERS: usize = 2;
/// How many of a hundred servers get a fuse.
const FUSES: u64 = 70;
/// The most visits before a fuse ends its server.
const VISITS_MAX: u64 = 60;
/// A server is not struck before it had this long to start.
const YOUNG: Duration = Duration::from_millis(700);
/// A server that is told to stop has this long.
const STOP_MAX: Duration = Duration::from_secs(30);
/// The signals of a process that aborts, and of one that is killed.
const ABORTED: i32 = 6;
const KILLED: i32 = 9;

/// The servers of one run.
pub(super) struct Servers {
    program: PathBuf,
    address: String,
    folder: PathBuf,
    dice: Dice,
    started: usize,
    members: Vec<Member>,
    fates: BTreeMap<Fate, usize>,
    troubles: Vec<String>,
}

struct Member {
    name: String,
    port: u16,
    child: Child,
    fuse: Option<FuseLength>,
    began: Timestamp,
    struck: bool,
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

    pub(super) fn kills(&self) -> usize {
        self.fates.iter().filter(|(fate, _)| **fate != Fate::Ended).map(|(_, count)| count).sum()
    }

    /// Starts servers again that have ended, with or without fuses.
    pub(super) fn look(&mut self, with_fuses: bool) -> Result<()> {
        for place in 0..self.members.len() {
            if let Some(status) = self.members[place].child.try_wait()? {
                let next = self.member(self.members[place].port, with_fuses)?;
                let gone = std::mem::replace(&mut self.members[place], next);
                self.bury(&gone, status, false);
            }
        }
        Ok(())
    }

    /// Kills one server that has had time to start.
    pub(super) fn strike(&mut self, dice: &mut Dice) -> Result<()> {
        let now = SystemClock.now();
        let mut grown: Vec<&mut Member> =
            self.members.iter_mut().filter(|one| between(one.began, now) > YOUNG).collect();
        let chosen = usize::try_from(dice.below(grown.len() as u64))?;
        if let Some(member) = grown.get_mut(chosen) {
            member.struck = true;
            member.child.kill().context("kill a server")?;
        }
        Ok(())
    }

    /// Tells every server to stop and waits for it.
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
        *self.fates.entry(fate).or_default() += 1;
    }

    fn member(&mut self, port: u16, with_fuse: bool) -> Result<Member> {
        self.started += 1;
        let name = format!("server-{}", self.started);
        let fuse = (with_fuse && self.dice.percent(FUSES)).then(|| self.fuse());
        let log = File::create(self.folder.join(format!("{name}.log")))?;
        let mut command = Command::new(&self.program);
        command.args(["server", "--name", &name, "--storage", &self.address]);
        command.args(["--schema", SCHEMA, "--port", &port.to_string(), "--ledgers"]);
        command.arg(&self.folder);
        if let Some(fuse) = fuse {
            command.args(["--fuse", &fuse.to_string()]);
        }
        let child = command
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("start a server")?;
        Ok(Member { name, port, child, fuse, began: SystemClock.now(), struck: false })
    }

    /// The points in turn, so that a short run visits each of them.
    fn fuse(&mut self) -> FuseLength {
        let point = Point::OF_SERVERS[self.started % Point::OF_SERVERS.len()];
        let visit = 1 + u32::try_from(self.dice.below(VISITS_MAX)).unwrap_or_default();
        let middle = point != Point::Published;
        let microseconds = if middle { 1 + self.dice.below(6_000) } else { 0 };
        FuseLength { point, visit, microseconds }
    }
}

impl Drop for Servers {
    /// Whatever went wrong, no server is left behind.
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}
