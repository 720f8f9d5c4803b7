//! A server on a leash: it ends when its run ends, whatever way that is.
//!
//! A small shell script stands between: it holds the reading end of a pipe whose writing end only this
//! process has. When the run is done, fails, is interrupted or is killed, the system closes the pipe,
//! and the script stops the server and removes its folder. The script has a process group of its own,
//! so that an interrupt from the keyboard reaches the tests first and the server after them.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::process;
use super::{Durability, Keeper, Place, Record, Server};

/// Between the start and the first answer; the first start of all creates a database.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Between letting go of the leash and the end of the script.
const STOPPED_WITHIN: Duration = Duration::from_secs(30);
/// A port that was free may be taken a moment later, so another one is tried.
const STARTS_MAX: u32 = 3;
/// `$1` folder, `$2` record, `$3` signal, then the server's command.
const LEASH: &str = include_str!("leash.sh");

/// A server that this process started and will stop.
pub struct Running {
    server: &'static dyn Server,
    records: PathBuf,
    record: Record,
    leash: Option<Child>,
}

impl Running {
    /// Starts one in a new scratch folder and waits until it answers.
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
        let keeper = Keeper::Run(std::process::id());
        let record = Record { server: server.name().to_owned(), place, keeper };
        let mut running = Self { server, records: records.to_owned(), record, leash: None };
        running.record.write(records)?;
        running.serve()?;
        Ok(running)
    }

    /// The address for the tests.
    pub fn address(&self) -> String {
        self.server.address(self.place())
    }

    /// The variable that tells the tests, and the address.
    pub fn environment(&self) -> (&'static str, String) {
        (self.server.variable(), self.address())
    }

    /// The back-end it serves.
    pub fn name(&self) -> &'static str {
        self.server.name()
    }

    /// Where it lives.
    pub fn place(&self) -> &Place {
        &self.record.place
    }

    /// Ends the server without warning, as a power cut would; folder and port stay for `serve`.
    pub fn crash(&mut self) -> Result<()> {
        self.end_with("KILL")
    }

    /// Ends the server as its operator would; folder and port stay for `serve`.
    pub fn end(&mut self) -> Result<()> {
        self.end_with(self.server.stop_signal())
    }

    fn end_with(&mut self, signal: &str) -> Result<()> {
        let Some(mut leash) = self.leash.take() else { return Ok(()) };
        let pid = self.place().pid().context("the server has no process id")?;
        // The leash takes note of the death, as a parent has to, and ends too. It must not be let go
        // of before: waiting for a child closes its input.
        let held = leash.stdin.take();
        let children = process::children(pid);
        process::signal(signal, i64::from(pid))?;
        leash.wait().context("wait for the leash")?;
        drop(held);
        // They notice the death of their parent a moment later, and until then keep its data busy.
        let are_gone = || children.iter().all(|child| !process::is_alive(*child));
        if !process::eventually(STOPPED_WITHIN, are_gone) {
            bail!("processes of the killed server are still there: {children:?}");
        }
        Ok(())
    }

    /// Serves from the same folder on the same port again, after `crash`. Nothing to do while it runs.
    pub fn serve(&mut self) -> Result<()> {
        if self.leash.is_some() {
            return Ok(());
        }
        let place = &self.record.place;
        let mut leash = self.spawn()?;
        let mut ended = None;
        process::eventually(READY_WITHIN, || {
            ended = leash.try_wait().ok().flatten();
            ended.is_some() || self.server.is_ready(place)
        });
        if let Some(status) = ended {
            bail!("{} ended at once ({status}):\n{}", self.server.name(), place.log_tail());
        }
        let ready = self.server.is_ready(place);
        let tail = place.log_tail();
        self.leash = Some(leash);
        if !ready {
            bail!("{} does not answer after {READY_WITHIN:?}:\n{tail}", self.server.name());
        }
        Ok(())
    }

    fn spawn(&self) -> Result<Child> {
        let place = &self.record.place;
        let served = self.server.prepare(place)?;
        let log = File::options().create(true).append(true).open(place.log())?;
        Command::new("sh")
            .args(["-c", LEASH, "leash"])
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

    /// Lets go of the leash and waits for the end, which also removes the folder.
    fn stop(&mut self) -> Result<()> {
        if let Some(mut leash) = self.leash.take() {
            drop(leash.stdin.take());
            let mut ended = false;
            process::eventually(STOPPED_WITHIN, || {
                ended = matches!(leash.try_wait(), Ok(Some(_)));
                ended
            });
            if !ended {
                process::signal("KILL", -i64::from(leash.id()))?;
                leash.wait().context("wait for the leash")?;
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
