//! Tests of `export`, `import`, `move` and `doctor`, and of a server whose PostgreSQL stops. Tests on PostgreSQL are
//! ignored without a server, and fail when the server is required.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a set-up that fails is a test that fails

#[cfg(unix)]
#[path = "transfer/database_away.rs"]
mod database_away;
#[cfg(unix)]
#[allow(dead_code)] // parts are used only by the other tests of the program
#[path = "it/server_process.rs"]
mod server_process;

use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use punctual::model::Topic;
use punctual::{Clock as _, Job, Punctual, Storage as _, SystemClock};
use punctual_sqlite::SqliteStorage;

const SERVER: &str = "PUNCTUAL_POSTGRES_URL";

fn main() -> ExitCode {
    let missing = std::env::var_os(SERVER).is_none();
    let required = std::env::var("PUNCTUAL_REQUIRE").unwrap_or_default();
    let is_required = required.split(',').any(|name| name.trim() == "postgres");
    let on_postgres: &[(&str, fn())] = &[
        (
            "a_file_moves_to_postgres_and_nothing_is_lost",
            a_file_moves_to_postgres_and_nothing_is_lost,
        ),
        #[cfg(unix)]
        (
            "database_away::a_server_is_unhealthy_until_its_postgresql_is_back",
            database_away::a_server_is_unhealthy_until_its_postgresql_is_back,
        ),
    ];
    let on_postgres = on_postgres.iter().map(|(name, run)| {
        let act = move || {
            if missing {
                return Err(Failed::from(format!("{SERVER} is not set")));
            }
            run();
            Ok(())
        };
        Trial::test(*name, act).with_ignored_flag(missing && !is_required)
    });
    let always: [(&str, fn()); 5] = [
        ("an_export_is_imported_into_another_storage", an_export_is_imported_into_another_storage),
        ("a_move_can_be_repeated", a_move_can_be_repeated),
        ("a_move_copies_users_and_settings", a_move_copies_users_and_settings),
        ("invalid_addresses_are_reported", invalid_addresses_are_reported),
        ("the_doctor_reports_problems", the_doctor_reports_problems),
    ];
    let mut trials: Vec<Trial> = always
        .into_iter()
        .map(|(name, run)| {
            Trial::test(name, move || {
                run();
                Ok(())
            })
        })
        .collect();
    trials.extend(on_postgres);
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn punctual(folder: &Path, line: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_punctual")).args(line).current_dir(folder).output().unwrap()
}

/// Runs a command that must succeed and returns its standard error.
fn notes(folder: &Path, line: &[&str]) -> String {
    let output = punctual(folder, line);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{line:?}: {text}");
    text
}

/// Runs a command that must fail and returns its standard error.
fn refused(folder: &Path, line: &[&str]) -> String {
    let output = punctual(folder, line);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{line:?} succeeded");
    text
}

/// Creates a file with two jobs, 1,200 pending messages and a dead letter.
fn fill(path: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let storage = Arc::new(SqliteStorage::open(path).await.unwrap());
        let punctual = Punctual::builder()
            .storage(storage.clone())
            .declare(Job::cron("nightly", "0 2 * * *").zone("Europe/Warsaw"))
            .declare(Job::every("often", Duration::from_secs(3_600)))
            .handler("hopeless", |_: String| {
                std::future::ready(punctual::Outcome::Discard("no".to_owned()))
            })
            .build()
            .unwrap();
        let publisher = punctual.publisher();
        let later = (0..1_200).map(|number| {
            publisher.publish("later", &number).after(Duration::from_secs(86_400)).header("n", "ż")
        });
        publisher.publish_all(later.collect()).await.unwrap();
        publisher.publish("hopeless", "x").await.unwrap();
        storage
            .register_group(&Topic::new("sold").unwrap(), "billing", SystemClock.now())
            .await
            .unwrap();
        let mut events = punctual.events().listen();
        punctual.start().await.unwrap();
        while events.recv().await.unwrap().name() != "message.dead" {}
        punctual.shutdown().await;
        storage.close().await.unwrap();
    });
}

