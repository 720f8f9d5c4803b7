//! Instants as microseconds since the epoch, which is what SQL databases keep.

use punctual::jiff::Timestamp;
use punctual::{Error, ErrorKind, Result};

/// The last instant there is; its fraction of a second does not read back from microseconds.
const LAST: i64 = 253_402_207_200 * 1_000_000;

/// An instant that has happened or was noted: cut down to the microsecond.
pub fn micros(instant: Timestamp) -> i64 {
    i64::try_from(instant.as_nanosecond().div_euclid(1_000)).unwrap_or(LAST).min(LAST)
}

/// An instant before which nothing may happen: rounded up to the microsecond.
pub fn micros_up(instant: Timestamp) -> i64 {
    let nanos = instant.as_nanosecond();
    let up = i64::from(nanos.rem_euclid(1_000) != 0);
    micros(instant).saturating_add(up).min(LAST)
}

/// The instant a column holds.
pub fn instant(micros: i64) -> Result<Timestamp> {
    Timestamp::from_microsecond(micros).map_err(|error| {
        Error::new(ErrorKind::Corrupt, format!("the stored instant {micros} µs is no instant"))
            .caused_by(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_times_go_up_and_others_down_to_the_microsecond() {
        let odd = Timestamp::from_nanosecond(1_000_001_001).unwrap();
        assert_eq!((micros(odd), micros_up(odd)), (1_000_001, 1_000_002));
        let even = Timestamp::from_nanosecond(1_000_001_000).unwrap();
        assert_eq!((micros(even), micros_up(even)), (1_000_001, 1_000_001));
        let before = Timestamp::from_nanosecond(-1).unwrap();
        assert_eq!((micros(before), micros_up(before)), (-1, 0));
    }

    #[test]
    fn every_instant_there_is_reads_back() {
        for end in [Timestamp::MIN, Timestamp::MAX] {
            assert_eq!(instant(micros(end)).unwrap().as_second(), end.as_second());
            assert_eq!(instant(micros_up(end)).unwrap().as_second(), end.as_second());
        }
        assert_eq!(instant(i64::MAX).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
