//! Bare client of Redis: stream entries with a body, a group, one consumer. A batch is published in one transaction
//! as in our transport, so that a server that waits for the disk waits once; the same without a transaction is shown
//! beside it.

use anyhow::Result;
use redis::aio::MultiplexedConnection;
use redis::{Pipeline, cmd};

use super::comparison::{BenchClient, Names};
use crate::rates::BODY;

/// Longest wait of a read, in milliseconds.
const WAIT: usize = 2_000;
const GROUP: &str = "bench";

/// Response of a read: streams with their entries, each a list of alternating field names and values.
type Read = Option<Vec<(String, Vec<(String, Vec<Vec<u8>>)>)>>;

/// Stream with two connections, because a waiting read blocks all later commands of its connection.
pub(super) struct BareClient {
    stream: String,
    connection: MultiplexedConnection,
    reading: MultiplexedConnection,
    is_atomic: bool,
}

impl BareClient {
    /// Opens two clients, with and without transactions.
    pub(super) async fn both(url: &str, names: &Names) -> Result<Vec<Self>> {
        let stream = names.bare();
        let plain = format!("{stream}-plain");
        Ok(vec![Self::open(url, stream, true).await?, Self::open(url, plain, false).await?])
    }

    async fn open(url: &str, stream: String, is_atomic: bool) -> Result<Self> {
        let client = redis::Client::open(url)?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        let mut create = cmd("XGROUP");
        create.arg("CREATE").arg(&stream).arg(GROUP).arg("$").arg("MKSTREAM");
        create.query_async::<()>(&mut connection).await?;
        let patient = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        let reading = client.get_multiplexed_async_connection_with_config(&patient).await?;
        Ok(Self { stream, connection, reading, is_atomic })
    }
}

impl BenchClient for BareClient {
    fn how(&self) -> &'static str {
        if self.is_atomic {
            "one transaction of XADD with the body alone, XREADGROUP, one XACK for a batch"
        } else {
            "one pipeline of XADD with the body alone, no transaction, XREADGROUP, one XACK for a batch"
        }
    }

    fn label(&self) -> &'static str {
        if self.is_atomic { "bare client" } else { "bare client without a transaction" }
    }

    async fn publish(&mut self, count: usize) -> Result<()> {
        let mut calls = Pipeline::with_capacity(count);
        if self.is_atomic {
            calls.atomic();
        }
        for _ in 0..count {
            calls.cmd("XADD").arg(&self.stream).arg("*").arg("body").arg(&BODY[..]).ignore();
        }
        Ok(calls.query_async(&mut self.connection).await?)
    }

    async fn consume(&mut self, limit: usize) -> Result<usize> {
        let mut read = cmd("XREADGROUP");
        read.arg("GROUP").arg(GROUP).arg("one").arg("COUNT").arg(limit).arg("BLOCK").arg(WAIT);
        read.arg("STREAMS").arg(&self.stream).arg(">");
        let read: Read = read.query_async(&mut self.reading).await?;
        let entries = read.into_iter().flatten().flat_map(|(_, entries)| entries);
        let mut acknowledge = cmd("XACK");
        acknowledge.arg(&self.stream).arg(GROUP);
        let mut count = 0;
        for (id, fields) in entries {
            anyhow::ensure!(
                fields.get(1).is_some_and(|body| body[..] == BODY),
                "a message has a different body"
            );
            acknowledge.arg(id);
            count += 1;
        }
        let done: usize = acknowledge.query_async(&mut self.connection).await?;
        anyhow::ensure!(done == count, "{done} of {count} entries were acknowledged");
        Ok(count)
    }

    async fn close(mut self) -> Result<()> {
        Ok(cmd("DEL").arg(&self.stream).query_async(&mut self.connection).await?)
    }
}
