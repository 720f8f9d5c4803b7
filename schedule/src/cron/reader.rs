//! Field reader: reads the pieces of one field after the other: values, names, ranges, steps,
//! lists, and the `L`, `W`, `#` and `H` that stand alone.
//!
//! Only ASCII bytes are ever consumed, so the position stays on a character.

use super::error::{CronError, CronErrorKind as Kind};
use super::field::{CronField as Field, Days, WEEK, Weekdays};
use super::parse::{characters, low_bits};

/// A position in the text, the field it belongs to, and the state collected so far.
pub(super) struct Reader<'t> {
    text: &'t str,
    pub(super) seed: Option<&'t str>,
    pub(super) field: Field,
    pub(super) at: usize,
    end: usize,
    pub(super) interval_like: bool,
    /// Byte range and replacement of every `H`.
    pub(super) draws: Vec<(usize, usize, String)>,
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str, seed: Option<&'t str>) -> Reader<'t> {
        Reader {
            text,
            seed,
            field: Field::Second,
            at: 0,
            end: 0,
            interval_like: false,
            draws: Vec::new(),
        }
    }

    pub(super) fn enter(&mut self, field: Field, (start, end): (usize, usize)) {
        self.field = field;
        self.at = start;
        self.end = end;
    }

    /// Fails when the field has more characters.
    pub(super) fn leave(&self) -> Result<(), CronError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.unexpected()),
        }
    }

    /// Returns the text with every `H` replaced, or `None` without an `H`.
    pub(super) fn resolved(&self) -> Option<String> {
        let mut text = String::new();
        let mut copied = 0;
        for (start, end, drawn) in &self.draws {
            text.push_str(&self.text[copied..*start]);
            text.push_str(drawn);
            copied = *end;
        }
        text.push_str(&self.text[copied..]);
        (!self.draws.is_empty()).then_some(text)
    }

    /// Reads a field of plain values as a bit set.
    pub(super) fn values(&mut self) -> Result<u64, CronError> {
        match self.peek() {
            Some(b'*' | b'?') => self.star(),
            Some(b'H') => self.hashed(),
            _ => {
                let first = self.value()?;
                self.list(first)
            }
        }
    }

    pub(super) fn days(&mut self) -> Result<Days, CronError> {
        match self.peek() {
            Some(b'*' | b'?' | b'H') => Ok(Days::Set(low_bits(self.values()?))),
            Some(b'L' | b'l') => self.last_day(),
            _ => {
                let first = self.value()?;
                if self.accept_letter(b'W') {
                    Ok(Days::Nearest(first))
                } else {
                    Ok(Days::Set(low_bits(self.list(first)?)))
                }
            }
        }
    }

    pub(super) fn weekdays(&mut self) -> Result<Weekdays, CronError> {
        if matches!(self.peek(), Some(b'*' | b'?' | b'H')) {
            return Ok(week(self.values()?));
        }
        let first = self.value()?;
        if self.accept_letter(b'L') {
            return Ok(Weekdays::Last(first % 7));
        }
        if self.accept(b'#') {
            let nth = self.number(&NumberBounds {
                kind: Kind::Value,
                what: "the count within the month",
                low: 1,
                high: 5,
            })?;
            return Ok(Weekdays::Nth { weekday: first % 7, nth });
        }
        Ok(week(self.list(first)?))
    }

    fn last_day(&mut self) -> Result<Days, CronError> {
        self.at += 1;
        let before = if self.accept(b'-') {
            self.number(&NumberBounds {
                kind: Kind::Value,
                what: "the days before the last",
                low: 0,
                high: 30,
            })?
        } else {
            0
        };
        let nearest = self.accept_letter(b'W');
        Ok(Days::Last { before, nearest })
    }

    fn star(&mut self) -> Result<u64, CronError> {
        self.at += 1;
        self.interval_like |= self.field.is_time();
        let step = if self.accept(b'/') { self.step()? } else { 1 };
        Ok(range_bits(self.field, self.field.low(), self.field.high(), step))
    }

    /// Reads the rest of a list whose first value was read.
    fn list(&mut self, first: u8) -> Result<u64, CronError> {
        let mut bits = self.item(first)?;
        while self.accept(b',') {
            let value = self.value()?;
            bits |= self.item(value)?;
        }
        Ok(bits)
    }

    /// Reads the rest of `a`, `a/n`, `a-b` or `a-b/n` whose `a` was read.
    fn item(&mut self, low: u8) -> Result<u64, CronError> {
        let high = if self.accept(b'-') { Some(self.value()?) } else { None };
        let step = if self.accept(b'/') { Some(self.step()?) } else { None };
        if high.is_none() && step.is_none() {
            return Ok(1 << low);
        }
        self.interval_like |= self.field.is_time();
        let high = high.unwrap_or(self.field.high());
        Ok(range_bits(self.field, low, high, step.unwrap_or(1)))
    }

    pub(super) fn step(&mut self) -> Result<u8, CronError> {
        self.number(&NumberBounds {
            kind: Kind::Step,
            what: "the step",
            low: 1,
            high: self.field.high(),
        })
    }

    /// Reads a value of the field: a number or a name.
    pub(super) fn value(&mut self) -> Result<u8, CronError> {
        let low = self.field.low();
        if let Some(word) = self.text.get(self.at..self.end.min(self.at + 3)) {
            for (value, name) in (low..).zip(self.field.value_names()) {
                if word.eq_ignore_ascii_case(name) {
                    self.at += 3;
                    return Ok(value);
                }
            }
        }
        self.number(&NumberBounds {
            kind: Kind::Value,
            what: "a value",
            low,
            high: self.field.high(),
        })
    }

    /// Reads one or two digits within bounds.
    fn number(&mut self, bounds: &NumberBounds) -> Result<u8, CronError> {
        let digits = self.text.as_bytes()[self.at..self.end]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let word = &self.text[self.at..self.at + digits];
        let found = match (digits, word.parse()) {
            (0, _) => self.found(),
            (1 | 2, Ok(number)) if (bounds.low..=bounds.high).contains(&number) => {
                self.at += digits;
                return Ok(number);
            }
            (1 | 2, _) => format!("{word} is out of range"),
            _ => format!("{word:.8} has more than two digits"),
        };
        let what = match digits {
            0 => format!("{found} where {} should be", bounds.what),
            _ => format!("{} {found}", bounds.what.trim_start_matches("a value")),
        };
        let allowed = match bounds.kind {
            Kind::Value if bounds.high == self.field.high() => self.field.allowed().to_owned(),
            _ => format!("{} to {}", bounds.low, bounds.high),
        };
        Err(self.error(bounds.kind, format!("{}, use {allowed}", what.trim_start())))
    }

    /// Describes the next character, for error messages.
    fn found(&self) -> String {
        match self.text[self.at..self.end].chars().next() {
            Some(found) => format!("{found:?} stands"),
            None => "the field ends".to_owned(),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes()[self.at..self.end].first().copied()
    }

    pub(super) fn accept(&mut self, byte: u8) -> bool {
        if self.peek() == Some(byte) {
            self.at += 1;
            return true;
        }
        false
    }

    /// Accepts a letter in upper or lower case.
    fn accept_letter(&mut self, capital: u8) -> bool {
        self.accept(capital) || self.accept(capital.to_ascii_lowercase())
    }

    pub(super) fn unexpected(&self) -> CronError {
        let hint = match self.peek() {
            Some(b',' | b'-' | b'/') => "a star, H, L, W or # must be alone in its field",
            Some(b'*' | b'?') => "a star must be alone in its field",
            Some(b'L' | b'l' | b'W' | b'w' | b'#') => {
                "L, W and # must be alone, outside lists and ranges"
            }
            Some(byte) if byte.is_ascii_alphabetic() => "names have three letters",
            _ => "lists are separated by commas",
        };
        let allowed = self.field.allowed();
        self.error(
            Kind::Unexpected,
            format!("{} where nothing may follow ({hint}); use {allowed}", self.found()),
        )
    }

    pub(super) fn error(&self, kind: Kind, message: String) -> CronError {
        CronError::new(kind, message).of(self.field).at(characters(self.text, self.at))
    }
}

/// The number expected at a position of the text.
struct NumberBounds {
    kind: Kind,
    what: &'static str,
    low: u8,
    high: u8,
}

/// Returns the weekday set of a field's bits: 7 is Sunday too.
fn week(bits: u64) -> Weekdays {
    let bits: u8 = low_bits(bits);
    Weekdays::Set((bits | (bits >> 7)) & WEEK)
}

/// Returns every `step`-th value from `from` to `to`, continuing across the end of the
/// field when the range wraps.
pub(super) fn range_bits(field: Field, from: u8, to: u8, step: u8) -> u64 {
    let (low, cycle) = (field.low(), field.cycle_len());
    let (length, wraps) = if from <= to { (to - from, false) } else { (to + cycle - from, true) };
    (0..=length).step_by(usize::from(step)).fold(0, |bits, places| {
        let value = if wraps { low + (from - low + places) % cycle } else { from + places };
        bits | (1 << value)
    })
}
