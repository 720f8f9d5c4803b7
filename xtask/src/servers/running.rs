//! Running server of a run: it ends with the run, however the run ends.
//!
//! A small shell script supervises it: the script has the reading end of a pipe whose writing end only this
//! process has. When the run ends, fails, is interrupted or is killed, the system closes the pipe, and the
//! script stops the server and removes its folder. The script has a separate process group, so that an
//! interrupt from the keyboard reaches the tests first and the server after them.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::process;
use super::{Durability, Owner, Place, Record, Server};

/// Longest time from the start to the first response; the very first start creates a database.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Longest time from closing the pipe to the end of the supervisor.
const STOPPED_WITHIN: Duration = Duration::from_secs(30);
/// A port that was free may be taken a moment later, so another one is tried.
const STARTS_MAX: u32 = 3;
/// `$1` folder, `$2` record, `$3` signal, then the server's command.
const SUPERVISOR: &str = include_str!("supervisor.sh");

/// A server that this process started and will stop.
pub struct Running {
    server: &'static dyn Server,
    records: PathBuf,
    record: Record,
    supervisor: Option<Child>,
}

impl Running {
    /// Starts one in a new scratch folder and waits until it responds.
    pub fn start(
        server: &'static dyn Server,
        durability: Durability,
        records: &Path,
    ) -> Result<Self> {
        let mut trouble = None;
        for _ in 0..STARTS_MAX {
            match Self::start_once(server, durability, records) {
                Ok(running) => return Ok(running),
                Err(error) => trouble = Some(error),
            }
        }
        let error = trouble.context("no start was tried")?;
        Err(error.context(format!("{} did not start, {STARTS_MAX} times over", server.name())))
    }

    fn start_once(
        server: &'static dyn Server,
        durability: Durability,
        records: &Path,
    ) -> Result<Self> {
        let place = Place::create(server.name(), durability)?;
        let owner = Owner::Run(std::process::id());
        let record = Record { server: server.name().to_owned(), place, owner };
        let mut running = Self { server, records: records.to_owned(), record, supervisor: None };
        running.record.write(records)?;
        running.serve()?;
        Ok(running)
    }

    /// The address for the tests.
    pub fn address(&self) -> String {
        self.server.address(self.place())
    }

    /// Environment variable for the tests, and the address.
    pub fn environment(&self) -> (&'static str, String) {
        (self.server.variable(), self.address())
    }

    /// The back-end it serves.
    pub fn name(&self) -> &'static str {
        self.server.name()
    }

    /// Its folder and port.
    pub fn place(&self) -> &Place {
        &self.record.place
    }

    /// Ends the server without warning, as a power cut would; folder and port stay for `serve`.
    pub fn crash(&mut self) -> Result<()> {
        self.end("KILL")
    }

    /// Ends the server in order, as its operator would; folder and port stay for `serve`.
    pub fn halt(&mut self) -> Result<()> {
        self.end(self.server.stop_signal())
    }

    fn end(&mut self, signal: &str) -> Result<()> {
        let Some(mut supervisor) = self.supervisor.take() else { return Ok(()) };
        let pid = self.place().pid().context("the server has no process id")?;
        // The supervisor reaps the server and ends too. Its input stays open until then; `wait` would close it.
        let input = supervisor.stdin.take();
        let children = process::children(pid);
        process::signal(signal, i64::from(pid))?;
        supervisor.wait().context("wait for the supervisor")?;
        drop(input);
        // They notice the death of their parent a moment later, and until then keep its data busy.
        let are_gone = || children.iter().all(|child| !process::is_alive(*child));
        if !process::eventually(STOPPED_WITHIN, are_gone) {
            bail!("processes of the ended server are still there: {children:?}");
        }
        Ok(())
    }

    /// Serves from the same folder on the same port again, after `crash` or `halt`. Nothing to do while it runs.
    pub fn serve(&mut self) -> Result<()> {
        if self.supervisor.is_some() {
            return Ok(());
        }
        let place = &self.record.place;
        let mut supervisor = self.spawn()?;
        let mut ended = None;
        process::eventually(READY_WITHIN, || {
            ended = supervisor.try_wait().ok().flatten();
            ended.is_some() || self.server.is_ready(place)
        });
        if let Some(status) = ended {
            bail!("{} ended immediately ({status}):\n{}", self.server.name(), place.log_tail());
        }
        let ready = self.server.is_ready(place);
        let tail = place.log_tail();
        self.supervisor = Some(supervisor);
        if !ready {
            bail!("{} does not respond after {READY_WITHIN:?}:\n{tail}", self.server.name());
        }
        Ok(())
    }

    fn spawn(&self) -> Result<Child> {
        let place = &self.record.place;
        let served = self.server.prepare(place)?;
        let log = File::options().create(true).append(true).open(place.log())?;
        Command::new("sh")
            .args(["-c", SUPERVISOR, "supervisor"])
            .args([&place.folder, &self.record.file(&self.records)])
            .arg(self.server.stop_signal())
            .arg(served.get_program())
            .args(served.get_args())
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()
            .context("start sh")
    }

    /// Closes the supervisor's input and waits for its end, which also removes the folder.
    fn stop(&mut self) -> Result<()> {
        if let Some(mut supervisor) = self.supervisor.take() {
            drop(supervisor.stdin.take());
            let mut ended = false;
            process::eventually(STOPPED_WITHIN, || {
                ended = matches!(supervisor.try_wait(), Ok(Some(_)));
                ended
            });
            if !ended {
                process::signal("KILL", -i64::from(supervisor.id()))?;
                supervisor.wait().context("wait for the supervisor")?;
            }
        }
        self.record.end(&self.records)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            eprintln!("{} was not stopped in order: {error:#}", self.server.name());
        }
    }
}
