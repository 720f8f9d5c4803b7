//! Tests of `punctual serve` and `punctual config`.

use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;

use crate::server_process::{Server, TIMEOUT, lines_of, output, punctual, text};
use serde_json::Value;

#[test]
fn serves_the_jobs_of_its_configuration_and_shuts_down_gracefully() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("punctual.toml");
    std::fs::write(&file, "[jobs.one]\nevery = \"1h\"\npublish = { topic = \"t\" }\n").unwrap();
    let mut server = Server::start(folder.path(), &[]);
    assert_eq!(server.jobs(), ["one"]);
    assert!(folder.path().join("punctual.db").exists());
    // An invalid file keeps the old definitions; a valid one replaces them on a signal.
    std::fs::write(&file, "[jobs.two]\nevery = \"x\"\n").unwrap();
    server.signal("-HUP");
    server.line_with("the jobs stay unchanged");
    assert_eq!(server.jobs(), ["one"]);
    std::fs::write(
        &file,
        "[jobs.one]\nevery = \"1h\"\ntopic = \"t\"\n[jobs.two]\nevery = \"2h\"\ntopic = \"t\"\n",
    )
    .unwrap();
    server.signal("-HUP");
    server.line_with("created=1 changed=1");
    assert_eq!(server.jobs(), ["one", "two"]);
    assert_eq!(server.stop(), Some(0));
}

// spec: H-53, H-54
#[test]
fn a_cron_expression_of_the_environment_overrides_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("punctual.toml");
    std::fs::write(&file, "[jobs.nightly]\ncron = \"0 2 * * *\"\ntopic = \"t\"\n").unwrap();
    let storage = format!("sqlite:{}", folder.path().join("a.db").display());
    let args = ["serve", "--listen", "127.0.0.1:0", "--storage", &storage];
    let mut command = punctual(folder.path(), &args);
    command.env("Messaging__Scheduling__Jobs__nightly__CronExpression", "30 4 * * *");
    assert_eq!(Server::spawned(command).stop(), Some(0));
    let exported = output(folder.path(), &["export", "--storage", &storage]);
    let exported = text(&exported.stdout);
    let record: Value = serde_json::from_str(exported.lines().nth(1).unwrap()).unwrap();
    assert_eq!(record["job"]["declared"]["schedule"]["cron"], "0 2 * * *", "{exported}");
    assert_eq!(record["job"]["job"]["schedule"]["cron"], "30 4 * * *", "{exported}");
}

// trap 16
// spec: H-55
#[test]
fn an_invalid_cron_expression_of_the_environment_is_shown_by_the_job_and_by_health() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("punctual.toml");
    std::fs::write(&file, "[jobs.nightly]\ncron = \"0 2 * * *\"\ntopic = \"t\"\n").unwrap();
    let args = ["serve", "--listen", "127.0.0.1:0", "--storage", "memory:"];
    let mut command = punctual(folder.path(), &args);
    command.env("Messaging__Scheduling__Jobs__nightly__CronExpression", "every day");
    let server = Server::spawned(command);
    let (_, job) = server.get("/api/v1/jobs/nightly");
    assert!(job["misconfigured"].as_str().unwrap().contains("is wrong"), "{job}");
    let (_, health) = server.get("/health");
    assert_eq!(health["condition"], "degraded", "{health}");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn the_demo_runs_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--demo"]);
    assert!(server.jobs().contains(&"demo-heartbeat".to_owned()));
    assert!(!folder.path().join("punctual.db").exists(), "no file is created");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_second_signal_ends_the_server_while_messages_run() {
    let folder = tempfile::tempdir().unwrap();
    // Accepts a call and never responds.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let (called, calls) = channel();
    let address = silent.local_addr().unwrap();
    std::thread::spawn(move || called.send(silent.accept().unwrap()));
    let config = format!(
        "[http]\nallow = [\"127.0.0.1\"]\n[jobs.long]\nevery = \"1s\"\nhttp = {{ url = \"http://{address}/\" }}\n"
    );
    std::fs::write(folder.path().join("punctual.toml"), config).unwrap();
    let mut server = Server::start(folder.path(), &["--storage", "memory:"]);
    let _open_call = calls.recv_timeout(TIMEOUT).unwrap();
    server.signal("-TERM");
    server.line_with("stopping");
    server.signal("-TERM");
    server.line_with("ended immediately");
    assert_eq!(server.child.wait().unwrap().code(), Some(130));
}

#[test]
fn a_failed_start_is_one_line_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().to_string();
    for (args, code, words) in [
        (&["--listen", &port][..], 1, "another program uses the port; choose another one"),
        (&["--listen", "0.0.0.0:0"], 2, "the flag --listen: server.listen: "),
        (&["--listen", "here"], 2, "use an address with a port, such as"),
        (&["--storage", "data.db"], 2, "write \"sqlite:data.db\""),
        (&["--config", "none.toml"], 2, "does not exist"),
        (&["--roles", "cook"], 2, "the flag --roles: server.roles"),
        // No user can create a file there, not even root.
        (&["--storage", "sqlite:/proc/none/a.db", "--listen", "127.0.0.1:0"], 1, "/proc/none"),
        (&["--config", "folder.toml"], 2, "folder.toml"),
        (&["--config", "bytes.toml"], 2, "bytes.toml"),
    ] {
        std::fs::create_dir_all(folder.path().join("folder.toml")).unwrap();
        std::fs::write(folder.path().join("bytes.toml"), b"\xff\xfe").unwrap();
        let output = output(folder.path(), &[&["serve"], args].concat());
        let printed = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {printed}");
        assert!(printed.contains(words), "{args:?}: {printed}");
        let lines = printed.lines().filter(|line| !line.starts_with("hint: ")).count();
        assert_eq!(lines, 1, "{args:?}: the error has one line: {printed}");
    }
}

