//! The project tools.
fn main() {}
