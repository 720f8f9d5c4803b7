//! Tests of which place is chosen for each delay.

use crate::model::time::between;
use jiff::Timestamp;
use uuid::Uuid;

use super::*;

const MINUTE: Duration = Duration::from_mins(1);

fn options(native: Delay) -> DelayOptions {
    DelayOptions { native, storage: true, prefer_storage: false }
}

// spec: D-8, D-13, D-15
#[test]
fn a_message_without_delay_is_sent_directly() {
    let now = Timestamp::from_second(1_000).unwrap();
    let past = Timestamp::from_second(10).unwrap();
    for native in [Delay::None, Delay::UpTo(MINUTE), Delay::Any] {
        for (storage, prefer_storage) in
            [(false, false), (false, true), (true, false), (true, true)]
        {
            let options = DelayOptions { native, storage, prefer_storage };
            assert_eq!(delay_place(Duration::ZERO, options), DelayPlace::NoDelay, "{options:?}");
            assert_eq!(
                delay_place(between(now, past), options),
                DelayPlace::NoDelay,
                "{options:?}"
            );
        }
    }
}

// spec: D-2, D-9, D-21, D-22
#[test]
fn the_transport_waits_as_far_as_it_reaches_and_the_storage_beyond() {
    let quarter = 15 * MINUTE;
    let over = quarter + Duration::from_nanos(1);
    for (native, delay, expected) in [
        (Delay::None, MINUTE, DelayPlace::Storage(MINUTE)),
        (Delay::UpTo(quarter), quarter, DelayPlace::Transport(quarter)),
        (Delay::UpTo(quarter), over, DelayPlace::Storage(over)),
        (Delay::Any, Duration::MAX, DelayPlace::Transport(Duration::MAX)),
    ] {
        assert_eq!(delay_place(delay, options(native)), expected, "{native:?} {delay:?}");
    }
}

// spec: D-21
#[test]
fn a_setting_prefers_the_storage() {
    let forced = DelayOptions { prefer_storage: true, ..options(Delay::Any) };
    assert_eq!(delay_place(MINUTE, forced), DelayPlace::Storage(MINUTE));
    let without = DelayOptions { storage: false, ..forced };
    assert_eq!(delay_place(MINUTE, without), DelayPlace::Transport(MINUTE));
}

// spec: D-11
#[test]
fn without_a_storage_a_delay_out_of_reach_is_a_configuration_error() {
    let id = MessageId::from_uuid(Uuid::from_u128(7));
    let bare = DelayOptions { storage: false, ..options(Delay::UpTo(MINUTE)) };
    assert_eq!(delay_place(MINUTE, bare), DelayPlace::Transport(MINUTE));
    assert_eq!(delay_place(2 * MINUTE, bare), DelayPlace::Unsupported);
    assert_eq!(
        delay_place(MINUTE, DelayOptions { native: Delay::None, ..bare }),
        DelayPlace::Unsupported
    );
    let error = delay_unsupported(id, 2 * MINUTE, bare.native);
    assert!(!error.is_temporary());
    let text = error.to_string();
    assert!(
        text.contains(&id.to_string()) && text.contains("give the builder a storage"),
        "{text}"
    );
    assert!(text.contains("60s at most"), "{text}");
}
