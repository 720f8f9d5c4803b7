//! Publishing: a whole batch goes out in one piece and is done when the server has confirmed every entry.
//! What cannot be sent is refused before anything is.
//!
//! A piece is a transaction: a server that waits for the disk then waits once for it, and not each time it
//! has read another part of the piece from the connection.

use std::borrow::Cow;

use punctual::jiff::Timestamp;
use punctual::model::Topic;
use punctual::transport::Outgoing;
use punctual::wire::{PREFIX_DEFAULT, Wrapping};
use punctual::{Error, Result};
use redis::{Cmd, Pipeline};

use crate::link::Link;
use crate::streams;
use crate::wire::lean;

/// The most entries in one piece; their answers are kept until all are there.
const PIECE_MAX: usize = 1_024;
/// The most bytes of bodies in one piece, beyond which another is begun.
const PIECE_BYTES: usize = 4 * 1024 * 1024;

/// Sends messages to their streams.
#[derive(Debug)]
pub(crate) struct Producer {
    pub(crate) prefix: String,
    pub(crate) payload_max: usize,
    /// At most about so many entries stay in a topic's stream, handled or not.
    pub(crate) entries_max: Option<usize>,
    pub(crate) wrapping: Wrapping,
}

impl Producer {
    pub(crate) async fn publish(
        &self,
        link: &Link,
        batch: &[Outgoing],
        now: Timestamp,
    ) -> Result<()> {
        batch.iter().try_for_each(|outgoing| self.check(outgoing))?;
        link.refresh(now).await;
        let mut rest = batch;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(piece_length(rest));
            let calls = self.calls(piece)?;
            link.pipeline::<()>(&calls)
                .await
                .map_err(|error| link.told(&error).during("publish"))?;
            rest = after;
        }
        Ok(())
    }

    fn check(&self, outgoing: &Outgoing) -> Result<()> {
        let message = &outgoing.message;
        if !outgoing.delay.is_zero() {
            return Err(Error::unsupported(format!(
                "Redis cannot delay the message {} by {:?}; give the builder a storage to keep it in, or send it without a delay",
                message.id, outgoing.delay
            )));
        }
        if let Some(group) = &outgoing.group {
            streams::check_group(group)?;
        }
        message.body.check(self.payload_max)
    }

    fn calls(&self, piece: &[Outgoing]) -> Result<Pipeline> {
        let mut calls = Pipeline::with_capacity(piece.len());
        if piece.len() > 1 {
            calls.atomic();
        }
        // Most batches have one topic, whose stream's name is made once.
        let mut last: Option<(&Topic, String)> = None;
        for outgoing in piece {
            let topic = &outgoing.message.topic;
            let stream = match last.take() {
                Some((known, stream)) if known == topic => stream,
                _ => streams::shared(&self.prefix, topic),
            };
            calls.add_command(self.call(outgoing, &stream)?);
            last = Some((topic, stream));
        }
        Ok(calls)
    }

    fn call(&self, outgoing: &Outgoing, stream: &str) -> Result<Cmd> {
        let wire = self.wrapping.wire(outgoing, PREFIX_DEFAULT)?;
        let topic = &outgoing.message.topic;
        let mut call = Cmd::with_capacity(8 + 2 * wire.headers.len(), wire.body.len() + 512);
        call.arg("XADD");
        match &outgoing.group {
            Some(group) => call.arg(streams::own(&self.prefix, topic, group)),
            None => call.arg(stream),
        };
        if let (Some(most), None) = (self.entries_max, &outgoing.group) {
            call.arg("MAXLEN").arg("~").arg(most);
        }
        call.arg("*");
        append(lean(&wire), |part| _ = call.arg(part));
        Ok(call)
    }
}

/// Appends fields to whatever takes arguments.
pub(crate) fn append<'a>(
    fields: impl Iterator<Item = (Cow<'a, str>, &'a [u8])>,
    mut take: impl FnMut(&[u8]),
) {
    for (name, value) in fields {
        take(name.as_bytes());
        take(value);
    }
}

/// How many of these go out in one piece.
fn piece_length(batch: &[Outgoing]) -> usize {
    let mut bytes = 0;
    let fitting = batch.iter().take(PIECE_MAX).take_while(|outgoing| {
        let fits = bytes < PIECE_BYTES;
        bytes += outgoing.message.body.bytes.len();
        fits
    });
    fitting.count()
}
