//! Rates through the contract beside those of a plain loop with the same statements. Run by hand:
//! `cargo test --release -p punctual-sqlite --test it -- --ignored --nocapture measure`.

#![allow(clippy::cast_precision_loss)] // rates are for people

use std::sync::Arc;
use std::time::Duration;

use punctual::clock::add;
use punctual::policy::Verdict;
use punctual::{Clock as _, Inspect as _, Storage as _, SystemClock};
use rusqlite::{Connection, params};

use crate::fixture::{Fixture, at, claim, settle, took};

const COUNT: usize = 60_000;

/// Messages each second, and microseconds of processor time for each.
type Rate = (f64, f64);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, for people"]
async fn measure_batches() {
    for batch in [256, 1_000] {
        let (enqueue, drain) = through_the_contract(batch).await;
        let (raw_enqueue, raw_drain) = raw(batch).await;
        for (what, ours, raw) in [("enqueue", enqueue, raw_enqueue), ("drain", drain, raw_drain)] {
            println!(
                "{what} in batches of {batch}: {:.0}/s of {:.0}/s ({:.0} %), {:.1} us of {:.1} us each",
                ours.0,
                raw.0,
                100. * ours.0 / raw.0,
                ours.1,
                raw.1
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, for people"]
async fn measure_single_enqueues() {
    for callers in [1, 10, 100] {
        let f = Arc::new(Fixture::new());
        let storage = Arc::new(f.open().await);
        let (start, commits) = (SystemClock.now(), storage.commits());
        let count = if callers == 1 { 2_000 } else { 20_000 } / callers;
        let tasks: Vec<_> = (0..callers)
            .map(|_| {
                let (f, storage) = (Arc::clone(&f), Arc::clone(&storage));
                tokio::spawn(async move {
                    for _ in 0..count {
                        storage.enqueue(f.entries(1), at(0)).await.unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let rate = f64::from(count * callers) / took(start);
        println!("{callers} callers: {rate:.0}/s in {} commits", storage.commits() - commits);
    }
}

async fn through_the_contract(batch: usize) -> (Rate, Rate) {
    let f = Fixture::new();
    let storage = f.open().await;
    let batches: Vec<_> = (0..COUNT / batch).map(|_| f.entries(batch)).collect();
    let count = (batches.len() * batch) as f64;
    let (start, cpu) = (SystemClock.now(), processor());
    for entries in batches {
        storage.enqueue(entries, at(0)).await.unwrap();
    }
    let enqueue = (count / took(start), each(cpu, count));
    let (owner, start, cpu, mut done) = (f.process(), SystemClock.now(), processor(), 0);
    loop {
        let claimed = claim(&storage, owner, batch).await;
        if claimed.is_empty() {
            break;
        }
        let settlements = claimed.iter().map(|one| f.settlement(one, Verdict::Done)).collect();
        done += settle(&storage, settlements).await.len();
    }
    assert_eq!(done, COUNT / batch * batch);
    (enqueue, (count / took(start), each(cpu, count)))
}

/// The same rows by hand, on one connection, one transaction for each batch.
async fn raw(batch: usize) -> (Rate, Rate) {
    let f = Fixture::new();
    f.open().await.close().await.unwrap();
    let connection = f.somebody_else();
    connection.execute_batch("PRAGMA synchronous = FULL; PRAGMA cache_size = -16384; PRAGMA wal_autocheckpoint = 4000").unwrap();
    connection.set_prepared_statement_cache_capacity(64);
    let ids: Vec<_> = (0..COUNT / batch * batch).map(|_| f.message().id.as_uuid()).collect();
    let (start, cpu) = (SystemClock.now(), processor());
    for ids in ids.chunks(batch) {
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        let mut insert = connection
            .prepare_cached(
                "INSERT INTO punctual_message (id, queue, topic, priority, due_at, planned_at, \
                 created_at, source, exclusive, body) VALUES (?, 'default', 'mail', 5, 0, 0, 0, 0, 0, ?)",
            )
            .unwrap();
        for id in ids {
            insert.execute(params![id.as_bytes(), [b'x'; 100]]).unwrap();
        }
        connection.execute_batch("COMMIT").unwrap();
    }
    let count = ids.len() as f64;
    let enqueue = (count / took(start), each(cpu, count));
    let (start, cpu, mut left) = (SystemClock.now(), processor(), ids.len());
    while left > 0 {
        let claimed = raw_claim(&connection, batch);
        raw_settle(&f, &connection, &claimed);
        left -= claimed.len();
    }
    (enqueue, (count / took(start), each(cpu, count)))
}

/// Processor time of this process so far, in seconds; the clock of a shared machine says little.
fn processor() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks = stat.split(' ').skip(13).take(2).filter_map(|ticks| ticks.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.
}

/// Microseconds of processor time for each of so many messages.
fn each(since: f64, count: f64) -> f64 {
    (processor() - since) * 1e6 / count
}

fn raw_claim(connection: &Connection, batch: usize) -> Vec<([u8; 16], Vec<u8>)> {
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut select = connection
        .prepare_cached(
            "SELECT id, body FROM punctual_message WHERE state = 0 AND queue = 'default' \
             AND priority = 5 AND due_at <= 10 ORDER BY due_at, id LIMIT ?",
        )
        .unwrap();
    let claimed: Vec<([u8; 16], Vec<u8>)> = select
        .query_map([i64::try_from(batch).unwrap()], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let mut update = connection
        .prepare_cached(
            "UPDATE punctual_message SET state = 1, attempt = attempt + 1, owner = ?2, token = 7, \
             lease_until = 60000000 WHERE id = ?1",
        )
        .unwrap();
    for (id, _) in &claimed {
        update.execute(params![id, [7_u8; 16]]).unwrap();
    }
    connection.execute_batch("COMMIT").unwrap();
    claimed
}

fn raw_settle(f: &Fixture, connection: &Connection, claimed: &[([u8; 16], Vec<u8>)]) {
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut finish = connection
        .prepare_cached(
            "INSERT INTO punctual_finished SELECT id, queue, topic, priority, due_at, planned_at, \
             created_at, source, key, dedupe, exclusive, job, attempt, crashes, snoozes, 2, 2000000, \
             error, extra, body FROM punctual_message WHERE id = ?1 AND token = 7",
        )
        .unwrap();
    let mut delete =
        connection.prepare_cached("DELETE FROM punctual_message WHERE id = ?1").unwrap();
    let mut append = connection
        .prepare_cached(
            "INSERT INTO punctual_execution (id, message, topic, queue, source, attempt, attempts_max, \
             process, due_at, started_at, ended_at, ending) \
             VALUES (?, ?, 'mail', 'default', 0, 1, 3, ?, 0, 1000000, 2000000, 0)",
        )
        .unwrap();
    for (id, _) in claimed {
        finish.execute([id]).unwrap();
        delete.execute([id]).unwrap();
        append.execute(params![f.process().as_uuid().as_bytes(), id, [7_u8; 16]]).unwrap();
    }
    connection.execute_batch("COMMIT").unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, for people"]
async fn measure_two_busy_handles_on_one_file() {
    let f = Arc::new(Fixture::new());
    let handles = [Arc::new(f.open().await), Arc::new(f.open().await)];
    let end = add(SystemClock.now(), Duration::from_secs(4));
    let tasks: Vec<_> = (0..16)
        .map(|number| {
            let (f, storage) = (Arc::clone(&f), Arc::clone(&handles[number % 2]));
            tokio::spawn(async move {
                let (mut count, mut longest) = (0, 0_f64);
                while SystemClock.now() < end {
                    let start = SystemClock.now();
                    storage.enqueue(f.entries(1), at(0)).await.unwrap();
                    (count, longest) = (count + 1, longest.max(took(start)));
                }
                (number % 2, count, longest)
            })
        })
        .collect();
    for task in tasks {
        let (handle, count, longest) = task.await.unwrap();
        println!("handle {handle}: {count} calls, the longest {:.0} ms", longest * 1e3);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, for people"]
async fn measure_beside_a_million_of_the_future() {
    let f = Fixture::new();
    let storage = f.open().await;
    for round in ["none", "a million"] {
        let (count, batch) = (50_000, 1_000);
        let cpu = processor();
        for _ in 0..count / batch {
            storage.enqueue(f.entries(batch), at(0)).await.unwrap();
        }
        let enqueue = each(cpu, count as f64);
        let (owner, cpu, start) = (f.process(), processor(), SystemClock.now());
        for _ in 0..count / batch {
            let claimed = claim(&storage, owner, batch).await;
            let settlements = claimed.iter().map(|one| f.settlement(one, Verdict::Done)).collect();
            assert_eq!(settle(&storage, settlements).await.len(), batch);
        }
        let (drain, rate) = (each(cpu, count as f64), count as f64 / took(start));
        println!("{round}: enqueue {enqueue:.1} us, drain {drain:.1} us each, {rate:.0}/s");
        if round == "none" {
            for _ in 0..1_000 {
                let future = (0..1_000).map(|second| f.due(at(100_000 + second)));
                let entries = future.map(punctual::storage::Entry::from).collect();
                storage.enqueue(entries, at(0)).await.unwrap();
            }
        }
    }
    let start = SystemClock.now();
    storage.counts(at(0)).await.unwrap();
    println!("counts took {:.1} ms", took(start) * 1e3);
}
