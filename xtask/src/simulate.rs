//! `cargo xtask simulate`: the simulation of core over many seeds, or one seed with its trace.
//!
//! The simulation itself is the test `simulation::bulk` of `core/tests/it`; this only sets the
//! variables it reads and runs it in a release build.

use crate::cargo::{Empty, cargo, count_tests};
use crate::step::Steps;
use crate::workspace::Workspace;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many seeds to run.
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0, value_name = "S")]
    start: u64,
    /// Replay exactly this seed and print its trace.
    #[arg(long, value_name = "S", conflicts_with_all = ["seeds", "start"])]
    seed: Option<u64>,
}

impl Options {
    pub(crate) fn first(seeds: u64) -> Self {
        Self { seeds, start: 0, seed: None }
    }

    fn settings(&self) -> Vec<(&'static str, u64)> {
        match self.seed {
            Some(seed) => vec![("PUNCTUAL_SIM_SEED", seed)],
            None => vec![("PUNCTUAL_SIM_SEEDS", self.seeds), ("PUNCTUAL_SIM_START", self.start)],
        }
    }
}

pub(crate) fn run(workspace: &Workspace, options: &Options, steps: &mut Steps) {
    let name = match options.seed {
        Some(seed) => format!("simulation of seed {seed}"),
        None => format!("simulation of {} seeds", options.seeds),
    };
    steps.run(&name, || {
        let mut command =
            cargo(workspace, &["test", "-p", "punctual", "--release", "--test", "it", "--"]);
        command.args(["simulation::bulk", "--exact", "--nocapture", "--include-ignored"]);
        for name in ["PUNCTUAL_SIM_SEED", "PUNCTUAL_SIM_SEEDS", "PUNCTUAL_SIM_START"] {
            command.env_remove(name);
        }
        for (name, value) in options.settings() {
            command.env(name, value.to_string());
        }
        count_tests(command, Empty::Refused)
    });
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
