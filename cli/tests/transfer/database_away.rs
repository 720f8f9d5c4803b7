//! Server whose PostgreSQL stops and starts again. The test starts its own PostgreSQL, because other tests use the common
//! one, so PostgreSQL must be installed on this machine.

use std::path::Path;
use std::time::Duration;

use punctual::clock::{add, between};
use punctual::{Clock as _, SystemClock};
use xtask::servers::{Durability, Postgres, Running};

use crate::server_process::{Server, TIMEOUT, text};

/// Longest time until the server must report the stopped database.
const UNHEALTHY_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between two checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Repeats a check until it holds, and returns how long that took.
fn until(what: &str, holds: impl Fn() -> bool) -> Duration {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let began = SystemClock.now();
    loop {
        if holds() {
            return between(began, SystemClock.now());
        }
        assert!(between(began, SystemClock.now()) < TIMEOUT, "{what}");
        runtime.block_on(SystemClock.sleep_until(add(SystemClock.now(), CHECK_INTERVAL)));
    }
}

/// Runs a command against the server and returns its exit code and output.
fn run(folder: &Path, server: &Server, args: &[&str]) -> (i32, String) {
    let mut command = crate::server_process::punctual(folder, args);
    command.env("PUNCTUAL_SERVER", format!("http://{}", server.address));
    for name in ["PUNCTUAL_STORAGE", "PUNCTUAL_TOKEN"] {
        command.env_remove(name);
    }
    let output = command.env("XDG_CONFIG_HOME", folder).output().unwrap();
    let printed = text(&output.stdout) + &text(&output.stderr);
    (output.status.code().unwrap(), printed)
}

fn condition(server: &Server) -> String {
    server.get("/api/v1/health").1["condition"].as_str().unwrap_or_default().to_owned()
}

// Finding P1 of the newcomer's review: the server was healthy with empty lists while PostgreSQL was stopped.
pub(crate) fn a_server_is_unhealthy_until_its_postgresql_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let records = folder.path().join("records");
    let mut database = Running::start(&Postgres, Durability::Relaxed, &records).unwrap();
    let server = Server::start(folder.path(), &["--storage", &database.address()]);
    let run = |args: &[&str]| run(folder.path(), &server, args);
    let job = ["jobs", "create", "nightly", "--cron", "0 2 1 1 *", "--topic", "punctual-test"];
    assert_eq!(run(&job).0, 0);
    until("it is healthy at first", || condition(&server) == "healthy");

    database.halt().unwrap();
    let took = until("it becomes unhealthy", || server.get("/health").0 == 503);
    assert!(took < UNHEALTHY_TIMEOUT, "it became unhealthy only after {took:?}");
    assert_eq!(condition(&server), "unhealthy");
    assert_eq!(server.get("/health/ready").0, 503);
    for list in ["jobs", "messages", "executions", "queues", "workers", "overview"] {
        let (status, response) = server.get(&format!("/api/v1/{list}"));
        assert_eq!(status, 503, "{list}: {response}");
    }
    for list in ["jobs", "messages"] {
        let (code, printed) = run(&[list, "list"]);
        assert_eq!(code, 5, "{list}: {printed}");
    }
    let (code, printed) = run(&["doctor", "--server", &format!("http://{}", server.address)]);
    assert_eq!(code, 1, "{printed}");
    assert!(printed.contains("unhealthy") && printed.contains("storage"), "{printed}");

    database.serve().unwrap();
    until("it is healthy again", || {
        condition(&server) == "healthy" && server.get("/health").0 == 200
    });
    let (code, printed) = run(&["jobs", "list"]);
    assert!(code == 0 && printed.contains("nightly"), "{code}: {printed}");
    assert_eq!(run(&["jobs", "trigger", "nightly"]).0, 0);
    until("it runs jobs again", || {
        let done = server.get("/api/v1/messages?state=done").1;
        done["items"].as_array().is_some_and(|items| !items.is_empty())
    });
    assert_eq!(
        run(&["doctor", "--server", &format!("http://{}", server.address)])
            .1
            .matches("unhealthy")
            .count(),
        0
    );
    drop(server);
    drop(database);
}
