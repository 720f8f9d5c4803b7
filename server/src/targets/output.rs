//! Output of programs and responses as lines of the execution log. Bounded; the log itself keeps the newest lines.

use punctual::Context;

/// Largest number of bytes of a response in the log.
const LOGGED_BYTES_MAX: usize = 4 * 1024;
/// Largest number of bytes of a line; longer ones are split.
const LINE_BYTES_MAX: usize = 1_000;

/// Writes the beginning of a response into the log.
pub(super) fn log_lines(context: &Context, bytes: &[u8]) {
    let mut lines = Lines::default();
    lines.take(&bytes[..bytes.len().min(LOGGED_BYTES_MAX)], |line| context.log(line));
    lines.end(|line| context.log(line));
}

/// Splitter of a byte stream into lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    /// Adds bytes, and passes complete lines on.
    pub(super) fn take(&mut self, bytes: &[u8], mut line: impl FnMut(&str)) {
        for byte in bytes {
            if *byte == b'\n' || self.rest.len() == LINE_BYTES_MAX {
                self.end(&mut line);
            }
            if *byte != b'\n' {
                self.rest.push(*byte);
            }
        }
    }

    /// Passes the last, incomplete line on.
    pub(super) fn end(&mut self, mut line: impl FnMut(&str)) {
        let text = String::from_utf8_lossy(&self.rest);
        let text = text.trim_end();
        if !text.is_empty() {
            line(text);
        }
        self.rest.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_split_into_lines() {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        for piece in [&b"one\r\ntw"[..], b"o\n\n", b"th\xffree", &[b'x'; 1_500]] {
            lines.take(piece, |line| found.push(line.to_owned()));
        }
        lines.end(|line| found.push(line.to_owned()));
        assert_eq!(found[..2], ["one", "two"]);
        assert!(found[2].starts_with("th\u{fffd}reexx"), "{found:?}");
        assert_eq!(found.len(), 4);
    }
}
