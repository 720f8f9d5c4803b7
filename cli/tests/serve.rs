//! `punctual serve` and `punctual config` as a person or a service manager sees them: the binary is run.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "these are all tests")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn punctual(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.current_dir(folder).args(args).env("PUNCTUAL__LOG__LEVEL", "info");
    command
}

fn output(folder: &Path, args: &[&str]) -> Output {
    punctual(folder, args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a process says, line by line, read by a thread that ends with it.
fn lines_of(stream: ChildStderr) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// A server that was started, and what it says. Killed when the test ends early.
struct Server {
    child: Child,
    lines: Receiver<String>,
    address: SocketAddr,
}

impl Server {
    fn start(folder: &Path, args: &[&str]) -> Self {
        let args = [&["serve", "--listen", "127.0.0.1:0"], args].concat();
        let mut child = punctual(folder, &args).stderr(Stdio::piped()).spawn().unwrap();
        let lines = lines_of(child.stderr.take().unwrap());
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut server = Self { child, lines, address: nowhere };
        let greeting = server.line_with("listens on http://");
        let address = greeting.split("http://").nth(1).unwrap().split(' ').next().unwrap();
        server.address = address.parse().unwrap();
        server
    }

    /// The next line that contains some words.
    fn line_with(&mut self, words: &str) -> String {
        let mut seen = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            if line.contains(words) {
                return line;
            }
            seen.push(line);
        }
        panic!("it did not say {words:?}, but:\n{}", seen.join("\n"));
    }

    fn get(&self, path: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let host = self.address;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    fn jobs(&self) -> Vec<String> {
        let (status, jobs) = self.get("/api/v1/jobs");
        assert_eq!(status, 200);
        let items = jobs["items"].as_array().unwrap();
        items.iter().map(|job| job["name"].as_str().unwrap().to_owned()).collect()
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// Asks it to stop, and answers how that went.
    fn stop(mut self) -> Option<i32> {
        self.signal("-TERM");
        self.line_with("stopped; everything that ran has finished");
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn serves_the_jobs_of_its_configuration_and_stops_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("punctual.toml");
    std::fs::write(&file, "[jobs.one]\nevery = \"1h\"\npublish = { topic = \"t\" }\n").unwrap();
    let mut server = Server::start(folder.path(), &[]);
    assert_eq!(server.jobs(), ["one"]);
    assert!(folder.path().join("punctual.db").exists());
    // Wrong: the old definitions stay. Right again, by a signal: taken over.
    std::fs::write(&file, "[jobs.two]\nevery = \"x\"\n").unwrap();
    server.signal("-HUP");
    server.line_with("the old jobs stay");
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
fn a_cron_text_of_the_environment_wins_over_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("punctual.toml");
    std::fs::write(&file, "[jobs.nightly]\ncron = \"0 2 * * *\"\ntopic = \"t\"\n").unwrap();
    let storage = format!("sqlite:{}", folder.path().join("a.db").display());
    let args = ["serve", "--listen", "127.0.0.1:0", "--storage", &storage];
    let mut command = punctual(folder.path(), &args);
    command.env("Messaging__Scheduling__Jobs__nightly__CronExpression", "30 4 * * *");
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let lines = lines_of(child.stderr.take().unwrap());
    let mut server = Server { child, lines, address: SocketAddr::from(([0, 0, 0, 0], 0)) };
    server.line_with("listens on");
    assert_eq!(server.stop(), Some(0));
    let exported = output(folder.path(), &["export", "--storage", &storage]);
    let exported = text(&exported.stdout);
    let record: Value = serde_json::from_str(exported.lines().nth(1).unwrap()).unwrap();
    assert_eq!(record["job"]["declared"]["schedule"]["cron"], "0 2 * * *", "{exported}");
    assert_eq!(record["job"]["job"]["schedule"]["cron"], "30 4 * * *", "{exported}");
}

#[test]
fn the_example_works_in_memory_and_a_second_signal_ends_it_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--demo"]);
    assert!(server.jobs().contains(&"demo-heartbeat".to_owned()));
    assert!(!folder.path().join("punctual.db").exists(), "it works in memory");
    server.signal("-TERM");
    let mut server = server;
    server.line_with("stopping");
    // An example's handlers end when they are asked to; a second signal need not wait for that.
    server.signal("-TERM");
    server.line_with("ended at once");
    assert_eq!(server.child.wait().unwrap().code(), Some(130));
}

#[test]
fn what_cannot_work_is_one_sentence_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().to_string();
    for (args, code, words) in [
        (&["--listen", &port][..], 1, "another program listens there; choose another port"),
        (&["--listen", "0.0.0.0:0"], 2, "the flag --listen: server.listen: "),
        (&["--listen", "here"], 2, "invalid socket address"),
        (&["--storage", "data.db"], 2, "write \"sqlite:data.db\""),
        (&["--config", "none.toml"], 2, "there is no such file"),
        (&["--roles", "cook"], 2, "the flag --roles: server.roles"),
        (&["--storage", "sqlite:/proc/none/a.db", "--listen", "127.0.0.1:0"], 1, "/proc/none"),
    ] {
        let output = output(folder.path(), &[&["serve"], args].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
    }
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
    let said = text(&wrong.stderr);
    assert!(said.contains("error: b.toml:2: server.listen: "), "{said}");
    assert!(said.contains("error: b.toml:3: server.x: "), "{said}");
}
