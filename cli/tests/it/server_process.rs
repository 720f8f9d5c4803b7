//! Server process: runs the binary, and controls it over its socket and by signals.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

/// Timeout that is long enough on a busy machine.
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

/// Returns the lines of a process, read by a thread that ends with it.
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

/// A running server and the lines of its standard error. Killed when the test ends early.
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

    /// Starts a server by a prepared command.
    pub(crate) fn spawned(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let lines = lines_of(child.stderr.take().unwrap());
        let unset = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut server = Self { child, lines, address: unset };
        let greeting = server.line_with("listens on http");
        let address = greeting.split("://").nth(1).unwrap().split(' ').next().unwrap();
        server.address = address.parse().unwrap();
        server
    }

    /// Waits for the next line that contains a text.
    pub(crate) fn line_with(&mut self, words: &str) -> String {
        let mut others = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(TIMEOUT) {
            if line.contains(words) {
                return line;
            }
            others.push(line);
        }
        panic!("the server did not print {words:?}, but:\n{}", others.join("\n"));
    }

    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let host = self.address;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let status = response.split(' ').nth(1).unwrap().parse().unwrap();
        let body = response.split_once("\r\n\r\n").unwrap().1;
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

    /// Stops the server gracefully and returns its exit code.
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
