//! One consumer of a group on the server: everything it asks of the two streams it reads, beside reading.
//! Each call may be made twice without doing more than once.

use std::sync::Arc;
use std::time::Duration;

use punctual::jiff::Timestamp;
use punctual::model::MessageId;
use punctual::wire::{CONTENT_TYPE_UNKNOWN, Wire};
use redis::{Pipeline, RedisResult, Value, cmd};

use crate::link::Link;
use crate::producer::append;
use crate::scripts;
use crate::streams::{EntryId, Lane, Spot, Streams};
use crate::wire::fields;

/// How the names of our consumers begin.
pub(crate) const CONSUMER: &str = "punctual-";
/// The most entries in one call, because the server does nothing else meanwhile.
const CALL_MAX: usize = 256;
/// The most entries one trimming takes away.
const TRIM_MAX: usize = 50_000;

/// A consumer of a group.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) link: Arc<Link>,
    pub(crate) streams: Streams,
    pub(crate) group: String,
    pub(crate) consumer: String,
}

/// An entry on its way back.
#[derive(Clone, Debug)]
pub(crate) struct Return {
    pub(crate) spot: Spot,
    /// Attempts spent.
    pub(crate) attempt: u32,
    pub(crate) message: MessageId,
    pub(crate) created_at: Timestamp,
}

impl Desk {
    /// Is done with entries. What only this group was to get is removed as well.
    pub(crate) async fn acknowledge(&self, spots: &[Spot]) -> RedisResult<()> {
        let mut calls = Pipeline::new();
        for lane in Lane::ALL {
            let ids: Vec<EntryId> = ids_in(lane, spots.iter().copied());
            if ids.is_empty() {
                continue;
            }
            let key = self.streams.key(lane);
            calls.cmd("XACK").arg(key).arg(&self.group).arg(&ids).ignore();
            if lane == Lane::Own {
                calls.cmd("XDEL").arg(key).arg(&ids).ignore();
            }
        }
        self.link.pipeline_again(&calls).await
    }

    /// Puts entries back for this group alone; answers those that were not ours any more.
    pub(crate) async fn put_back(&self, returns: &[Return]) -> RedisResult<Vec<Spot>> {
        let mut lost = Vec::new();
        for lane in Lane::ALL {
            let of_lane: Vec<&Return> =
                returns.iter().filter(|one| one.spot.lane == lane).collect();
            for piece in of_lane.chunks(CALL_MAX) {
                let mut call = scripts::PUT_BACK.prepare_invoke();
                call.key(self.streams.key(lane)).key(&self.streams.own);
                call.arg(&self.group).arg(&self.consumer).arg(CONTENT_TYPE_UNKNOWN);
                for one in piece {
                    call.arg(one.spot.id).arg(one.attempt);
                    call.arg(one.message.to_string()).arg(one.created_at.to_string());
                }
                let (gone, repeated): (Vec<String>, _) = self.link.script_again(&call).await?;
                if repeated {
                    continue;
                }
                let gone = gone.iter().filter_map(|id| EntryId::parse(id.as_bytes()));
                lost.extend(gone.map(|id| Spot { lane, id }));
            }
        }
        Ok(lost)
    }

    /// Writes a dead letter to a stream and is done with the entry; false when it was not ours any more.
    pub(crate) async fn reject(&self, spot: Spot, to: &str, letter: &Wire) -> RedisResult<bool> {
        let mut call = scripts::REJECT.prepare_invoke();
        call.key(self.streams.key(spot.lane)).key(to);
        call.arg(&self.group).arg(&self.consumer).arg(spot.id);
        call.arg(if spot.lane == Lane::Own { "own" } else { "shared" });
        append(fields(letter), |part| _ = call.arg(part));
        let (rejected, repeated): (u8, _) = self.link.script_again(&call).await?;
        Ok(rejected == 1 || repeated)
    }

    /// Keeps entries from being taken over; answers how many were already.
    pub(crate) async fn extend(&self, spots: &[Spot]) -> RedisResult<usize> {
        let mut lost = 0;
        for lane in Lane::ALL {
            for piece in ids_in(lane, spots.iter().copied()).chunks(CALL_MAX) {
                let mut call = scripts::EXTEND.prepare_invoke();
                call.key(self.streams.key(lane)).arg(&self.group).arg(&self.consumer).arg(piece);
                let (gone, _): (usize, _) = self.link.script_again(&call).await?;
                lost += gone;
            }
        }
        Ok(lost)
    }

    /// Takes this consumer off the group, unless it has something in hand.
    pub(crate) async fn leave(&self) -> RedisResult<()> {
        self.sweep(&self.consumer, Duration::ZERO).await
    }

    /// Takes consumers off the group that have been idle for so long and have nothing in hand.
    pub(crate) async fn sweep(&self, names: &str, idle: Duration) -> RedisResult<()> {
        for lane in Lane::ALL {
            let mut call = scripts::SWEEP.prepare_invoke();
            call.key(self.streams.key(lane)).arg(&self.group).arg(names);
            call.arg(u64::try_from(idle.as_millis()).unwrap_or(u64::MAX));
            self.link.script::<()>(&call).await?;
        }
        Ok(())
    }

    /// Removes from a stream what every group has handled.
    pub(crate) async fn trim(&self, lane: Lane) -> RedisResult<()> {
        let key = self.streams.key(lane);
        let groups: Vec<Vec<Value>> = self.link.query(cmd("XINFO").arg("GROUPS").arg(key)).await?;
        let groups: Vec<Reached> = groups.into_iter().filter_map(Reached::read).collect();
        let mut calls = Pipeline::with_capacity(groups.len());
        for group in &groups {
            calls.cmd("XPENDING").arg(key).arg(&group.name);
        }
        if groups.is_empty() {
            return Ok(());
        }
        let pending: Vec<Vec<Value>> = self.link.pipeline(&calls).await?;
        let needed = groups.iter().zip(&pending).map(|(group, pending)| group.needs(pending));
        let Some(first) = needed.min().filter(|first| *first > EntryId::FIRST) else {
            return Ok(());
        };
        let mut trim = cmd("XTRIM");
        trim.arg(key).arg("MINID").arg("~").arg(first).arg("LIMIT").arg(TRIM_MAX);
        self.link.query(&trim).await
    }
}

/// How far a group is in a stream.
struct Reached {
    name: Vec<u8>,
    last: EntryId,
}

impl Reached {
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

    /// The first entry the group still needs, or the last it had.
    fn needs(&self, pending: &[Value]) -> EntryId {
        match pending.get(1) {
            Some(Value::BulkString(first)) => EntryId::parse(first).unwrap_or(EntryId::FIRST),
            _ => self.last,
        }
    }
}

fn ids_in(lane: Lane, spots: impl Iterator<Item = Spot>) -> Vec<EntryId> {
    spots.filter(|spot| spot.lane == lane).map(|spot| spot.id).collect()
}
