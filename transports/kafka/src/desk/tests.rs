//! The desk without a broker: what is handed out, settled, let go and taken away.

use std::thread;

use punctual::jiff::Timestamp;
use punctual::model::Topic;

use super::*;
use crate::lane::READY_BYTES_MAX;
use crate::wire::{Envelope, read_pairs};

const LONG: Duration = Duration::from_secs(20);

fn parcel(partition: i32, given: u64, offset: i64) -> Arrival {
    let topic = Topic::new("mail").unwrap();
    let (topic, body) = (&topic, bytes::Bytes::from_static(b"x"));
    let sent_at = Timestamp::UNIX_EPOCH;
    let envelope = Envelope { topic, key: None, body, partition, offset, sent_at };
    let message = Arc::new(read_pairs(envelope, &[]).message);
    let slot = Slot { partition, given, offset };
    Arrival::Parcel(Parcel { slot, message, attempt: 1, poison: None })
}

fn desk(prefetch: usize, window_max: usize, partitions: &[i32]) -> Desk {
    let desk = Desk::new(prefetch, window_max);
    desk.give(partitions);
    desk
}

fn take(desk: &Desk, limit: usize) -> Vec<Parcel> {
    match desk.take(limit) {
        Taken::Parcels(parcels) => parcels,
        Taken::Nothing => Vec::new(),
        Taken::Trouble(error) => panic!("{error}"),
        Taken::Over => panic!("it is over"),
    }
}

fn places(parcels: &[Parcel]) -> Vec<(i32, i64)> {
    parcels.iter().map(|parcel| (parcel.slot.partition, parcel.slot.offset)).collect()
}

#[test]
fn no_more_is_handed_out_than_may_be_in_hand() {
    let desk = desk(2, 100, &[0]);
    desk.arrive((0..5).map(|offset| parcel(0, 1, offset)));
    let first = take(&desk, 10);
    assert_eq!(places(&first), [(0, 0), (0, 1)]);
    assert!(take(&desk, 10).is_empty());
    assert!(desk.settle(first[1].slot));
    assert_eq!(places(&take(&desk, 10)), [(0, 2)]);
}

#[test]
fn a_busy_partition_does_not_keep_the_others_waiting() {
    let desk = desk(100, 100, &[0, 1]);
    desk.arrive((0..8).map(|offset| parcel(0, 1, offset)));
    desk.arrive([parcel(1, 1, 0)]);
    let mut turns = places(&take(&desk, 4));
    turns.extend(places(&take(&desk, 4)));
    assert!(turns.contains(&(1, 0)), "{turns:?}");
}

#[test]
fn what_is_let_go_is_first_again_and_counted() {
    let desk = desk(10, 100, &[0]);
    desk.arrive((0..3).map(|offset| parcel(0, 1, offset)));
    let mut first = take(&desk, 2);
    desk.put_back(first.remove(0));
    let again = take(&desk, 10);
    assert_eq!(places(&again), [(0, 0), (0, 2)]);
    assert_eq!((again[0].attempt, again[1].attempt), (2, 1));
}

#[test]
fn positions_follow_what_is_settled_and_never_pass_what_is_not() {
    let desk = desk(10, 100, &[0, 1]);
    desk.arrive((4..7).map(|offset| parcel(0, 1, offset)));
    let slot = Slot { partition: 1, given: 1, offset: 9 };
    desk.arrive([Arrival::PassedOver(slot)]);
    assert_eq!(desk.progress(), [(0, 4), (1, 10)]);
    let parcels = take(&desk, 10);
    assert!(desk.settle(parcels[1].slot) && desk.settle(parcels[2].slot));
    assert_eq!(desk.progress(), []);
    assert!(desk.settle(parcels[0].slot));
    assert_eq!(desk.progress(), [(0, 7)]);
}

#[test]
fn a_full_window_leaves_no_room_until_its_first_is_settled() {
    let desk = desk(2, 4, &[0]);
    desk.arrive((0..4).map(|offset| parcel(0, 1, offset)));
    assert_eq!(desk.room(0), 0);
    let first = take(&desk, 1).remove(0);
    for _ in 1..4 {
        let next = take(&desk, 1).remove(0);
        assert!(desk.settle(next.slot));
    }
    assert_eq!(desk.room(0), 0, "all of them stand behind the first");
    assert!(desk.settle(first.slot));
    assert_eq!(desk.room(0), 4);
}

#[test]
fn what_is_read_twice_is_handed_out_once() {
    let desk = desk(10, 100, &[0]);
    desk.arrive([parcel(0, 1, 0), parcel(0, 1, 1)]);
    let first = take(&desk, 1).remove(0);
    desk.arrive([parcel(0, 1, 0), parcel(0, 1, 1)]);
    assert_eq!(places(&take(&desk, 10)), [(0, 1)]);
    assert!(desk.settle(first.slot));
}

#[test]
fn large_records_fill_a_partition_s_share_as_well() {
    let desk = desk(100, 1_000, &[0]);
    let Arrival::Parcel(mut large) = parcel(0, 1, 0) else { unreachable!() };
    Arc::make_mut(&mut large.message).body.bytes = vec![0; READY_BYTES_MAX].into();
    desk.arrive([Arrival::Parcel(large)]);
    assert_eq!(desk.room(0), 0);
    take(&desk, 1);
    assert!(desk.room(0) > 0);
}

#[test]
fn what_was_taken_away_cannot_be_settled_even_when_it_comes_back() {
    let desk = desk(10, 100, &[0]);
    desk.arrive([parcel(0, 1, 0)]);
    let stale = take(&desk, 1).remove(0);
    desk.take_away(&[0]);
    assert!(!desk.is_ours(stale.slot));
    desk.give(&[0]);
    desk.arrive([parcel(0, 2, 0)]);
    assert!(!desk.settle(stale.slot));
    assert_eq!(desk.progress(), [(0, 0)], "the new delivery is still to be settled");
    assert_eq!(places(&take(&desk, 9)), [(0, 0)]);
}

#[test]
fn a_partition_that_leaves_waits_for_what_is_in_hand() {
    let desk = Arc::new(desk(10, 100, &[0]));
    desk.arrive((0..2).map(|offset| parcel(0, 1, offset)));
    let parcel = take(&desk, 1).remove(0);
    let leaving = thread::spawn({
        let desk = Arc::clone(&desk);
        move || desk.leave(&[0], LONG)
    });
    while desk.room(0) > 0 {
        thread::yield_now();
    }
    assert!(take(&desk, 1).is_empty(), "nothing more is handed out of it");
    assert!(!leaving.is_finished());
    assert!(desk.settle(parcel.slot));
    leaving.join().unwrap();
    assert_eq!(desk.progress(), [(0, 1)]);
    desk.leave(&[0], Duration::ZERO);
}

#[tokio::test]
async fn trouble_is_told_once_and_after_what_is_ready() {
    let desk = desk(10, 100, &[0]);
    desk.arrive([parcel(0, 1, 0)]);
    desk.trouble(Error::unavailable("no broker"));
    assert_eq!(take(&desk, 10).len(), 1);
    assert!(matches!(desk.take(1), Taken::Trouble(error) if error.is_temporary()));
    assert!(matches!(desk.take(1), Taken::Nothing));
    desk.close();
    assert!(matches!(desk.take(1), Taken::Over));
    assert!(desk.is_closing() && !desk.is_closed());
    desk.closed();
    assert!(desk.is_closed());
}
