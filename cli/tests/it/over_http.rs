//! Tests of every command against a real server over HTTP: text output, JSON output and exit codes.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::server_process::{Server, text};
use serde_json::Value;

/// A server, and the folder of its client.
struct Site {
    server: Server,
    folder: tempfile::TempDir,
}

impl Site {
    fn start(args: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(folder.path(), args);
        Self { server, folder }
    }

    fn run(&self, args: &[&str], input: &str) -> Output {
        run(self.folder.path(), &self.url(), args, input)
    }

    fn url(&self) -> String {
        format!("http://{}", self.server.address)
    }

    /// Runs a command that must succeed and returns its standard output.
    fn printed(&self, args: &[&str]) -> String {
        let output = self.run(args, "");
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Runs a command with `--json` and returns its output.
    fn json(&self, args: &[&str]) -> Value {
        let printed = self.printed(&[args, &["--json"]].concat());
        serde_json::from_str(&printed)
            .unwrap_or_else(|error| panic!("{args:?}: {error}: {printed}"))
    }

    /// Runs a command that must fail and returns its exit code and standard error.
    fn refused(&self, args: &[&str]) -> (i32, String) {
        let output = self.run(args, "");
        (output.status.code().unwrap(), text(&output.stderr))
    }
}

fn run(folder: &Path, url: &str, args: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(args).current_dir(folder).env("PUNCTUAL_SERVER", url);
    for name in ["PUNCTUAL_STORAGE", "PUNCTUAL_TOKEN"] {
        command.env_remove(name);
    }
    command.env("XDG_CONFIG_HOME", folder).env("APPDATA", folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that does not read its input may have ended already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn in_memory() -> Site {
    Site::start(&["--storage", "memory:"])
}

#[test]
fn jobs_are_listed_and_changed() {
    let site = in_memory();
    let create = ["jobs", "create", "nightly", "--cron", "0 2 * * *", "--topic", "close"];
    assert!(site.printed(&create).starts_with("Created nightly: "));
    assert_eq!(site.refused(&create).0, 4, "the job exists already");
    for (args, words) in [
        (&["jobs", "list"][..], "nightly"),
        (&["jobs", "show", "nightly"], "0 2 * * *"),
        (&["jobs", "next", "nightly", "--count", "2"], "02:00"),
        (&["jobs", "pause", "nightly", "--reason", "a move", "--for", "2h"], "is paused until"),
        (&["jobs", "resume", "nightly"], "runs next at"),
        (&["jobs", "skip", "nightly"], "nightly skips the occurrence of"),
        (&["jobs", "edit", "nightly", "--cron", "0 3 * * *"], "jobs reset nightly"),
        (&["jobs", "reset", "nightly"], "has its defined settings"),
        (&["jobs", "backfill", "nightly", "--from", "-3d", "--dry-run"], "of nightly would run"),
        (&["jobs", "backfill", "nightly", "--from", "-3d", "--yes"], "nightly"),
        (&["jobs", "history", "nightly", "--occurrences"], "nightly"),
    ] {
        let printed = site.printed(args);
        let is_printed = printed.contains(words) || args.contains(&"history");
        assert!(is_printed, "{args:?}: {printed}");
    }
    assert_eq!(site.json(&["jobs", "list"])["items"][0]["name"], "nightly");
    assert_eq!(site.json(&["jobs", "show", "nightly"])["cron"], "0 2 * * *");
    assert_eq!(site.json(&["jobs", "next", "nightly"])["items"].as_array().unwrap().len(), 10);
    assert!(site.json(&["jobs", "history", "nightly"])["items"].is_array());
    let (code, printed) = site.refused(&["jobs", "trigger", "nightly"]);
    assert_eq!(code, 4, "its backfilled runs are active: {printed}");
    assert!(
        printed.contains("add `--ignore-overlap`") && !printed.contains("ignore_overlap"),
        "{printed}"
    );
    assert!(site.json(&["jobs", "trigger", "nightly", "--ignore-overlap"])["message"].is_string());
    assert_eq!(site.refused(&["jobs", "show", "unknown"]).0, 3);
    assert_eq!(site.refused(&["jobs", "edit", "nightly", "--cron", "0 25 * * *"]).0, 2);
    assert_eq!(site.refused(&["jobs", "delete", "nightly"]).0, 4, "not confirmed");
    assert_eq!(site.printed(&["jobs", "delete", "nightly", "--yes"]), "Deleted nightly.\n");
}

#[test]
fn messages_queues_and_dead_letters_are_listed_and_changed() {
    let site = in_memory();
    let publish = ["messages", "publish", "mail", "{\"to\":\"ada\"}", "--queue", "slow"];
    let id = site.printed(&[&publish[..], &["--delay", "1h"]].concat()).trim().to_owned();
    site.printed(&publish);
    for (args, words) in [
        (&["messages", "list", "--topic", "mail"][..], id.as_str()),
        (&["messages", "list", "--state", "pending", "--count"], "2\n"),
        (&["messages", "show", &id], "\"to\": \"ada\""),
        (&["messages", "why", &id], ""),
        (&["messages", "reschedule", &id, "--delay", "2h"], "rescheduled, due in 2h"),
        (&["messages", "reassign", &id, "--to", "slow", "--priority", "9"], "queue slow"),
        (&["messages", "cancel", &id, "--reason", "a test"], "1 message cancelled."),
        (&["messages", "redrive", &id], "1 message"),
        (&["messages", "delete", &id, "--yes"], "1 message deleted."),
        (&["queues", "list"], "slow"),
        (&["queues", "pause", "slow", "--reason", "too many"], "slow"),
        (&["queues", "show", "slow"], "too many"),
        (&["queues", "resume", "slow"], "slow"),
        (&["queues", "concurrency", "slow", "3"], "3"),
        (&["queues", "purge", "slow", "--dry-run"], "would purge"),
        (&["queues", "purge", "slow", "--yes"], "purged"),
        (&["executions"], ""),
        (&["workers"], "server"),
        (&["audit"], "queue.pause"),
        #[cfg(feature = "top")]
        (&["top"], "queue"),
    ] {
        let printed = site.printed(args);
        assert!(printed.contains(words), "{args:?}: {printed}");
    }
    for args in [
        &["messages", "list"][..],
        &["queues", "list"],
        &["dead", "list"],
        &["dead", "groups"],
        &["executions"],
        &["workers"],
        &["audit", "--what", "queue"],
    ] {
        assert!(site.json(args)["items"].is_array(), "{args:?}");
    }
    for (args, code) in [
        (&["messages", "show", id.as_str()][..], 3),
        (&["messages", "show", "x"], 2),
        (&["messages", "cancel"], 2),
        (&["queues", "show", "unknown"], 3),
        (&["dead", "redrive"], 2),
        (&["workers", "quiet", "unknown"], 3),
        (&["colour"], 2),
    ] {
        let (found, printed) = site.refused(args);
        assert_eq!(found, code, "{args:?}: {printed}");
    }
    let process = site.json(&["workers"])["items"][0]["process"].as_str().unwrap().to_owned();
    site.printed(&["workers", "quiet", &process, "--reason", "a deploy"]);
    assert_eq!(site.json(&["workers"])["items"][0]["quiet"], true);
    site.printed(&["workers", "wake", &process]);
    assert_eq!(site.json(&["workers"])["items"][0]["quiet"], false);
}

/// The dead letters are those of a job that calls an address that is not allowed.
#[test]
fn dead_letters_are_redriven_and_discarded() {
    let site = in_memory();
    // A private address is refused without a call and without a retry.
    let create = ["jobs", "create", "call", "--every", "1h", "--url", "http://10.0.0.1/"];
    site.printed(&create);
    for _ in 0..2 {
        site.printed(&["jobs", "trigger", "call"]);
    }
    let dead = || site.json(&["dead", "list"])["items"].as_array().unwrap().len();
    site.until(|| dead() == 2);
    assert!(site.printed(&["dead", "list"]).contains("punctual.http"));
    let groups = site.json(&["dead", "groups"]);
    assert_eq!(groups["items"].as_array().unwrap().len(), 1, "{groups}");
    let group = groups["items"][0]["fingerprint"].as_str().unwrap();
    let printed = site.printed(&["dead", "groups"]);
    assert!(printed.contains("call") && printed.contains("10.0.0.1"), "{printed}");
    let planned = site.printed(&["dead", "redrive", "--group", group, "--dry-run"]);
    assert!(planned.contains("2 messages"), "{planned}");
    assert_eq!(site.refused(&["dead", "discard", "--group", group]).0, 4, "not confirmed");
    site.printed(&["dead", "redrive", "--group", group, "--yes"]);
    site.until(|| dead() == 2);
    site.printed(&["dead", "discard", "--all", "--yes"]);
    assert_eq!(dead(), 0);
}

impl Site {
    /// Repeats a check until it holds; running a command takes long enough between two checks.
    fn until(&self, holds: impl Fn() -> bool) {
        for _ in 0..500 {
            if holds() {
                return;
            }
        }
        panic!("the expected state was not reached at {}", self.url());
    }
}

#[test]
fn users_and_tokens_are_created_changed_and_deleted() {
    let site = in_memory();
    let add = ["users", "add", "ada", "operator"];
    let added = site.run(&add, "correct horse battery\n");
    assert!(added.status.success(), "{}", text(&added.stderr));
    assert_eq!(site.run(&add, "correct horse battery\n").status.code(), Some(4));
    assert_eq!(site.run(&["users", "add", "bo", "viewer"], "short\n").status.code(), Some(2));
    assert!(site.printed(&["users", "list"]).contains("operator"));
    site.printed(&["users", "set-role", "ada", "viewer"]);
    assert_eq!(site.json(&["users", "list"])["items"][0]["role"], "viewer");
    site.printed(&["users", "disable", "ada"]);
    assert_eq!(site.json(&["users", "list"])["items"][0]["disabled"], true);
    site.printed(&["users", "enable", "ada"]);
    let changed = site.run(&["users", "password", "ada"], "another horse battery\n");
    assert!(changed.status.success(), "{}", text(&changed.stderr));
    site.printed(&["users", "delete", "ada", "--yes"]);
    let secret = site.printed(&["tokens", "create", "ci", "--scope", "read,publish"]);
    assert!(secret.contains("pct_"), "{secret}");
    let tokens = site.json(&["tokens", "list"]);
    assert!(!tokens.to_string().contains(secret.trim()));
    assert!(site.printed(&["tokens", "list"]).contains("ci"));
    site.printed(&["tokens", "revoke", tokens["items"][0]["id"].as_str().unwrap(), "--yes"]);
    let work = ["tokens", "create", "worker", "--scope", "work"];
    assert_eq!(site.refused(&work).0, 2, "the scope work needs queues");
    site.printed(&[&work[..], &["--queue", "python,reports"]].concat());
    assert!(site.printed(&["tokens", "list"]).contains("python"));
    let (code, printed) = site.refused(&["webhooks", "add", "http://127.0.0.1:9/hook"]);
    assert!(
        code == 2 && printed.contains("http.allow"),
        "a loopback address is refused immediately: {printed}"
    );
}

#[test]
fn a_failed_test_of_a_webhook_prints_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("punctual.toml");
    std::fs::write(&file, "[http]\nallow = [\"127.0.0.1\"]\n").unwrap();
    let config = file.display().to_string();
    let site = Site::start(&["--storage", "memory:", "--config", &config]);
    let hook = site.json(&["webhooks", "add", "http://127.0.0.1:9/hook", "--events", "job.*"]);
    let id = hook["id"].as_str().unwrap().to_owned();
    assert!(site.printed(&["webhooks", "list"]).contains("127.0.0.1:9"));
    site.printed(&["webhooks", "disable", &id]);
    assert_eq!(site.json(&["webhooks", "list"])["items"][0]["enabled"], false);
    site.printed(&["webhooks", "enable", &id]);
    let (code, printed) = site.refused(&["webhooks", "test", &id]);
    assert!(code == 1 && printed.contains("the delivery failed: "), "{printed}");
    let hook = &site.json(&["webhooks", "list"])["items"][0];
    assert!(hook["last_error"].is_string(), "{hook}");
    assert!(site.json(&["webhooks", "deliveries", &id])["items"].is_array());
    site.printed(&["webhooks", "delete", &id, "--yes"]);
}

// Finding P4 of the newcomer's review: no problem was reported in spite of dead letters and failing jobs.
#[test]
fn the_doctor_lists_the_alerts_of_the_server() {
    let site = in_memory();
    let doctor = site.run(&["doctor", "--server", &site.url()], "");
    assert!(doctor.status.success(), "{}{}", text(&doctor.stdout), text(&doctor.stderr));
    let create = ["jobs", "create", "call", "--cron", "0 3 1 1 *", "--url", "http://127.0.0.1:9/"];
    site.printed(&[&create[..], &["--retry", "0"]].concat());
    site.printed(&["jobs", "trigger", "call"]);
    let found = (0..1_000).find_map(|_| {
        let doctor = site.run(&["doctor", "--server", &site.url()], "");
        let printed = text(&doctor.stdout);
        (doctor.status.code() == Some(1) && printed.contains("failing job: call"))
            .then_some(printed)
    });
    let printed = found.expect("the doctor did not report the failing job");
    assert!(
        printed.contains("dead letters: 1 message became a dead letter in the last hour"),
        "{printed}"
    );
    assert!(printed.contains("degraded"), "{printed}");
}

#[test]
fn an_unreachable_server_is_reported_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = run(folder.path(), &format!("http://{port}"), &["jobs", "list"], "");
    assert_eq!(output.status.code(), Some(5));
    let printed = text(&output.stderr);
    assert!(printed.contains(&port.to_string()) && printed.contains("hint: "), "{printed}");
}

/// The first commands of docs/guide/security.md in an empty folder. `users add` once failed before the first start of a
/// server or `migrate`.
#[test]
fn the_first_user_and_token_are_created_before_the_first_start() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let storage = ["--storage", "sqlite:punctual.db"];
    let run_on = |args: &[&str], input| run(folder, "", &[args, &storage].concat(), input);
    let listed = run_on(&["users", "list"], "");
    assert_eq!(listed.status.code(), Some(3), "a list rejects a missing file as a wrong address");
    assert!(!folder.join("punctual.db").exists());
    let added = run_on(&["users", "add", "ada", "admin"], "correct horse battery\n");
    let printed = text(&added.stderr);
    assert!(
        added.status.success() && printed.contains("Created the storage punctual.db."),
        "{printed}"
    );
    let again = run_on(&["users", "add", "bob", "viewer"], "correct horse battery\n");
    assert!(again.status.success() && !text(&again.stderr).contains("Created"));
    let mut command = crate::server_process::punctual(
        folder,
        &["serve", "--listen", "127.0.0.1:0", storage[0], storage[1]],
    );
    command.env("PUNCTUAL__AUTH__MODE", "password");
    let server = Server::spawned(command);
    let url = format!("http://{}", server.address);
    let login = run(folder, &url, &["login", &url, "--user", "ada"], "correct horse battery\n");
    let printed = text(&login.stderr);
    assert!(login.status.success() && printed.contains("as ada (admin)"), "{printed}");
    let other = ["tokens", "create", "worker", "--scope", "read", "--storage", "sqlite:other.db"];
    let token = run(folder, "", &other, "");
    let printed = text(&token.stderr);
    assert!(
        token.status.success() && printed.contains("Created the storage other.db."),
        "{printed}"
    );
    assert!(text(&token.stdout).starts_with("pct_"));
}

