//! `punctual cron next | explain | eval`: cron expressions without a server.
//!
//! All three evaluate a [`Query`]. The clock is read once per query, and only
//! when no start is given.

mod eval;
mod query;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use punctual::clock::{Clock, SystemClock};
use punctual::schedule::Cron;

use query::{Direction, Query, QueryError, format_instant};

/// Commands about cron expressions.
#[derive(Debug, Subcommand)]
pub(crate) enum CronCommand {
    /// Print the next occurrences of an expression, as RFC 3339 with offset.
    Next(NextArgs),
    /// Describe an expression in words, with its next occurrences.
    Explain(ExplainArgs),
    /// Evaluate queries from standard input, one JSON object per line.
    #[command(long_about = EVAL_HELP)]
    Eval(EvalArgs),
}

const EVAL_HELP: &str = "Evaluate queries from standard input, one JSON object per line.

A query is {\"id\",\"expr\",\"tz\",\"from\",\"inclusive\",\"count\"}, with \"direction\":\"prev\" to search
backwards and \"seed\" for H. The result is {\"id\",\"next\",\"canonical\"} or {\"id\",\"error\"}, in order
and without buffering. The defaults are UTC, now, false and 1.";

/// Arguments of `cron next`.
#[derive(Debug, Args)]
pub(crate) struct NextArgs {
    #[command(flatten)]
    expression: ExpressionArgs,
    /// Start, exclusive; default: now.
    #[arg(long, value_name = "INSTANT")]
    from: Option<String>,
    /// Number of occurrences to print.
    #[arg(long, value_name = "N", default_value_t = 1)]
    count: u64,
    /// Include the start.
    #[arg(long)]
    inclusive: bool,
    /// Search backwards.
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
    /// Print the occurrences after this instant; default: now.
    #[arg(long, value_name = "INSTANT")]
    from: Option<String>,
}

/// An expression, its time zone and its seed.
#[derive(Debug, Args)]
pub(crate) struct ExpressionArgs {
    /// Cron expression: five fields, six with seconds in front, or a macro such as @daily.
    expr: String,
    /// IANA time zone of the expression.
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    tz: String,
    /// Seed of the values of H, usually the name of a job.
    #[arg(long, value_name = "TEXT")]
    seed: Option<String>,
}

/// Arguments of `cron eval`.
#[derive(Debug, Args)]
pub(crate) struct EvalArgs {
    /// Read the queries from standard input.
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
        // The reader of the pipe has closed it.
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
        query.direction(direction).inclusive(args.inclusive).count(args.count)
    });
    let query = match query {
        Ok(query) => query,
        Err(error) => return report(&error, &args.expression.expr, err),
    };
    if args.json {
        let output = eval::evaluate(serde_json::Value::Null, &query).without_id();
        writeln!(out, "{output}")?;
    } else {
        for at in query.occurrences() {
            writeln!(out, "{}", format_instant(at, query.zone()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn explain(args: &ExplainArgs, out: &mut impl Write, err: &mut impl Write) -> io::Result<ExitCode> {
    let query = args.expression.query(args.from.as_deref()).and_then(|query| query.count(5));
    let query = match query {
        Ok(query) => query,
        Err(error) => return report(&error, &args.expression.expr, err),
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
    for at in query.occurrences() {
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

/// Prints an error with a caret under its position in the expression.
fn report(error: &QueryError, expression: &str, err: &mut impl Write) -> io::Result<ExitCode> {
    writeln!(err, "error: {error}")?;
    let one_line = expression.len() <= 200 && !expression.chars().any(char::is_control);
    if let (QueryError::Cron(error), true) = (error, one_line) {
        writeln!(err, "  {expression}\n  {:>1$}", '^', error.position() + 1)?;
    }
    Ok(ExitCode::from(2))
}

/// Returns the start of a query that has none.
fn now() -> Timestamp {
    SystemClock.now()
}
