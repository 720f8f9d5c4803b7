//! `cargo xtask check`: everything that can be checked without running a test, cheapest first.

use crate::cargo::{cargo, pass_or_fail};
use crate::deny::Deny;
use crate::needs;
use crate::public_api;
use crate::requirements;
use crate::step::{Phase, Steps};
use crate::tidy::{self, report};
use crate::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace, steps: &mut Steps) {
    let deny = Deny::provide(workspace);
    tidy(workspace, steps);
    steps.run("dependency rules", || report(&tidy::dependency_rules(&workspace.sources()?)));
    steps.run("requirements", || requirements::check(workspace));
    steps.run("format", || pass_or_fail(cargo(workspace, &["fmt", "--all", "--check"])));
    steps.run_as(Phase::Compile, "clippy", || {
        needs::provide_builds(workspace)?;
        let line =
            ["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"];
        pass_or_fail(cargo(workspace, &line))
    });
    steps.run_as(Phase::Compile, "rustdoc", || public_api::document(workspace));
    steps.run("public API", || public_api::check(workspace));
    steps.run("licences and sources of dependencies", || deny.check(workspace));
}

/// Runs the rules that need no compiler.
pub(crate) fn tidy(workspace: &Workspace, steps: &mut Steps) {
    steps.run("tidy", || {
        let sources = workspace.sources()?;
        for note in tidy::notes(&sources) {
            println!("note: {note}");
        }
        report(&tidy::findings(&sources, &|path| workspace.has(path)))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree passes all rules, also where only the tests are run.
    #[test]
    fn this_workspace_is_tidy() {
        let workspace = Workspace::find().unwrap();
        let sources = workspace.sources().unwrap();
        let mut findings = tidy::findings(&sources, &|path| workspace.has(path));
        findings.extend(tidy::dependency_rules(&sources));
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "\n{}", lines.join("\n"));
    }
}
