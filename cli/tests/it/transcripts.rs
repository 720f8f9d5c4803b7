//! Transcripts: the requests and the output of commands against the test server, compared with recorded text.

use std::process::Stdio;

use crate::test_server::{punctual, run, text};
use serde_json::{Value, json};

/// Runs a command against recorded responses and checks its exit code and output.
fn check(args: &[&str], responses: Vec<(&'static str, u16, Value)>, code: i32, printed: &str) {
    let (output, received) = run(args, responses);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{args:?}: {out}{err}");
    assert_eq!(format!("{out}{err}"), printed, "{args:?}");
    for (route, token, _) in received {
        assert_eq!(token.as_deref(), Some("Bearer pct_1_secret"), "{route}");
    }
}

fn nightly() -> Value {
    json!({
        "name": "nightly", "word": "paused", "in_words": "at 02:00", "schedule": "0 2 * * *",
        "next_at": null, "runs": 12, "running": 0, "app": "punctual.toml", "source": "file",
        "last": { "ending": "failed", "ended_at": "2026-03-02T02:00:04Z", "took_ms": 4_250 },
        "paused": { "by": "ada", "reason": "the disk is full", "at": "2026-03-02T06:00:00Z", "until": null },
        "target": { "kind": "http", "method": "POST", "url": "https://shop.example/close" },
        "retry": { "attempts_max": 5 }, "misfire": { "policy": "fire_now", "threshold_ms": 60_000, "threshold_from": "default" }, "overlap": { "policy": "skip" }, "when_interrupted": "lost",
        "topic": "punctual.http", "queue": "default", "tags": ["money"], "overridden": ["schedule"],
    })
}

#[test]
fn jobs_are_listed_in_a_table() {
    let mail = json!({ "name": "mail", "word": "active", "in_words": "every 5 minutes", "last": null,
        "next_at": "2026-03-02T07:04:30Z", "runs": 0 });
    let list = json!({ "items": [mail, nightly()], "next": "nightly" });
    check(
        &["jobs", "list", "--limit", "2"],
        vec![("GET /api/v1/jobs?limit=2", 200, list)],
        0,
        "\
name     state   schedule         next       last               runs
mail     active  every 5 minutes  in 4m 30s  never              0
nightly  paused  at 02:00         -          failed 4h 59m ago  12
More results: add --after nightly, or a larger --limit.
",
    );
}

#[test]
fn a_job_is_shown_with_all_details() {
    check(
        &["jobs", "show", "nightly"],
        vec![("GET /api/v1/jobs/nightly", 200, nightly())],
        0,
        "\
name         nightly
state        paused
paused       by ada 1h ago, until it is resumed: the disk is full
schedule     0 2 * * * (at 02:00)
last         failed 2026-03-02 02:00:04Z (4h 59m ago), took 4.2s
running      0
runs         12
target       calls POST https://shop.example/close
topic        punctual.http
queue        default
tags         money
misfire      fire_now, missed when later than 1m (default)
overlap      skip
attempts     5
interrupted  not retried
overridden   schedule
defined by   the configuration file
",
    );
}

#[test]
fn json_output_is_the_response() {
    let responses = vec![("GET /api/v1/jobs/nightly", 200, nightly())];
    let (output, _) = run(&["jobs", "show", "nightly", "--json"], responses);
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap(), nightly());
    assert!(output.stderr.is_empty());
}

#[test]
fn an_empty_list_prints_only_to_standard_error() {
    let none = json!({ "items": [], "next": null });
    let (output, _) =
        run(&["dead", "list"], vec![("GET /api/v1/dead-letters?limit=50", 200, none)]);
    assert_eq!(
        (text(&output.stdout), text(&output.stderr)),
        (String::new(), "No dead letters.\n".into())
    );
}

#[test]
fn groups_of_dead_letters_are_listed_with_their_error() {
    let group = json!({ "fingerprint": "9f2c", "topic": "mail.send", "job": null, "count": 41,
        "error": "connection\nrefused", "first_at": "2026-03-01T07:00:00Z", "last_at": "2026-03-02T06:59:00Z" });
    let groups = json!({ "items": [group], "scanned": 41, "more": false });
    check(
        &["dead", "groups"],
        vec![("GET /api/v1/dead-letters/groups", 200, groups)],
        0,
        "\
group  count  of         first   latest  error
9f2c   41     mail.send  1d ago  1m ago  connection refused
",
    );
}

#[test]
fn bulk_changes_need_confirmation() {
    let planned = json!({ "count": 41, "applied": 0, "requested": 0, "refused": 0, "more": false });
    let responses = vec![("POST /api/v1/dead-letters/discard", 200, planned)];
    let (output, received) = run(&["dead", "discard", "--group", "9f2c"], responses.clone());
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(
        text(&output.stderr),
        "error: Discard 41 messages: not confirmed, because standard input is not a terminal\n\
         hint: add --yes to confirm; nothing was changed\n"
    );
    let body = json!({ "limit": 10_000, "fingerprint": "9f2c", "dry_run": true });
    assert_eq!(received.iter().map(|(_, _, body)| body.clone()).collect::<Vec<_>>(), [body]);
    let (output, received) = run(&["dead", "discard", "--group", "9f2c", "--yes"], responses);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(received.last().unwrap().2["dry_run"], false);
}

