//! Instants as microseconds since the Unix epoch, the precision of SQL databases.

use punctual::jiff::Timestamp;
use punctual::{Error, ErrorKind, Result};

/// Last representable instant in microseconds; the fraction of a second of `Timestamp::MAX` does not read back.
const LAST: i64 = 253_402_207_200 * 1_000_000;

/// Converts an instant that has passed or was recorded: rounds down to the microsecond.
pub fn micros(instant: Timestamp) -> i64 {
    i64::try_from(instant.as_nanosecond().div_euclid(1_000)).unwrap_or(LAST).min(LAST)
}

/// Converts an instant before which nothing may happen: rounds up to the microsecond.
pub fn micros_up(instant: Timestamp) -> i64 {
    let nanos = instant.as_nanosecond();
    let up = i64::from(nanos.rem_euclid(1_000) != 0);
    micros(instant).saturating_add(up).min(LAST)
}

/// Decodes the instant of a column.
pub fn instant(micros: i64) -> Result<Timestamp> {
    Timestamp::from_microsecond(micros).map_err(|error| {
        Error::new(ErrorKind::Corrupt, format!("the stored instant {micros} µs is out of range"))
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
    fn the_first_and_the_last_instant_read_back() {
        for end in [Timestamp::MIN, Timestamp::MAX] {
            assert_eq!(instant(micros(end)).unwrap().as_second(), end.as_second());
            assert_eq!(instant(micros_up(end)).unwrap().as_second(), end.as_second());
        }
        assert_eq!(instant(i64::MAX).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
