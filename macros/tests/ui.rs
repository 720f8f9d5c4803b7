//! What the compiler says about a declaration or a handler that is wrong: the message, and where it
//! points. `TRYBUILD=overwrite cargo test -p punctual-macros` writes the expected texts anew.

/// One test, because all cases share one build.
#[test]
fn mistakes_are_said_where_they_stand() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/pass/*.rs");
    cases.compile_fail("tests/ui/*.rs");
}