/// Returns the lines of an export without the first, which has the time of the export.
fn lines(folder: &Path, address: &str) -> Vec<String> {
    let output = punctual(folder, &["export", "--storage", address]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().skip(1).map(str::to_owned).collect()
}

/// Returns the lines that two exports must have in common: the record of a job has the version and time of its storage.
fn comparable(lines: Vec<String>) -> Vec<String> {
    lines.into_iter().filter(|line| !line.starts_with("{\"job\"")).collect()
}

fn an_export_is_imported_into_another_storage() {
    let folder = tempfile::tempdir().unwrap();
    fill(&folder.path().join("a.db"));
    let here = folder.path();
    let printed = notes(here, &["export", "--storage", "sqlite:a.db", "all.jsonl"]);
    assert!(
        printed.starts_with("Exported 2 jobs and 1201 messages.\nAn export has no history"),
        "{printed}"
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(here.join("all.jsonl")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "bodies may be secret");
    }
    let again = refused(here, &["export", "--storage", "sqlite:a.db", "all.jsonl"]);
    assert!(again.contains("cannot create all.jsonl"), "nothing is overwritten: {again}");
    let printed = notes(here, &["import", "--storage", "sqlite:b.db", "all.jsonl"]);
    assert_eq!(printed, "Imported 2 jobs and 1201 messages.\n");
    assert_eq!(comparable(lines(here, "sqlite:b.db")), comparable(lines(here, "sqlite:a.db")));
    let whole = std::fs::read_to_string(here.join("all.jsonl")).unwrap();
    let part: Vec<&str> = whole.lines().take(9).collect();
    std::fs::write(here.join("part.jsonl"), part.join("\n")).unwrap();
    let error = refused(here, &["import", "--storage", "sqlite:c.db", "part.jsonl"]);
    assert!(error.contains("a part of it is missing"), "{error}");
}

fn a_move_can_be_repeated() {
    let folder = tempfile::tempdir().unwrap();
    fill(&folder.path().join("a.db"));
    let line = ["move", "--from", "sqlite:a.db", "--to", "sqlite:b.db"];
    let printed = notes(folder.path(), &line);
    assert!(printed.starts_with("Imported 2 jobs and 1201 messages.\n"), "{printed}");
    assert!(printed.contains("The source is unchanged"), "{printed}");
    let printed = notes(folder.path(), &line);
    assert!(printed.contains("Imported 0 jobs and 0 messages."), "{printed}");
    assert!(printed.contains("exist already: 2 jobs and 1201 messages."), "{printed}");
}

fn a_file_moves_to_postgres_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    fill(&folder.path().join("a.db"));
    let server = std::env::var(SERVER).unwrap();
    let separator = if server.contains('?') { '&' } else { '?' };
    let schema = format!("punctual_move_{}", std::process::id());
    let target = format!("{server}{separator}schema={schema}");
    let printed = notes(folder.path(), &["move", "--from", "sqlite:a.db", "--to", &target]);
    assert!(printed.starts_with("Imported 2 jobs and 1201 messages.\n"), "{printed}");
    let there = comparable(lines(folder.path(), &target));
    assert_eq!(there, comparable(lines(folder.path(), "sqlite:a.db")));
    notes(folder.path(), &["move", "--from", &target, "--to", "sqlite:back.db"]);
    assert_eq!(there, comparable(lines(folder.path(), "sqlite:back.db")));
    drop_schema(&server, &schema);
}

fn drop_schema(server: &str, schema: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) =
            tokio_postgres::connect(server, tokio_postgres::NoTls).await.unwrap();
        let driven = tokio::spawn(connection);
        client.batch_execute(&format!("DROP SCHEMA {schema} CASCADE")).await.unwrap();
        drop(client);
        driven.await.unwrap().unwrap();
    });
}

// Finding P6 of the newcomer's review: `move` copied no users and did not report that.
fn a_move_copies_users_and_settings() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    fill(&here.join("a.db"));
    for name in ["ada", "bo"] {
        let mut add = on(here, "sqlite:a.db", &["users", "add", name, "operator"])
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        add.stdin.take().unwrap().write_all(b"correct horse battery\n").unwrap();
        assert!(add.wait().unwrap().success());
    }
    let hook = ["webhooks", "add", "https://example.org/hook"];
    let added = on(here, "sqlite:a.db", &hook).output().unwrap();
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    let line = ["move", "--from", "sqlite:a.db", "--to", "sqlite:b.db"];
    let printed = notes(here, &line);
    assert!(printed.contains("Also moved: 2 users, 1 webhook, 3 audit entries"), "{printed}");
    assert!(printed.contains("Also moved: 1 consumer group."), "{printed}");
    let rest =
        "Not moved: the history (1 execution and 0 finished messages), sessions, inbox records";
    assert!(printed.contains(rest), "{printed}");
    let list = |address| {
        let output = on(here, address, &["users", "list", "--json"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(list("sqlite:b.db").contains("\"ada\""), "{}", list("sqlite:b.db"));
    assert_eq!(list("sqlite:b.db"), list("sqlite:a.db"));
    let again = notes(here, &line);
    assert!(!again.contains("Also moved"), "{again}");
    assert!(again.contains("exist already: 2 users, 1 webhook, 3 audit entries"), "{again}");
}

/// Returns a command on a storage without a server.
fn on(folder: &Path, address: &str, line: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(line).current_dir(folder).env("PUNCTUAL_STORAGE", address);
    command
        .env("XDG_CONFIG_HOME", folder)
        .env_remove("PUNCTUAL_SERVER")
        .env_remove("PUNCTUAL_TOKEN");
    command
}

fn invalid_addresses_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    for (address, words) in [
        ("sqlite:nowhere.db", "there is no file nowhere.db"),
        ("mysql://ada:secret@db/shop", "the scheme \"mysql\" of the address is unknown"),
        ("postgres://ada:secret@127.0.0.1:1/shop", "cannot be reached"),
        ("nowhere.db", "write \"sqlite:nowhere.db\""),
    ] {
        let error = refused(folder.path(), &["export", "--storage", address]);
        assert!(error.contains(words), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
    let line = ["move", "--from", "memory:", "--to", "sqlite:a.db"];
    assert!(refused(folder.path(), &line).contains("ends with this process"));
    let error = refused(folder.path(), &["import", "--storage", "sqlite:no/such/a.db", "x"]);
    assert!(error.contains("does not exist"), "{error}");
}

fn the_doctor_reports_problems() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    fill(&path);
    let output = punctual(folder.path(), &["doctor", "--storage", "sqlite:a.db"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let has_fact = |name: &str, value: &str| {
        text.lines().any(|line| {
            let rest = line.trim().strip_prefix(name).unwrap_or_default();
            rest.starts_with("  ") && rest.trim() == value
        })
    };
    assert!(has_fact("integrity check", "ok"), "{text}");
    assert!(has_fact("pending", "1200"), "{text}");
    assert!(text.ends_with("No problems found.\n"), "{text}");
    std::fs::write(folder.path().join("b.db"), "this is not a database\n".repeat(99)).unwrap();
    let own = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(folder.path().join("b.db"), own).unwrap();
    let error = refused(folder.path(), &["doctor", "--storage", "sqlite:b.db"]);
    assert!(error.contains("is not an SQLite database"), "{error}");
}
