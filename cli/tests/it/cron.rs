//! Tests of `punctual cron`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

fn punctual(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_punctual")).args(args).output().unwrap()
}

/// Runs `cron eval` on lines and returns its output.
fn eval(lines: &str) -> Vec<Value> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(["cron", "eval", "--stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines = lines.as_bytes().to_vec();
    let writer = std::thread::spawn(move || input.write_all(&lines).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

// spec: U-19
#[test]
fn next_prints_instants_with_their_offset() {
    let berlin = ["--tz", "Europe/Berlin", "--from", "2026-03-28T12:00:00Z"];
    let output = punctual(&[&["cron", "next", "30 2 * * *", "--count", "2"], &berlin[..]].concat());
    assert!(output.status.success());
    assert_eq!(text(&output.stdout), "2026-03-29T03:00:00+02:00\n2026-03-30T02:30:00+02:00\n");

    let output = punctual(&[
        "cron",
        "next",
        "@hourly",
        "--from",
        "2026-01-01T00:00:00Z",
        "--inclusive",
        "--json",
    ]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer, json!({"next": ["2026-01-01T00:00:00+00:00"], "canonical": "0 * * * *"}));

    let output = punctual(&["cron", "next", "@hourly", "--from", "2026-01-01T00:00:00Z", "--prev"]);
    assert_eq!(text(&output.stdout), "2025-12-31T23:00:00+00:00\n");

    // An expression without a next occurrence is not an error.
    let output = punctual(&["cron", "next", "0 0 30 2 *"]);
    assert!(output.status.success() && output.stdout.is_empty());

    // From now, when no start is given.
    let output = punctual(&["cron", "next", "* * * * * *"]);
    assert_eq!(text(&output.stdout).trim().len(), "2026-01-01T00:00:00+00:00".len());
}

// spec: T-54
#[test]
fn invalid_input_exits_with_2_and_names_the_position() {
    for (args, words) in [
        (&["cron", "next", "0 0 1,L * *"][..], "error: day of month (position 7)"),
        (&["cron", "next", "0 0 1,L * *"], "  0 0 1,L * *\n        ^\n"),
        (&["cron", "explain", "* * * *"], "the day of week is missing"),
        (&["cron", "next", ""], "the expression is empty"),
        (&["cron", "next", "* * * * *", "--tz", "Europe/Berln"], "did you mean Europe/Berlin?"),
        (&["cron", "next", "* * * * *", "--from", "tomorrow"], "\"tomorrow\" is not an instant"),
        (&["cron", "next", "* * * * *", "--from", "2026-01-01T00:00:00"], "with its offset"),
        (&["cron", "next", "* * * * *", "--from", "10000-01-01T00:00:00Z"], "is not an instant"),
        (&["cron", "next", "* * * * *", "--count", "10001"], "10000 at most"),
        (&["cron", "next", "H * * * *"], "H draws its value from a seed"),
        (&["cron", "next", "* * * * *", "--count", "many"], "invalid value"),
        (&["cron", "eval"], "--stdin"),
        (&["cron"], "Usage"),
    ] {
        let output = punctual(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
        let error = text(&output.stderr);
        assert!(error.contains(words), "{args:?}: {error}");
    }
}

#[test]
fn explain_prints_the_meaning_the_next_runs_and_clock_changes() {
    let args = [
        "cron",
        "explain",
        "*/15 9-17 * * MON-FRI",
        "--tz",
        "Europe/Berlin",
        "--from",
        "2026-03-27T16:40:00Z",
    ];
    let expected = "\
canonical    0,15,30,45 9,10,11,12,13,14,15,16,17 * * 1,2,3,4,5
meaning      every 15 minutes of hours 9 to 17, on Monday to Friday
time zone    Europe/Berlin
clock change also in the repeated hour when the clocks go back
next runs    2026-03-27T17:45:00+01:00
             2026-03-30T09:00:00+02:00
             2026-03-30T09:15:00+02:00
             2026-03-30T09:30:00+02:00
             2026-03-30T09:45:00+02:00
";
    assert_eq!(text(&punctual(&args).stdout), expected);
    let never = text(&punctual(&["cron", "explain", "0 0 30 2 *"]).stdout);
    assert!(never.contains("never runs") && never.contains("none, up to the end of the year 9999"));
    let seeded = text(&punctual(&["cron", "explain", "0 H(3-3) * * *", "--seed", "job"]).stdout);
    assert!(seeded.contains("resolved     0 3 * * *"));
}

// spec: U-19
#[test]
fn eval_evaluates_each_line_in_order() {
    let lines = r#"
{"id":1,"expr":"30 2 * * *","tz":"Europe/Berlin","from":"2026-03-28T12:00:00Z","count":2}
{"id":"two","expr":"0 0 30 2 *","from":"2026-01-01T00:00:00Z"}
{"id":3,"expr":"0/30 2 * * *","tz":"Europe/Berlin","from":"2026-10-25T03:00:00+01:00","count":5,"direction":"prev"}
{"id":4,"expr":"30 2 * * *","tz":"Europe/Berlin","from":"2026-03-29T03:00:00+02:00","inclusive":true}
{"id":5,"expr":"0 3 * * *","tz":"Europe/Berlin","from":"2026-03-29T03:00:00+02:00[Europe/Berlin]","inclusive":true}
{"id":6,"expr":"0 12 1 1 *","tz":"Europe/Amsterdam","from":"1920-06-01T00:00:00Z"}
"#;
    let expected = [
        json!({"id": 1, "next": ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"], "canonical": "30 2 * * *"}),
        json!({"id": "two", "next": [], "canonical": "0 0 30 2 *"}),
        json!({"id": 3, "next": ["2026-10-25T02:30:00+01:00", "2026-10-25T02:00:00+01:00", "2026-10-25T02:30:00+02:00", "2026-10-25T02:00:00+02:00", "2026-10-24T02:30:00+02:00"], "canonical": "0,30 2 * * *"}),
        json!({"id": 4, "next": ["2026-03-30T02:30:00+02:00"], "canonical": "30 2 * * *"}),
        json!({"id": 5, "next": ["2026-03-29T03:00:00+02:00"], "canonical": "0 3 * * *"}),
    ];
    let answers = eval(lines);
    assert_eq!(answers[..5], expected);
    assert_eq!(answers.len(), 6);
    // Missing fields: UTC, now, exclusive, one.
    let answers = eval(
        "{\"expr\":\"@daily\"}\n{\"id\":null,\"expr\":\"@daily\",\"tz\":null,\"from\":null,\"count\":null}",
    );
    for answer in answers {
        assert_eq!(answer["id"], Value::Null);
        assert_eq!(answer["next"].as_array().unwrap().len(), 1);
        assert!(answer["next"][0].as_str().unwrap().ends_with("T00:00:00+00:00"));
    }
}

// spec: T-54
#[test]
fn eval_continues_after_an_invalid_line() {
    let long = format!("{{\"id\":9,\"expr\":\"{}\"}}", "*".repeat(70_000));
    let cases = [
        (json!("x"), r#"{"id":"x","expr":"60 * * * *"}"#, "minute (position 1)"),
        (json!(2), r#"{"id":2,"expr":"* * * * *","tz":"Mars"}"#, "no time zone"),
        (json!(3), r#"{"id":3,"expr":"* * * * *","from":"soon"}"#, "is not an instant"),
        (
            json!(3),
            r#"{"id":3,"expr":"* * * * *","from":"2026-01-01T00:00:00Z[Europe/Berlin"}"#,
            "is not an instant",
        ),
        (json!(4), r#"{"id":4,"expr":"* * * * *","count":10001}"#, "10000 at most"),
        (json!(4), r#"{"id":4,"expr":"* * * * *","count":-1}"#, "cannot be read"),
        (json!(5), r#"{"id":5,"expr":"* * * * *","direction":"up"}"#, "cannot be read"),
        (json!(6), r#"{"id":6}"#, "missing field `expr`"),
        (json!(7), r#"{"id":7,"expr":5}"#, "cannot be read"),
        (json!(8), r#"{"id":8,"expr":"H * * * *"}"#, "seed"),
        (Value::Null, "[1,2]", "cannot be read"),
        (Value::Null, "{\"id\":1,", "not JSON"),
        (Value::Null, "nonsense", "not JSON"),
        (Value::Null, long.as_str(), "longer than 65536 bytes"),
    ];
    let last = r#"{"id":"end","expr":"H H * * *","seed":7,"count":0}"#;
    let lines: Vec<&str> = cases.iter().map(|case| case.1).chain([last]).collect();
    let answers = eval(&lines.join("\r\n"));
    assert_eq!(answers.len(), cases.len() + 1);
    for ((id, line, words), answer) in cases.iter().zip(&answers) {
        assert_eq!(answer["id"], *id, "{line}");
        let error = answer["error"].as_str().unwrap();
        assert!(error.contains(words), "{error}");
        assert!(answer.get("next").is_none());
    }
    assert_eq!(answers[cases.len()]["next"], json!([]));
}

#[test]
fn eval_prints_a_result_before_it_reads_the_next_line() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(["cron", "eval", "--stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    for id in 0..3 {
        writeln!(input, "{{\"id\":{id},\"expr\":\"@daily\",\"count\":10000}}").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["id"], id);
        assert_eq!(answer["next"].as_array().unwrap().len(), 10_000);
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}
