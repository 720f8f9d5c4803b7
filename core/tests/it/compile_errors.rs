//! Compile errors for a wrong declaration or handler: the message, and where it points.
//! `TRYBUILD=overwrite cargo test -p punctual-core-tests compile_errors` writes the expected texts anew.
//!
//! The cases are about `punctual-macros` and stand here because the tests of a proc-macro crate would
//! compile the library and its dependencies a second time, for the compiler's side. There is no case that
//! compiles: it would need the dependencies as libraries, not only as metadata. `strict.rs` is that case.

/// A single test, because all cases share one build.
#[test]
fn mistakes_are_reported_where_they_are() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("compile_fail/*.rs");
}
