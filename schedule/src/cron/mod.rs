//! Cron expressions: five or six fields, the rules of Cronos, IANA zones.

mod clock_change;
mod describe;
mod error;
mod expression;
mod field;
mod hashed;
mod month;
mod parse;
mod reader;
mod search;
mod text;
mod words;

pub use error::{CronError, CronErrorKind};
pub use expression::Cron;
pub use field::CronField;

#[cfg(test)]
mod tests;
