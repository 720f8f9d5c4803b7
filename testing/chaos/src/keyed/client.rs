//! HTTP client of the callers: one request per connection, with a timeout, since a killed server sends no response.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use punctual::clock::{add, within};
use punctual::{Clock, SystemClock};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Timeout of a request: short enough to repeat it on the other server before the lease of a paused one ends.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Largest response, in bytes.
const RESPONSE_MAX: u64 = 4 << 20;

/// Response of a server.
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) is_replay: bool,
    pub(super) body: Value,
}

/// Sends JSON with an `Idempotency-Key`.
pub(super) async fn post(port: u16, path: &str, key: &str, body: &Value) -> Result<Response> {
    let until = add(SystemClock.now(), TIMEOUT);
    let answer = within(&SystemClock, until, exchange(port, path, key, body)).await;
    answer.context("no response in time")?
}

async fn exchange(port: u16, path: &str, key: &str, body: &Value) -> Result<Response> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let body = body.to_string();
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\nidempotency-key: {key}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut bytes = Vec::new();
    stream.take(RESPONSE_MAX).read_to_end(&mut bytes).await?;
    read(&String::from_utf8(bytes)?)
}

fn read(text: &str) -> Result<Response> {
    let (head, body) = text.split_once("\r\n\r\n").context("incomplete response")?;
    let status = head.get(9..12).context("response without a status")?.parse()?;
    let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
    let length: usize =
        header("content-length: ").context("response without a content-length")?.parse()?;
    ensure!(body.len() == length, "incomplete response");
    let body = serde_json::from_str(body).unwrap_or(Value::Null);
    Ok(Response { status, is_replay: header("idempotent-replay: ").is_some(), body })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_response_is_an_error() {
        let head = "HTTP/1.1 201 Created\r\nidempotent-replay: true\r\ncontent-length: 8\r\n\r\n";
        let whole = read(&format!("{head}{{\"id\":1}}")).unwrap();
        assert_eq!((whole.status, whole.is_replay), (201, true));
        assert_eq!(whole.body["id"], 1);
        assert!(read(&format!("{head}{{\"id\"")).is_err());
        assert!(read("HTTP/1.1 201").is_err());
    }
}
