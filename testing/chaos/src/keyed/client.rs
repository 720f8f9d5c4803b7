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

/// Request without a complete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoResponse {
    /// There was no connection, so that nothing was sent.
    NotSent,
    /// The request may have reached the server.
    MayBeSent,
}

/// Sends JSON with an `Idempotency-Key`.
pub(super) async fn post(
    port: u16,
    path: &str,
    key: &str,
    body: &Value,
) -> Result<Response, NoResponse> {
    let until = add(SystemClock.now(), TIMEOUT);
    let connected = within(&SystemClock, until, TcpStream::connect(("127.0.0.1", port))).await;
    let Some(Ok(stream)) = connected else { return Err(NoResponse::NotSent) };
    let response = within(&SystemClock, until, exchange(stream, path, key, body)).await;
    response.and_then(Result::ok).ok_or(NoResponse::MayBeSent)
}

async fn exchange(mut stream: TcpStream, path: &str, key: &str, body: &Value) -> Result<Response> {
    let body = body.to_string();
    let (host, length) = (stream.peer_addr()?, body.len());
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\nidempotency-key: {key}\r\n\
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
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_refused_connection_differs_from_a_lost_one() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let lost = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 64]).await.unwrap();
        });
        let result = post(port, "/", "k", &Value::Null).await;
        assert_eq!(result.err(), Some(NoResponse::MayBeSent));
        lost.await.unwrap();
        let result = post(port, "/", "k", &Value::Null).await;
        assert_eq!(result.err(), Some(NoResponse::NotSent), "nothing listens any more");
    }

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
