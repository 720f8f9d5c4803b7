//! Running one thing after another and saying, at the end, how each went.
//!
//! A step never ends the run: the steps after it still run, so that one command shows everything that
//! is wrong. The last line is always plain: `N passed, N failed`.

use std::time::Duration;

use anyhow::Result;

use crate::stopwatch::Stopwatch;
use crate::tally::Tally;

/// The steps run so far.
#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<Step>,
}

struct Step {
    name: String,
    tally: Tally,
    took: Duration,
}

impl Steps {
    /// Runs `work` under a heading. A step that ends in an error counts as one failure; a tally with
    /// nothing in it is a note, which neither passes nor fails.
    pub(crate) fn run(&mut self, name: &str, work: impl FnOnce() -> Result<Tally>) {
        println!("\n==> {name}");
        let stopwatch = Stopwatch::start();
        let tally = work().unwrap_or_else(|error| {
            eprintln!("{name}: {error:#}");
            Tally::ONE_FAILED
        });
        self.done.push(Step { name: name.to_owned(), tally, took: stopwatch.elapsed() });
    }

    pub(crate) fn all_passed(&self) -> bool {
        self.total().failed == 0
    }

    /// Prints the table and the plain last line; answers whether everything passed.
    pub(crate) fn conclude(&self) -> bool {
        println!("\n{}", self.table());
        self.all_passed()
    }

    fn total(&self) -> Tally {
        let mut total = Tally::default();
        for step in &self.done {
            total += step.tally;
        }
        total
    }

    fn table(&self) -> String {
        let wide = self.done.iter().map(|step| step.name.len()).max();
        let wide = wide.unwrap_or_default();
        let mut lines: Vec<String> = self.done.iter().map(|step| step.line(wide)).collect();
        let total = self.total();
        if total.ignored > 0 {
            lines.push(format!(
                "{} ignored: they run elsewhere or need what is not here",
                total.ignored
            ));
        }
        lines.push(format!("{} passed, {} failed", total.passed, total.failed));
        lines.join("\n")
    }
}

impl Step {
    fn line(&self, wide: usize) -> String {
        let Tally { passed, failed, ignored } = self.tally;
        let result = match (passed, failed) {
            (0, 0) => "note",
            (_, 0) => "ok",
            _ => "FAILED",
        };
        let seconds = self.took.as_secs_f64();
        let counts = match passed + failed + ignored {
            0 | 1 => String::new(),
            _ => format!("  {passed} passed, {failed} failed, {ignored} ignored"),
        };
        format!("{:wide$}  {result:6} {seconds:7.1} s{counts}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    #[test]
    fn a_failing_step_does_not_stop_the_next_and_fails_the_run() {
        let mut steps = Steps::default();
        steps.run("first", || bail!("broken"));
        steps.run("second", || Ok(Tally::ONE_PASSED));
        assert!(!steps.all_passed());
        assert!(steps.table().ends_with("\n1 passed, 1 failed"));
    }

    #[test]
    fn a_note_neither_passes_nor_fails() {
        let mut steps = Steps::default();
        steps.run("listing", || Ok(Tally::default()));
        assert!(steps.all_passed());
        assert!(steps.table().starts_with("listing  note"));
        assert!(steps.table().ends_with("\n0 passed, 0 failed"));
    }
}
