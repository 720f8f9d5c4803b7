//! Terminal output besides results. Results go to standard output, all else to standard error, so that output can be
//! piped.

use std::io::{self, Write};

/// Prints a line to standard error; a failed write is ignored.
pub(crate) fn notice(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Prints an error to standard error.
pub(crate) fn print_error(error: &anyhow::Error) {
    notice(&format!("error: {}", error_text(error)));
}

/// Returns the message of an error, with its causes where they add something.
pub(crate) fn error_text(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        let is_repeated = cause.split(": ").all(|part| text.contains(part));
        if !is_repeated {
            text = format!("{text}: {cause}");
        }
    }
    text
}
