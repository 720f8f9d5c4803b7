//! Tests of the in-flight set without a broker: deliver, settle, release and revoke.

use std::thread;

use punctual::jiff::Timestamp;
use punctual::model::Topic;

use super::*;
use crate::assignment::READY_BYTES_MAX;
use crate::wire::{Envelope, read_pairs};

const LONG: Duration = Duration::from_secs(20);

fn record(partition: i32, generation: u64, offset: i64) -> ReaderItem {
    let topic = Topic::new("mail").unwrap();
    let (topic, body) = (&topic, bytes::Bytes::from_static(b"x"));
    let sent_at = Timestamp::UNIX_EPOCH;
    let envelope = Envelope { topic, key: None, body, partition, offset, sent_at };
    let message = Arc::new(read_pairs(envelope, &[]).message);
    let position = RecordPosition { partition, generation, offset };
    ReaderItem::Record(FetchedRecord { position, message, attempt: 1, poison: None })
}

fn in_flight(prefetch: usize, uncommitted_max: usize, partitions: &[i32]) -> InFlight {
    let in_flight = InFlight::new(prefetch, uncommitted_max);
    in_flight.assign(partitions);
    in_flight
}

fn take(in_flight: &InFlight, limit: usize) -> Vec<FetchedRecord> {
    match in_flight.take(limit) {
        TakeResult::Records(records) => records,
        TakeResult::Empty => Vec::new(),
        TakeResult::Failed(error) => panic!("{error}"),
        TakeResult::Closed => panic!("it is closed"),
    }
}

fn places(records: &[FetchedRecord]) -> Vec<(i32, i64)> {
    records.iter().map(|record| (record.position.partition, record.position.offset)).collect()
}

#[test]
fn no_more_is_delivered_than_the_prefetch() {
    let in_flight = in_flight(2, 100, &[0]);
    in_flight.add((0..5).map(|offset| record(0, 1, offset)));
    let first = take(&in_flight, 10);
    assert_eq!(places(&first), [(0, 0), (0, 1)]);
    assert!(take(&in_flight, 10).is_empty());
    assert!(in_flight.settle(first[1].position));
    assert_eq!(places(&take(&in_flight, 10)), [(0, 2)]);
}

#[test]
fn a_busy_partition_does_not_keep_the_others_waiting() {
    let in_flight = in_flight(100, 100, &[0, 1]);
    in_flight.add((0..8).map(|offset| record(0, 1, offset)));
    in_flight.add([record(1, 1, 0)]);
    let mut turns = places(&take(&in_flight, 4));
    turns.extend(places(&take(&in_flight, 4)));
    assert!(turns.contains(&(1, 0)), "{turns:?}");
}

#[test]
fn a_released_record_is_first_again_with_its_attempt_increased() {
    let in_flight = in_flight(10, 100, &[0]);
    in_flight.add((0..3).map(|offset| record(0, 1, offset)));
    let mut first = take(&in_flight, 2);
    in_flight.release(first.remove(0));
    let again = take(&in_flight, 10);
    assert_eq!(places(&again), [(0, 0), (0, 2)]);
    assert_eq!((again[0].attempt, again[1].attempt), (2, 1));
}

#[test]
fn positions_follow_settled_records_and_never_pass_unsettled_ones() {
    let in_flight = in_flight(10, 100, &[0, 1]);
    in_flight.add((4..7).map(|offset| record(0, 1, offset)));
    let position = RecordPosition { partition: 1, generation: 1, offset: 9 };
    in_flight.add([ReaderItem::Skipped(position)]);
    assert_eq!(in_flight.new_positions(), [(0, 4), (1, 10)]);
    let records = take(&in_flight, 10);
    assert!(in_flight.settle(records[1].position) && in_flight.settle(records[2].position));
    assert_eq!(in_flight.new_positions(), []);
    assert!(in_flight.settle(records[0].position));
    assert_eq!(in_flight.new_positions(), [(0, 7)]);
}