#[test]
fn a_service_manager_is_notified_of_start_and_stop() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let receive = || {
        let mut bytes = [0; 1_024];
        let length = socket.recv(&mut bytes).unwrap();
        text(&bytes[..length])
    };
    let args = ["serve", "--listen", "127.0.0.1:0", "--storage", "memory:"];
    let mut command = punctual(folder.path(), &args);
    command.env("NOTIFY_SOCKET", &path);
    let server = Server::spawned(command);
    assert!(receive().lines().any(|line| line == "READY=1"));
    assert_eq!(server.get("/health/ready").0, 200, "it notifies when it is ready, not before");
    assert_eq!(server.stop(), Some(0));
    assert!(receive().lines().any(|line| line == "STOPPING=1"));
}

#[test]
fn config_checks_shows_and_prints_an_example() {
    let folder = tempfile::tempdir().unwrap();
    let example = output(folder.path(), &["config", "example"]);
    assert!(example.status.success());
    std::fs::write(folder.path().join("a.toml"), &example.stdout).unwrap();
    let checked = output(folder.path(), &["config", "check", "a.toml"]);
    assert!(checked.status.success(), "{}", text(&checked.stderr));
    assert!(text(&checked.stdout).contains("jobs: 4"));
    let secret = "[storage]\naddress = \"postgres://ada:s3cret@db/shop\"\n";
    std::fs::write(folder.path().join("punctual.toml"), secret).unwrap();
    let shown = text(&output(folder.path(), &["config", "show"]).stdout);
    assert!(shown.contains("(hidden)@db") && !shown.contains("s3cret"), "{shown}");
    std::fs::write(folder.path().join("b.toml"), "[server]\nlisten = 1\nx = 2\n").unwrap();
    let wrong = output(folder.path(), &["config", "check", "--config", "b.toml"]);
    assert_eq!(wrong.status.code(), Some(2));
    let printed = text(&wrong.stderr);
    assert!(printed.contains("error: b.toml:2: server.listen: "), "{printed}");
    assert!(printed.contains("error: b.toml:3: server.x: "), "{printed}");
}

// "listens on ..." and "stopping" were lines of plain text among the others.
#[test]
fn every_line_of_a_log_in_json_is_json() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["serve", "--listen", "127.0.0.1:0", "--storage", "memory:", "--log-format", "json"];
    let mut child = punctual(folder.path(), &args).stderr(Stdio::piped()).spawn().unwrap();
    let lines = lines_of(child.stderr.take().unwrap());
    let mut logged: Vec<String> = Vec::new();
    while !logged.last().is_some_and(|line| line.contains("listens on http")) {
        logged.push(lines.recv_timeout(TIMEOUT).unwrap());
    }
    let signal = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(signal.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    logged.extend(lines.iter());
    let stopping = "stopping: waiting for running messages";
    assert!(logged.iter().any(|line| line.contains(stopping)), "{logged:?}");
    for line in logged {
        let line: Value = serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("{error}: {line:?} is not JSON"));
        assert!(line["fields"].is_object() && line["level"].is_string(), "{line}");
    }
}

// Finding P16 of the newcomer's review: there was no warning.
#[test]
fn probable_mistakes_are_warnings_of_the_check_and_of_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let config = "[jobs.never]\ncron = \"0 0 31 2 *\"\ntopic = \"t\"\n\
        [jobs.past]\nat = \"2020-01-01T00:00:00Z\"\ntopic = \"t\"\n";
    std::fs::write(folder.path().join("punctual.toml"), config).unwrap();
    let checked = output(folder.path(), &["config", "check"]);
    assert_eq!(checked.status.code(), Some(0));
    let printed = text(&checked.stderr);
    let lines: Vec<&str> = printed.lines().collect();
    let [never, past] = lines[..] else { panic!("{printed}") };
    assert!(
        never.starts_with("warning: punctual.toml:2: jobs.never.cron: the day does not exist"),
        "{printed}"
    );
    assert!(past.starts_with("warning: punctual.toml:5: jobs.past.at: 2020-01-01"), "{printed}");
    let args = ["serve", "--listen", "127.0.0.1:0", "--storage", "memory:"];
    let mut child = punctual(folder.path(), &args).stderr(Stdio::piped()).spawn().unwrap();
    let lines = lines_of(child.stderr.take().unwrap());
    let until_ready: Vec<String> =
        lines.iter().take_while(|line| !line.contains("listens on http")).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    let warned = |words: &str| until_ready.iter().filter(|line| line.contains(words)).count();
    assert_eq!(warned("jobs.never.cron: the day does not exist"), 1, "{until_ready:?}");
    assert_eq!(warned("jobs.past.at: "), 1, "{until_ready:?}");
}
