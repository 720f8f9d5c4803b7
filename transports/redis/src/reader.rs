//! Reads ahead of the handlers, as far as the prefetch allows, on a connection of its own: a read that waits
//! for new entries blocks everything behind it. Before it waits it takes over what others let go of, and
//! after a lost connection what it was given without seeing it.
//!
//! It never rests by itself: after an error it goes on when somebody asks for deliveries again.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use punctual::clock::{Clock, add, within};
use punctual::jiff::Timestamp;
use punctual::model::Topic;
use punctual::{Error, Result};
use redis::{Cmd, RedisResult, Value, cmd};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, watch};

use crate::fault;
use crate::hand::Hand;
use crate::link::Link;
use crate::receipt::RedisReceipt;
use crate::settler::Request;
use crate::streams::{EntryId, Lane, Spot};
use crate::topology;
use crate::wire::{self, Entry};

/// The most entries of one read.
const READ_MAX: usize = 1_024;

/// How often a read lets more room come back.
const YIELDS_MAX: usize = 8;

/// How long a read waits for more room when there is some.
const ROOM_WAIT: Duration = Duration::from_millis(1);

/// A delivery that nobody has seen yet.
pub(crate) struct Taken {
    pub(crate) poison: Option<String>,
    pub(crate) receipt: RedisReceipt,
}

/// Reads for one consumer.
pub(crate) struct Reader {
    pub(crate) hand: Arc<Hand>,
    /// Its own connection.
    pub(crate) link: Link,
    pub(crate) topic: Topic,
    pub(crate) clock: Arc<dyn Clock>,
    /// Whether missing groups are made.
    pub(crate) declares: bool,
    /// What others have not held for so long is taken over.
    pub(crate) hold_length: Duration,
    /// How long one read waits.
    pub(crate) wait: Duration,
    pub(crate) room: Arc<Semaphore>,
    pub(crate) prefetch: usize,
    pub(crate) taken: mpsc::UnboundedSender<Result<Vec<Taken>>>,
    /// Rings when somebody asks again after an error.
    pub(crate) asked: Arc<Notify>,
    pub(crate) stop: watch::Receiver<bool>,
    /// The server's number of its connection, by which a waiting read is ended.
    pub(crate) client: Arc<AtomicI64>,
    pub(crate) progress: Progress,
}

/// What has been looked after.
#[derive(Default)]
pub(crate) struct Progress {
    /// The connection on which everything given to us was seen.
    connection: u64,
    /// When to look for what others let go of.
    look_at: Timestamp,
    /// Whose turn it is where there is room for one.
    own_is_next: bool,
    /// Whether the last read found something in the group's own stream.
    own_is_used: bool,
}

/// An entry and how often it was delivered before.
struct Found {
    entry: Entry,
    delivered: u32,
}

impl Reader {
    /// Reads until told to stop.
    pub(crate) async fn run(mut self) {
        let mut stop = self.stop.clone();
        while !*self.stop.borrow() {
            let room = tokio::select! {
                biased;
                _ = stop.changed() => return,
                room = room(&self.room, self.batch(), &*self.clock) => room,
            };
            let Some(room) = room else { return };
            let Err(error) = self.turn(room).await else { continue };
            if self.taken.send(Err(error)).is_err() {
                return;
            }
            tokio::select! {
                biased;
                _ = stop.changed() => return,
                () = self.asked.notified() => {}
            }
        }
    }

    /// How many one read takes: half of what may be in hand, so that one half is on its way while the other
    /// is worked on.
    fn batch(&self) -> usize {
        (self.prefetch / 2).clamp(1, READ_MAX)
    }

    /// Reads once; a group that was removed is made again.
    async fn turn(&mut self, room: OwnedSemaphorePermit) -> Result<()> {
        let mut room = room;
        match self.take(&mut room).await {
            Ok(()) => Ok(()),
            Err(error) if self.declares && fault::is_without_group(&error) => {
                let desk = &self.hand.desk;
                topology::declare(&desk.link, &desk.streams, &desk.group).await?;
                self.take(&mut room).await.map_err(|error| self.told(&error))
            }
            Err(error) => Err(self.told(&error)),
        }
    }

