//! Steps: run one after another, or two in parallel, each timed, counted and listed in a table at the end.
//!
//! A failed step does not end the run: the steps after it still run, so that one command shows all failures. The
//! last line is always `N passed, N failed`.

use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};
use serde_json::{Value, json};

use crate::junit::TestTime;
use crate::stopwatch::Stopwatch;
use crate::tally::Tally;

/// Phase that the time of a step belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Installing programs and starting servers.
    Prepare,
    /// Compiling.
    Compile,
    /// Running programs and tests.
    Run,
    /// Both together, where the tool does not separate them.
    CompileAndRun,
}

impl Phase {
    const ALL: [Self; 4] = [Self::Prepare, Self::Compile, Self::Run, Self::CompileAndRun];

    fn name(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Compile => "compile",
            Self::Run => "run",
            Self::CompileAndRun => "compile and run",
        }
    }
}

/// The steps run so far.
#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<Step>,
    slowest: Vec<TestTime>,
}

struct Step {
    name: String,
    phase: Phase,
    tally: Tally,
    took: Duration,
}

impl Steps {
    /// Runs `work` under a heading. A step with an error counts as one failure; an empty
    /// tally is a note, which neither passes nor fails.
    pub(crate) fn run(&mut self, name: &str, work: impl FnOnce() -> Result<Tally>) {
        self.run_as(Phase::Run, name, work);
    }

    /// Does the same for a step of another phase.
    pub(crate) fn run_as(
        &mut self,
        phase: Phase,
        name: &str,
        work: impl FnOnce() -> Result<Tally>,
    ) {
        println!("\n==> {name}");
        self.done.push(Step::timed(phase, name, work));
    }

    /// Runs two steps at the same time, one of which mostly waits. Their output is mixed, and each is timed
    /// separately.
    pub(crate) fn run_both(
        &mut self,
        first: (&str, impl FnOnce() -> Result<Tally> + Send),
        second: (&str, impl FnOnce() -> Result<Tally>),
    ) {
        println!("\n==> {}\n==> {}", first.0, second.0);
        thread::scope(|scope| {
            let beside = scope.spawn(move || Step::timed(Phase::Run, first.0, first.1));
            let here = Step::timed(Phase::Run, second.0, second.1);
            let beside = beside.join().unwrap_or_else(|_| {
                Step::timed(Phase::Run, first.0, || Err(anyhow!("the step panicked")))
            });
            self.done.extend([beside, here]);
        });
    }

    /// Stores the slowest tests for the report.
    pub(crate) fn set_slowest(&mut self, slowest: Vec<TestTime>) {
        self.slowest = slowest;
    }

    pub(crate) fn all_passed(&self) -> bool {
        self.total().failed == 0
    }

    /// Prints the table and the last line; returns whether everything passed.
    pub(crate) fn conclude(&self) -> bool {
        println!("\n{}", self.table());
        self.all_passed()
    }

    /// Returns the data of the table, for programs.
    pub(crate) fn to_json(&self) -> Value {
        let Tally { passed, failed, ignored } = self.total();
        let phases = Phase::ALL.map(|phase| (phase.name().to_owned(), self.seconds(phase).into()));
        json!({
            "steps": self.done.iter().map(Step::to_json).collect::<Vec<_>>(),
            "phases": serde_json::Map::from_iter(phases),
            "slowest_tests": self.slowest.iter().map(|test| json!({
                "binary": test.binary, "name": test.name, "seconds": test.seconds,
            })).collect::<Vec<_>>(),
            "passed": passed, "failed": failed, "ignored": ignored,
        })
    }

    fn total(&self) -> Tally {
        let mut total = Tally::default();
        for step in &self.done {
            total += step.tally;
        }
        total
    }

    fn seconds(&self, phase: Phase) -> f64 {
        let steps = self.done.iter().filter(|step| step.phase == phase);
        steps.map(|step| step.took.as_secs_f64()).sum()
    }

