//! Seeded random expressions for the other tests.

use jiff::civil::DateTime;

use crate::stable_hash;

/// Zones with gaps and folds of every kind: an hour, half an hour, a day, at
/// midnight, in winter, by seconds, and names that change without the clock.
pub(super) const ZONES: [&str; 30] = [
    "Europe/Berlin",
    "America/New_York",
    "America/Los_Angeles",
    "Australia/Lord_Howe",
    "Asia/Amman",
    "Asia/Beirut",
    "America/Havana",
    "Pacific/Apia",
    "Africa/Casablanca",
    "Europe/Dublin",
    "America/Sao_Paulo",
    "Asia/Tehran",
    "Asia/Gaza",
    "Africa/Cairo",
    "America/St_Johns",
    "America/Santiago",
    "Asia/Pyongyang",
    "America/Caracas",
    "Europe/Istanbul",
    "Europe/Moscow",
    "Asia/Kathmandu",
    "Antarctica/Troll",
    "America/Scoresbysund",
    "Pacific/Kwajalein",
    "Australia/Adelaide",
    "Asia/Jerusalem",
    "America/Asuncion",
    "Africa/Monrovia",
    "Pacific/Chatham",
    "America/Nuuk",
];

/// A generator whose numbers are the same on every run.
pub(super) struct Random {
    seed: u64,
    drawn: u64,
}

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random { seed, drawn: 0 }
    }

    pub(super) fn below(&mut self, limit: i64) -> i64 {
        self.drawn += 1;
        let hash = stable_hash(&[&self.seed.to_le_bytes(), &self.drawn.to_le_bytes()]);
        i64::try_from(hash % u64::try_from(limit).unwrap()).unwrap()
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        let place = self.below(i64::try_from(from.len()).unwrap());
        from[usize::try_from(place).unwrap()]
    }
}

/// An expression that is likely to have something to do near a wall clock time.
pub(super) fn random_expression(random: &mut Random, wall: DateTime) -> String {
    let second = match random.below(6) {
        0 => field(random, 0, 59, wall.second().into()),
        1 => "*/20".to_owned(),
        2 => "59".to_owned(),
        _ => String::new(),
    };
    // A third has fixed times, which fields drawn one by one would rarely give.
    let (minute, hour) = match random.below(3) {
        0 => {
            let minutes = [0, 15, 30, 45, i64::from(wall.minute())];
            let hour = (i64::from(wall.hour()) + random.below(3) - 1).rem_euclid(24);
            (random.pick(&minutes).to_string(), hour.to_string())
        }
        _ => (field(random, 0, 59, wall.minute().into()), field(random, 0, 23, wall.hour().into())),
    };
    let day = match random.below(9) {
        0 => field(random, 1, 31, wall.day().into()),
        1 => random.pick(&["L", "LW", "L-1", "L-3W", "1W", "15W", "31W", "L-30"]).to_string(),
        2 => wall.day().to_string(),
        _ => "*".to_owned(),
    };
    let month = match random.below(6) {
        0 => field(random, 1, 12, wall.month().into()),
        1 => random.pick(&["MAR-OCT", "sep-apr", "Mar,oct,11", "*/3"]).to_string(),
        _ => "?".to_owned(),
    };
    let weekday = match random.below(8) {
        0 => field(random, 0, 7, wall.weekday().to_sunday_zero_offset().into()),
        1 => random
            .pick(&["SUN", "7L", "0#1", "SUN#2", "0#4", "FRI#5", "6-1", "7-3/2", "5/1", "MON-5"])
            .to_string(),
        _ => "*".to_owned(),
    };
    format!("{second} {minute} {hour} {day} {month} {weekday}").trim().to_owned()
}

fn field(random: &mut Random, low: i64, high: i64, near: i64) -> String {
    let count = high - low + 1;
    let value = |random: &mut Random| match random.below(3) {
        0 => low + random.below(count),
        _ => (near + random.below(5) - 2 - low).rem_euclid(count) + low,
    };
    let item = |random: &mut Random| match random.below(6) {
        0 => format!("{}-{}", value(random), value(random)),
        1 => format!("{}-{}/{}", value(random), value(random), 1 + random.below(high)),
        2 => format!("{}/{}", value(random), 1 + random.below(high)),
        _ => value(random).to_string(),
    };
    match random.below(8) {
        0 => "*".to_owned(),
        1 => format!("*/{}", 1 + random.below(high)),
        2 => format!("{},{}", item(random), item(random)),
        _ => item(random),
    }
}
