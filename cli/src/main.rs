//! The command line of Punctual: reads the arguments, runs one command, and
//! says with the exit code how it went (2 for input that cannot be right).

mod args;
mod commands;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};

/// See docs/adr/0021: messages are small, many, and freed by another thread than made them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match Args::parse().command {
        Command::Cron(command) => commands::cron::run(command),
        Command::Demo(arguments) => commands::demo::run(&arguments),
    }
}
