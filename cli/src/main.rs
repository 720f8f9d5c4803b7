//! Entry point of the program `punctual`: parses the arguments and runs one command. error.rs lists the exit codes.

mod account;
mod api_error;
mod args;
mod client;
mod command_context;
mod commands;
#[cfg(test)]
mod documented_commands;
mod error;
mod render;
mod secret;
mod terminal;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};

/// See docs/adr/0021: messages are small and many, and freed by another thread than the one that allocated them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match Args::parse().command {
        Command::Audit(arguments) => commands::audit::run(&arguments),
        Command::Completions(arguments) => commands::shell::run_completions(&arguments),
        Command::Config(command) => commands::config::run(&command),
        Command::Consume(arguments) => commands::consume::run(&arguments),
        Command::Cron(command) => commands::cron::run(command),
        Command::Dead(arguments) => commands::dead::run(&arguments),
        Command::Demo(arguments) => commands::demo::run(&arguments),
        Command::Doctor(arguments) => commands::doctor::run(&arguments),
        Command::Executions(arguments) => commands::executions::run(&arguments),
        Command::Export(arguments) => commands::transfer::run_export(&arguments),
        Command::Import(arguments) => commands::transfer::run_import(&arguments),
        Command::Jobs(arguments) => commands::jobs::run(&arguments),
        Command::Login(arguments) => commands::login::run(&arguments),
        Command::Logout(arguments) => commands::login::run_logout(&arguments),
        Command::Man(arguments) => commands::shell::run_man(&arguments),
        Command::Messages(arguments) => commands::messages::run(&arguments),
        Command::Migrate(arguments) => commands::prune::run_migrate(&arguments),
        Command::Move(arguments) => commands::transfer::run_move(&arguments),
        Command::Prune(arguments) => commands::prune::run(&arguments),
        Command::Publish(arguments) => commands::publish::run(&arguments),
        Command::Queues(arguments) => commands::queues::run(&arguments),
        Command::Serve(arguments) => commands::serve::run(&arguments),
        Command::Subscriptions(arguments) => commands::subscriptions::run(&arguments),
        Command::Tokens(arguments) => commands::tokens::run(&arguments),
        #[cfg(feature = "top")]
        Command::Top(arguments) => commands::top::run(&arguments),
        Command::Topics(arguments) => commands::topics::run(&arguments),
        Command::Users(arguments) => commands::users::run(&arguments),
        Command::Webhooks(arguments) => commands::webhooks::run(&arguments),
        Command::Workers(arguments) => commands::workers::run(&arguments),
    }
}