    fn told(&self, error: &redis::RedisError) -> Error {
        self.link.told(error).during("receive")
    }

    async fn take(&mut self, room: &mut OwnedSemaphorePermit) -> RedisResult<()> {
        let number = self.link.open().await?.number;
        if number != self.progress.connection && !self.take_unseen(number, room).await? {
            return Ok(());
        }
        let now = self.clock.now();
        if now >= self.progress.look_at && self.take_over(room).await? {
            return Ok(());
        }
        let read = self.read(room.num_permits()).await?;
        for (lane, entries) in read {
            let found = entries.into_iter().map(|entry| Found { entry, delivered: 0 });
            self.give(lane, found, room);
        }
        Ok(())
    }

    /// What the server gave us over a connection that was lost; true when there is no more of it.
    async fn take_unseen(
        &mut self,
        number: u64,
        room: &mut OwnedSemaphorePermit,
    ) -> RedisResult<bool> {
        let client: RedisResult<i64> = self.link.query(cmd("CLIENT").arg("ID")).await;
        self.client.store(client.unwrap_or(0), Ordering::Relaxed);
        let consumer = self.hand.desk.consumer.clone();
        let held = self.hand.held().len();
        for lane in Lane::ALL {
            let mut ask = self.ask_pending(lane);
            ask.arg("-").arg("+").arg(room.num_permits() + held).arg(&consumer);
            if self.claim(lane, &ask, Duration::ZERO, room).await? {
                return Ok(false);
            }
        }
        self.progress.connection = number;
        Ok(true)
    }

    /// What others have not held in time; true when there was some.
    async fn take_over(&mut self, room: &mut OwnedSemaphorePermit) -> RedisResult<bool> {
        let held = self.hand.held().len();
        for lane in Lane::ALL {
            let mut ask = self.ask_pending(lane);
            ask.arg("IDLE").arg(milliseconds(self.hold_length));
            ask.arg("-").arg("+").arg(room.num_permits() + held);
            if self.claim(lane, &ask, self.hold_length, room).await? {
                return Ok(true);
            }
        }
        self.progress.look_at = add(self.clock.now(), self.hold_length / 2);
        Ok(false)
    }

    fn ask_pending(&self, lane: Lane) -> Cmd {
        let desk = &self.hand.desk;
        let mut ask = cmd("XPENDING");
        ask.arg(desk.streams.key(lane)).arg(&desk.group);
        ask
    }

    /// Claims what a list of pending entries names and we do not have, as far as there is room; true when
    /// there was something to claim.
    async fn claim(
        &self,
        lane: Lane,
        pending: &Cmd,
        idle: Duration,
        room: &mut OwnedSemaphorePermit,
    ) -> RedisResult<bool> {
        let listed: Vec<(String, Value, Value, u32)> = self.link.query(pending).await?;
        let counts: HashMap<EntryId, u32> = listed
            .iter()
            .filter_map(|(id, _, _, count)| Some((EntryId::parse(id.as_bytes())?, *count)))
            .filter(|(id, _)| !self.hand.has(Spot { lane, id: *id }))
            .take(room.num_permits())
            .collect();
        if counts.is_empty() {
            return Ok(false);
        }
        let mut ids: Vec<EntryId> = counts.keys().copied().collect();
        ids.sort_unstable();
        let desk = &self.hand.desk;
        let mut claim = cmd("XCLAIM");
        claim.arg(desk.streams.key(lane)).arg(&desk.group).arg(&desk.consumer);
        claim.arg(milliseconds(idle)).arg(ids);
        let claimed = wire::entries(self.link.query(&claim).await?);
        let found = claimed.into_iter().map(|entry| {
            let delivered = counts.get(&entry.id).copied().unwrap_or(1);
            Found { entry, delivered }
        });
        self.give(lane, found, room);
        Ok(true)
    }

