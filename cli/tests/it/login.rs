//! Tests of `punctual login` and `logout` against the test server.

use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::test_server::{Recorded, punctual, serve, text};
use serde_json::{Value, json};

fn with_input(folder: &Path, args: &[&str], input: &str) -> Output {
    let mut command = punctual(folder, args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn session(auth: &str) -> Recorded {
    let user = json!({ "name": "ada", "role": "operator" });
    let view = json!({ "authenticated": true, "user": user, "csrf": "c1", "auth": auth });
    ("GET /api/v1/session", 200, view)
}

#[test]
fn a_login_creates_a_token_and_a_logout_revokes_it() {
    let token = json!({ "id": "7", "secret": "pct_7_x" });
    let queues = json!({ "items": [], "next": null });
    let server = serve(vec![
        session("password"),
        ("POST /api/v1/session", 200, session("password").2),
        ("DELETE /api/v1/session", 204, Value::Null),
        ("POST /api/v1/tokens", 201, token),
        ("DELETE /api/v1/tokens/7", 204, Value::Null),
        ("GET /api/v1/queues", 200, queues),
    ]);
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let output = with_input(folder, &["login", &server.url, "--user", "ada"], "correct horse\n");
    let printed = text(&output.stderr);
    assert!(output.status.success(), "{printed}");
    let greeting = format!("Logged in to {} as ada (operator)", server.url);
    assert!(printed.starts_with(&greeting), "{printed}");
    assert!(!printed.contains("horse") && !printed.contains("pct_7_x"), "{printed}");
    let received = server.received();
    let created = received.iter().find(|(route, ..)| route == "POST /api/v1/tokens").unwrap();
    assert_eq!(created.1.as_deref(), Some("punctual_session=s1"));
    assert_eq!(created.2["scopes"], json!(["operate"]));
    // The server and the token are now stored.
    assert!(punctual(folder, &["queues", "list"]).output().unwrap().status.success());
    let (route, token, _) = server.received().pop().unwrap();
    assert_eq!((route.as_str(), token.as_deref()), ("GET /api/v1/queues", Some("Bearer pct_7_x")));
    let output = punctual(folder, &["logout"]).output().unwrap();
    assert!(text(&output.stderr).ends_with("its token is revoked.\n"), "{}", text(&output.stderr));
    assert_eq!(server.received().pop().unwrap().0, "DELETE /api/v1/tokens/7");
    let stored = std::fs::read_to_string(folder.join("punctual/login.json")).unwrap();
    assert!(!stored.contains("pct_7_x"), "{stored}");
    assert_eq!(punctual(folder, &["logout"]).output().unwrap().status.code(), Some(3));
}

#[test]
fn an_existing_token_can_be_stored() {
    let server = serve(vec![session("none")]);
    let folder = tempfile::tempdir().unwrap();
    let output = with_input(folder.path(), &["login", &server.url, "--with-token"], "pct_9_y\n");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(server.received()[0].1.as_deref(), Some("Bearer pct_9_y"));
    let by_name = with_input(folder.path(), &["login", &server.url, "-u", "ada"], "x\n");
    assert_eq!(by_name.status.code(), Some(4), "a server without authentication has no login");
}

#[test]
fn a_wrong_password_is_reported_and_nothing_is_stored() {
    let wrong = json!({ "detail": "the name or the password is wrong" });
    let server = serve(vec![session("password"), ("POST /api/v1/session", 401, wrong)]);
    let folder = tempfile::tempdir().unwrap();
    let output = with_input(folder.path(), &["login", &server.url, "-u", "ada"], "x\n");
    assert_eq!(output.status.code(), Some(6));
    assert!(text(&output.stderr).starts_with("error: the name or the password is wrong\n"));
    assert!(!folder.path().join("punctual/login.json").exists());
}
