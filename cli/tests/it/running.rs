//! A real server: the binary is run, and spoken to over its socket and by signals.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

/// Longer than anything here takes on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) fn punctual(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.current_dir(folder).args(args).env("PUNCTUAL__LOG__LEVEL", "info");
    command
}

pub(crate) fn output(folder: &Path, args: &[&str]) -> Output {
    punctual(folder, args).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a process says, line by line, read by a thread that ends with it.
pub(crate) fn lines_of(stream: ChildStderr) -> Receiver<String> {
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
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) lines: Receiver<String>,
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) fn start(folder: &Path, args: &[&str]) -> Self {
        let args = [&["serve", "--listen", "127.0.0.1:0"], args].concat();
        Self::spawned(punctual(folder, &args))
    }

    /// A command that was put together by the test.
    pub(crate) fn spawned(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let lines = lines_of(child.stderr.take().unwrap());
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut server = Self { child, lines, address: nowhere };
        let greeting = server.line_with("listens on http");
        let address = greeting.split("://").nth(1).unwrap().split(' ').next().unwrap();
        server.address = address.parse().unwrap();
        server
    }

    /// The next line that contains some words.
    pub(crate) fn line_with(&mut self, words: &str) -> String {
        let mut seen = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(TIMEOUT) {
            if line.contains(words) {
                return line;
            }
            seen.push(line);
        }
        panic!("it did not say {words:?}, but:\n{}", seen.join("\n"));
    }

    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let host = self.address;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    pub(crate) fn jobs(&self) -> Vec<String> {
        let (status, jobs) = self.get("/api/v1/jobs");
        assert_eq!(status, 200);
        let items = jobs["items"].as_array().unwrap();
        items.iter().map(|job| job["name"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// Asks it to stop, and answers how that went.
    pub(crate) fn stop(mut self) -> Option<i32> {
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
