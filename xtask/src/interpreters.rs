//! Interpreters that tests start as processes: the example workers in Python and in Node.
//!
//! Any interpreter on the path will do. One that is missing is installed from the distribution's
//! packages before the tests run, and required by name, so that its tests run or the run fails.

use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::needs;

/// An interpreter that tests start.
pub(crate) struct Interpreter {
    /// Its name in `--with`, `--without` and `PUNCTUAL_REQUIRE`.
    pub(crate) name: &'static str,
    program: &'static str,
    /// The distribution's package that has it.
    package: &'static str,
}

pub(crate) const INTERPRETERS: [Interpreter; 2] = [
    Interpreter { name: "node", program: "node", package: "nodejs" },
    Interpreter { name: "python", program: "python3", package: "python3" },
];

/// Installs the interpreters that are missing.
pub(crate) fn provide(wanted: &[&'static Interpreter]) -> Result<()> {
    let missing: Vec<&Interpreter> =
        wanted.iter().copied().filter(|interpreter| !starts(interpreter.program)).collect();
    let list = |part: fn(&Interpreter) -> &'static str| {
        missing.iter().map(|one| part(one).to_owned()).collect::<Vec<String>>()
    };
    needs::provide_packages(&list(|one| one.package)).with_context(|| {
        format!(
            "the example workers need {}: install it yourself, or leave it out with --without {}",
            list(|one| one.program).join(" and "),
            list(|one| one.name).join(",")
        )
    })
}

/// Returns whether a program is on the path and works: a placeholder of a version manager may be there and
/// start nothing.
pub(crate) fn starts(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_missing_or_fails_does_not_start() {
        assert!(starts("cargo"));
        assert!(!starts("false"));
        assert!(!starts("/no/program/of/this/name"));
    }

    #[test]
    fn nothing_is_installed_where_nothing_is_missing() {
        assert!(provide(&[]).is_ok());
    }
}
