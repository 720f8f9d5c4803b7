//! Group consumer on the server: all commands on the two streams of a group except reading. Each call may be
//! repeated without a second effect.

use std::sync::Arc;
use std::time::Duration;

use punctual::backend::wire::{CONTENT_TYPE_UNKNOWN, Wire};
use punctual::jiff::Timestamp;
use punctual::model::MessageId;
use redis::{Pipeline, RedisResult, Value, cmd};

use crate::connection::BrokerConnection;
use crate::names::{EntryId, EntryPosition, StreamKind, Streams};
use crate::producer::append;
use crate::scripts;
use crate::wire::fields;

/// Prefix of the names of our consumers.
pub(crate) const CONSUMER: &str = "punctual-";
/// Most entries in one call, because the server does nothing else meanwhile.
const CALL_MAX: usize = 256;
/// Most entries that one trim removes.
const TRIM_MAX: usize = 50_000;

/// Consumer of a group.
#[derive(Debug)]
pub(crate) struct GroupConsumer {
    pub(crate) connection: Arc<BrokerConnection>,
    pub(crate) streams: Streams,
    pub(crate) group: String,
    pub(crate) name: String,
}

/// Entry to requeue.
#[derive(Clone, Debug)]
pub(crate) struct RequeueEntry {
    pub(crate) position: EntryPosition,
    /// Attempts made.
    pub(crate) attempt: u32,
    pub(crate) message: MessageId,
    pub(crate) created_at: Timestamp,
}

impl GroupConsumer {
    /// Acknowledges entries. Entries of the group's own stream are deleted as well.
    pub(crate) async fn acknowledge(&self, positions: &[EntryPosition]) -> RedisResult<()> {
        let mut calls = Pipeline::new();
        for kind in StreamKind::ALL {
            let ids: Vec<EntryId> = ids_in(kind, positions.iter().copied());
            if ids.is_empty() {
                continue;
            }
            let key = self.streams.key(kind);
            calls.cmd("XACK").arg(key).arg(&self.group).arg(&ids).ignore();
            if kind == StreamKind::Own {
                calls.cmd("XDEL").arg(key).arg(&ids).ignore();
            }
        }
        self.connection.retry_pipeline(&calls).await
    }

    /// Requeues entries for this group alone; returns those that were no longer pending for this consumer.
    pub(crate) async fn requeue(
        &self,
        entries: &[RequeueEntry],
    ) -> RedisResult<Vec<EntryPosition>> {
        let mut lost = Vec::new();
        for kind in StreamKind::ALL {
            let of_kind: Vec<&RequeueEntry> =
                entries.iter().filter(|one| one.position.kind == kind).collect();
            for chunk in of_kind.chunks(CALL_MAX) {
                let mut call = scripts::REQUEUE.prepare_invoke();
                call.key(self.streams.key(kind)).key(&self.streams.own);
                call.arg(&self.group).arg(&self.name).arg(CONTENT_TYPE_UNKNOWN);
                for one in chunk {
                    call.arg(one.position.id).arg(one.attempt);
                    call.arg(one.message.to_string()).arg(one.created_at.to_string());
                }
                let (lost_ids, repeated): (Vec<String>, _) =
                    self.connection.retry_script(&call).await?;
                if repeated {
                    continue;
                }
                let lost_ids = lost_ids.iter().filter_map(|id| EntryId::parse(id.as_bytes()));
                lost.extend(lost_ids.map(|id| EntryPosition { kind, id }));
            }
        }
        Ok(lost)
    }

    /// Writes a dead letter to a stream and acknowledges the entry; returns false when the entry was no longer
    /// pending for this consumer.
    pub(crate) async fn reject(
        &self,
        position: EntryPosition,
        to: &str,
        letter: &Wire,
    ) -> RedisResult<bool> {
        let mut call = scripts::REJECT.prepare_invoke();
        call.key(self.streams.key(position.kind)).key(to);
        call.arg(&self.group).arg(&self.name).arg(position.id);
        call.arg(if position.kind == StreamKind::Own { "own" } else { "shared" });
        append(fields(letter), |part| _ = call.arg(part));
        let (rejected, repeated): (u8, _) = self.connection.retry_script(&call).await?;
        Ok(rejected == 1 || repeated)
    }

