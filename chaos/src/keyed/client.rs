//! One request over a connection of its own, with an end: a killed server leaves it without an answer.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use punctual::clock::{add, within};
use punctual::{Clock, SystemClock};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The longest a request is waited for: a paused server is left for the other one before its lease ends.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The most bytes of an answer.
const ANSWER_MAX: u64 = 4 << 20;

/// What a server answered.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) is_replay: bool,
    pub(super) body: Value,
}

/// Sends JSON with an `Idempotency-Key`.
pub(super) async fn post(port: u16, path: &str, key: &str, body: &Value) -> Result<Answer> {
    let until = add(SystemClock.now(), TIMEOUT);
    let answer = within(&SystemClock, until, exchange(port, path, key, body)).await;
    answer.context("no answer in time")?
}

async fn exchange(port: u16, path: &str, key: &str, body: &Value) -> Result<Answer> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let body = body.to_string();
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\nidempotency-key: {key}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut bytes = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut bytes).await?;
    read(&String::from_utf8(bytes)?)
}

fn read(text: &str) -> Result<Answer> {
    let (head, body) = text.split_once("\r\n\r\n").context("an answer was cut off")?;
    let status = head.get(9..12).context("an answer without a status")?.parse()?;
    let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
    let length: usize =
        header("content-length: ").context("an answer without a length")?.parse()?;
    ensure!(body.len() == length, "an answer was cut off");
    let body = serde_json::from_str(body).unwrap_or(Value::Null);
    Ok(Answer { status, is_replay: header("idempotent-replay: ").is_some(), body })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_was_cut_off_is_none() {
        let head = "HTTP/1.1 201 Created\r\nidempotent-replay: true\r\ncontent-length: 8\r\n\r\n";
        let whole = read(&format!("{head}{{\"id\":1}}")).unwrap();
        assert_eq!((whole.status, whole.is_replay), (201, true));
        assert_eq!(whole.body["id"], 1);
        assert!(read(&format!("{head}{{\"id\"")).is_err());
        assert!(read("HTTP/1.1 201").is_err());
    }
}
