//! The command line of Punctual.
fn main() {}
