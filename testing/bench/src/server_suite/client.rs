//! HTTP client with a persistent connection: writes prepared bytes and parses as little of a response as possible,
//! so that the client does not limit the measured rate.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Largest response body.
const BODY_MAX: usize = 64 << 20;

/// Client on one persistent connection.
pub(super) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// Returns the bytes of a GET request.
pub(super) fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes()
}

/// Returns the bytes of a POST request with a JSON body.
pub(super) fn post(path: &str, json: &str) -> Vec<u8> {
    let length = json.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{json}"
    )
    .into_bytes()
}

impl Client {
    pub(super) async fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await.context("connect to the server")?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(16 << 10) })
    }

    /// Sends a request; returns the status and the body.
    pub(super) async fn send(&mut self, request: &[u8]) -> Result<(u16, &[u8])> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let head = self.head().await?;
        let status = status(&self.buffer)?;
        let length = length(&self.buffer[..head])?;
        anyhow::ensure!(length <= BODY_MAX, "response too large: {length} bytes");
        while self.buffer.len() < head + length {
            self.read_more().await?;
        }
        Ok((status, &self.buffer[head..head + length]))
    }

    /// Requests a path and returns the body; fails unless the status is 200.
    pub(super) async fn body(&mut self, path: &str) -> Result<Vec<u8>> {
        let (status, body) = self.send(&get(path)).await?;
        anyhow::ensure!(
            status == 200,
            "{path} returned {status}: {}",
            String::from_utf8_lossy(body)
        );
        Ok(body.to_vec())
    }

    /// Requests an event stream and reads it until the connection ends.
    pub(super) async fn listen(mut self, path: &str) -> Result<()> {
        self.stream.write_all(&get(path)).await?;
        loop {
            self.buffer.clear();
            self.read_more().await?;
        }
    }

    /// Reads to the end of the head; returns its length.
    async fn head(&mut self) -> Result<usize> {
        loop {
            if let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                return Ok(end + 4);
            }
            self.read_more().await?;
        }
    }

    async fn read_more(&mut self) -> Result<()> {
        if self.stream.read_buf(&mut self.buffer).await? == 0 {
            bail!("the server closed the connection");
        }
        Ok(())
    }
}

fn status(head: &[u8]) -> Result<u16> {
    let digits = head.get(9..12).context("response without a status")?;
    Ok(std::str::from_utf8(digits)?.parse()?)
}

/// Returns the `content-length` of a head; hyper writes header names in lower case.
fn length(head: &[u8]) -> Result<usize> {
    let head = std::str::from_utf8(head)?;
    let value = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    Ok(value.context("response without a content-length")?.trim().parse()?)
}
