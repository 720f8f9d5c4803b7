//! How fast the storage is beside plain SQL on the same server, with the same client and batches.
//!
//! `PUNCTUAL_POSTGRES_URL=... cargo run --release -p punctual-postgres --example measure -- 100000`
//!
//! Every part is made in both ways, one after the other, several times; ratios hold better than rates.
#![allow(clippy::print_stdout, clippy::unwrap_used)] // a tool for people; a failure ends it

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::SinkExt as _;
use punctual::clock::{add, between};
use punctual::jiff::Timestamp;
use punctual::model::{
    Body, Ending, Execution, ExecutionId, Headers, IdSource, Ids, Message, MessageId, Priority,
    ProcessId, Queue, Source, Topic, Trail,
};
use punctual::policy::Verdict;
use punctual::storage::{Claim, Claimed, Entry, Settlement};
use punctual::{Clock, Storage, SystemClock};
use punctual_postgres::PostgresStorage;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

const BATCH: usize = 1_000;
const SCHEMA: &str = "punctual_measure";

struct Bench {
    url: String,
    ids: Arc<Ids>,
    storage: Arc<PostgresStorage>,
    admin: Client,
}

fn now() -> Timestamp {
    SystemClock.now()
}

fn rate(count: usize, since: Timestamp) -> f64 {
    #[allow(clippy::cast_precision_loss)]
    let count = count as f64;
    count / between(since, now()).as_secs_f64()
}

async fn client(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    // The settings of the storage's own sessions: with the usual ones, a plan made for the empty table
    // now and then makes plain SQL a thousand times slower, and the comparison says nothing.
    let settings =
        "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET jit = off";
    client.batch_execute(settings).await.unwrap();
    client
}

impl Bench {
    async fn new(url: String) -> Self {
        let admin = client(&url).await;
        admin.batch_execute(&format!("DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")).await.unwrap();
        let storage = PostgresStorage::builder(&url).schema(SCHEMA).connect().await.unwrap();
        let raw = format!("CREATE TABLE {SCHEMA}.raw (LIKE {SCHEMA}.message INCLUDING ALL)");
        admin.batch_execute(&raw).await.unwrap();
        Self { url, ids: Arc::new(Ids::random()), storage: Arc::new(storage), admin }
    }

    fn message(&self, due_at: Timestamp) -> Message {
        let at = now();
        Message {
            id: MessageId::from_uuid(self.ids.next(at)),
            topic: Topic::new("measure").unwrap(),
            queue: Queue::default(),
            priority: Priority::NORMAL,
            due_at,
            created_at: at,
            source: Source::Published,
            key: None,
            dedupe: None,
            exclusive: false,
            body: Body::raw(vec![b'x'; 100], "application/json"),
            headers: Headers::new(),
            trail: Trail::default(),
            occurrence: None,
            terms: None,
        }
    }

    fn messages(&self, count: usize, due_at: Timestamp) -> Vec<Entry> {
        (0..count).map(|_| Entry::from(self.message(due_at))).collect()
    }

    async fn clean(&self) {
        let text = format!(
            "TRUNCATE {SCHEMA}.message, {SCHEMA}.raw, {SCHEMA}.finished, {SCHEMA}.execution"
        );
        self.admin.batch_execute(&text).await.unwrap();
        self.admin.batch_execute("CHECKPOINT").await.unwrap();
    }

    async fn enqueue(&self, count: usize) -> f64 {
        let entries = self.messages(count, now());
        let since = now();
        self.storage.enqueue(entries, now()).await.unwrap();
        rate(count, since)
    }

