//! Bare MQTT 5 without a client library: packets written and read by hand on two connections, as an upper limit for
//! any library. Uses a shared subscription and a persistent session like ours; a batch is one write.

use anyhow::{Context as _, Result};
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::BATCH;
use super::comparison::{BenchClient, Names};
use crate::rates::BODY;

const CONNECT: u8 = 0x10;
const CONNACK: u8 = 0x20;
/// PUBLISH with quality of service 1.
const PUBLISH: u8 = 0x32;
const PUBACK: u8 = 0x40;
const SUBSCRIBE: u8 = 0x82;
const SUBACK: u8 = 0x90;
/// Mask of the packet type, without its flags.
const TYPE_MASK: u8 = 0xf0;
/// Session expiry interval, in seconds.
const SESSION_EXPIRY: u32 = 600;

/// Topic with a connection to publish and one to consume.
pub(super) struct BareClient {
    topic: String,
    publishing: PacketStream,
    consuming: PacketStream,
}

impl BareClient {
    pub(super) async fn open(url: &str, names: &Names) -> Result<Self> {
        let topic = names.bare();
        let publishing = PacketStream::open(url, &format!("{topic}-out"), 0).await?;
        let mut consuming = PacketStream::open(url, &format!("{topic}-in"), SESSION_EXPIRY).await?;
        let mut body = BytesMut::from(&[0, 1, 0][..]);
        text(&mut body, &format!("$share/bench/{topic}"))?;
        body.put_u8(1);
        consuming.send(SUBSCRIBE, &body).await?;
        let (_, answer) = consuming.expect(SUBACK).await?;
        anyhow::ensure!(answer.last() == Some(&1), "the subscription was refused");
        Ok(Self { topic, publishing, consuming })
    }
}

impl BenchClient for BareClient {
    fn how(&self) -> &'static str {
        "packets by hand, no client library: the publishes of a batch with the body alone in one write, \
                               a shared subscription, the acknowledgements of a batch in one write"
    }

    async fn publish(&mut self, count: usize) -> Result<()> {
        let mut packets = BytesMut::with_capacity(count * (self.topic.len() + BODY.len() + 8));
        for id in 1..=u16::try_from(count)? {
            let mut body = BytesMut::with_capacity(self.topic.len() + BODY.len() + 5);
            text(&mut body, &self.topic)?;
            body.put_u16(id);
            body.put_u8(0);
            body.put_slice(&BODY);
            packet(&mut packets, PUBLISH, &body);
        }
        self.publishing.stream.write_all(&packets).await?;
        for _ in 0..count {
            let (_, answer) = self.publishing.expect(PUBACK).await?;
            anyhow::ensure!(answer.get(2).is_none_or(|code| *code < 0x80), "a publish was refused");
        }
        Ok(())
    }

    async fn consume(&mut self, limit: usize) -> Result<usize> {
        let mut acknowledged = BytesMut::with_capacity(limit * 4);
        for _ in 0..limit {
            let (_, mut body) = self.consuming.expect(PUBLISH & TYPE_MASK).await?;
            anyhow::ensure!(body.len() > self.topic.len() + 5, "a packet is too short");
            body.advance(2 + self.topic.len());
            let id = body.get_u16();
            body.advance(1);
            anyhow::ensure!(body[..] == BODY, "a message has a different body");
            packet(&mut acknowledged, PUBACK, &id.to_be_bytes());
        }
        self.consuming.stream.write_all(&acknowledged).await?;
        Ok(limit)
    }

    async fn close(mut self) -> Result<()> {
        // DISCONNECT with session expiry 0: the session ends with its connection.
        self.consuming.send(0xe0, &[0, 5, 0x11, 0, 0, 0, 0]).await?;
        self.publishing.send(0xe0, &[]).await
    }
}

/// Connection with a read buffer, split into packets.
struct PacketStream {
    stream: TcpStream,
    buffer: BytesMut,
}

impl PacketStream {
    async fn open(url: &str, client: &str, session_expiry: u32) -> Result<Self> {
        let address = url.trim_start_matches("mqtt://").trim_end_matches('/');
        let stream =
            TcpStream::connect(address).await.with_context(|| format!("connect {address}"))?;
        stream.set_nodelay(true)?;
        let mut packets = Self { stream, buffer: BytesMut::new() };
        let mut body = BytesMut::new();
        text(&mut body, "MQTT")?;
        // Version 5, clean start, no keep-alive; then session expiry and receive maximum.
        body.put_slice(&[5, 0b10, 0, 0, 8, 0x11]);
        body.put_u32(session_expiry);
        body.put_u8(0x21);
        body.put_u16(u16::try_from(2 * BATCH)?);
        text(&mut body, client)?;
        packets.send(CONNECT, &body).await?;
        let (_, answer) = packets.expect(CONNACK).await?;
        anyhow::ensure!(answer.get(1) == Some(&0), "the broker refused the connection");
        Ok(packets)
    }

    async fn send(&mut self, first: u8, body: &[u8]) -> Result<()> {
        let mut out = BytesMut::new();
        packet(&mut out, first, body);
        Ok(self.stream.write_all(&out).await?)
    }

    /// Returns the next packet; fails when it is of another type.
    async fn expect(&mut self, kind: u8) -> Result<(u8, Bytes)> {
        loop {
            if let Some((first, body)) = take_packet(&mut self.buffer) {
                anyhow::ensure!(
                    first & TYPE_MASK == kind,
                    "received packet {first:#x} instead of {kind:#x}"
                );
                return Ok((first, body));
            }
            self.buffer.reserve(64 * 1024);
            let count = self.stream.read_buf(&mut self.buffer).await?;
            anyhow::ensure!(count > 0, "the broker closed the connection");
        }
    }
}

/// Takes the first packet from the buffer, if it is complete.
fn take_packet(buffer: &mut BytesMut) -> Option<(u8, Bytes)> {
    let first = *buffer.first()?;
    let mut length = 0;
    let mut head = 1;
    loop {
        let byte = *buffer.get(head)?;
        length |= usize::from(byte & 0x7f) << (7 * (head - 1));
        head += 1;
        if byte & 0x80 == 0 || head > 4 {
            break;
        }
    }
    if buffer.len() < head + length {
        return None;
    }
    buffer.advance(head);
    Some((first, buffer.split_to(length).freeze()))
}

fn packet(out: &mut BytesMut, first: u8, body: &[u8]) {
    out.put_u8(first);
    let mut length = body.len();
    loop {
        let low = u8::try_from(length & 0x7f).unwrap_or_default();
        length >>= 7;
        if length == 0 {
            out.put_u8(low);
            break;
        }
        out.put_u8(low | 0x80);
    }
    out.put_slice(body);
}

fn text(out: &mut BytesMut, text: &str) -> Result<()> {
    out.put_u16(u16::try_from(text.len())?);
    out.put_slice(text.as_bytes());
    Ok(())
}
