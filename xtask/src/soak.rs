//! `cargo xtask soak BROKER`: a broker under load that is restarted repeatedly, in a release build.
//!
//! The test starts and restarts a private server itself; it is in the crate `punctual-soak`.

use anyhow::Result;
use xtask::servers::named;

use crate::cargo::{cargo, pass_or_fail};
use crate::local_servers;
use crate::step::{Phase, Steps};
use crate::tally::Tally;
use crate::workspace::Workspace;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The broker by its name, such as `redis`.
    broker: String,
    /// Time to publish messages for, in seconds.
    #[arg(long, default_value_t = 600, value_name = "N")]
    seconds: u64,
    /// Time between two restarts of the broker, in seconds; 0 for no restart.
    #[arg(long, default_value_t = 60, value_name = "N")]
    restart_every: u64,
}

impl Options {
    /// Returns options for a short test of one broker with several restarts.
    pub(crate) fn of_test(broker: &str) -> Self {
        Self { broker: broker.to_owned(), seconds: 120, restart_every: 20 }
    }

    fn arguments(&self) -> Vec<String> {
        let (seconds, every) = (self.seconds.to_string(), self.restart_every.to_string());
        [&self.broker, "--seconds", &seconds, "--restart-every", &every].map(str::to_owned).to_vec()
    }
}

pub(crate) fn run(workspace: &Workspace, options: &Options, steps: &mut Steps) {
    let name = format!("soak of {} for {} s", options.broker, options.seconds);
    steps.run_as(Phase::CompileAndRun, &name, || soak(workspace, options));
}

fn soak(workspace: &Workspace, options: &Options) -> Result<Tally> {
    local_servers::provide(&[named(&options.broker)?])?;
    let mut command = cargo(workspace, &["run", "--release", "-p", "punctual-soak", "--"]);
    command.args(options.arguments());
    pass_or_fail(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_passed_on() {
        let options = Options { broker: "redis".to_owned(), seconds: 9, restart_every: 4 };
        assert_eq!(options.arguments(), ["redis", "--seconds", "9", "--restart-every", "4"]);
    }
}
