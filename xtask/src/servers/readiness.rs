//! Readiness probes: sends one request to a local server.

use std::io::{Read as _, Result, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// Longest wait for a response of a server that is being started.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Sends these bytes and returns the first bytes of the response.
pub fn ask<const LENGTH: usize>(port: u16, words: &[u8]) -> Result<[u8; LENGTH]> {
    let address = (Ipv4Addr::LOCALHOST, port).into();
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(words)?;
    let mut response = [0; LENGTH];
    stream.read_exact(&mut response)?;
    Ok(response)
}

/// Returns whether a request for a path succeeds with 200.
pub fn is_ready(port: u16, path: &str) -> bool {
    let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
    ask::<12>(port, request.as_bytes()).is_ok_and(|response| response.ends_with(b" 200"))
}
