//! What a program or an answer says, as lines of the execution's log. Bounded; the log itself keeps the
//! newest.

use punctual::Context;

/// The most bytes of an answer that go into the log.
const ANSWER_LOGGED_MAX: usize = 4 * 1024;
/// The most bytes of a line; what is longer goes on in the next.
const LINE_BYTES_MAX: usize = 1_000;

/// Writes the beginning of an answer into the log.
pub(super) fn log_lines(context: &Context, bytes: &[u8]) {
    let mut lines = Lines::default();
    lines.take(&bytes[..bytes.len().min(ANSWER_LOGGED_MAX)], |line| context.log(line));
    lines.end(|line| context.log(line));
}

/// Cuts a stream of bytes into lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    /// Takes more bytes, and gives the lines that are whole.
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

    /// Gives what is left.
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
    fn bytes_become_lines_whatever_the_pieces() {
        let (mut lines, mut said) = (Lines::default(), Vec::new());
        for piece in [&b"one\r\ntw"[..], b"o\n\n", b"th\xffree", &[b'x'; 1_500]] {
            lines.take(piece, |line| said.push(line.to_owned()));
        }
        lines.end(|line| said.push(line.to_owned()));
        assert_eq!(said[..2], ["one", "two"]);
        assert!(said[2].starts_with("th\u{fffd}reexx"), "{said:?}");
        assert_eq!(said.len(), 4);
    }
}
