//! Transport commands `publish`, `consume` and `topics`, run on a SQLite transport.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

fn punctual(folder: &Path, line: &[&str]) -> Output {
    command(folder, line).output().unwrap()
}

fn command(folder: &Path, line: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(line).current_dir(folder).env("PUNCTUAL_TRANSPORT", "sqlite:post.db");
    command
}

/// Runs a command that must succeed and returns its standard output.
fn printed(folder: &Path, line: &[&str]) -> String {
    let output = punctual(folder, line);
    assert!(output.status.success(), "{line:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command that must fail and returns its standard error.
fn refused(folder: &Path, line: &[&str]) -> String {
    let output = punctual(folder, line);
    assert!(!output.status.success(), "{line:?} succeeded");
    String::from_utf8(output.stderr).unwrap()
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_published_message_is_consumed_with_headers_and_key() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let line = [
        "publish",
        "mail",
        r#"{"to":"ada"}"#,
        "--header",
        "tenant=a=b",
        "--key",
        "order-7",
        "--json",
    ];
    let published = &objects(&printed(here, &line))[0];
    printed(here, &["publish", "mail", "plain words"]);
    let consumed = objects(&printed(here, &["consume", "mail", "--count", "2", "--json"]));
    assert_eq!(consumed[0]["id"], published["id"]);
    assert_eq!(consumed[0]["body"], json!({ "to": "ada" }));
    assert_eq!(consumed[0]["headers"], json!({ "tenant": "a=b" }));
    assert_eq!((&consumed[0]["key"], &consumed[0]["attempt"]), (&json!("order-7"), &json!(1)));
    assert_eq!(consumed[1]["text"], "plain words");
    assert_eq!(consumed[1]["content_type"], "text/plain");
    let empty = punctual(here, &["consume", "mail", "--wait", "10ms"]);
    let note = String::from_utf8_lossy(&empty.stderr);
    assert!(note.contains("No message arrived for 10ms."), "{note}");
}

#[test]
fn messages_are_printed_as_a_table_and_requeued_with_no_ack() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("body.bin"), [0xff, 0, 1]).unwrap();
    let first = printed(here, &["publish", "mail", "@body.bin"]);
    let mut child = command(here, &["publish", "mail", "-", "--key", "k"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"two\nlines").unwrap();
    assert!(child.wait().unwrap().success());
    for _ in 0..2 {
        let table = printed(here, &["consume", "mail", "--count", "2", "--no-ack"]);
        let rows: Vec<&str> = table.lines().collect();
        assert_eq!(rows.len(), 3, "{table}");
        assert!(rows[0].starts_with("sent") && rows[0].ends_with("body"), "{table}");
        assert!(rows[1].contains(first.trim()), "{table}");
        assert!(rows[1].ends_with("3 bytes of application/octet-stream"), "{table}");
        assert!(rows[2].contains("  k  ") && rows[2].ends_with("two lines"), "{table}");
    }
}

#[test]
fn a_delay_and_a_group_are_respected() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    printed(here, &["publish", "mail", "later", "--delay", "1h"]);
    printed(here, &["publish", "mail", "for the office", "--group", "office"]);
    let default = printed(here, &["consume", "mail", "--wait", "10ms", "--json"]);
    assert_eq!(default, "", "one is not due, the other not for this group");
    let office = printed(here, &["consume", "mail", "--group", "office", "--count", "1", "--json"]);
    assert_eq!(objects(&office)[0]["text"], "for the office");
}

/// Runs only in a build without brokers, such as the default one.
#[cfg(not(feature = "rabbitmq"))]
#[test]
fn the_error_about_a_missing_broker_names_the_feature() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let text = "this binary was built without RabbitMQ: rebuild with --features rabbitmq (or brokers for all)";
    let address = "amqp://ada:secret@localhost:1";
    std::fs::write(
        here.join("punctual.toml"),
        format!("[transports.broker]\naddress = \"{address}\"\n"),
    )
    .unwrap();
    for line in [
        &["publish", "mail", "1", "--transport", address][..],
        &["topics", "--transport", address],
        &["doctor", "--transport", address],
        &["config", "check", "--config", "punctual.toml"],
        &["serve", "--config", "punctual.toml"],
    ] {
        let error = refused(here, line);
        assert!(error.contains(text) && !error.contains("secret"), "{line:?}: {error}");
    }
}

#[test]
fn topics_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    for topic in ["mail", "orders.new", "mail"] {
        printed(here, &["publish", topic, "1"]);
    }
    assert_eq!(printed(here, &["topics"]), "mail\norders.new\n");
    assert_eq!(printed(here, &["topics", "--json"]), "[\"mail\",\"orders.new\"]\n");
}

#[test]
fn invalid_input_is_reported_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    for (line, words) in [
        (
            &["publish", "mail", "x", "--transport", "pigeon://ada:secret@coop"][..],
            "give memory:, sqlite:",
        ),
        (&["publish", "mail", "@missing.json"], "cannot read the body from missing.json"),
        (&["publish", "mail", "x", "--header", "tenant"], "write NAME=VALUE"),
        (&["publish", "mail", "x", "--header", "note=a\nb"], "\"note\""),
        (&["publish", "mail", "x", "--header", "punctual-id=1"], "\"punctual-id\""),
        (&["publish", "mail", "x", "--delay", "5"], "has no unit"),
        (&["publish", "", "x"], "must not be empty"),
        (&["consume", "mail"], "there is no file post.db"),
        (&["topics"], "there is no file post.db"),
    ] {
        let error = refused(here, line);
        assert!(error.contains(words), "{line:?}: {error}");
        assert!(!error.contains("secret"), "{error}");
        if line[0] != "publish" {
            assert!(!here.join("post.db").exists());
        }
        let _ = std::fs::remove_file(here.join("post.db"));
    }
}

#[test]
fn a_body_that_is_too_large_is_refused_before_all_of_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = command(folder.path(), &["publish", "mail", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    // Ends when the program stops reading; without a limit it would never end.
    while input.write_all(&[b'x'; 8_192]).is_ok() {}
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("more than 16777216 bytes"), "{error}");
}