#[test]
fn a_full_window_leaves_no_room_until_its_first_is_settled() {
    let in_flight = in_flight(2, 4, &[0]);
    in_flight.add((0..4).map(|offset| record(0, 1, offset)));
    assert_eq!(in_flight.room(0), 0);
    let first = take(&in_flight, 1).remove(0);
    for _ in 1..4 {
        let next = take(&in_flight, 1).remove(0);
        assert!(in_flight.settle(next.position));
    }
    assert_eq!(in_flight.room(0), 0, "all of them follow the first");
    assert!(in_flight.settle(first.position));
    assert_eq!(in_flight.room(0), 4);
}

#[test]
fn a_record_fetched_twice_is_delivered_once() {
    let in_flight = in_flight(10, 100, &[0]);
    in_flight.add([record(0, 1, 0), record(0, 1, 1)]);
    let first = take(&in_flight, 1).remove(0);
    in_flight.add([record(0, 1, 0), record(0, 1, 1)]);
    assert_eq!(places(&take(&in_flight, 10)), [(0, 1)]);
    assert!(in_flight.settle(first.position));
}

#[test]
fn large_records_fill_a_partition_s_share_as_well() {
    let in_flight = in_flight(100, 1_000, &[0]);
    let ReaderItem::Record(mut large) = record(0, 1, 0) else { unreachable!() };
    Arc::make_mut(&mut large.message).body.bytes = vec![0; READY_BYTES_MAX].into();
    in_flight.add([ReaderItem::Record(large)]);
    assert_eq!(in_flight.room(0), 0);
    take(&in_flight, 1);
    assert!(in_flight.room(0) > 0);
}

#[test]
fn a_record_of_a_revoked_partition_cannot_be_settled_even_when_it_is_assigned_again() {
    let in_flight = in_flight(10, 100, &[0]);
    in_flight.add([record(0, 1, 0)]);
    let stale = take(&in_flight, 1).remove(0);
    in_flight.revoke(&[0]);
    assert!(!in_flight.is_assigned(stale.position));
    in_flight.assign(&[0]);
    in_flight.add([record(0, 2, 0)]);
    assert!(!in_flight.settle(stale.position));
    assert_eq!(in_flight.new_positions(), [(0, 0)], "the new delivery is still to be settled");
    assert_eq!(places(&take(&in_flight, 9)), [(0, 0)]);
}

#[test]
fn revoking_a_partition_waits_for_its_deliveries_in_flight() {
    let in_flight = Arc::new(in_flight(10, 100, &[0]));
    in_flight.add((0..2).map(|offset| record(0, 1, offset)));
    let record = take(&in_flight, 1).remove(0);
    let revoking = thread::spawn({
        let in_flight = Arc::clone(&in_flight);
        move || in_flight.drain(&[0], LONG)
    });
    while in_flight.room(0) > 0 {
        thread::yield_now();
    }
    assert!(take(&in_flight, 1).is_empty(), "nothing more is delivered from it");
    assert!(!revoking.is_finished());
    assert!(in_flight.settle(record.position));
    revoking.join().unwrap();
    assert_eq!(in_flight.new_positions(), [(0, 1)]);
    in_flight.drain(&[0], Duration::ZERO);
}

#[tokio::test]
async fn an_error_is_returned_once_and_after_ready_records() {
    let in_flight = in_flight(10, 100, &[0]);
    in_flight.add([record(0, 1, 0)]);
    in_flight.report_error(Error::unavailable("no broker"));
    assert_eq!(take(&in_flight, 10).len(), 1);
    assert!(matches!(in_flight.take(1), TakeResult::Failed(error) if error.is_temporary()));
    assert!(matches!(in_flight.take(1), TakeResult::Empty));
    in_flight.close();
    assert!(matches!(in_flight.take(1), TakeResult::Closed));
    assert!(in_flight.is_closing() && !in_flight.is_closed());
    in_flight.mark_closed();
    assert!(in_flight.is_closed());
}
