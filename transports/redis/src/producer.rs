//! Producer: sends a batch in chunks and returns when the server has confirmed every entry. A message that
//! cannot be sent is refused before any is sent.
//!
//! A chunk is a transaction: a server that syncs to disk then syncs once per chunk, and not each time it has
//! read another part of it from the connection.

use std::borrow::Cow;

use punctual::Result;
use punctual::backend::transport::limits::check_delay;
use punctual::backend::transport::{Delay, OutgoingMessage};
use punctual::backend::wire::{PREFIX_DEFAULT, Wrapping};
use punctual::jiff::Timestamp;
use punctual::model::Topic;
use redis::{Cmd, Pipeline};

use crate::connection::BrokerConnection;
use crate::names;
use crate::wire::compact_fields;

/// Most entries of one chunk; their replies are buffered until all are there.
const CHUNK_MAX: usize = 1_024;
/// Size of bodies after which a chunk ends.
const CHUNK_BYTES: usize = 4 * 1024 * 1024;

/// Sends messages to their streams.
#[derive(Debug)]
pub(crate) struct Producer {
    pub(crate) prefix: String,
    pub(crate) payload_max: usize,
    /// Approximate limit of entries in a topic's stream, handled or not.
    pub(crate) entries_max: Option<usize>,
    pub(crate) wrapping: Wrapping,
}

impl Producer {
    pub(crate) async fn publish(
        &self,
        connection: &BrokerConnection,
        batch: &[OutgoingMessage],
        now: Timestamp,
    ) -> Result<()> {
        batch.iter().try_for_each(|outgoing| self.check(outgoing))?;
        connection.ping_if_idle(now).await;
        let mut rest = batch;
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(chunk_len(rest));
            let calls = self.calls(chunk)?;
            connection
                .pipeline::<()>(&calls)
                .await
                .map_err(|error| connection.map_error(&error).during("publish"))?;
            rest = after;
        }
        Ok(())
    }

    fn check(&self, outgoing: &OutgoingMessage) -> Result<()> {
        let message = &outgoing.message;
        check_delay("Redis", Delay::None, message.id, outgoing.delay)?;
        if let Some(group) = &outgoing.group {
            names::check_group(group)?;
        }
        message.body.check(self.payload_max)
    }

    fn calls(&self, chunk: &[OutgoingMessage]) -> Result<Pipeline> {
        let mut calls = Pipeline::with_capacity(chunk.len());
        if chunk.len() > 1 {
            calls.atomic();
        }
        // Most batches have one topic, whose stream name is built once.
        let mut last: Option<(&Topic, String)> = None;
        for outgoing in chunk {
            let topic = &outgoing.message.topic;
            let stream = match last.take() {
                Some((known, stream)) if known == topic => stream,
                _ => names::shared(&self.prefix, topic),
            };
            calls.add_command(self.call(outgoing, &stream)?);
            last = Some((topic, stream));
        }
        Ok(calls)
    }

    fn call(&self, outgoing: &OutgoingMessage, stream: &str) -> Result<Cmd> {
        let wire = self.wrapping.wire(outgoing, PREFIX_DEFAULT)?;
        let topic = &outgoing.message.topic;
        let mut call = Cmd::with_capacity(8 + 2 * wire.headers.len(), wire.body.len() + 512);
        call.arg("XADD");
        match &outgoing.group {
            Some(group) => call.arg(names::own(&self.prefix, topic, group)),
            None => call.arg(stream),
        };
        if let (Some(most), None) = (self.entries_max, &outgoing.group) {
            call.arg("MAXLEN").arg("~").arg(most);
        }
        call.arg("*");
        append(compact_fields(&wire), |part| _ = call.arg(part));
        Ok(call)
    }
}

/// Passes the names and values of fields to `take`.
pub(crate) fn append<'a>(
    fields: impl Iterator<Item = (Cow<'a, str>, &'a [u8])>,
    mut take: impl FnMut(&[u8]),
) {
    for (name, value) in fields {
        take(name.as_bytes());
        take(value);
    }
}

/// Returns how many messages fit into one chunk.
fn chunk_len(batch: &[OutgoingMessage]) -> usize {
    let mut bytes = 0;
    let fitting = batch.iter().take(CHUNK_MAX).take_while(|outgoing| {
        let fits = bytes < CHUNK_BYTES;
        bytes += outgoing.message.body.bytes.len();
        fits
    });
    fitting.count()
}