    fn table(&self) -> String {
        let width = self.done.iter().map(|step| step.name.len()).max().unwrap_or_default();
        let mut lines: Vec<String> = Vec::new();
        if !self.slowest.is_empty() {
            lines.push(format!("the {} slowest tests:", self.slowest.len()));
            lines.extend(self.slowest.iter().map(ToString::to_string));
            lines.push(String::new());
        }
        lines.extend(self.done.iter().map(|step| step.line(width)));
        lines.push(self.phases());
        let total = self.total();
        if total.ignored > 0 {
            lines.push(format!(
                "{} ignored: they are part of another step, or a requirement is missing",
                total.ignored
            ));
        }
        lines.push(format!("{} passed, {} failed", total.passed, total.failed));
        lines.join("\n")
    }

    /// Returns the time of each phase, and the total.
    fn phases(&self) -> String {
        let present = Phase::ALL.map(|phase| (phase.name(), self.seconds(phase)));
        let mut parts: Vec<String> = present
            .iter()
            .filter(|(_, seconds)| *seconds > 0.0)
            .map(|(name, seconds)| format!("{name} {seconds:.0} s"))
            .collect();
        let all: f64 = present.iter().map(|(_, seconds)| seconds).sum();
        parts.push(format!("in all {all:.0} s"));
        parts.join(", ")
    }
}

impl Step {
    fn timed(phase: Phase, name: &str, work: impl FnOnce() -> Result<Tally>) -> Self {
        let stopwatch = Stopwatch::start();
        let tally = work().unwrap_or_else(|error| {
            eprintln!("{name}: {error:#}");
            Tally::ONE_FAILED
        });
        Self { name: name.to_owned(), phase, tally, took: stopwatch.elapsed() }
    }

    fn result(&self) -> &'static str {
        match (self.tally.passed, self.tally.failed) {
            (0, 0) => "note",
            (_, 0) => "ok",
            _ => "FAILED",
        }
    }

    fn line(&self, width: usize) -> String {
        let Tally { passed, failed, ignored } = self.tally;
        let seconds = self.took.as_secs_f64();
        let counts = match passed + failed + ignored {
            0 | 1 => String::new(),
            _ => format!("  {passed} passed, {failed} failed, {ignored} ignored"),
        };
        let (phase, result) = (self.phase.name(), self.result());
        let line = format!("{:width$}  {phase:15}  {result:6} {seconds:7.1} s{counts}", self.name);
        line.trim_end().to_owned()
    }

    fn to_json(&self) -> Value {
        let Tally { passed, failed, ignored } = self.tally;
        json!({
            "name": self.name, "phase": self.phase.name(), "result": self.result(),
            "seconds": self.took.as_secs_f64(),
            "passed": passed, "failed": failed, "ignored": ignored,
        })
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
        assert!(steps.table().starts_with("listing  run              note"));
        assert!(steps.table().ends_with("\n0 passed, 0 failed"));
    }

    #[test]
    fn the_report_has_every_step_with_its_phase_and_the_slowest_tests() {
        let mut steps = Steps::default();
        steps.run_as(Phase::Compile, "build", || Ok(Tally::ONE_PASSED));
        steps.run("tests", || Ok(Tally { passed: 3, failed: 1, ignored: 2 }));
        let slow = TestTime { binary: "a".into(), name: "b".into(), seconds: 2.5, failed: false };
        steps.set_slowest(vec![slow]);
        let report = steps.to_json();
        assert_eq!(report["steps"][0]["phase"], "compile");
        assert_eq!(report["steps"][1]["result"], "FAILED");
        assert_eq!((&report["passed"], &report["failed"]), (&json!(4), &json!(1)));
        assert_eq!(report["slowest_tests"][0]["seconds"], 2.5);
        assert!(steps.table().starts_with("the 1 slowest tests:\n"));
        assert!(report["phases"]["compile"].as_f64().is_some_and(|seconds| seconds > 0.0));
    }
}