    /// At most about so many entries of both streams together, because each may give as many as are asked
    /// for. The group's own stream is empty most of the time; only while it is not, each is asked for half.
    /// Where there is room for one, the streams take turns. What comes from the group's own stream beyond
    /// the room, when it was empty until then, goes back.
    async fn read(&mut self, limit: usize) -> RedisResult<Vec<(Lane, Vec<Entry>)>> {
        if limit > 1 {
            let each = if self.progress.own_is_used { limit / 2 } else { limit };
            let read = self.read_from(&Lane::ALL, each, Some(self.wait)).await?;
            self.progress.own_is_used = read.iter().any(|(lane, _)| *lane == Lane::Own);
            return Ok(read);
        }
        let first = if self.progress.own_is_next { Lane::Own } else { Lane::Shared };
        self.progress.own_is_next = !self.progress.own_is_next;
        let read = self.read_from(&[first], 1, None).await?;
        if !read.is_empty() {
            return Ok(read);
        }
        self.read_from(&Lane::ALL, 1, Some(self.wait)).await
    }

    async fn read_from(
        &self,
        lanes: &[Lane],
        limit: usize,
        wait: Option<Duration>,
    ) -> RedisResult<Vec<(Lane, Vec<Entry>)>> {
        let desk = &self.hand.desk;
        let mut read = cmd("XREADGROUP");
        read.arg("GROUP").arg(&desk.group).arg(&desk.consumer).arg("COUNT").arg(limit);
        if let Some(wait) = wait {
            read.arg("BLOCK").arg(milliseconds(wait).max(1));
        }
        read.arg("STREAMS");
        for lane in lanes {
            read.arg(desk.streams.key(*lane));
        }
        for _ in lanes {
            read.arg(">");
        }
        let read = wire::streams(self.link.query(&read).await?);
        let of_lane = |(key, entries): (Vec<u8>, _)| Some((desk.streams.lane(&key)?, entries));
        Ok(read.into_iter().filter_map(of_lane).collect())
    }

    /// Makes deliveries of entries.
    fn give(
        &self,
        lane: Lane,
        found: impl Iterator<Item = Found>,
        room: &mut OwnedSemaphorePermit,
    ) {
        let now = self.clock.now();
        let stream = self.hand.desk.streams.key(lane);
        let mut taken = Vec::with_capacity(found.size_hint().0);
        for Found { entry, delivered } in found {
            let spot = Spot { lane, id: entry.id };
            let received = wire::read(entry, &self.topic, stream, now);
            if !received.is_for(&self.hand.desk.group) {
                self.hand.settler.ask(Request::Acknowledge(spot, None));
                continue;
            }
            let spent = received.attempt.saturating_add(delivered);
            let (message, poison) = (Arc::new(received.message), received.poison);
            let receipt = RedisReceipt {
                hand: self.hand.clone(),
                spot,
                message,
                attempt: spent.saturating_add(1),
                is_given: false,
                is_settled: false,
                room: room.split(1).or_else(|| self.room.clone().try_acquire_owned().ok()),
            };
            if receipt.room.is_none() {
                // Both streams had something and there is not room for all: dropping it puts it back.
                continue;
            }
            taken.push(Taken { poison, receipt });
        }
        self.hand.hold(taken.iter().map(|one| one.receipt.spot));
        let _ = self.taken.send(Ok(taken));
    }
}

/// Waits for room for as many as are wanted, and takes what there is. Room comes back delivery by delivery;
/// letting those that are ready go first, and giving the others a moment, makes one read of many instead of
/// many reads of a few.
async fn room(
    room: &Arc<Semaphore>,
    wanted: usize,
    clock: &dyn Clock,
) -> Option<OwnedSemaphorePermit> {
    let mut first = room.clone().acquire_owned().await.ok()?;
    let more = wanted - 1;
    for _ in 0..YIELDS_MAX {
        if room.available_permits() >= more {
            break;
        }
        tokio::task::yield_now().await;
    }
    if room.available_permits() < more {
        let until = add(clock.now(), ROOM_WAIT);
        let enough = room.acquire_many(u32::try_from(more).unwrap_or(u32::MAX));
        let _ = within(clock, until, enough).await;
    }
    let more = room.available_permits().min(more);
    if let Ok(more) = room.clone().try_acquire_many_owned(u32::try_from(more).unwrap_or(0)) {
        first.merge(more);
    }
    Some(first)
}

fn milliseconds(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}
