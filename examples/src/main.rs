//! One short program for each thing Punctual can do. Each is a file that could be a `main.rs` of its own,
//! ends by itself, and says at its end what it prints; a test runs them all and compares.
//!
//! Most of them move time by hand, which an application does only in its tests: that way a week takes a
//! moment and every run prints the same. `hello` and `cron` are programs as they would be in production
//! and have a binary each, because they run until they are asked to stop.
#![allow(clippy::print_stdout)] // our own rule, not one of users

use std::error::Error;

/// What an example is.
type Program = fn() -> punctual::Result<()>;

macro_rules! examples {
    ($($name:ident)*) => {
        $(mod $name;)*

        const EXAMPLES: &[(&str, Program)] = &[$((stringify!($name), $name::main)),*];
    };
}

examples! {
    admin attribute axum backfill batch blocking chain checkpoint config correlation dashboard dead_letters delayed
    durable edit errors events expiry extractors health limit middleware misfire one_time outbox outcomes overlap priority
    progress rate rehearsal reporting retry serial shutdown state tower trial unique zones
}

fn main() -> Result<(), Box<dyn Error>> {
    let asked = std::env::args().nth(1).unwrap_or_default();
    if let Some((_, program)) = EXAMPLES.iter().find(|(name, _)| *name == asked) {
        return Ok(program()?);
    }
    println!("Say which one:");
    for (name, _) in EXAMPLES {
        println!("  {name}");
    }
    Err(format!("there is no example {asked:?}").into())
}