    /// The same rows by plain COPY into a table with the same indexes.
    async fn enqueue_raw(&self, count: usize) -> f64 {
        let rows = self.messages(count, now());
        let client = client(&self.url).await;
        let since = now();
        let text = format!(
            "COPY {SCHEMA}.raw (id, queue, topic, priority, source, exclusive, due_at, planned_at, \
             created_at, body) FROM STDIN BINARY"
        );
        let mut sink = Box::pin(client.copy_in::<_, Bytes>(&text).await.unwrap());
        let mut piece = BytesMut::new();
        piece.put_slice(b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0");
        for row in &rows {
            put_raw(&mut piece, &row.message);
            if piece.len() > 128 * 1024 {
                sink.feed(piece.split().freeze()).await.unwrap();
            }
        }
        piece.put_i16(-1);
        sink.feed(piece.freeze()).await.unwrap();
        sink.as_mut().finish().await.unwrap();
        rate(count, since)
    }

    /// Claim and settle until nothing is left, on two connections.
    async fn drain(&self, count: usize) -> f64 {
        let since = now();
        let tasks: Vec<_> = (0..2)
            .map(|_| {
                let (storage, ids) = (Arc::clone(&self.storage), Arc::clone(&self.ids));
                tokio::spawn(async move { drain_one(&*storage, &ids).await })
            })
            .collect();
        let mut done = 0;
        for task in tasks {
            done += task.await.unwrap();
        }
        assert_eq!(done, count);
        rate(count, since)
    }

    /// The least that claims and deletes the same rows.
    async fn drain_raw(&self, count: usize) -> f64 {
        let since = now();
        let mut tasks = Vec::new();
        for _ in 0..2 {
            let client = client(&self.url).await;
            tasks.push(tokio::spawn(async move {
                let claim = format!(
                    "UPDATE {SCHEMA}.raw m SET state = 1, attempt = m.attempt + 1 FROM ( \
                     SELECT id FROM {SCHEMA}.raw WHERE state = 0 AND queue = 'default' \
                     AND priority = 5 AND due_at <= now() ORDER BY due_at, id LIMIT {BATCH} \
                     FOR UPDATE SKIP LOCKED) p WHERE m.id = p.id RETURNING m.id, m.body"
                );
                let claim = client.prepare(&claim).await.unwrap();
                let delete = format!("DELETE FROM {SCHEMA}.raw WHERE id = ANY($1)");
                let delete = client.prepare(&delete).await.unwrap();
                let mut done = 0;
                loop {
                    let rows = client.query(&claim, &[]).await.unwrap();
                    if rows.is_empty() {
                        return done;
                    }
                    let ids: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
                    done += ids.len();
                    client.execute(&delete, &[&ids]).await.unwrap();
                }
            }));
        }
        let mut done = 0;
        for task in tasks {
            done += task.await.unwrap();
        }
        assert_eq!(done, count);
        rate(count, since)
    }

    /// One insert and one commit each, on ten connections.
    async fn singles_raw(&self, count: usize) -> f64 {
        let mut tasks = Vec::new();
        let since = now();
        for _ in 0..10 {
            let client = client(&self.url).await;
            let rows = self.messages(count / 10, now());
            tasks.push(tokio::spawn(async move {
                let text = format!(
                    "INSERT INTO {SCHEMA}.raw (id, queue, topic, priority, source, due_at, \
                     planned_at, created_at, body) \
                     VALUES ($1, 'default', 'measure', 5, 0, now(), now(), now(), $2)"
                );
                let insert = client.prepare(&text).await.unwrap();
                for row in rows {
                    let body = &row.message.body.bytes[..];
                    let id = row.message.id.as_uuid();
                    client.execute(&insert, &[&id, &body]).await.unwrap();
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        rate(count / 10 * 10, since)
    }

    async fn singles(&self, count: usize) -> f64 {
        let since = now();
        let tasks: Vec<_> = (0..10)
            .map(|_| {
                let storage = Arc::clone(&self.storage);
                let entries = self.messages(count / 10, now());
                tokio::spawn(async move {
                    for entry in entries {
                        storage.enqueue(vec![entry], now()).await.unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        rate(count / 10 * 10, since)
    }
}

async fn drain_one(storage: &dyn Storage, ids: &Ids) -> usize {
    let owner = ProcessId::from_uuid(ids.next(now()));
    let mut done = 0;
    loop {
        let at = now();
        let until = add(at, std::time::Duration::from_secs(60));
        let claim = Claim { queue: Queue::default(), owner, limit: BATCH, until };
        let claimed = storage.claim(claim, at).await.unwrap();
        if claimed.is_empty() {
            return done;
        }
        done += claimed.len();
        let settle = claimed.iter().map(|one| Settlement {
            lease: one.lease_ref(),
            verdict: Verdict::Done,
            execution: Some(Arc::new(execution(ids, one))),
        });
        storage.settle(settle.collect(), now()).await.unwrap();
    }
}

fn execution(ids: &Ids, claimed: &Claimed) -> Execution {
    let at = now();
    let message = &claimed.message;
    Execution {
        id: ExecutionId::from_uuid(ids.next(at)),
        message: Some(message.id),
        topic: message.topic.clone(),
        queue: message.queue.clone(),
        key: None,
        job: None,
        nominal: None,
        source: message.source,
        attempt: claimed.attempt,
        attempts_max: Some(5),
        process: Some(claimed.lease.owner),
        due_at: claimed.due_at,
        started_at: at,
        ended_at: at,
        ending: Ending::Succeeded,
        note: None,
    }
}

fn put_raw(out: &mut BytesMut, message: &Message) {
    let wire = |at: Timestamp| (at.as_microsecond() - 946_684_800_000_000).to_be_bytes();
    let id = message.id.as_uuid();
    let fields: [&[u8]; 10] = [
        id.as_bytes(),
        b"default",
        b"measure",
        &5i16.to_be_bytes(),
        &0i16.to_be_bytes(),
        &[0],
        &wire(message.due_at),
        &wire(message.due_at),
        &wire(message.created_at),
        &message.body.bytes,
    ];
    out.put_i16(10);
    for field in fields {
        out.put_i32(i32::try_from(field.len()).unwrap());
        out.put_slice(field);
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let url = std::env::var("PUNCTUAL_POSTGRES_URL").unwrap();
    let count = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(100_000);
    let parts: Vec<String> = std::env::args().skip(2).collect();
    let wants = |part: &str| parts.is_empty() || parts.iter().any(|one| one == part);
    let bench = Bench::new(url).await;
    for _ in 0..3 {
        bench.clean().await;
        if wants("bulk") || wants("drain") {
            let (raw, ours) = (bench.enqueue_raw(count).await, bench.enqueue(count).await);
            show("bulk enqueue, COPY", raw, ours);
        }
        if wants("drain") {
            let (raw, ours) = (bench.drain_raw(count).await, bench.drain(count).await);
            show("drain", raw, ours);
            bench.clean().await;
            bench.enqueue(count).await;
            let ours_first = bench.drain(count).await;
            bench.enqueue_raw(count).await;
            let raw_second = bench.drain_raw(count).await;
            show("drain, other order", raw_second, ours_first);
        }
        if wants("future") {
            let later = add(now(), std::time::Duration::from_secs(100_000));
            bench.clean().await;
            bench.enqueue(count).await;
            let alone = bench.drain(count).await;
            bench.clean().await;
            for _ in 0..10 {
                bench.storage.enqueue(bench.messages(100_000, later), now()).await.unwrap();
            }
            bench.enqueue(count).await;
            show("drain beside 1,000,000 of the future", alone, bench.drain(count).await);
        }
        if wants("snapshot") {
            bench.clean().await;
            bench.enqueue(count).await;
            let alone = bench.drain(count).await;
            bench.clean().await;
            bench.enqueue(count).await;
            let holder = client(&bench.url).await;
            let hold = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1";
            holder.batch_execute(hold).await.unwrap();
            show("drain under an old snapshot", alone, bench.drain(count).await);
        }
        if wants("single") {
            bench.clean().await;
            let raw = bench.singles_raw(20_000).await;
            show("single enqueue, 10 tasks", raw, bench.singles(20_000).await);
        }
    }
    let drop = format!("DROP SCHEMA {SCHEMA} CASCADE");
    bench.admin.batch_execute(&drop).await.unwrap();
}

fn show(what: &str, raw: f64, ours: f64) {
    println!("{what}: {raw:.0}/s against {ours:.0}/s, {:.0} %", ours / raw * 100.0);
}
