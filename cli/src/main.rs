//! The command line of Punctual: reads the arguments, runs one command, and
//! says with the exit code how it went (2 for input that cannot be right).

mod args;
mod commands;
mod terminal;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};

/// See docs/adr/0021: messages are small, many, and freed by another thread than made them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match Args::parse().command {
        Command::Config(command) => commands::config::run(&command),
        Command::Consume(arguments) => commands::consume::run(&arguments),
        Command::Cron(command) => commands::cron::run(command),
        Command::Demo(arguments) => commands::demo::run(&arguments),
        Command::Doctor(arguments) => commands::doctor::run(&arguments),
        Command::Export(arguments) => commands::transfer::run_export(&arguments),
        Command::Import(arguments) => commands::transfer::run_import(&arguments),
        Command::Move(arguments) => commands::transfer::run_move(&arguments),
        Command::Publish(arguments) => commands::publish::run(&arguments),
        Command::Serve(arguments) => commands::serve::run(&arguments),
        Command::Topics(arguments) => commands::topics::run(&arguments),
    }
}