#[test]
fn the_result_of_a_bulk_change_is_printed() {
    let result = json!({ "count": 3, "applied": 1, "requested": 1, "refused": 1, "more": true });
    check(
        &["messages", "cancel", "--topic", "mail", "-y"],
        vec![("POST /api/v1/messages/bulk", 200, result)],
        0,
        "\
1 message cancelled. 1 handler asked to stop, which may take a moment. \
1 message not changed, because the state has changed in the meantime.
More messages match; run it again for the rest.
",
    );
}

#[test]
fn api_errors_have_an_exit_code_and_a_hint() {
    let problem = |detail: &str| json!({ "type": "about:blank", "detail": detail });
    let table = [
        (400, 2, ""),
        (401, 6, "hint: log in with `punctual login`, or pass a token in PUNCTUAL_TOKEN\n"),
        (403, 6, "hint: request a larger role or a token from an admin\n"),
        (404, 3, ""),
        (409, 4, ""),
        (422, 2, ""),
        (429, 4, "hint: try again in a few s\n"),
        (500, 1, ""),
        (503, 5, "hint: try again in a few s\n"),
    ];
    for (status, code, hint) in table {
        let responses = vec![("GET /api/v1/jobs/a%2Fb", status, problem("it is so"))];
        check(&["jobs", "show", "a/b"], responses, code, &format!("error: it is so\n{hint}"));
    }
    let wrong = json!({ "detail": "2 fields are wrong", "errors": [
        { "field": "cron", "problem": "61 is no minute" }, { "field": "zone", "problem": "is unknown" }] });
    check(
        &["jobs", "create", "x", "--cron", "61 * * * *", "--topic", "t"],
        vec![("POST /api/v1/jobs", 422, wrong)],
        2,
        "error: 2 fields are wrong\n  cron: 61 is no minute\n  zone: is unknown\n",
    );
}

#[test]
fn a_response_of_another_program_is_an_error() {
    let (output, _) = run(&["queues", "list"], vec![]);
    assert_eq!(output.status.code(), Some(1));
    let printed = text(&output.stderr);
    assert!(
        printed.contains("returned 404 Not Found without a reason\nhint: check the address"),
        "{printed}"
    );
}

#[test]
fn an_unreachable_server_is_reported_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    // A free port, on which no server listens.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = format!("http://{free}");
    let output =
        punctual(folder.path(), &["queues", "list", "--server", &server]).output().unwrap();
    assert_eq!(output.status.code(), Some(5));
    let printed = text(&output.stderr);
    assert!(
        printed
            .starts_with(&format!("error: cannot reach {server}: no server listens there\nhint: ")),
        "{printed}"
    );
}

#[test]
fn only_the_secret_of_a_token_is_printed_to_standard_output() {
    let created = json!({ "id": "7", "name": "ci", "scopes": ["read"], "expires_at": null, "secret": "pct_7_x" });
    let args = ["tokens", "create", "ci", "--scope", "read,publish"];
    let (output, received) = run(&args, vec![("POST /api/v1/tokens", 201, created)]);
    assert_eq!(text(&output.stdout), "pct_7_x\n");
    let note = text(&output.stderr);
    assert!(note.contains("of the token 7; it never expires and is not shown again"), "{note}");
    assert_eq!(received[0].2, json!({ "name": "ci", "scopes": ["read", "publish"] }));
}

#[test]
fn a_body_is_published_as_json_or_text() {
    let table = [
        (r#"{"a":1}"#, json!({ "topic": "t", "json": { "a": 1 }, "key": "k" })),
        ("hello", json!({ "topic": "t", "text": "hello", "key": "k" })),
    ];
    for (body, expected) in table {
        let created = json!({ "id": "m1", "duplicate_of": null });
        let args = ["messages", "publish", "t", body, "--key", "k"];
        let (output, received) = run(&args, vec![("POST /api/v1/messages", 201, created)]);
        assert_eq!(text(&output.stdout), "m1\n");
        assert_eq!(received[0].2, expected);
    }
}

#[test]
fn a_duplicate_prints_the_id_of_the_unfinished_message() {
    let known = json!({ "id": "m1", "duplicate_of": "m1" });
    let args = ["messages", "publish", "t", "--dedupe", "d"];
    let (output, _) = run(&args, vec![("POST /api/v1/messages", 200, known)]);
    assert!(text(&output.stdout).starts_with("m1\nNot stored"), "{}", text(&output.stdout));
    let created = json!({ "id": "m2", "duplicate_of": null });
    let args = ["messages", "publish", "t", "--dedupe", "d", "--replace"];
    let (output, received) = run(&args, vec![("POST /api/v1/messages", 201, created)]);
    assert_eq!(text(&output.stdout), "m2\n");
    assert_eq!(
        received[0].2,
        json!({ "topic": "t", "json": null, "dedupe": "d", "replace": true })
    );
}

#[test]
fn a_password_comes_from_standard_input_and_is_never_printed() {
    use std::io::Write;
    let folder = tempfile::tempdir().unwrap();
    let mut command = punctual(
        folder.path(),
        &["users", "add", "ada", "admin", "--server", "http://127.0.0.1:9"],
    );
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"correct horse\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        output.status.code(),
        Some(5),
        "the password was read, and the server is unreachable"
    );
    assert!(!text(&output.stderr).contains("horse"));
    let nothing = punctual(
        folder.path(),
        &["users", "add", "ada", "admin", "--server", "http://127.0.0.1:9"],
    );
    assert_eq!({ nothing }.output().unwrap().status.code(), Some(2));
}
