//! Really starting servers: ready, private, durable when asked, stopped in every way a run can end.
//!
//! Without the product on this machine a case is *ignored*, never passed; see `Availability`.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that cannot go on stops, and says what it does"
)]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use xtask::servers::{Availability, Durability, Owner, Postgres, Running, Server, detached};

type Case = fn() -> Result<(), Failed>;

const CASES: [(&str, Case); 6] = [
    ("a_server_responds_until_it_is_dropped", a_server_responds_until_it_is_dropped),
    ("a_killed_run_stops_its_server", a_killed_run_stops_its_server),
    (
        "a_server_without_its_supervisor_is_swept_away",
        a_server_without_its_supervisor_is_swept_away,
    ),
    ("a_crashed_server_serves_its_data_again", a_crashed_server_serves_its_data_again),
    (
        "a_second_up_starts_no_server_and_down_stops_it",
        a_second_up_starts_no_server_and_down_stops_it,
    ),
    ("down_leaves_the_servers_of_runs_alone", down_leaves_the_servers_of_runs_alone),
];
/// Set for the copy of this program that is killed.
const VICTIM: &str = "PUNCTUAL_TEST_VICTIM";

fn main() -> ExitCode {
    if let Some(records) = std::env::var_os(VICTIM) {
        return be_the_victim(records.into());
    }
    let availability = Availability::of(&Postgres);
    if let Availability::Ignored(why) | Availability::Missing(why) = availability {
        eprintln!("PostgreSQL: {why}");
    }
    let trials = CASES.map(|(name, case)| {
        let run = move || match availability {
            Availability::Missing(why) => Err(why.into()),
            _ => case(),
        };
        let ignored = matches!(availability, Availability::Ignored(_));
        Trial::test(name, run).with_ignored_flag(ignored)
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}

fn a_server_responds_until_it_is_dropped() -> Result<(), Failed> {
    let records = Records::new("answers");
    let running = Running::start(&Postgres, Durability::Relaxed, &records.0)?;
    let place = running.place().clone();
    assert_eq!(query(&running, "show fsync"), "off");
    assert_eq!(query(&running, "show listen_addresses"), "127.0.0.1");
    assert_eq!(detached::list(&records.0)[0].owner, Owner::Run(std::process::id()));
    drop(running);
    assert!(!Postgres.is_ready(&place));
    assert!(!place.folder.exists(), "the scratch folder is gone");
    assert_eq!(detached::list(&records.0), []);
    Ok(())
}

/// The run is killed without a chance to clean up; the supervisor notices that its pipe is closed.
fn a_killed_run_stops_its_server() -> Result<(), Failed> {
    let records = Records::new("killed");
    let mut victim = victim(&records)?;
    let record = detached::list(&records.0).pop().unwrap();
    assert!(Postgres.is_ready(&record.place));
    victim.kill()?;
    victim.wait()?;
    let gone = (0..400).any(|_| {
        pause(Duration::from_millis(50));
        !record.place.folder.exists()
    });
    assert!(gone, "the supervisor removes the folder");
    assert!(!Postgres.is_ready(&record.place));
    assert_eq!(detached::list(&records.0), []);
    Ok(())
}

/// Run and supervisor are both killed: only the record of the server is left.
fn a_server_without_its_supervisor_is_swept_away() -> Result<(), Failed> {
    let records = Records::new("swept");
    let mut victim = victim(&records)?;
    let record = detached::list(&records.0).pop().unwrap();
    assert!(detached::sweep(&records.0)?.is_empty(), "its run still lives");
    let server = record.live_pid().unwrap().to_string();
    let supervisor = parent_of(&server);
    let children = fs::read_to_string(format!("/proc/{supervisor}/task/{supervisor}/children"))?;
    let watch = children.split_whitespace().find(|child| *child != server).unwrap();
    shell(&format!("kill -KILL {supervisor} {watch} {}", victim.id()))?;
    victim.wait()?;
    assert!(Postgres.is_ready(&record.place), "it still runs");
    assert_eq!(detached::sweep(&records.0)?, std::slice::from_ref(&record));
    assert!(!Postgres.is_ready(&record.place));
    assert!(!record.place.folder.exists());
    Ok(())
}

fn a_crashed_server_serves_its_data_again() -> Result<(), Failed> {
    let records = Records::new("crashed");
    let mut running = Running::start(&Postgres, Durability::Durable, &records.0)?;
    assert_eq!(query(&running, "show fsync"), "on");
    query(&running, "create table kept as select 7 as seven");
    running.crash()?;
    assert!(!Postgres.is_ready(running.place()));
    running.serve()?;
    assert_eq!(query(&running, "select seven from kept"), "7");
    Ok(())
}

fn a_second_up_starts_no_server_and_down_stops_it() -> Result<(), Failed> {
    let records = Records::new("up");
    let first = detached::up(&Postgres, Durability::Relaxed, &records.0)?;
    let second = detached::up(&Postgres, Durability::Relaxed, &records.0)?;
    assert_eq!(first, second);
    assert!(detached::up(&Postgres, Durability::Durable, &records.0).is_err());
    assert!(first.live_pid().is_some());
    let export = detached::export(&first)?;
    assert!(export.starts_with("export PUNCTUAL_POSTGRES_URL=postgres://"), "{export}");
    assert_eq!(detached::down(&records.0)?, std::slice::from_ref(&first));
    assert!(first.live_pid().is_none());
    assert!(!first.place.folder.exists());
    assert_eq!(detached::down(&records.0)?, []);
    Ok(())
}

fn down_leaves_the_servers_of_runs_alone() -> Result<(), Failed> {
    let records = Records::new("down");
    let running = Running::start(&Postgres, Durability::Relaxed, &records.0)?;
    assert_eq!(detached::down(&records.0)?, []);
    assert!(Postgres.is_ready(running.place()));
    Ok(())
}

/// Another process with a server, ready when its first line is there.
fn victim(records: &Records) -> Result<std::process::Child, Failed> {
    let mut victim = Command::new(std::env::current_exe()?)
        .env(VICTIM, &records.0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    let mut output = std::io::BufReader::new(victim.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut output, &mut line)?;
    assert_eq!(line, "ready\n");
    Ok(victim)
}

fn be_the_victim(records: PathBuf) -> ExitCode {
    let Ok(_running) = Running::start(&Postgres, Durability::Relaxed, &records) else {
        return ExitCode::FAILURE;
    };
    println!("ready");
    pause(Duration::from_secs(60));
    ExitCode::SUCCESS
}

/// Waits on a channel without a sender.
fn pause(length: Duration) {
    let (_never, wait) = mpsc::channel::<()>();
    let _ = wait.recv_timeout(length);
}

fn parent_of(pid: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap();
    line.trim().to_owned()
}

fn shell(line: &str) -> Result<(), Failed> {
    let status = Command::new("sh").args(["-c", line]).status()?;
    if status.success() { Ok(()) } else { Err(format!("`{line}` ended with {status}").into()) }
}

fn query(running: &Running, sql: &str) -> String {
    let output = Command::new("psql").args([&running.address(), "-Atqc", sql]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A folder of records that goes with the test.
struct Records(PathBuf);

impl Records {
    fn new(name: &str) -> Self {
        let folder = format!("punctual-records-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(folder))
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
