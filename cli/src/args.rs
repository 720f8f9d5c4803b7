//! Arguments: the commands of the program.

use clap::{Parser, Subcommand};

use crate::commands::audit::AuditArgs;
use crate::commands::config::ConfigCommand;
use crate::commands::consume::ConsumeArgs;
use crate::commands::cron::CronCommand;
use crate::commands::dead::DeadArgs;
use crate::commands::demo::DemoArgs;
use crate::commands::doctor::DoctorArgs;
use crate::commands::executions::ExecutionsArgs;
use crate::commands::jobs::JobsArgs;
use crate::commands::login::{LoginArgs, LogoutArgs};
use crate::commands::messages::MessagesArgs;
use crate::commands::prune::{MigrateArgs, PruneArgs};
use crate::commands::publish::PublishArgs;
use crate::commands::queues::QueuesArgs;
use crate::commands::serve::ServeArgs;
use crate::commands::shell::{CompletionsArgs, ManArgs};
use crate::commands::subscriptions::SubscriptionsArgs;
use crate::commands::tokens::TokensArgs;
#[cfg(feature = "top")]
use crate::commands::top::TopArgs;
use crate::commands::topics::TopicsArgs;
use crate::commands::transfer::{ExportArgs, ImportArgs, MoveArgs};
use crate::commands::users::UsersArgs;
use crate::commands::webhooks::WebhooksArgs;
use crate::commands::workers::WorkersArgs;
use crate::error::EXIT_CODES_HELP;

/// Message queue, delayed messages and job scheduler.
#[derive(Debug, Parser)]
#[command(name = "punctual", version, about, after_help = EXIT_CODES_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Commands of the program.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the changes of users and tokens.
    Audit(AuditArgs),
    /// Print a completion script for a shell.
    Completions(CompletionsArgs),
    /// Check or print a configuration, or print an example.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print messages of a topic as they arrive.
    Consume(ConsumeArgs),
    /// Evaluate cron expressions.
    #[command(subcommand)]
    Cron(CronCommand),
    /// List, redrive and discard dead letters.
    Dead(DeadArgs),
    /// Run a demonstration: a cron job, a delayed message, a retry and a dead letter.
    Demo(DemoArgs),
    /// Check a storage, a server, transports and this machine, and print how to fix each problem. Opening a storage
    /// creates or updates its tables, as for a worker.
    Doctor(DoctorArgs),
    /// List finished attempts.
    Executions(ExecutionsArgs),
    /// Export the jobs and unfinished messages of a storage as JSON lines.
    Export(ExportArgs),
    /// Import the output of `export` into a storage; existing jobs and messages are not changed.
    Import(ImportArgs),
    /// List, run, pause, change and create jobs.
    Jobs(JobsArgs),
    /// Create a token for this machine and store it.
    Login(LoginArgs),
    /// Revoke and delete the stored token of this machine.
    Logout(LogoutArgs),
    /// Print the manual, or write one page per command into a folder.
    Man(ManArgs),
    /// List, explain, publish, cancel and redrive messages.
    Messages(MessagesArgs),
    /// Create or update the tables of a storage.
    Migrate(MigrateArgs),
    /// Copy jobs, unfinished messages, users and settings from one storage to another.
    Move(MoveArgs),
    /// Delete finished messages and executions that are older than a duration.
    Prune(PruneArgs),
    /// Publish a message directly to a transport; `messages publish` uses a server.
    Publish(PublishArgs),
    /// List, pause, resize and purge queues.
    Queues(QueuesArgs),
    /// Run the server: jobs of the configuration, the HTTP API and the dashboard.
    Serve(ServeArgs),
    /// List, pause and resume the subscriptions of an application with the dashboard.
    Subscriptions(SubscriptionsArgs),
    /// List, create and revoke API tokens.
    Tokens(TokensArgs),
    /// Show queues, running messages and the next runs live.
    #[cfg(feature = "top")]
    Top(TopArgs),
    /// List the topics of a transport.
    Topics(TopicsArgs),
    /// List, create, change and delete users.
    Users(UsersArgs),
    /// List, create, test and delete webhooks.
    Webhooks(WebhooksArgs),
    /// List worker processes, and stop or resume their claiming.
    Workers(WorkersArgs),
}
