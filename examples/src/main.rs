//! Examples: one short program per feature of Punctual. Each is a file that could be a `main.rs` of its own,
//! ends by itself, and lists its expected output; a test runs them all and compares.
//!
//! Most of them run on a manual clock, as tests of an application do: that way a week takes a moment and
//! every run prints the same. `hello` and `cron` are programs as in production and have a binary each,
//! because they run until Ctrl-C.
#![allow(clippy::print_stdout)] // our own rule, not one of users

use std::error::Error;

/// The main function of an example.
type Program = fn() -> punctual::Result<()>;

macro_rules! examples {
    ($($name:ident)*) => {
        $(mod $name;)*

        const EXAMPLES: &[(&str, Program)] = &[$((stringify!($name), $name::main)),*];
    };
}

examples! {
    admin analysis attribute axum backfill batch blocking chain checkpoint config correlation dashboard dead_letters
    delayed
    durable edit errors events expiry extractors handler_test health limit middleware misfire one_time outbox
    outcomes overlap priority progress rate reporting retry serial shutdown state test_harness tower unique zones
}

fn main() -> Result<(), Box<dyn Error>> {
    let name_given = std::env::args().nth(1).unwrap_or_default();
    if let Some((_, program)) = EXAMPLES.iter().find(|(name, _)| *name == name_given) {
        return Ok(program()?);
    }
    println!("Give the name of an example:");
    for (name, _) in EXAMPLES {
        println!("  {name}");
    }
    Err(format!("there is no example {name_given:?}").into())
}