    /// Extends the visibility timeout of entries; returns how many were no longer pending for this consumer.
    pub(crate) async fn extend(&self, positions: &[EntryPosition]) -> RedisResult<usize> {
        let mut lost = 0;
        for kind in StreamKind::ALL {
            for chunk in ids_in(kind, positions.iter().copied()).chunks(CALL_MAX) {
                let mut call = scripts::EXTEND.prepare_invoke();
                call.key(self.streams.key(kind)).arg(&self.group).arg(&self.name).arg(chunk);
                let (lost_ids, _): (usize, _) = self.connection.retry_script(&call).await?;
                lost += lost_ids;
            }
        }
        Ok(lost)
    }

    /// Removes this consumer from the group, unless it has pending entries.
    pub(crate) async fn remove_from_group(&self) -> RedisResult<()> {
        self.remove_idle_consumers(&self.name, Duration::ZERO).await
    }

    /// Removes consumers from the group that have been idle for `idle` and have no pending entries.
    pub(crate) async fn remove_idle_consumers(
        &self,
        names: &str,
        idle: Duration,
    ) -> RedisResult<()> {
        for kind in StreamKind::ALL {
            let mut call = scripts::REMOVE_IDLE_CONSUMERS.prepare_invoke();
            call.key(self.streams.key(kind)).arg(&self.group).arg(names);
            call.arg(u64::try_from(idle.as_millis()).unwrap_or(u64::MAX));
            self.connection.script::<()>(&call).await?;
        }
        Ok(())
    }

    /// Removes entries from a stream that every group has handled.
    pub(crate) async fn trim(&self, kind: StreamKind) -> RedisResult<()> {
        let key = self.streams.key(kind);
        let groups: Vec<Vec<Value>> =
            self.connection.query(cmd("XINFO").arg("GROUPS").arg(key)).await?;
        let groups: Vec<GroupPosition> =
            groups.into_iter().filter_map(GroupPosition::read).collect();
        let mut calls = Pipeline::with_capacity(groups.len());
        for group in &groups {
            calls.cmd("XPENDING").arg(key).arg(&group.name);
        }
        if groups.is_empty() {
            return Ok(());
        }
        let pending: Vec<Vec<Value>> = self.connection.pipeline(&calls).await?;
        let needed =
            groups.iter().zip(&pending).map(|(group, pending)| group.first_needed(pending));
        let Some(first) = needed.min().filter(|first| *first > EntryId::FIRST) else {
            return Ok(());
        };
        let mut trim = cmd("XTRIM");
        trim.arg(key).arg("MINID").arg("~").arg(first).arg("LIMIT").arg(TRIM_MAX);
        self.connection.query(&trim).await
    }
}

/// Position of a group in a stream.
struct GroupPosition {
    name: Vec<u8>,
    last: EntryId,
}

impl GroupPosition {
    fn read(facts: Vec<Value>) -> Option<Self> {
        let (mut name, mut last) = (None, None);
        let mut facts = facts.into_iter();
        while let (Some(what), Some(value)) = (facts.next(), facts.next()) {
            let (Value::BulkString(what), Value::BulkString(value)) = (what, value) else {
                continue;
            };
            match &what[..] {
                b"name" => name = Some(value),
                b"last-delivered-id" => last = EntryId::parse(&value),
                _ => {}
            }
        }
        Some(Self { name: name?, last: last? })
    }

    /// Returns the first entry that the group still needs, or its last delivered entry.
    fn first_needed(&self, pending: &[Value]) -> EntryId {
        match pending.get(1) {
            Some(Value::BulkString(first)) => EntryId::parse(first).unwrap_or(EntryId::FIRST),
            _ => self.last,
        }
    }
}

fn ids_in(kind: StreamKind, positions: impl Iterator<Item = EntryPosition>) -> Vec<EntryId> {
    positions.filter(|position| position.kind == kind).map(|position| position.id).collect()
}
