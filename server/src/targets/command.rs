//! Target `command`: runs a program in a process group of its own, with the allowed environment, and writes its
//! output into the log of the execution.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use punctual::clock::{add, within};
use punctual::model::JobName;
use punctual::{Context, Error, Handler, HandlerError, HandlerResult, Outcome, Result};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, Command};

use super::group::Group;
use super::open_files::start_error;
use super::output::Lines;
use super::{SecretUse, TargetServices, allowed, checked, misdirected, snooze_without_files};
use crate::spec::{COMMAND_TOPIC, CommandTarget, Secret, Target, Work};
use crate::template::{Escape, Facts, Template};

/// Inherited environment variables by default.
const ENV_DEFAULT: [&str; 6] = ["PATH", "HOME", "LANG", "TZ", "TMPDIR", "USER"];
/// How long a program may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(3);
/// How long output is read after the program ended, from processes it left behind.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

/// Handler that runs programs.
pub(super) struct CommandRunner(pub(super) TargetServices);

impl Handler<Work> for CommandRunner {
    async fn handle(&self, work: Work, context: Context) -> HandlerResult {
        let result = self.attempt(work, &context).await;
        snooze_without_files(result, &context)
    }
}

impl CommandRunner {
    async fn attempt(&self, work: Work, context: &Context) -> HandlerResult {
        checked(&work.target)?;
        let Work { target: Target::Command(target), payload } = work else {
            return Err(misdirected(COMMAND_TOPIC));
        };
        let facts = Facts::of(context, payload.as_ref());
        let permanent = |error: Error| HandlerError::from(error).permanent();
        // Another node may have stored it; this one checks its own configuration.
        let program = allowed(&self.0.command, &target).map_err(permanent)?;
        let mut command = self.command((program, &target), &facts, context).map_err(permanent)?;
        let input = match &target.input {
            Some(input) => render(input, &facts).map_err(permanent)?,
            None => String::new(),
        };
        let spawned = (self.0.spawn)(&mut command);
        let child = spawned.map_err(|error| {
            let text =
                |error: &std::io::Error| format!("{:?} cannot be started: {error}", target.program);
            start_error(text, &error)
        })?;
        let status = self.run(child, input, context).await?;
        evaluate(&target, status, context)
    }

    fn command(
        &self,
        (program, target): (&str, &CommandTarget),
        facts: &Facts,
        context: &Context,
    ) -> Result<Command> {
        let mut command = Command::new(program);
        if target.shell {
            command.arg("-c").arg(&target.program);
        } else {
            for arg in &target.args {
                command.arg(render(arg, facts)?);
            }
        }
        command.env_clear();
        let allowed = self.0.command.env.clone();
        let allowed = allowed.unwrap_or_else(|| ENV_DEFAULT.map(str::to_owned).to_vec());
        command.envs(allowed.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.env("PUNCTUAL_MESSAGE", context.message_id().to_string());
        command.env("PUNCTUAL_ATTEMPT", context.attempt().to_string());
        command.env("PUNCTUAL_CRASHES", context.crashes().to_string());
        command.envs(context.job().map(|job| ("PUNCTUAL_JOB", job.to_string())));
        command.envs(context.nominal().map(|at| ("PUNCTUAL_NOMINAL", at.to_string())));
        for (name, secret) in &target.env {
            let text = match secret {
                Secret::Plain(text) => render(text, facts)?,
                secret => {
                    let job = context.job().map(JobName::as_str);
                    self.0.vault.open(secret, SecretUse { job, host: None })?
                }
            };
            command.env(name, text);
        }
        if let Some(directory) = &target.directory {
            command.current_dir(directory);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true);
        Group::prepare(&mut command);
        Ok(command)
    }

    /// Waits for the program, and ends it when the attempt is cancelled.
    async fn run(
        &self,
        mut child: Child,
        input: String,
        context: &Context,
    ) -> Result<ExitStatus, HandlerError> {
        let clock = &*self.0.clock;
        let mut group = Group::led_by(child.id());
        let (stdin, out, err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let mut pipes = Box::pin(async move {
            tokio::join!(
                write_input(stdin, input),
                log_output(out, context),
                log_output(err, context)
            );
        });
        let mut piping = true;
        loop {
            tokio::select! {
                status = child.wait() => {
                    let status = status.map_err(HandlerError::from)?;
                    if piping {
                        let _ = within(clock, add(clock.now(), OUTPUT_TIMEOUT), &mut pipes).await;
                    }
                    group.release();
                    return Ok(status);
                }
                () = &mut pipes, if piping => piping = false,
                cause = context.cancelled() => {
                    group.terminate();
                    let ended = within(clock, add(clock.now(), GRACE), child.wait()).await;
                    // Also ends processes that the program has started.
                    group.kill();
                    let how = if ended.is_some() { "ended" } else { "was killed" };
                    let text = format!("the program {how} because of {cause:?}");
                    return Err(HandlerError::new(text));
                }
            }
        }
    }
}

fn render(template: &str, facts: &Facts) -> Result<String> {
    Template::parse(template)?.render(facts, Escape::None)
}

/// Writes the input of a program; one that does not read it is not an error.
async fn write_input(stdin: Option<ChildStdin>, input: String) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(input.as_bytes()).await;
    }
}

/// Writes output into the log, line by line.
async fn log_output(stream: Option<impl AsyncRead + Unpin>, context: &Context) {
    let Some(mut stream) = stream else { return };
    let (mut lines, mut buffer) = (Lines::default(), [0; 4096]);
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        lines.take(&buffer[..count], |line| context.log(line));
    }
    lines.end(|line| context.log(line));
}

/// Returns the result of an exit status.
fn evaluate(target: &CommandTarget, status: ExitStatus, context: &Context) -> HandlerResult {
    let expected = match (status.code(), target.expect.as_slice()) {
        (Some(code), []) => code == 0,
        (Some(code), expect) => expect.contains(&code),
        (None, _) => false,
    };
    if expected {
        context.report_success(status.to_string());
        return Ok(Outcome::Done);
    }
    let last = context.logged().last().map(|line| format!(": {line}")).unwrap_or_default();
    Err(HandlerError::new(format!("{status}{last}")))
}
