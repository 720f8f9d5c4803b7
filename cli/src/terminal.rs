//! Talking to a person. What is asked for goes to standard output, everything else to standard error,
//! so that output can be piped.

use std::io::{self, Write};

/// Says something in passing. Nothing is left to tell when even that cannot be written.
pub(crate) fn tell(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Says what went wrong, and why where that says more.
pub(crate) fn complain(error: &anyhow::Error) {
    tell(&format!("error: {}", complaint(error)));
}

/// What went wrong, and why where that says more.
pub(crate) fn complaint(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        let said = cause.split(": ").all(|part| text.contains(part));
        if !said {
            text = format!("{text}: {cause}");
        }
    }
    text
}