/// A viewer may read and not publish.
// spec: C-6
#[test]
fn a_viewer_logs_in_reads_and_logs_out() {
    let folder = tempfile::tempdir().unwrap();
    let storage = format!("sqlite:{}", folder.path().join("a.db").display());
    let add = ["users", "add", "bob", "viewer", "--storage", &storage];
    let added = run(folder.path(), "", &add, "correct horse battery\n");
    assert!(added.status.success(), "{}", text(&added.stderr));
    let args = ["serve", "--listen", "127.0.0.1:0", "--storage", &storage];
    let mut command = crate::server_process::punctual(folder.path(), &args);
    command.env("PUNCTUAL__AUTH__MODE", "password");
    let site = Site { server: Server::spawned(command), folder };
    assert_eq!(site.refused(&["jobs", "list"]).0, 6, "not logged in");
    let login = ["login", &site.url(), "--user", "bob"];
    let wrong = site.run(&login, "wrong horse battery\n");
    assert_eq!(wrong.status.code(), Some(6));
    let output = site.run(&login, "correct horse battery\n");
    let printed = text(&output.stderr);
    assert!(output.status.success() && printed.contains("as bob (viewer)"), "{printed}");
    assert!(site.json(&["jobs", "list"])["items"].is_array());
    assert_eq!(site.refused(&["messages", "publish", "mail", "1"]).0, 6);
    let output = site.run(&["logout"], "");
    let printed = text(&output.stderr);
    assert!(output.status.success() && printed.contains("its token is revoked"), "{printed}");
    assert_eq!(site.refused(&["jobs", "list"]).0, 6);
    assert_eq!(site.server.stop(), Some(0));
}
