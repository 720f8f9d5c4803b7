//! What the command line accepts. Nothing here runs anything.

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
use crate::failure::CODES_HELP;

/// Messages now, messages later, and work on a schedule.
#[derive(Debug, Parser)]
#[command(name = "punctual", version, about, after_help = CODES_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The first word after `punctual`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Who changed what.
    Audit(AuditArgs),
    /// Print completions for a shell.
    Completions(CompletionsArgs),
    /// Look at a configuration, or get one to start from.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print messages of a topic as they come.
    Consume(ConsumeArgs),
    /// Try out cron expressions.
    #[command(subcommand)]
    Cron(CronCommand),
    /// Dead letters: look, send again, throw away.
    Dead(DeadArgs),
    /// Watch Punctual at work: a cron job, a delayed message, a retry and a dead letter.
    Demo(DemoArgs),
    /// Look at a storage, a server, brokers and this machine, and say what is wrong and how to fix it. A
    /// storage is opened as a worker opens it: tables that are missing or old are brought up to date.
    Doctor(DoctorArgs),
    /// Every attempt that ended.
    Executions(ExecutionsArgs),
    /// Write the jobs and unfinished messages of a storage as JSON lines.
    Export(ExportArgs),
    /// Read what `export` wrote into a storage; what is there already is left alone.
    Import(ImportArgs),
    /// Jobs: look, run, pause, change, create.
    Jobs(JobsArgs),
    /// Get a token for this machine and remember it.
    Login(LoginArgs),
    /// Forget the token of this machine.
    Logout(LogoutArgs),
    /// Print the manual, or write one page per command.
    Man(ManArgs),
    /// Messages: look, ask why, publish, cancel, send again.
    Messages(MessagesArgs),
    /// Make the tables of a storage, or bring them up to date.
    Migrate(MigrateArgs),
    /// Copy jobs, unfinished messages, users and settings of one storage into another.
    Move(MoveArgs),
    /// Delete finished messages and history that are older than a length of time.
    Prune(PruneArgs),
    /// Send one message through a transport; `messages publish` asks a server.
    Publish(PublishArgs),
    /// Queues: look, pause, resize, empty.
    Queues(QueuesArgs),
    /// Run the server: jobs of the configuration, the HTTP API and the dashboard.
    Serve(ServeArgs),
    /// Subscriptions: what an application with the dashboard receives from its transports.
    Subscriptions(SubscriptionsArgs),
    /// Tokens by which programs are known.
    Tokens(TokensArgs),
    /// Watch queues, running work and the next runs as they change.
    #[cfg(feature = "top")]
    Top(TopArgs),
    /// List the topics of a transport.
    Topics(TopicsArgs),
    /// Users: who may log in.
    Users(UsersArgs),
    /// Webhooks: who is told of which events.
    Webhooks(WebhooksArgs),
    /// Workers: the processes that live.
    Workers(WorkersArgs),
}
