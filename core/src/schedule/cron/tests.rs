//! The evaluator against tables, an independent oracle, properties and garbage.

mod garbage;
mod generate;
mod oracle;
mod properties;
mod table;
