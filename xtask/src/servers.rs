//! `cargo xtask servers`: the local servers that tests of the present crates need.
//!
//! No crate in the workspace talks to a server yet, and this says so instead of starting something
//! nobody asks for. The first storage or transport crate that needs one brings its entry: how it is
//! started in a scratch folder on a free loopback port, and which variable tells the tests its address.

#[derive(clap::Subcommand)]
pub(crate) enum Action {
    /// Start them and print the environment to export.
    Up,
    /// Stop what `up` started.
    Down,
    /// Say which of them run.
    Status,
}

pub(crate) fn run(action: &Action) {
    println!("{}", answer(action));
}

fn answer(action: &Action) -> &'static str {
    match action {
        Action::Up => {
            "No crate in this workspace needs a server: nothing started, nothing to export."
        }
        Action::Down => "No crate in this workspace needs a server: nothing to stop.",
        Action::Status => "No crate in this workspace needs a server: none is running.",
    }
}
