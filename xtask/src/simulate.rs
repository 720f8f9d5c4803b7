//! `cargo xtask simulate`: the simulation of core over many seeds, or one seed with its trace.
//!
//! The simulation itself is the test `bulk` of `testing/simulation/`; this only sets its variables. The command runs
//! it in a release build, the test command in its own build.

use std::process::Command;

use anyhow::Result;

use crate::build::BuildOutput;
use crate::cargo::{Empty, cargo, count_tests};
use crate::step::{Phase, Steps};
use crate::tally::Tally;
use crate::workspace::Workspace;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Number of seeds to run.
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    seeds: u64,
    /// First seed.
    #[arg(long, default_value_t = 0, value_name = "S")]
    start: u64,
    /// Replay this seed and print its trace.
    #[arg(long, value_name = "S", conflicts_with_all = ["seeds", "start"])]
    seed: Option<u64>,
}

impl Options {
    pub(crate) fn first(seeds: u64) -> Self {
        Self { seeds, start: 0, seed: None }
    }

    pub(crate) fn title(&self) -> String {
        match self.seed {
            Some(seed) => format!("simulation of seed {seed}"),
            None => format!("simulation of {} seeds", self.seeds),
        }
    }

    /// Adds the name of the test and its settings to the start of a command.
    fn command(&self, mut command: Command) -> Command {
        command.args(["bulk", "--exact", "--nocapture", "--include-ignored"]);
        for name in ["PUNCTUAL_SIM_SEED", "PUNCTUAL_SIM_SEEDS", "PUNCTUAL_SIM_START"] {
            command.env_remove(name);
        }
        for (name, value) in self.settings() {
            command.env(name, value.to_string());
        }
        command
    }

    fn settings(&self) -> Vec<(&'static str, u64)> {
        match self.seed {
            Some(seed) => vec![("PUNCTUAL_SIM_SEED", seed)],
            None => vec![("PUNCTUAL_SIM_SEEDS", self.seeds), ("PUNCTUAL_SIM_START", self.start)],
        }
    }
}

/// Builds for release and runs.
pub(crate) fn run(workspace: &Workspace, options: &Options, steps: &mut Steps) {
    let line = ["test", "-p", "punctual-simulation", "--release", "--"];
    let command = options.command(cargo(workspace, &line));
    steps.run_as(Phase::CompileAndRun, &options.title(), || count_tests(command, Empty::Refused));
}

/// Runs the built test binary.
pub(crate) fn run_built(built: &BuildOutput, options: &Options) -> Result<Tally> {
    let command = options.command(Command::new(built.test("punctual-simulation", "simulation")?));
    count_tests(command, Empty::Refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_names_one_seed_and_nothing_else() {
        let options = Options { seed: Some(41), ..Options::first(9) };
        assert_eq!(options.settings(), [("PUNCTUAL_SIM_SEED", 41)]);
    }

    #[test]
    fn a_bulk_run_names_its_range() {
        let settings = Options::first(2_000).settings();
        assert_eq!(settings, [("PUNCTUAL_SIM_SEEDS", 2_000), ("PUNCTUAL_SIM_START", 0)]);
    }
}
