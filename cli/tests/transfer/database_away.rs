//! A server whose PostgreSQL goes away and comes back. It is a PostgreSQL of its own, because others use the usual one, so
//! it has to be installed on this machine.

use std::path::Path;
use std::time::Duration;

use punctual::clock::{add, between};
use punctual::{Clock as _, SystemClock};
use xtask::servers::{Durability, Postgres, Running};

use crate::running::{Server, TIMEOUT, text};

/// How soon it must show that the database is gone.
const RED_WITHIN: Duration = Duration::from_secs(5);
/// How long it is waited before the same is asked again.
const MOMENT: Duration = Duration::from_millis(100);

/// Asks until something is so, and returns how long that took.
fn until(what: &str, is_so: impl Fn() -> bool) -> Duration {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let began = SystemClock.now();
    loop {
        if is_so() {
            return between(began, SystemClock.now());
        }
        assert!(between(began, SystemClock.now()) < TIMEOUT, "{what}");
        runtime.block_on(SystemClock.sleep_until(add(SystemClock.now(), MOMENT)));
    }
}

/// The exit code of a command that asks the server, and all it says.
fn asked(folder: &Path, server: &Server, args: &[&str]) -> (i32, String) {
    let mut command = crate::running::punctual(folder, args);
    command.env("PUNCTUAL_SERVER", format!("http://{}", server.address));
    for name in ["PUNCTUAL_STORAGE", "PUNCTUAL_TOKEN"] {
        command.env_remove(name);
    }
    let output = command.env("XDG_CONFIG_HOME", folder).output().unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    (output.status.code().unwrap(), said)
}

fn condition(server: &Server) -> String {
    server.get("/api/v1/health").1["condition"].as_str().unwrap_or_default().to_owned()
}

// Finding P1 of the newcomer's review: everything was green, and lists were empty, while PostgreSQL was stopped.
pub(crate) fn a_server_says_so_until_its_postgresql_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let records = folder.path().join("records");
    let mut database = Running::start(&Postgres, Durability::Relaxed, &records).unwrap();
    let server = Server::start(folder.path(), &["--storage", &database.address()]);
    let ask = |args: &[&str]| asked(folder.path(), &server, args);
    let job = ["jobs", "create", "nightly", "--cron", "0 2 1 1 *", "--topic", "punctual-test"];
    assert_eq!(ask(&job).0, 0);
    until("it is healthy at first", || condition(&server) == "healthy");

    database.halt().unwrap();
    let took = until("it turns red", || server.get("/health").0 == 503);
    assert!(took < RED_WITHIN, "it was red only after {took:?}");
    assert_eq!(condition(&server), "unhealthy");
    assert_eq!(server.get("/health/ready").0, 503);
    for list in ["jobs", "messages", "executions", "queues", "workers", "overview"] {
        let (status, answer) = server.get(&format!("/api/v1/{list}"));
        assert_eq!(status, 503, "{list}: {answer}");
    }
    for list in ["jobs", "messages"] {
        let (code, said) = ask(&[list, "list"]);
        assert_eq!(code, 5, "{list}: {said}");
    }
    let (code, said) = ask(&["doctor", "--server", &format!("http://{}", server.address)]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("unhealthy") && said.contains("storage"), "{said}");

    database.serve().unwrap();
    until("it is well again", || condition(&server) == "healthy" && server.get("/health").0 == 200);
    let (code, said) = ask(&["jobs", "list"]);
    assert!(code == 0 && said.contains("nightly"), "{code}: {said}");
    assert_eq!(ask(&["jobs", "trigger", "nightly"]).0, 0);
    until("it works again", || {
        let done = server.get("/api/v1/messages?state=done").1;
        done["items"].as_array().is_some_and(|items| !items.is_empty())
    });
    assert_eq!(
        ask(&["doctor", "--server", &format!("http://{}", server.address)])
            .1
            .matches("unhealthy")
            .count(),
        0
    );
    drop(server);
    drop(database);
}
