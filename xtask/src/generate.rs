//! `cargo xtask generate`: documents that are rendered from the code, never edited by hand.
//!
//! The tests named `generated` in `core/tests/it` render the state table and the list of events, the one in
//! `testing/conformance/` the capabilities of transports; they compare by default and write on request. The index
//! of the decision records is rendered here.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::adr;
use crate::cargo::{Empty, cargo, count_tests};
use crate::step::Steps;
use crate::tally::Tally;
use crate::workspace::Workspace;

/// Tests that render documents.
const RENDERED: [(&str, &[&str]); 2] = [
    ("documents of core", &["test", "-p", "punctual-core-tests", "--", "generated"]),
    ("capabilities", &["test", "-p", "punctual-conformance", "--lib", "--", "generated"]),
];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only report outdated documents.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(workspace: &Workspace, options: &Options, steps: &mut Steps) {
    steps.run("index of decisions", || index(workspace, options.check));
    for (name, line) in RENDERED {
        steps.run(name, || {
            let mut command = cargo(workspace, line);
            if options.check {
                command.env_remove("PUNCTUAL_GENERATE");
            } else {
                command.env("PUNCTUAL_GENERATE", "1");
            }
            count_tests(command, Empty::Refused)
        });
    }
}

fn index(workspace: &Workspace, check: bool) -> Result<Tally> {
    let expected = adr::index(&workspace.sources()?);
    let path = workspace.path(adr::INDEX);
    if fs::read_to_string(&path).unwrap_or_default() != expected {
        if check {
            bail!("{} is stale; run `cargo xtask generate`", adr::INDEX);
        }
        fs::write(&path, expected).with_context(|| format!("write {}", adr::INDEX))?;
        println!("    wrote {}", adr::INDEX);
    }
    Ok(Tally::ONE_PASSED)
}
