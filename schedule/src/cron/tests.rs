//! The evaluator against tables, an independent oracle, properties and garbage.

mod garbage;
mod generate;
mod oracle;
mod properties;
mod texts;
mod times;

use crate::Cron;

fn cron(text: &str) -> Cron {
    Cron::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}
