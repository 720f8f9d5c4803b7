//! A small HTTP client that keeps its connection: it writes bytes that were made before and reads no more of
//! an answer than it has to, so that it is never what is slow.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The most bytes of an answer.
const ANSWER_MAX: usize = 64 << 20;

/// One connection.
pub(super) struct Client {
    stream: TcpStream,
    read: Vec<u8>,
}

/// A request that asks for a path.
pub(super) fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes()
}

/// A request that sends JSON.
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
        Ok(Self { stream, read: Vec::with_capacity(16 << 10) })
    }

    /// Sends a request and answers the status and the body.
    pub(super) async fn ask(&mut self, request: &[u8]) -> Result<(u16, &[u8])> {
        self.stream.write_all(request).await?;
        self.read.clear();
        let head = self.head().await?;
        let status = status(&self.read)?;
        let length = length(&self.read[..head])?;
        anyhow::ensure!(length <= ANSWER_MAX, "an answer of {length} bytes");
        while self.read.len() < head + length {
            self.more().await?;
        }
        Ok((status, &self.read[head..head + length]))
    }

    /// The body of an answer that must be a success.
    pub(super) async fn body(&mut self, path: &str) -> Result<Vec<u8>> {
        let (status, body) = self.ask(&get(path)).await?;
        anyhow::ensure!(
            status == 200,
            "{path} answers {status}: {}",
            String::from_utf8_lossy(body)
        );
        Ok(body.to_vec())
    }

    /// Asks for a stream and reads it until the connection ends.
    pub(super) async fn listen(mut self, path: &str) -> Result<()> {
        self.stream.write_all(&get(path)).await?;
        loop {
            self.read.clear();
            self.more().await?;
        }
    }

    /// Reads to the end of the head; answers where that is.
    async fn head(&mut self) -> Result<usize> {
        loop {
            if let Some(end) = self.read.windows(4).position(|four| four == b"\r\n\r\n") {
                return Ok(end + 4);
            }
            self.more().await?;
        }
    }

    async fn more(&mut self) -> Result<()> {
        if self.stream.read_buf(&mut self.read).await? == 0 {
            bail!("the server closed the connection");
        }
        Ok(())
    }
}

fn status(head: &[u8]) -> Result<u16> {
    let digits = head.get(9..12).context("an answer without a status")?;
    Ok(std::str::from_utf8(digits)?.parse()?)
}

/// What the head says of the length; hyper writes names in small letters.
fn length(head: &[u8]) -> Result<usize> {
    let head = std::str::from_utf8(head)?;
    let value = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    Ok(value.context("an answer without a length")?.trim().parse()?)
}
