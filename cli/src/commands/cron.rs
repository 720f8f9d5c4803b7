//! `punctual cron next | explain | eval`: cron expressions without a server.
//!
//! All three ask the same question, a [`Query`]; they differ in where it comes
//! from and how the answer is shown. The clock is read once per question, and
//! only when no start is given.

mod eval;
mod query;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use punctual::clock::{Clock, SystemClock};
use punctual::schedule::Cron;

use query::{Direction, Query, QueryError, format_instant};

/// What can be asked about an expression.
#[derive(Debug, Subcommand)]
pub(crate) enum CronCommand {
    /// Print the next times of an expression, as RFC 3339 with offset.
    Next(NextArgs),
    /// Say in words what an expression means, and when it runs next.
    Explain(ExplainArgs),
    /// Answer questions from standard input, one JSON object per line.
    #[command(long_about = EVAL_HELP)]
    Eval(EvalArgs),
}

const EVAL_HELP: &str = "Answer questions from standard input, one JSON object per line.

A question is {\"id\",\"expr\",\"tz\",\"from\",\"inclusive\",\"count\"}, with \"direction\":\"prev\" to walk
backwards and \"seed\" for H. The answer is {\"id\",\"next\",\"canonical\"} or {\"id\",\"error\"}, in order
and at once. Missing fields are UTC, now, false and 1.";

/// Arguments of `cron next`.
#[derive(Debug, Args)]
pub(crate) struct NextArgs {
    #[command(flatten)]
    expression: ExpressionArgs,
    /// Where to start, exclusive; now by default.
    #[arg(long, value_name = "INSTANT")]
    from: Option<String>,
    /// How many times to print.
    #[arg(long, value_name = "N", default_value_t = 1)]
    count: u64,
    /// The start itself may be the first answer.
    #[arg(long)]
    inclusive: bool,
    /// Walk backwards.
    #[arg(long)]
    prev: bool,
    /// Print one JSON object instead of lines.
    #[arg(long)]
    json: bool,
}

/// Arguments of `cron explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    expression: ExpressionArgs,
    /// Show the times after this instant; now by default.
    #[arg(long, value_name = "INSTANT")]
    from: Option<String>,
}

/// An expression and what it needs to be read.
#[derive(Debug, Args)]
pub(crate) struct ExpressionArgs {
    /// Five fields, six with seconds in front, or a macro such as @daily.
    expr: String,
    /// The IANA time zone whose wall clock is meant.
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    tz: String,
    /// What H draws its values from, usually the name of a job.
    #[arg(long, value_name = "TEXT")]
    seed: Option<String>,
}

/// Arguments of `cron eval`.
#[derive(Debug, Args)]
pub(crate) struct EvalArgs {
    /// Read the questions from standard input.
    #[arg(long, required = true)]
    stdin: bool,
}

/// Runs one of the commands.
pub(crate) fn run(command: CronCommand) -> ExitCode {
    let (mut out, mut err) = (io::stdout().lock(), io::stderr().lock());
    let written = match command {
        CronCommand::Next(args) => next(&args, &mut out, &mut err),
        CronCommand::Explain(args) => explain(&args, &mut out, &mut err),
        CronCommand::Eval(_) => eval::run(io::stdin().lock(), &mut out).map(|()| ExitCode::SUCCESS),
    };
    match written {
        Ok(code) => code,
        // Whoever read the output has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(err, "error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn next(args: &NextArgs, out: &mut impl Write, err: &mut impl Write) -> io::Result<ExitCode> {
    let query = args.expression.query(args.from.as_deref()).and_then(|query| {
        let direction = if args.prev { Direction::Prev } else { Direction::Next };
        query.walking(direction).inclusive(args.inclusive).counted(args.count)
    });
    let query = match query {
        Ok(query) => query,
        Err(error) => return refuse(&error, &args.expression.expr, err),
    };
    if args.json {
        let answer = eval::answer(serde_json::Value::Null, &query).without_id();
        writeln!(out, "{answer}")?;
    } else {
        for at in query.answers() {
            writeln!(out, "{}", format_instant(at, query.zone()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn explain(args: &ExplainArgs, out: &mut impl Write, err: &mut impl Write) -> io::Result<ExitCode> {
    let query = args.expression.query(args.from.as_deref()).and_then(|query| query.counted(5));
    let query = match query {
        Ok(query) => query,
        Err(error) => return refuse(&error, &args.expression.expr, err),
    };
    let cron = query.cron();
    writeln!(out, "canonical    {cron}")?;
    if cron.resolved() != cron.source() {
        writeln!(out, "resolved     {}", cron.resolved())?;
    }
    writeln!(out, "meaning      {}", cron.describe())?;
    writeln!(out, "time zone    {}", query.zone())?;
    if query.zone().changes_clocks() && cron.happens() {
        writeln!(out, "clock change {}", cron.clock_change_note())?;
    }
    let mut label = "next runs";
    for at in query.answers() {
        writeln!(out, "{label:<12} {}", format_instant(at, query.zone()))?;
        label = "";
    }
    if label == "next runs" {
        writeln!(out, "{label:<12} none, up to the end of the year 9999")?;
    }
    Ok(ExitCode::SUCCESS)
}

impl ExpressionArgs {
    fn query(&self, from: Option<&str>) -> Result<Query, QueryError> {
        let cron = match &self.seed {
            Some(seed) => Cron::parse_seeded(&self.expr, seed)?,
            None => Cron::parse(&self.expr)?,
        };
        Query::new(cron, &self.tz, from)
    }
}

/// Says what is wrong, with a caret under the place in the expression.
fn refuse(error: &QueryError, expression: &str, err: &mut impl Write) -> io::Result<ExitCode> {
    writeln!(err, "error: {error}")?;
    let one_line = expression.len() <= 200 && !expression.chars().any(char::is_control);
    if let (QueryError::Cron(error), true) = (error, one_line) {
        writeln!(err, "  {expression}\n  {:>1$}", '^', error.position() + 1)?;
    }
    Ok(ExitCode::from(2))
}

/// The start of a question that gives none.
fn now() -> Timestamp {
    SystemClock.now()
}
